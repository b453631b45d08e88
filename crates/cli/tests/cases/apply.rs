//! B33, B35, B36, B39, B41, B44: what a real run wrote arrives in the original, whole or not at all.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use testkit::{FsKind, Listing, LoopFs, Plain, Who};

use crate::world::{Made, World, each, everybody, fresh};

#[test]
fn b33_line_endings_and_marks_arrive_as_they_are_whatever_git_is_told() {
    each(|world| {
        world.env.write(&world.project.join("crlf"), b"a\r\nb\r\nc\r\n");
        world.env.write(&world.project.join("bom"), b"\xef\xbb\xbfx\r\n");
        world.env.write(&world.project.join("lf"), b"a\nb\n");
        world.env.write(&world.project.join("open-end"), b"a\r\nb");
        world.env.host(&world.project, "git", &["add", "-A"]);
        world.env.host(&world.project, "git", &["commit", "-qm", "c"]);
        for (at, setting) in ["false", "true", "input"].iter().enumerate() {
            world.env.host(&world.project, "git", &["config", "core.autocrlf", setting]);
            world.env.write(&world.project.join(".gitattributes"), b"* text=auto eol=crlf\n");
            let lane = format!("l{at}");
            world.lane(&lane);
            let script = format!(
                "for p, a in [('crlf', b'b'), ('bom', b'x'), ('lf', b'b'), ('open-end', b'b')]:\n d = open(p, 'rb').read().replace(a, a + b'{at}'); open(p, 'wb').write(d)"
            );
            let expected: Vec<Vec<u8>> = ["crlf", "bom", "lf", "open-end"]
                .iter()
                .zip([b"b", b"x", b"b", b"b"])
                .map(|(name, letter)| {
                    let old = world.content(name).unwrap();
                    let at = at.to_string();
                    old.iter()
                        .flat_map(|byte| {
                            if *byte == letter[0] { [&[*byte], at.as_bytes()].concat() } else { vec![*byte] }
                        })
                        .collect()
                })
                .collect();
            world.python(&lane, &script);
            world.keep_all(&lane).expect_code(0);
            for (name, wanted) in ["crlf", "bom", "lf", "open-end"].iter().zip(expected) {
                assert_eq!(world.content(name).unwrap(), wanted, "{name} with autocrlf={setting}");
            }
        }
    });
}

#[test]
fn b33_hunks_keep_the_ending_of_every_line_whatever_git_is_told() {
    each(|world| {
        // Lines of each kind, edits at three places, a byte-order mark in front and no ending at the end.
        let text = |edits: &[usize]| -> Vec<u8> {
            let line = |i: usize| {
                let mark = if edits.contains(&i) { "!" } else { "" };
                format!("{i}{mark}{}", if i.is_multiple_of(3) { "\n" } else { "\r\n" })
            };
            let body: String = (0..40).map(line).collect();
            [b"\xef\xbb\xbf".as_slice(), body.as_bytes(), b"bytes \xff\r\nend"].concat()
        };
        world.env.write(&world.project.join("mixed"), &text(&[]));
        world.env.host(&world.project, "git", &["add", "-A"]);
        world.env.host(&world.project, "git", &["commit", "-qm", "c"]);
        world.env.write(&world.project.join(".gitattributes"), b"* text=auto eol=crlf\n");
        world.lane("a");
        let script = "d = open('mixed', 'rb').read()\nfor n in (b'1', b'15', b'30'): d = d.replace(b'\\n' + n + b'\\r', b'\\n' + n + b'!\\r').replace(b'\\n' + n + b'\\n', b'\\n' + n + b'!\\n')\nopen('mixed', 'wb').write(d)";
        world.python("a", script);
        let mut edits = Vec::new();
        // The second hunk first: its id names it, not its place. The others keep theirs meanwhile.
        let ids: Vec<String> = world.json(&["diff", "a"])["files"][0]["hunks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hunk| hunk["id"].as_str().unwrap().to_owned())
            .collect();
        for (setting, at, line) in [("true", 1, 15), ("input", 0, 1), ("false", 2, 30)] {
            world.env.host(&world.project, "git", &["config", "core.autocrlf", setting]);
            world.ok(&["keep", "a", "--hunk", &ids[at], "--yes"]);
            edits.push(line);
            assert_eq!(
                world.content("mixed").unwrap().escape_ascii().to_string(),
                text(&edits).escape_ascii().to_string()
            );
        }
        assert_eq!(world.json(&["diff", "a"])["files"], serde_json::json!([]));
    });
}

#[test]
fn b35_modes_binaries_links_and_empty_things_arrive() {
    each(|world| {
        world.env.write(&world.project.join("f"), b"text\n");
        world.lane("a");
        let script = "head -c 300 /dev/urandom > bin; printf 'a\\0b' > nul; chmod +x src/lib.rs; ln -s nowhere l; ln -sfn README.md main; mkdir -p e/f; : > z; chmod 600 f; mkfifo p; mkdir -m 0750 closed; echo x > closed/x; chmod 0440 closed/x; mkdir -m 1777 sticky; echo x > sticky/x";
        world.sh("a", script);
        if testkit::require::program("setfattr").exists() {
            world.try_sh("a", "setfattr -n user.k -v v f; setfattr -n user.d -v w e").expect_code(0);
        }
        let inside = world.env.project("inside");
        world.ok(&["export", "a", inside.to_str().unwrap()]);
        let named = ["keep", "a", "--yes", ".", "src/lib.rs"];
        world.run(&named).expect_code(0);
        Plain::without(&inside, &[".git"]).assert_same(&Plain::without(&world.project, &[".git"]));
        let mode = |name: &str| std::fs::symlink_metadata(world.project.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(
            (mode("f"), mode("src/lib.rs") & 0o111, mode("closed"), mode("closed/x"), mode("sticky")),
            (0o600, 0o111, 0o750, 0o440, 0o1777)
        );
        assert!(world.project.join("e/f").is_dir());
        assert_eq!(world.changes("a"), Vec::<String>::new());
    });
}

#[test]
fn b35_the_patch_is_applied_by_git_and_says_what_it_cannot_carry() {
    each(|world| {
        world.lane("a");
        world.sh("a", "head -c 5000 /dev/urandom > bin; chmod +x src/lib.rs; echo x >> README.md; rm run.sh; ln -sfn README.md main; : > z; mkdir empty; mkfifo p; mv src/main.rs src/moved.rs");
        let ran = world.ok(&["diff", "a", "--patch"]);
        assert!(ran.err().contains("empty") && ran.err().contains('p'), "{ran}");
        let copy = world.env.project("copy");
        world.env.host(
            world.env.root(),
            "cp",
            &["-a", world.project.to_str().unwrap(), copy.to_str().unwrap()],
        );
        world.env.write(&world.env.root().join("patch"), &ran.stdout);
        world.env.host(&copy, "git", &["update-index", "-q", "--refresh"]);
        world.env.host(&copy, "git", &["apply", "--index", world.env.root().join("patch").to_str().unwrap()]);
        let inside = world.env.project("inside");
        world.ok(&["export", "a", inside.to_str().unwrap()]);
        Plain::without(&inside, &[".git", "empty", "p"]).assert_same(&Plain::without(&copy, &[".git"]));
    });
}

#[test]
fn b36_the_users_git_settings_change_nothing_in_a_diff() {
    each(|world| {
        world.lane("a");
        world.sh("a", "echo z >> README.md; mv src/lib.rs src/new.rs; printf 'caf\\303\\251' > \"$(printf 'caf\\303\\251')\"");
        let plain = world.ok(&["diff", "a", "--patch"]).stdout;
        assert!(plain.windows(15).any(|part| part == b"diff --git a/RE"));
        let trap = world.env.root().join("trap.sh");
        let mark = world.env.root().join("mark");
        world.env.write(&trap, format!("#!/bin/sh\ntouch {}\necho trapped\n", mark.display()).as_bytes());
        std::fs::set_permissions(&trap, std::fs::Permissions::from_mode(0o755)).unwrap();
        let trap = trap.to_str().unwrap();
        for (key, value) in [
            ("diff.noprefix", "true"),
            ("color.ui", "always"),
            ("diff.external", trap),
            ("diff.mnemonicPrefix", "true"),
            ("core.quotePath", "false"),
            ("diff.renames", "copies"),
            ("core.pager", trap),
            ("core.fsmonitor", trap),
            ("diff.algorithm", "minimal"),
            ("core.attributesFile", trap),
        ] {
            world.env.host(world.env.root(), "git", &["config", "--global", key, value]);
        }
        let mut command = world.env.lane(&world.project, &["diff", "a", "--patch"]);
        command
            .env("GIT_EXTERNAL_DIFF", trap)
            .env("GIT_PAGER", trap)
            .env("PAGER", trap)
            .env("GIT_DIFF_OPTS", "-u0");
        let hostile = testkit::Running::start(command).wait(crate::world::SOON).expect_code(0);
        assert!(hostile.stdout == plain, "{hostile}");
        assert!(!mark.exists());
    });
}

#[test]
fn b39_a_full_disk_leaves_every_file_of_the_original_as_it_was() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            let Some(fs) = LoopFs::make(FsKind::Tmpfs, 2, who) else { return };
            let env = fresh(who);
            let project = fs.path().join("app");
            env.write(&project.join("orig"), &vec![1; 300 << 10]);
            env.write(&project.join("other"), b"other\n");
            let world = World::over(env, project, made);
            world.lane("a");
            world.sh("a", "head -c 900000 /dev/zero > orig; echo x > new; rm other");
            world.env.write(&world.project.join("fill"), &vec![2; 1200 << 10]);
            let before = Plain::of(&world.project);
            let ran = world.run(&["keep", "a", "--yes"]).expect_code(1);
            assert!(ran.err().contains("missing on the file system"), "{ran}");
            before.assert_same(&Plain::of(&world.project));
            std::fs::remove_file(world.project.join("fill")).unwrap();
            world.keep_all("a").expect_code(0);
            assert_eq!(world.content("orig").unwrap(), vec![0; 900_000]);
            world.gone("a");
        }
    }
}

/// An original in which everything can be replaced by something else.
fn shapes(world: &World) {
    for (path, bytes) in [
        ("gone", b"x\n" as &[u8]),
        ("gen/old", b"o\n"),
        ("gen/both", b"b\n"),
        ("d2f/inner/deep", b"d\n"),
        ("f2d", b"f\n"),
        ("deep/a/b/c", b"c\n"),
        ("same", b"s\n"),
        ("opened", b"o\n"),
        ("modes", b"m\n"),
    ] {
        world.env.write(&world.project.join(path), bytes);
    }
    world.env.mkdir(&world.project.join("emptydir"));
    world.env.link("f2d", &world.project.join("l"));
}

#[test]
fn b41_whiteouts_replaced_directories_and_type_changes_arrive_as_what_they_are() {
    each(|world| {
        shapes(world);
        world.lane("a");
        world.sh(
            "a",
            "rm gone; rm -r gen; mkdir gen; echo n > gen/new; echo B > gen/both; rm -r d2f; echo f > d2f; rm f2d; mkdir f2d; echo q > f2d/q; rm l; mkdir l; rmdir emptydir; rm -r deep
exec 3<>opened; exec 3>&-; cp same same.tmp; cat same.tmp > same; rm same.tmp; chmod 600 modes; chmod 644 modes; touch -r README.md README.md",
        );
        let changes = world.changes("a");
        for noise in ["opened", "same", "modes", "README.md"] {
            assert!(
                !changes.iter().any(|line| line.ends_with(&format!(" {noise}"))),
                "{noise} in {changes:?}"
            );
        }
        let inside = world.env.project("inside");
        world.ok(&["export", "a", inside.to_str().unwrap()]);
        world.keep_all("a").expect_code(0);
        Plain::without(&inside, &[".git"]).assert_same(&Plain::without(&world.project, &[".git"]));
        assert_eq!(world.content("gen/new").unwrap(), b"n\n");
        assert!(
            !world.project.join("gen/old").exists()
                && !world.project.join("gone").exists()
                && world.project.join("l").is_dir()
        );
        no_private_marks(&world.project);
        assert_eq!(world.changes("a"), Vec::<String>::new());
    });
}

/// The test is red where an attribute of overlayfs or a 0/0 device reached the original.
fn no_private_marks(top: &Path) {
    let mut names = vec![0; 4096];
    for path in Listing::of(top).items().keys() {
        use std::os::unix::ffi::OsStrExt as _;
        let path = top.join(std::ffi::OsStr::from_bytes(path));
        let length = rustix::fs::llistxattr(&path, &mut names[..]).unwrap_or(0);
        let found = String::from_utf8_lossy(&names[..length]).into_owned();
        assert!(!found.contains("overlay"), "{}: {found}", path.display());
        let meta = std::fs::symlink_metadata(&path).unwrap();
        assert!(meta.is_file() || meta.is_dir() || meta.is_symlink(), "{}", path.display());
    }
}

#[test]
fn b41_the_agents_own_attributes_and_names_are_never_read_as_marks() {
    each(|world| {
        shapes(world);
        testkit::require::program("setfattr");
        world.lane("a");
        let ran = world.try_sh(
            "a",
            "echo x > .wh.gone; echo y > .wh..wh..opq; mkdir own; echo o > own/o
for n in user.overlay.opaque user.overlay.whiteout user.overlay.redirect user.overlay.metacopy; do setfattr -n $n -v y gen own gone 2>/dev/null || true; done
setfattr -n user.own -v value gen; setfattr -n user.own -v value gone",
        );
        ran.expect_code(0);
        let changes = world.changes("a");
        assert!(
            !changes.iter().any(|line| line.starts_with("delete") || line.starts_with("rename")),
            "{changes:?}"
        );
        for wanted in ["add .wh.gone", "add .wh..wh..opq", "add own", "add own/o"] {
            assert!(changes.contains(&wanted.to_owned()), "{wanted} in {changes:?}");
        }
        world.sh("a", "cat gen/old gen/both gone own/o");
        world.keep_all("a").expect_code(0);
        assert_eq!(world.content("gen/old").unwrap(), b"o\n");
        assert_eq!(world.content("gone").unwrap(), b"x\n");
        let mut value = [0; 16];
        let length = rustix::fs::lgetxattr(world.project.join("gone"), "user.own", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"value");
    });
}

#[test]
fn b44_looking_at_a_lane_runs_nothing_that_came_from_it() {
    each(|world| {
        world.lane("a");
        let mark = world.env.root().join("mark");
        let home_mark = world.env.home().join("mark");
        let script = format!(
            "printf '#!/bin/sh\\ntouch {0} {1}\\n' > x.sh; chmod +x x.sh; p=$PWD/x.sh
git config core.fsmonitor $p; git config filter.z.clean $p; git config filter.z.smudge $p; git config diff.z.textconv $p; git config diff.external $p; git config core.pager $p; git config core.hooksPath $PWD/hooks; git config alias.status '!'$p
mkdir -p hooks .git/hooks; cp x.sh hooks/post-checkout; cp x.sh .git/hooks/post-commit; cp x.sh .git/hooks/pre-commit
echo '* filter=z diff=z' > .gitattributes; echo y >> README.md; echo 'touch {0}' > .envrc; mkdir -p .vscode .github/workflows; echo {{}} > .vscode/tasks.json; echo 'on: push' > .github/workflows/ci.yml",
            mark.display(),
            home_mark.display()
        );
        world.sh("a", &script);
        for args in [
            &["diff", "a"] as &[&str],
            &["diff", "a", "--stat"],
            &["diff", "a", "--patch"],
            &["diff", "a", "--drift"],
            &["show", "a"],
            &["ls"],
            &["log", "a"],
            &["keep", "a", "--dry-run"],
            &["keep", "a", "--yes"],
        ] {
            let ran = world.run(args);
            assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
        }
        assert!(!mark.exists() && !home_mark.exists());
        // What runs by itself later stayed in the lane; git's own files are outside keep's world.
        for guarded in
            [".envrc", ".vscode/tasks.json", ".github/workflows/ci.yml", "x.sh", "hooks/post-checkout"]
        {
            assert!(!world.project.join(guarded).exists(), "{guarded}");
        }
        assert_eq!(world.content("README.md").unwrap(), b"# A project\ny\n");
        assert!(!world.project.join(".git/hooks/post-commit").exists());
        let config = world.content(".git/config").unwrap();
        assert!(!String::from_utf8_lossy(&config).contains("fsmonitor"));
        world.run(&["keep", "a", "--yes", ".envrc"]).expect_code(0);
        assert!(world.project.join(".envrc").exists());
        world.gone("a");
        assert!(!mark.exists() && !home_mark.exists());
    });
}

#[test]
fn keeping_from_a_live_lane_says_that_it_is_live_or_waits_for_nothing() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sh", "-c", "echo x > x; sleep 1000"]);
        testkit::until("it wrote", crate::world::SOON, || world.changes("a") == ["add x"]);
        let ran = world.run(&["keep", "a", "--yes"]);
        assert!(matches!(ran.code, Some(0 | 1)), "{ran}");
        world.ok(&["stop", "a"]);
        world.keep_all("a").expect_code(0);
        assert_eq!(world.content("x").unwrap(), b"x\n");
    });
}
