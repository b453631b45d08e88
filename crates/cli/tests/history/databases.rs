//! B29: files that belong together are recorded at one moment: a database with its log, and what a program wrote down elsewhere
//! of what it had committed.

use std::path::PathBuf;

use serde_json::Value;
use testkit::{Running, Who};

use crate::world::{Made, SOON, World, fresh, word};

const PYTHON: &str = "/usr/bin/python3";

/// Commits without a pause, moves the log into the database at short intervals, and writes down after each commit how far it is.
const WRITER: &str = r#"
import os, sqlite3
os.makedirs("data", exist_ok=True)
db = sqlite3.connect("data/app.db", isolation_level=None)
db.execute("PRAGMA journal_mode=WAL")
db.execute("PRAGMA synchronous=NORMAL")
db.execute("PRAGMA wal_autocheckpoint=40")
db.execute("CREATE TABLE entry (n INTEGER PRIMARY KEY, text TEXT)")
db.execute("CREATE INDEX by_text ON entry (text)")
db.execute("CREATE TABLE total (n INTEGER)")
db.execute("INSERT INTO total VALUES (0)")
done = os.open("data/done", os.O_CREAT | os.O_WRONLY, 0o600)
for n in range(1, 1 << 30):
    db.execute("BEGIN")
    db.execute("INSERT INTO entry VALUES (?, ?)", (n, f"{n * 7919 % 10007} " * (n % 40)))
    db.execute("UPDATE entry SET text = text || 'x' WHERE n = ?", (n * 31 % n + 1,))
    if n > 400:
        db.execute("DELETE FROM entry WHERE n = ?", (n - 400,))
    db.execute("UPDATE total SET n = ?", (n,))
    db.execute("COMMIT")
    os.pwrite(done, b"%12d" % n, 0)
    if n % 500 == 0:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if n == 50:
        print("under way", flush=True)
"#;

/// Opens every database that is given, and says what is wrong with it.
const CHECK: &str = r#"
import json, sqlite3, sys
found, last = [], 0
for top in sys.argv[1:]:
    db = sqlite3.connect(top + "/app.db")
    sound = db.execute("PRAGMA integrity_check").fetchone()[0]
    total = db.execute("SELECT n FROM total").fetchone()[0]
    newest, count = db.execute("SELECT max(n), count(*) FROM entry").fetchone()
    done = int(open(top + "/done").read())
    right = sound == "ok" and newest == total and count == min(total, 400) and done <= total <= done + 1 and total >= last
    if not right:
        found.append({"at": top, "sound": sound, "total": total, "newest": newest, "count": count, "done": done, "before": last})
    last = total
print(json.dumps({"last": last, "found": found}))
"#;

fn under_constant_writes(who: Who, count: usize) {
    let world = World::git(fresh(who), Made::Overlay);
    world.lane("a");
    let mut writer = world.start(&["run", "-n", "a", "--", PYTHON, "-c", WRITER]);
    writer.wait_for("under way", SOON);
    let (mut ids, mut others) = (Vec::new(), 0);
    while ids.len() < count {
        let (told, _) = world.told(&["snap", "a"]);
        if told["quiescence"] == "frozen" {
            assert_eq!(told["gaps"], serde_json::json!([]), "{told}");
            ids.push(word(&told["id"]).to_owned());
        } else {
            // On a machine so busy that the lane did not stand in time; it is said, and nothing is promised of it.
            others += 1;
            assert!(others <= count / 5, "{told}");
        }
    }
    assert!(!writer.over(), "the writer goes on");
    world.ok(&["stop", "a"]);
    writer.wait(SOON);
    let layer = PathBuf::from(word(&world.json(&["show", "a"])["lane"]["dir"])).join("0.u");
    let mut copies = Vec::new();
    for (number, id) in ids.iter().enumerate() {
        world.restore("a", id);
        // Opening a database changes it.
        let copy = world.env.tmp().join(format!("{number}"));
        world.env.mkdir(&copy);
        for name in ["app.db", "app.db-wal", "done"] {
            std::fs::copy(layer.join("data").join(name), copy.join(name)).ok();
            world.env.who().own(&copy.join(name));
        }
        copies.push(copy);
    }
    let mut command = world.env.command(PYTHON);
    command.args(["-c", CHECK]).args(&copies);
    let ran = Running::start(command).wait(SOON).expect_code(0);
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(told["found"], serde_json::json!([]), "{who:?}");
    assert!(told["last"].as_u64().unwrap() > 50, "{told}");
    world.assert_whole("after all of it");
}

#[test]
fn b29_a_database_under_constant_writes_is_sound_in_each_of_a_hundred_snapshots() {
    testkit::require::program("python3");
    under_constant_writes(Who::User, 100);
}

#[test]
fn b29_a_database_under_constant_writes_of_root_is_sound_in_every_snapshot() {
    testkit::require::program("python3");
    if testkit::who::is_root() {
        under_constant_writes(Who::Root, 30);
    }
}
