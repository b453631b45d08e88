//! The outer fence: what it handles and grants is told, and every pair of granted and refused places answers as it should.

use testkit::Who;

use crate::world::{World, everybody};

/// Renames, links, exchanges, makes, removes and truncates between two places that may be written and one that may not.
const PAIRS: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
inside, other, outside, hidden = sys.argv[1:5]
def said(what, act):
    try: act(); print(what, 'done')
    except OSError as error: print(what, errno.errorcode[error.errno])
def exchange(one, two):
    if libc.renameat2(-100, one.encode(), -100, two.encode(), 2) == -1: raise OSError(ctypes.get_errno(), one)
def put(path): open(path, 'w').close()
for at in (inside, inside + '/sub', other): os.makedirs(at, exist_ok=True); put(at + '/f')
said('rename within', lambda: os.rename(inside + '/f', inside + '/sub/g'))
said('rename back', lambda: os.rename(inside + '/sub/g', inside + '/f'))
said('link within', lambda: os.link(inside + '/f', inside + '/sub/h'))
said('exchange within', lambda: exchange(inside + '/f', inside + '/sub/f'))
said('rename a directory', lambda: os.rename(inside + '/sub', inside + '/sub2'))
said('truncate within', lambda: os.truncate(inside + '/f', 0))
said('remove within', lambda: os.unlink(inside + '/sub2/h'))
said('make in the other', lambda: put(other + '/made'))
said('rename out', lambda: os.rename(inside + '/f', outside + '/f'))
said('rename in', lambda: os.rename(outside + '/secret', inside + '/taken'))
said('link in', lambda: os.link(outside + '/secret', inside + '/link'))
said('make outside', lambda: put(outside + '/made'))
said('truncate outside', lambda: os.truncate(outside + '/secret', 0))
said('remove outside', lambda: os.unlink(outside + '/secret'))
said('make in hidden', lambda: put(hidden + '/made'))
said('rename into hidden', lambda: os.rename(inside + '/f', hidden + '/f'))
"#;

#[test]
fn b48_every_pair_of_places_answers_as_it_should_at_every_level() {
    everybody(|world| {
        world.env.write(&world.project.join("kept/x"), b"x\n");
        for level in ["namespaces", "landlock-only"] {
            let bare = level == "landlock-only";
            let name = if bare { "b" } else { "a" };
            let outside = world.env.root().join("out");
            let hidden = world.project.join("kept");
            // At its own path, or in the copy where the command stands.
            let inside =
                if bare { "work".to_owned() } else { world.project.join("work").display().to_string() };
            let other = if bare { "more".to_owned() } else { "/tmp/more".to_owned() };
            let mut verb = vec!["run", "-n", name, "--net", "host", "--level", level];
            let hide = hidden.display().to_string();
            if !bare {
                verb.extend(["--hide", &hide]);
            }
            verb.extend([
                "--",
                "/usr/bin/python3",
                "-c",
                PAIRS,
                &inside,
                &other,
                outside.to_str().unwrap(),
                &hide,
            ]);
            let ran = world.ok(&verb);
            for line in ran.out().lines() {
                let (what, answer) = line.rsplit_once(' ').unwrap();
                let granted = what.contains("within")
                    || what.ends_with("back")
                    || what.ends_with("directory")
                    || what.ends_with("other");
                assert_eq!(answer == "done", granted, "{level} {:?}: {line}\n{ran}", world.env.who());
            }
            assert_eq!(ran.out().lines().count(), 16, "{ran}");
        }
        assert_eq!(std::fs::read(world.env.root().join("out/secret")).unwrap(), b"PRECIOUS\n");
    });
}

#[test]
fn what_the_fence_handles_and_grants_is_told() {
    everybody(|world| {
        let plan = world.env.json(&world.project, &["run", "-n", "a", "--show-plan", "--", "true"]);
        world.ok(&["run", "-n", "a", "--", "true"]);
        let shown = world.env.json(&world.project, &["show", "a"]);
        for walls in [&plan["walls"], &shown["runs"][0]["walls"]] {
            let wall = walls.as_array().unwrap().iter().find(|wall| wall["name"] == "landlock").unwrap();
            let detail = wall["detail"].as_str().unwrap();
            for word in [
                "one ruleset",
                "refer",
                "truncate",
                "ioctl_dev",
                world.project.to_str().unwrap(),
                "/dev/shm",
                "/proc",
            ] {
                assert!(detail.contains(word), "{word}: {detail}");
            }
        }
    });
    let world = World::new(Who::User);
    let plan = world.env.json(&world.project, &["run", "--nest", "--show-plan", "--", "true"]);
    let wall =
        plan["walls"].as_array().unwrap().iter().find(|wall| wall["name"] == "landlock").unwrap().clone();
    assert_eq!(wall["status"], "none", "{wall}");
}
