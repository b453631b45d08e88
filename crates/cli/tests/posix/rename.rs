//! Directory renames as an ordinary user: real programs, many at once, in the middle of other work, through `exec`.
//! What single calls answer is tried by the behaviours; kills are tried elsewhere.

use std::time::{Duration, Instant};

use testkit::env::PATIENCE;
use testkit::running::Running;
use testkit::{Who, require};

use crate::ground::{Ground, PYTHON, user_overlay, ways};

const FIXTURE: &str = r#"
import os
for name in ("src/main.rs", "src/deep/er/lib.rs", "docs/a.md"):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    open(name, "w").write(name)
"#;

#[test]
fn b10_git_moves_a_directory_and_sees_renames() {
    for way in ways() {
        let ground = Ground::new(way);
        ground.env.host(&ground.project, PYTHON, &["-c", FIXTURE]);
        ground.env.git_init(&ground.project);
        ground.make_lane();
        let script = "git mv src lib && git status --porcelain && test ! -e src && cat lib/deep/er/lib.rs";
        let ran = ground.env.ok(&ground.project, &["run", "-n", "l", "-q", "--", "sh", "-c", script]);
        let expected =
            "R  src/deep/er/lib.rs -> lib/deep/er/lib.rs\nR  src/main.rs -> lib/main.rs\nsrc/deep/er/lib.rs";
        assert_eq!(ran.out(), expected, "{way}");
        // The diff calls it what it is: one directory, moved.
        let diff = ground.env.ok(&ground.project, &["diff", "l", "--name-only"]).out();
        assert!(diff.lines().all(|line| !line.contains("docs")), "{way}: {diff}");
    }
}

#[test]
fn b10_node_and_perl_rename_a_directory() {
    for program in ["node", "perl"] {
        let found = require::program(program);
        let ground = Ground::with(user_overlay(), FIXTURE);
        let found = found.display().to_string();
        let script = match program {
            "node" => {
                "const fs=require('fs'); fs.renameSync('src','lib'); console.log(fs.readdirSync('lib').join())"
            }
            _ => {
                "rename('src','lib') or die $!; opendir(D,'lib'); print join(',', sort grep {!/^\\./} readdir D), \"\\n\""
            }
        };
        let ran = ground.env.ok(&ground.project, &["run", "-n", "l", "-q", "--", &found, "-e", script]);
        assert_eq!(ran.out(), "deep,main.rs\n");
    }
}

#[test]
fn a_rename_works_in_a_command_that_joined_a_live_lane() {
    let ground = Ground::with(user_overlay(), FIXTURE);
    ground.env.ok(&ground.project, &["run", "-d", "-n", "l", "--", "sleep", "600"]);
    let script = |from: &str, to: &str| {
        format!("import os; os.rename({from:?}, {to:?}); print(sorted(os.listdir({to:?})))")
    };
    let exec =
        |program: &str| ground.env.ok(&ground.project, &["exec", "l", "--", PYTHON, "-c", program]).out();
    assert_eq!(exec(&script("src", "lib")), "['deep', 'main.rs']\n");
    assert_eq!(exec(&script("lib/deep", "deep")), "['er']\n");
    // Two at a time, each with a listener of its own.
    let running: Vec<Running> = [("docs", "texts"), ("deep/er", "er")]
        .iter()
        .map(|(from, to)| {
            let program = script(from, to);
            Running::start(ground.env.lane(&ground.project, &["exec", "l", "--", PYTHON, "-c", &program]))
        })
        .collect();
    for one in running {
        one.wait(PATIENCE).expect_code(0);
    }
    ground.env.ok(&ground.project, &["stop", "l"]);
    assert!(ground.tree().contains("b'texts/a.md'"));
}

#[test]
fn five_thousand_files_are_renamed_with_their_directory() {
    let fixture = r#"
import os
for n in range(5000):
    os.makedirs(f"big/d{n // 100}", exist_ok=True)
    open(f"big/d{n // 100}/f{n}", "w").write(str(n))
"#;
    let ground = Ground::with(user_overlay(), fixture);
    let began = Instant::now();
    ground.inside("import os; os.rename('big', 'moved')");
    eprintln!("5,000 files renamed with their directory, the whole command: {:?}", began.elapsed());
    ground.natively("import os; os.rename('big', 'moved')");
    assert_eq!(ground.tree().lines().count(), 5051);
    assert_same_but_times(&ground);
}

#[test]
fn twenty_processes_rename_directories_at_once() {
    let fixture = r#"
import os
for n in range(20):
    os.makedirs(f"d{n}/in")
    for m in range(10): open(f"d{n}/in/f{m}", "w").write(f"{n} {m}")
"#;
    let work = r#"
import os
pids = []
for n in range(20):
    pid = os.fork()
    if pid == 0:
        for turn in range(3):
            os.rename(f"d{n}", f"x{n}")
            os.rename(f"x{n}/in", f"x{n}/out")
            os.rename(f"x{n}/out", f"x{n}/in")
            os.rename(f"x{n}", f"d{n}" if turn < 2 else f"end{n}")
        os._exit(0)
    pids.append(pid)
assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
"#;
    let ground = Ground::with(user_overlay(), fixture);
    ground.inside(work);
    ground.natively(work);
    assert_same_but_times(&ground);
}

#[test]
fn what_is_made_in_a_directory_while_it_is_renamed_is_not_lost() {
    let fixture = r#"
import os
for n in range(300):
    os.makedirs(f"d/s{n % 7}", exist_ok=True)
    open(f"d/s{n % 7}/f{n}", "w").write(str(n))
"#;
    let work = r#"
import os
come, go = os.pipe()
pid = os.fork()
if pid == 0:
    made = 0
    while True:
        try:
            with open(f"d/s{made % 7}/new{made}" if made % 2 else f"d/new{made}", "x") as file: file.write("new")
        except OSError:
            break
        made += 1
        if made == 20: os.write(go, b"x")
    print(made, flush=True)
    os._exit(0)
os.read(come, 1)
os.rename("d", "moved")
os.waitpid(pid, 0)
names = [name for _, _, files in os.walk("moved") for name in files]
print(sum(name.startswith("new") for name in names), sum(name.startswith("f") for name in names), os.path.exists("d"))
"#;
    let ground = Ground::with(user_overlay(), fixture);
    let out = ground.inside(work).out();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[1], format!("{} 300 False", lines[0]), "{out}");
}

#[test]
fn a_file_that_is_written_anew_while_its_directory_moves_keeps_the_newest_content() {
    let fixture = r#"
import os
os.mkdir("d")
for n in range(400): open(f"d/f{n}", "w").write("old")
"#;
    // The writer replaces files in the old directory until it is gone; each success must be found later.
    let work = r#"
import os
come, go = os.pipe()
done_come, done_go = os.pipe()
pid = os.fork()
if pid == 0:
    done = []
    turn = 0
    while True:
        name = f"d/f{turn % 400}"
        try:
            with open(name, "w") as file: file.write(f"new{turn}")
        except OSError:
            break
        done.append((turn % 400, turn))
        turn += 1
        if turn == 5: os.write(go, b"x")
    os.read(done_come, 1)
    last = dict(done)
    bad = [n for n, t in last.items() if open(f"moved/f{n}").read() != f"new{t}"]
    print(turn >= 5, bad, len(os.listdir("moved")), flush=True)
    os._exit(0)
os.read(come, 1)
os.rename("d", "moved")
os.write(done_go, b"x")
os.waitpid(pid, 0)
"#;
    let ground = Ground::with(user_overlay(), fixture);
    assert_eq!(ground.inside(work).out(), "True [] 400\n");
}

#[test]
fn a_rename_between_the_project_and_another_filesystem_stays_refused() {
    let ground = Ground::with(user_overlay(), FIXTURE);
    let program = "import os\ntry: os.rename('src', '/tmp/src')\nexcept OSError as error: print(error.errno)";
    assert_eq!(ground.inside(program).out(), "18\n");
}

#[test]
fn a_rename_that_a_signal_met_was_either_done_or_not_begun() {
    let ground = Ground::with(user_overlay(), FIXTURE);
    // EINTR comes before the call was looked at (docs/limits.md): it is made again, and never found half done.
    let program = r#"
import os, signal
hits = []
signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
def rename(old, new):
    while True:
        try:
            return os.rename(old, new)
        except InterruptedError:
            assert os.path.exists(old) and not os.path.exists(new)
for turn in range(300):
    rename("src", "lib"); rename("lib", "src")
    rename("src/main.rs", "m"); rename("m", "src/main.rs")
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(hits) > 0, sorted(os.listdir("src")))
"#;
    assert_eq!(ground.inside(program).out(), "True ['deep', 'main.rs']\n");
}

#[test]
fn renames_in_the_home_are_carried_out_too() {
    let ground = Ground::new(user_overlay());
    ground.env.write(&ground.env.home().join("cache/v1/x"), b"x");
    ground.make_lane();
    let program = "import os; os.chdir(os.environ['HOME']); os.rename('cache/v1', 'cache/v2'); print(os.listdir('cache/v2'))";
    assert_eq!(ground.inside(program).out(), "['x']\n");
    assert!(ground.env.home().join("cache/v1/x").exists());
}

#[test]
fn a_large_rename_is_told_after_the_run() {
    let fixture = "import os; os.mkdir('d'); [open(f'd/{n}', 'w').close() for n in range(1000)]";
    let ground = Ground::with(user_overlay(), fixture);
    let args = ["run", "-n", "l", "--", PYTHON, "-c", "import os; os.rename('d', 'e')"];
    let ran = ground.env.ok(&ground.project, &args);
    assert!(ran.err().contains("1000 entries"), "{ran}");
}

#[test]
fn a_plain_file_rename_costs_microseconds() {
    let ground = Ground::with(user_overlay(), "open('a', 'w').close()");
    let program = r#"
import os, time
began = time.monotonic()
for turn in range(1000): os.rename("a", "b"); os.rename("b", "a")
print((time.monotonic() - began) / 2000 * 1e6)
"#;
    let micros: f64 = ground.inside(program).out().trim().parse().unwrap();
    eprintln!("a rename of a file in a lane as a user: {micros:.1} µs");
    assert!(Duration::from_micros(micros as u64) < Duration::from_millis(20), "{micros}");
}

/// Lane and plain directory hold the same, whatever the times.
fn assert_same_but_times(ground: &Ground) {
    let (inside, plain) = (ground.tree(), ground.plain_tree());
    assert!(inside == plain, "{} lines inside, {} plain", inside.lines().count(), plain.lines().count());
    assert_eq!(ground.way.who, Who::User);
}

#[test]
fn a_renamed_directory_that_was_kept_is_still_whole_in_its_lane_and_is_not_deleted_by_the_next_keep() {
    for way in ways() {
        let fixture = r#"
import os
for name in ("src/a", "src/b", "src/in/c", "src/in/deep/d", "src/gone", "src/.envrc"):
    os.makedirs(os.path.dirname(name), exist_ok=True)
    open(name, "w").write(name)
os.link("src/a", "linked")
"#;
        let ground = Ground::with(way, fixture);
        let work = r#"
import os
os.rename("src", "lib"); os.rename("lib/in", "out"); os.rename("lib", "out/lib")
os.unlink("out/lib/gone"); open("out/lib/b", "a").write("+"); open("out/new", "w").write("new"); open("linked", "a").write("+")
"#;
        ground.inside(work);
        ground.natively(work);
        let wanted = ground.tree();
        // Once without the guarded file, so that the directory cannot move as one, then with it.
        ground.env.run(&ground.project, &["keep", "l", "--yes", "."]);
        assert_eq!(ground.tree(), wanted, "{way}: after the first keep");
        ground.env.ok(&ground.project, &["keep", "l", "--yes", ".", "out/lib/.envrc"]);
        assert_eq!(ground.tree(), wanted, "{way}: after the second keep");
        ground.env.run(&ground.project, &["keep", "l", "--yes", "."]);
        let times = |text: &str| text.replace(" now ", " ");
        let origin = ground.env.host(&ground.project, PYTHON, &["-c", crate::ground::LISTING]).out();
        if way.who == Who::Root || way.strategy == "copy" {
            assert_eq!(times(&origin), times(&ground.plain_tree()), "{way}");
        }
        let diff = ground.env.ok(&ground.project, &["diff", "l", "--name-only"]).out();
        assert_eq!(diff, "", "{way}");
    }
}

#[test]
fn a_keep_that_would_move_what_a_live_lane_of_root_rests_on_waits_for_its_stop() {
    let Some(way) = ways().into_iter().find(|way| way.who == Who::Root && way.strategy == "overlay") else {
        return;
    };
    let ground = Ground::with(way, FIXTURE);
    ground.env.ok(&ground.project, &["run", "-d", "-n", "l", "--", "sleep", "600"]);
    ground.env.ok(&ground.project, &["exec", "l", "--", "mv", "src", "lib"]);
    let ran = ground.env.run(&ground.project, &["keep", "l", "--yes", "."]).expect_code(1);
    assert!(ran.err().contains("lane stop l"), "{ran}");
    assert!(ground.project.join("src/main.rs").exists());
    ground.env.ok(&ground.project, &["stop", "l"]);
    ground.env.ok(&ground.project, &["keep", "l", "--yes", "."]);
    assert!(ground.project.join("lib/deep/er/lib.rs").exists() && !ground.project.join("src").exists());
}
