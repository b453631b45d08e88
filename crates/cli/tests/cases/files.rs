//! B12, B16, B17, B27: hard links, files that nobody may touch, single-uid surprises, FIFOs and sockets.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use testkit::{Running, Who};

use crate::world::{Made, SOON, each, everybody};

#[test]
fn b12_a_write_through_one_of_two_links_reaches_the_original_as_one_file() {
    each(|world| {
        let (x, y) = (world.project.join("x"), world.project.join("y"));
        world.env.write(&x, b"one\n");
        std::fs::hard_link(&x, &y).unwrap();
        world.lane("a");
        world.sh("a", "echo two > x");
        let inside = world.sh("a", "cat y; stat -c %h x y").out();
        // A user's overlay parts them (docs/limits.md); everywhere else they stay one file.
        let parts = world.made == Made::Overlay && world.who() == Who::User;
        assert_eq!(inside.starts_with("two\n"), !parts, "{inside}");
        let ran = world.run(&["keep", "a", "--yes"]);
        if ran.code == Some(0) {
            assert_eq!(std::fs::read(&x).unwrap(), b"two\n");
            // Whatever became of the other name, it is told and not half.
            let same = std::fs::metadata(&x).unwrap().ino() == std::fs::metadata(&y).unwrap().ino();
            let other = std::fs::read(&y).unwrap();
            assert!(if same { other == b"two\n" } else { other == b"one\n" || other == b"two\n" });
            if parts {
                assert!(same || ran.err().contains("link"), "{ran}");
            }
        }
    });
}

#[test]
fn b12_links_made_inside_are_links_in_the_original() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo one > x; ln x y; ln x z; test $(stat -c %h x) = 3");
        world.keep_all("a").expect_code(0);
        let ino = |name: &str| std::fs::metadata(world.project.join(name)).unwrap().ino();
        assert_eq!((ino("x"), ino("x")), (ino("y"), ino("z")));
    });
}

#[test]
fn b16_a_lane_with_closed_directories_and_deletions_is_dropped_by_its_owner() {
    each(|world| {
        world.lane("a");
        let script = "mkdir -p m/d n/o; echo one > m/d/f; chmod 0444 m/d/f; chmod 0555 m/d m; echo x > n/o/x; chmod 000 n/o n; rm -r src; rm README.md; mkdir src; chmod 0 src; mkdir -p ~/ro; touch ~/ro/f; chmod 0555 ~/ro";
        world.sh("a", script);
        world.gone("a");
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
        world.ok(&["run", "--rm", "--strategy", world.made.word(), "--", "sh", "-ec", script]);
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
        world.lane("b");
        world.sh("b", script);
        let ran = world.ok(&["discard", "b"]);
        assert!(!ran.err().contains("--force"), "{ran}");
    });
}

#[test]
fn b17_the_caller_is_himself_inside_and_owns_his_files() {
    each(|world| {
        world.lane("a");
        let out = world
            .sh(
                "a",
                "id -u; id -g; stat -c %u:%g README.md; git status --porcelain; touch f; stat -c %u:%g f",
            )
            .out();
        let (uid, gid) = (world.who().uid(), world.who().gid());
        assert_eq!(out, format!("{uid}\n{gid}\n{uid}:{gid}\n{uid}:{gid}\n"));
    });
}

#[test]
fn b17_shared_memory_locks_and_archives_with_owners_work() {
    each(|world| {
        world.lane("a");
        world.python(
            "a",
            "import multiprocessing, tempfile, os, io, tarfile, shutil
multiprocessing.Lock(); q = multiprocessing.Queue(); q.put(1); assert q.get() == 1
shm = __import__('multiprocessing.shared_memory').shared_memory.SharedMemory(create=True, size=10); shm.close(); shm.unlink()
assert tempfile.gettempdir() == '/tmp'; tempfile.NamedTemporaryFile().close()
data = io.BytesIO(); tar = tarfile.open(fileobj=data, mode='w'); info = tarfile.TarInfo('from-archive'); info.uid = 1234; info.gid = 5678; info.size = 1
tar.addfile(info, io.BytesIO(b'x')); tar.close(); open('a.tar', 'wb').write(data.getvalue())",
        );
        // As root, tar tries to give the files away, which uid 0 without capabilities cannot: documented.
        let owner = if world.who() == Who::Root { "--no-same-owner" } else { "" };
        assert_eq!(world.sh("a", &format!("tar {owner} -xf a.tar; cat from-archive")).out(), "x");
        let refused = world.try_sh("a", "touch f; chown 1234:1234 f");
        assert!(
            refused.code != Some(0)
                && (refused.err().contains("not permitted") || refused.err().contains("Invalid argument")),
            "{refused}"
        );
    });
}

#[test]
fn b27_pipes_and_sockets_never_make_a_verb_wait() {
    each(|world| {
        world.env.fifo(&world.project.join("p"));
        world.host_python("import socket; socket.socket(socket.AF_UNIX).bind('s.sock')");
        world.lane("a");
        world.python(
            "a",
            "import os, socket
os.mkfifo('q'); socket.socket(socket.AF_UNIX).bind('t.sock'); os.mkfifo('.envrc'); os.makedirs('.github/workflows'); os.mkfifo('.github/workflows/ci.yml')
os.remove('README.md'); os.mkfifo('README.md'); os.remove('p'); open('p', 'w').write('now a file')",
        );
        for args in [
            &["diff", "a"] as &[&str],
            &["diff", "a", "--stat"],
            &["diff", "a", "--patch"],
            &["diff", "a", "--drift"],
            &["show", "a"],
            &["ls"],
            &["keep", "a", "--dry-run"],
        ] {
            let ran = Running::start(world.env.lane(&world.project, args)).wait(SOON);
            assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
        }
        // The socket is a gap: the rest is shown, and the exit code says that it is not all.
        let ran = world.run(&["diff", "a"]).expect_code(1);
        assert!(ran.out().contains("A q") && ran.err().contains("t.sock"), "{ran}");
        world.run(&["keep", "a", "--yes", "q", "README.md", "p"]).expect_code(0);
        let kind = |name: &str| std::fs::symlink_metadata(world.project.join(name)).unwrap().file_type();
        assert!(kind("q").is_fifo() && kind("README.md").is_fifo() && kind("p").is_file());
        // A socket cannot be carried: it is listed, and the rest is not held up by it.
        let ran = world.run(&["keep", "a", "--yes"]).expect_code(1);
        assert!(ran.err().contains("t.sock") || ran.out().contains("t.sock"), "{ran}");
        let target = world.env.project("out");
        Running::start(world.env.lane(&world.project, &["export", "a", target.to_str().unwrap()])).wait(SOON);
        assert!(std::fs::symlink_metadata(target.join("q")).unwrap().file_type().is_fifo());
        world.gone("a");
    });
}

#[test]
fn b27_a_pipe_works_inside_and_is_the_lanes_own() {
    everybody(|world| {
        world.env.fifo(&world.project.join("p"));
        world.lane("a");
        assert_eq!(world.sh("a", "(echo through > p) & cat p").out(), "through\n");
    });
}
