//! `lane keep --as patch`: what git makes of it is what a keep would have made.

use testkit::{Listing, Plain};

use crate::world::{World, each, once};

/// A copy of the project as it is now.
fn copy(world: &World, name: &str) -> std::path::PathBuf {
    let to = world.env.project(name);
    world.env.host(world.env.root(), "cp", &["-a", world.project.to_str().unwrap(), to.to_str().unwrap()]);
    to
}

#[test]
fn git_makes_of_the_patch_what_a_keep_makes_of_the_selection() {
    each(|world| {
        for n in 0..4 {
            world.env.write(&world.project.join(format!("old/f{n}")), format!("content {n}\n").as_bytes());
        }
        world.lane("a");
        let script = "mv old moved; echo x >> moved/f1; rm moved/f2; echo n > moved/new; mv README.md GUIDE.md; chmod 755 src/lib.rs
rm main; head -c 3000 /dev/urandom > binary; ln -s binary l; echo run > .envrc";
        world.ok(&["run", "-q", "-n", "a", "--", "sh", "-ec", script]);
        for (n, paths) in [
            &["src/lib.rs", "moved", "old", "README.md", "GUIDE.md", "main", "binary", "l"] as &[&str],
            &["moved/new", "l"],
            &["moved/f1", "old/f1"],
        ]
        .iter()
        .enumerate()
        {
            let file = world.env.root().join(format!("p{n}"));
            let before = Listing::of(&world.project);
            let mut args = vec!["keep", "a", "--as", "patch", "-o", file.to_str().unwrap()];
            args.extend(*paths);
            world.ok(&args);
            before.assert_same(&Listing::of(&world.project));
            let (patched, kept) = (copy(world, &format!("patched{n}")), copy(world, &format!("kept{n}")));
            world.env.host(&patched, "git", &["apply", file.to_str().unwrap()]);
            // The same selection as files, into a lane of the copy that holds the same work.
            world.env.ok(&kept, &["new", "b", "--strategy", "copy"]);
            world.env.ok(
                &kept,
                &["run", "-q", "-n", "b", "--", "sh", "-ec", &script.replace("/dev/urandom", "/dev/zero")],
            );
            let _ = world.env.run(&kept, &[&["keep", "b", "--yes"] as &[&str], paths].concat());
            let bytes = ["binary"];
            let skip = [".git", bytes[0], "l"];
            Plain::without(&patched, &skip).assert_same(&Plain::without(&kept, &skip));
            if n == 0 {
                let inside = std::fs::read(world.env.project("patched0/binary")).unwrap();
                assert_eq!(inside.len(), 3000);
            }
        }
    });
}

#[test]
fn what_a_keep_leaves_out_is_not_in_the_patch_and_what_a_patch_cannot_say_is_listed() {
    each(|world| {
        world.lane("a");
        world.write("a", ".envrc", b"run\n");
        world.write("a", "plain", b"x\n");
        world.env.mkdir(&world.layer("a").join("empty"));
        world.env.fifo(&world.layer("a").join("pipe"));
        let ran = world.run(&["keep", "a", "--as", "patch"]).expect_code(1);
        assert!(ran.out().contains("b/plain") && !ran.out().contains(".envrc"), "{ran}");
        for words in [
            ".envrc (runs by itself",
            "not in the patch: empty: a directory",
            "not in the patch: pipe: a pipe",
        ] {
            assert!(ran.err().contains(words), "{words}: {ran}");
        }
        assert!(world.ok(&["keep", "a", ".envrc", "--as", "patch"]).out().contains("b/.envrc"));
    });
}

#[test]
fn a_patch_never_overwrites_a_file_and_needs_one_beside_json() {
    once(|world| {
        world.lane("a");
        world.write("a", "x", b"x\n");
        let file = world.env.root().join("there");
        world.env.write(&file, b"mine\n");
        let name = file.to_str().unwrap();
        world.run(&["keep", "a", "--as", "patch", "-o", name]).expect_code(1);
        assert_eq!(std::fs::read(&file).unwrap(), b"mine\n");
        let ran = world.run(&["keep", "a", "--as", "patch", "--json"]).expect_code(2);
        assert!(ran.err().contains("--output FILE"), "{ran}");
        std::fs::remove_file(&file).unwrap();
        let answer = world.json(&["keep", "a", "--as", "patch", "-o", name]);
        assert_eq!((&answer["output"], &answer["kept"][0]["path"]), (&name.into(), &"x".into()));
        assert!(std::fs::read(&file).unwrap().starts_with(b"diff --git"));
    });
}
