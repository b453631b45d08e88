//! B14, B26, B59, B60: names of projects and files, what they do to a terminal, and how long they may be.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use testkit::project::odd_names;
use testkit::{Plain, Pty, Who};

use crate::world::{Made, SOON, World, fresh, in_the_open};

fn each_made(test: impl Fn(Who, Made)) {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            test(who, made);
        }
    }
}

#[test]
fn b14_project_paths_with_colon_comma_backslash_quotes_newline_work() {
    each_made(|who, made| {
        let env = fresh(who);
        let mut world = World::over(env, Default::default(), made);
        let mut names = odd_names();
        names.extend([
            b" lead".to_vec(),
            b"trail ".to_vec(),
            b"-x".to_vec(),
            b"a=b".to_vec(),
            b"a#b".to_vec(),
            b"\\040".to_vec(),
        ]);
        for name in names {
            let top = world.env.project("odd").join(OsStr::from_bytes(&name)).join("app");
            world.env.write(&top.join("f"), b"ok\n");
            world.project = top.clone();
            let shown = name.escape_ascii().to_string();
            world.lane("a");
            let ran = world.sh("a", "cat f; echo new > new; pwd");
            assert!(ran.stdout.starts_with(b"ok\n"), "{shown}: {ran}");
            assert!(ran.stdout.ends_with(&[top.as_os_str().as_bytes(), b"\n"].concat()), "{shown}: {ran}");
            assert_eq!(world.changes("a"), ["add new"], "{shown}");
            assert_eq!(world.json(&["ls"])[0]["name"], "a", "{shown}");
            world.ok(&["run", "-n", "a", "--show-plan", "--", "true"]);
            world.keep_all("a").expect_code(0);
            assert_eq!(world.content("new").unwrap(), b"new\n", "{shown}");
            world.gone("a");
        }
    });
}

#[test]
fn b14_homes_and_states_below_odd_directories_work() {
    for who in Who::all() {
        let env = in_the_open(who);
        let mut odd = env.root().to_owned();
        for name in odd_names().iter().filter(|name| name.len() < 20 && std::str::from_utf8(name).is_ok()) {
            odd = odd.join(OsStr::from_bytes(name));
        }
        env.write(&odd.join("home/.ssh/id"), b"key\n");
        env.write(&odd.join("home/f"), b"host\n");
        let world = World::git(env, Made::Overlay);
        let script = "cat ~/f; test ! -e ~/.ssh; echo x > ~/f; echo y > y; test ! -e \"$STATE\"/lane.db";
        let mut command = world.env.lane(&world.project, &["run", "-n", "a", "--", "sh", "-ec", script]);
        command
            .env("HOME", odd.join("home"))
            .env("XDG_STATE_HOME", odd.join("state"))
            .env("STATE", odd.join("state/lanekeeper"));
        assert_eq!(testkit::Running::start(command).wait(SOON).expect_code(0).out(), "host\n");
        assert_eq!(std::fs::read(odd.join("home/f")).unwrap(), b"host\n");
    }
}

#[test]
fn b26_files_of_every_name_are_written_seen_and_kept() {
    each_made(|who, made| {
        let env = fresh(who);
        let project = env.make_odd("odd");
        let world = World::over(env, project, made);
        world.lane("a");
        world.sh("a", "for f in ./* ./.[!.]* ./...; do if [ -f \"$f\" ]; then printf x >> \"$f\"; fi; done; cd dir; rm -- *; rm -f ./.wh.a ./...; mkdir new; printf '\\377' > new/\"$(printf 'b\\377')\"");
        let diff = world.json(&["diff", "a"]);
        let files = diff["files"].as_array().unwrap();
        let count = |kind: &str| files.iter().filter(|file| file["kind"] == kind).count();
        assert_eq!(count("modify"), odd_names().len(), "{diff}");
        assert_eq!(count("delete"), odd_names().len(), "{diff}");
        assert!(files.iter().any(|file| file["path_bytes"] == "6469722f6e65772f62ff"), "{diff}");
        assert_eq!(diff["gaps"], serde_json::json!([]));
        world.ok(&["diff", "a", "--patch"]);
        world.keep_all("a").expect_code(0);
        for name in odd_names() {
            let name = OsStr::from_bytes(&name);
            assert_eq!(std::fs::read(world.project.join(name)).unwrap(), [name.as_bytes(), b"x"].concat());
            assert!(!world.project.join("dir").join(name).exists());
        }
        assert_eq!(world.changes("a"), Vec::<String>::new());
    });
}

#[test]
fn b59_names_and_content_made_inside_never_drive_the_terminal() {
    each_made(|who, made| {
        let world = World::git(fresh(who), made);
        world.lane("a");
        world.python(
            "a",
            r#"
import os
open(b'a\x1b]0;PWNED\x07\x1b[2Jb', 'w').close(); open('ok\r+ harmless', 'w').close(); open('x\u202etxt.exe', 'w').close()
open('zero\u200bwidth', 'w').close(); open(b'bad\xff\x9b31m', 'w').close()
open('code', 'w').write('a = 1\x1b[8m; evil()\x1b[0m\n\x1b]52;c;ZXZpbA==\x07\n\u202e\n')
os.symlink(b'/tmp/\x1b[31mred', 'l')
"#,
        );
        for args in [
            &["diff", "a"] as &[&str],
            &["diff", "a", "--stat"],
            &["diff", "a", "--name-only"],
            &["diff", "a", "--patch"],
            &["diff", "a", "--json"],
            &["show", "a"],
            &["ls"],
            &["log", "a"],
            &["keep", "a", "--dry-run"],
            &["run", "-n", "a", "--", "no\x1b[2Jsuch"],
            &["run", "-n", "a", "--ro", "no\x1b[2Jsuch", "--", "true"],
        ] {
            let mut command = world.env.command("/bin/sh");
            command.args(["-c", "\"$0\" \"$@\"; echo that was all"]).arg(world.env.lane_program()).args(args);
            command.current_dir(&world.project).env("NO_COLOR", "1");
            let terminal = Pty::start(&command, who, 50, 200);
            testkit::until("the end", SOON, || {
                terminal.raw().windows(13).any(|part| part == b"that was all\r")
            });
            let raw = terminal.raw();
            terminal.wait(SOON);
            let text = String::from_utf8(raw).unwrap_or_else(|error| panic!("{args:?}: {error}"));
            let bad = |c: char| {
                let hides =
                    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
                hides || (c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
            };
            assert!(!text.contains(bad), "{args:?}: {text:?}");
            assert!(!text.replace("\r\n", "").contains('\r'), "{args:?}: {text:?}");
        }
    });
}

#[test]
fn b60_a_socket_below_a_long_project_path_binds_as_it_does_outside() {
    each_made(|who, made| {
        let env = fresh(who);
        let base = env.project("").to_str().unwrap().len();
        // The longest socket path that fits: 107 bytes.
        let fits = env.project(&"x".repeat(107 - base - "/app.sock".len()));
        let long = env.project(&"y".repeat(120));
        for top in [&fits, &long] {
            env.write(&top.join("f"), b"x\n");
        }
        let mut world = World::over(env, fits, made);
        world.lane("a");
        let bind = "import os, socket, threading
path = os.getcwd() + '/app.sock'
server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect(path); server.accept()
print(len(path))";
        assert_eq!(world.python("a", bind).out(), "107\n");
        world.project = long;
        world.lane("b");
        let relative = "import socket
server = socket.socket(socket.AF_UNIX); server.bind('app.sock'); server.listen()
client = socket.socket(socket.AF_UNIX); client.connect('app.sock'); print('ok')
import os
try: socket.socket(socket.AF_UNIX).bind(os.getcwd() + '/b.sock'); print('bound')
except OSError as error: print('too long')";
        assert_eq!(world.python("b", relative).out(), "ok\ntoo long\n");
        // Joining works too: our own socket never grows with the path.
        world.ok(&["run", "-n", "b", "-d", "--", "sleep", "1000"]);
        world.ok(&["exec", "b", "--", "true"]);
        world.ok(&["stop", "b"]);
    });
}

#[test]
fn b60_a_state_directory_of_any_depth_works() {
    for who in Who::all() {
        let mut env = fresh(who);
        let deep = (0..8).fold(env.root().join("deep"), |path, _| path.join("d".repeat(40)));
        env.mkdir(&deep);
        env.set("XDG_STATE_HOME", deep.to_str().unwrap());
        let world = World::git(env, Made::Overlay);
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        world.ok(&["exec", "a", "--", "sh", "-c", "echo x > x"]);
        world.ok(&["stop", "a"]);
        assert_eq!(world.changes("a"), ["add x"]);
        world.gone("a");
    }
}

#[test]
fn b60_trees_deeper_than_a_path_may_be_long_are_walked() {
    each_made(|who, made| {
        let world = World::git(fresh(who), made);
        let deep = "import os
for _ in range(60): os.mkdir('d' * 100); os.chdir('d' * 100)
open('end', 'w').write('x')";
        world.lane("a");
        world.python("a", deep);
        let changes = world.changes("a");
        assert_eq!(changes.len(), 61, "{}", changes.len());
        world.keep_all("a").expect_code(0);
        assert_eq!(world.changes("a"), Vec::<String>::new());
        // Made again over a deep original: copied or looked through.
        world.lane("b");
        world.python("b", "import os\nfor _ in range(60): os.chdir('d' * 100)\nopen('end', 'a').write('y')");
        assert_eq!(world.changes("b").len(), 1);
        world.gone("a");
        world.gone("b");
        world.host_python("import os, shutil\nshutil.rmtree('d' * 100)");
    });
}

#[test]
fn b26_a_plain_tree_is_equal_after_export() {
    each_made(|who, made| {
        let env = fresh(who);
        let project = env.make_odd("odd");
        let world = World::over(env, project, made);
        world.lane("a");
        world.sh("a", "echo x > new");
        let target = world.env.project("exported");
        world.ok(&["export", "a", target.to_str().unwrap()]);
        let (original, exported) = (Plain::of(&world.project), Plain::of(&target));
        assert_eq!(original.changed(&exported), [b"new".to_vec()]);
    });
}
