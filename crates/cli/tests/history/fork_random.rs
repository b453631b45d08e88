//! Random work in random lanes, forks of forks, snapshots, going back, drops and collections: every lane always shows what was
//! last seen of it, and every snapshot restores.

use testkit::{Dice, Who};

use crate::view::View;
use crate::world::{Made, World, fresh};

/// Does a few random things to a tree, told by a seed. Everything that a layer can say comes up: whiteouts, opaque and
/// renamed directories, links, attributes, types that change.
const EDIT: &str = r#"
import os, random, shutil, stat, sys
r = random.Random(int(sys.argv[1]))
def paths():
    found = []
    for at, dirs, files in os.walk("."):
        dirs[:] = sorted(d for d in dirs if d != ".git")
        found += [os.path.join(at, n) for n in sorted(dirs + files)]
    return found
def some(dirs):
    there = [p for p in paths() if os.path.isdir(p) and not os.path.islink(p)] if dirs else [
        p for p in paths() if os.path.isfile(p) and not os.path.islink(p)]
    return r.choice(there) if there else None
def fresh():
    return os.path.join(r.choice([".", some(True) or "."]), r.choice("abcdefgh"))
def drop(p):
    if os.path.isdir(p) and not os.path.islink(p): shutil.rmtree(p)
    elif os.path.lexists(p): os.unlink(p)
for _ in range(r.randint(1, 8)):
    what = r.randrange(12)
    file, dir, new = some(False), some(True), fresh()
    try:
        if what < 3:
            drop(new); open(new, "w").write("x" * r.randint(0, 5000))
        elif what == 3:
            drop(new); os.mkdir(new); open(os.path.join(new, "in"), "w").write(str(r.random()))
        elif what == 4 and file:
            open(file, "a").write(str(r.random()))
        elif what == 5:
            drop(r.choice(paths()))
        elif what == 6 and dir:
            if not os.path.lexists(new): os.rename(dir, new)
        elif what == 7 and file:
            drop(new); os.rename(file, new)
        elif what == 8 and file and LINKS:
            drop(new); os.link(file, new)
        elif what == 9:
            drop(new); os.symlink(r.choice(["a", "nowhere", "../b"]), new)
        elif what == 10 and file:
            os.chmod(file, r.choice([0o600, 0o755, 0o644])); os.setxattr(file, "user.n", str(r.random()).encode())
            os.utime(file, ns=(1, r.randrange(10**18)))
        elif what == 11 and dir:
            shutil.rmtree(dir); os.mkdir(dir); open(os.path.join(dir, "again"), "w").write("y")
    except (OSError, shutil.Error, IndexError) as error:
        pass
"#;

fn edit(world: &World, lane: &str, links: bool, seed: usize) {
    let program = EDIT.replace("LINKS", if links { "True" } else { "False" });
    let seed = seed.to_string();
    let args = [
        "run",
        "-q",
        "-n",
        lane,
        "--checkpoints",
        "none",
        "--",
        "/usr/bin/python3",
        "-c",
        program.as_str(),
        seed.as_str(),
    ];
    world.run(&args).expect_code(0);
}

fn random_lanes(who: Who, made: Made, links: bool, steps: usize) {
    testkit::require::program("python3");
    let seed = Dice::seed(&format!("forks as {who:?}, {}", made.word()));
    let world = World::git(fresh(who), made);
    let mut dice = Dice::of_seed(seed);
    world.lane("l0");
    let mut lanes = vec![("l0".to_owned(), View::of(&world, "l0"))];
    let mut snapshots: Vec<(String, String, View)> = Vec::new();
    for step in 1..=steps {
        let at = dice.below(lanes.len());
        let lane = lanes[at].0.clone();
        let when = format!("step {step} of seed {seed} as {who:?}, {}, in {lane}", made.word());
        match dice.below(10) {
            0..=3 => {
                edit(&world, &lane, links, dice.below(1 << 30));
                lanes[at].1 = View::of(&world, &lane);
            }
            4 | 5 if lanes.len() < 6 => {
                let name = format!("l{step}");
                world.ok(&["fork", &lane, &name]);
                let seen = lanes[at].1.clone();
                View::of(&world, &name).assert_same(&seen, &format!("{when}: the fork"));
                lanes.push((name, seen));
            }
            6 => {
                let id = world.snap(&lane);
                snapshots.push((lane.clone(), id, lanes[at].1.clone()));
            }
            7 => {
                let own: Vec<_> = snapshots.iter().filter(|(of, _, _)| *of == lane).collect();
                if let Some((_, id, seen)) = own.get(dice.below(own.len().max(1))) {
                    world.restore(&lane, id);
                    lanes[at].1 = seen.clone();
                    // The lane is at that very state: nothing is left to be recorded.
                    let log = world.json(&["log", &lane, "--all"]);
                    world.ok(&["restore", &lane, id, "--yes"]);
                    assert_eq!(world.json(&["log", &lane, "--all"])["snapshots"], log["snapshots"], "{when}");
                }
            }
            8 => {
                let own: Vec<_> = snapshots.iter().filter(|(of, _, _)| *of == lane).collect();
                if let (Some((_, id, seen)), true) = (own.first(), lanes.len() < 6) {
                    let name = format!("l{step}");
                    world.ok(&["fork", &lane, &name, "--at", id]);
                    View::of(&world, &name).assert_same(seen, &format!("{when}: the fork of a snapshot"));
                    lanes.push((name, seen.clone()));
                }
            }
            _ if lanes.len() > 1 => {
                world.gone(&lane);
                lanes.remove(at);
                snapshots.retain(|(of, _, _)| *of != lane);
            }
            _ => drop(world.run(&["gc", "--yes", "--budget", "0"])),
        }
        // Somebody who had no part in it.
        let (other, seen) = &lanes[dice.below(lanes.len())];
        View::of(&world, other).assert_same(seen, &format!("{when}: {other}"));
    }
    for (lane, seen) in &lanes {
        View::of(&world, lane).assert_same(seen, &format!("{lane} at the end of seed {seed}"));
    }
    for (lane, id, seen) in &snapshots {
        world.restore(lane, id);
        View::of(&world, lane).assert_same(seen, &format!("{id} of {lane} at the end of seed {seed}"));
    }
    world.assert_whole(&format!("at the end of seed {seed}"));
    for (lane, _) in &lanes {
        world.gone(lane);
    }
    let left = std::fs::read_dir(world.state().join("layers")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).filter(|name| name != "lock").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn random_forks_of_an_ordinary_user() {
    random_lanes(Who::User, Made::Overlay, false, 60);
    random_lanes(Who::User, Made::Overlay, true, 30);
}

#[test]
fn random_forks_of_root() {
    let root = *Who::all().first().unwrap();
    random_lanes(root, Made::Overlay, false, 60);
    random_lanes(root, Made::Overlay, true, 30);
}

#[test]
fn random_forks_of_copies() {
    random_lanes(Who::User, Made::Copy, true, 30);
}

/// Many states of one fork, gone to in any order, while the layers below are another lane's too.
fn random_ways_back(who: Who, links: bool) {
    testkit::require::program("python3");
    let seed = Dice::seed(&format!("ways back in a fork as {who:?}"));
    let world = World::git(fresh(who), Made::Overlay);
    let mut dice = Dice::of_seed(seed);
    world.lane("p");
    for _ in 0..4 {
        edit(&world, "p", links, dice.below(1 << 30));
    }
    let parent = View::of(&world, "p");
    world.ok(&["fork", "p", "a"]);
    let mut states = Vec::new();
    for _ in 0..8 {
        states.push((world.snap("a"), View::of(&world, "a")));
        edit(&world, "a", links, dice.below(1 << 30));
    }
    for step in 0..16 {
        let (id, seen) = &states[dice.below(states.len())];
        world.restore("a", id);
        let when = format!("step {step} of seed {seed} as {who:?}");
        View::of(&world, "a").assert_same(seen, &when);
        let count = world.ids("a").len();
        world.restore("a", id);
        assert_eq!(world.ids("a").len(), count, "{when}: the lane is at that very state");
        if dice.below(3) == 0 {
            edit(&world, "a", links, dice.below(1 << 30));
        }
    }
    View::of(&world, "p").assert_same(&parent, &format!("the other lane, seed {seed}"));
    world.assert_whole(&format!("at the end of seed {seed}"));
}

#[test]
fn random_ways_back_in_a_fork() {
    for who in Who::all() {
        random_ways_back(who, false);
        random_ways_back(who, true);
    }
}
