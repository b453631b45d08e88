//! Failing and dying at every step: nothing that was told is lost, nothing that was not told resolves half.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use store::fsck::check;
use store::gc::{KeepRules, execute, plan};
use store::{Event, SnapshotId, SnapshotKind, Store};

use crate::model::{self, assert_same};
use crate::world::{World, open};

/// What was there before: so many packs that they are merged into an index in the middle of the work.
fn before(world: &World) {
    for n in 0..13 {
        fs::write(world.layer().join("f0"), format!("before {n}").repeat(40)).expect("write");
        world.snap();
    }
}

/// What the work does: three snapshots, a restore, a collection. Each answer that a user would see goes to `tell`.
fn work(world: &mut World, tell: &mut dyn FnMut(&str)) -> store::Result<()> {
    let layer = world.layer();
    for round in 0..3 {
        world.kind = if round == 1 { SnapshotKind::Quiet } else { SnapshotKind::Asked };
        for n in 0..4 {
            fs::write(layer.join(format!("f{n}")), format!("{round}-{n} ").repeat(60 * (n + round)))
                .expect("write");
        }
        // One file outlives the snapshot that is thinned out, one is gone after the restore.
        if round > 0 {
            fs::write(layer.join(format!("new{round}")), "n".repeat(200)).expect("write");
        }
        let id = world.try_snap()?.0.id;
        tell(&format!("{round} {id}"));
    }
    let first = world.store.history(&world.lane)?.snapshots().nth(13).expect("a snapshot").0;
    world.try_restore(first)?;
    tell(&format!("restored {first}"));
    let planned = plan(&world.store, &KeepRules { classes: Vec::new(), ..KeepRules::everything(i64::MAX) })?;
    execute(&world.store, &planned, 9, Duration::from_secs(20), false)?;
    tell("collected");
    Ok(())
}

/// Content alone: times differ from run to run.
fn same_content(layer: &Path, round: usize) {
    for n in 0..4 {
        let expected = format!("{round}-{n} ").repeat(60 * (n + round));
        assert_eq!(fs::read_to_string(layer.join(format!("f{n}"))).expect("read"), expected, "round {round}");
    }
}

/// Everything that must hold of a store in which `told` was said before the fault.
fn holds(dir: &Path, told: &[String]) {
    let store = Store::open(open(&dir.join("store"))).expect("open");
    let found = check(&store, &mut |_| {}).expect("check");
    assert!(found.is_clean(), "{found:#?}");
    drop(store);
    let world = World::at(dir);
    // Whoever comes next works as if nothing had been.
    let now = world.snap();
    let present = world.model();
    for line in told {
        let Some((round, id)) = line.split_once(' ') else { continue };
        let id = SnapshotId::from_hex(id).expect("an id");
        let (restored, round) = (round == "restored", round.parse().unwrap_or(0));
        let history = world.store.history(&world.lane).expect("history");
        let thinned = history
            .events
            .iter()
            .any(|logged| matches!(&logged.event, Event::Removed { ids, .. } if ids.contains(&id)));
        assert!(history.get(id).is_some() || thinned && round == 1, "{line} was told and is gone");
        if !restored && !thinned {
            world.restore(id);
            same_content(&world.layer(), round);
        }
    }
    world.restore(now);
    assert_same(&world.model(), &present);
    let left: Vec<_> = fs::read_dir(dir.join("stage")).expect("list").collect();
    assert!(left.is_empty(), "{left:?}");
    for part in ["packs", "index", "large", "stamps"] {
        for item in fs::read_dir(dir.join("store").join(part)).expect("list") {
            let name = item.expect("item").file_name().into_string().expect("text");
            assert!(!name.starts_with(".lk-tmp-"), "{part}/{name}");
        }
    }
}

#[test]
fn a_write_that_fails_at_any_step_loses_nothing_that_was_told() {
    let mut stop = 0;
    loop {
        let temp = tempfile::tempdir().expect("temporary directory");
        let mut world = World::at(temp.path());
        before(&world);
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        let store = Store::open(open(&temp.path().join("store"))).expect("open");
        let errno = [kernel::Errno::NOSPC, kernel::Errno::IO][stop % 2];
        world.store = store.with_steps(Box::new(move |step| {
            if counted.fetch_add(1, Ordering::SeqCst) == stop {
                return Err(kernel::Error::new(step.name(), "", errno));
            }
            Ok(())
        }));
        let mut told = Vec::new();
        let answer = work(&mut world, &mut |line| told.push(line.to_owned()));
        let reached = count.load(Ordering::SeqCst) > stop;
        drop(world);
        holds(temp.path(), &told);
        if !reached {
            answer.expect("nothing failed");
            break;
        }
        stop += 1;
    }
    assert!(stop > 40, "{stop} steps");
}

#[test]
fn a_kill_at_any_step_loses_nothing_that_was_told() {
    let program = std::env::current_exe().expect("own path");
    let mut stop = 0;
    let mut steps: HashMap<String, usize> = HashMap::new();
    loop {
        let temp = tempfile::tempdir().expect("temporary directory");
        let output = Command::new(&program)
            .args(["--exact", "faults::the_work_that_the_environment_asks_for_is_done", "--nocapture"])
            .env("STORE_WORK_IN", temp.path())
            .env("STORE_STOP_AT", stop.to_string())
            .stdin(Stdio::null())
            .output()
            .expect("start");
        let text = fs::read_to_string(temp.path().join("told")).unwrap_or_default();
        let (said, told): (Vec<String>, Vec<String>) =
            text.lines().map(str::to_owned).partition(|line| line.starts_with("at "));
        holds(temp.path(), &told);
        if output.status.success() {
            assert_eq!(told.last().map(String::as_str), Some("collected"));
            break;
        }
        *steps.entry(said.last().expect("a step").clone()).or_default() += 1;
        stop += 1;
    }
    assert!(stop > 40 && steps.len() >= 14, "{stop} {steps:?}");
}

/// The other half of the test above, in a process of its own. Alone it does nothing but work.
#[test]
fn the_work_that_the_environment_asks_for_is_done() {
    let given = std::env::var_os("STORE_WORK_IN").map(std::path::PathBuf::from);
    let own = tempfile::tempdir().expect("temporary directory");
    let dir = given.as_deref().unwrap_or(own.path());
    let stop: usize = std::env::var("STORE_STOP_AT").ok().and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let mut world = World::at(dir);
    before(&world);
    let told = fs::File::options().create(true).append(true).open(dir.join("told")).expect("open");
    let say = move |mut file: &fs::File, line: &str| writeln!(file, "{line}").expect("write");
    let count = AtomicUsize::new(0);
    let steps = told.try_clone().expect("dup");
    world.store = Store::open(open(&dir.join("store"))).expect("open").with_steps(Box::new(move |step| {
        if count.fetch_add(1, Ordering::SeqCst) == stop {
            say(&steps, &format!("at {}", step.name()));
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .expect("kill");
        }
        Ok(())
    }));
    work(&mut world, &mut |line| say(&told, line)).expect("works");
    assert!(!model::read(&world.layer()).is_empty());
}
