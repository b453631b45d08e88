//! Patches, judged by the real `git apply` under a configuration that breaks those made by `git diff`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use review::patch::{PatchReport, write_patch};

use crate::world::{World, chmod, fifo, write, xattr};

const HOSTILE: &str = "[diff]\n\tnoprefix = true\n\tmnemonicPrefix = true\n\texternal = /bin/false\n\trenames = copies\n\
    [color]\n\tui = always\n\tdiff = always\n[core]\n\tquotePath = false\n\tpager = /bin/false\n";

/// What git can carry of a tree: files with their executable bit, and links.
pub(crate) fn carried(top: &Path) -> BTreeMap<Vec<u8>, (u32, Vec<u8>)> {
    fn add(top: &Path, at: &Path, all: &mut BTreeMap<Vec<u8>, (u32, Vec<u8>)>) {
        for entry in fs::read_dir(top.join(at)).expect("listed") {
            let below = at.join(entry.expect("an entry").file_name());
            let full = top.join(&below);
            let meta = fs::symlink_metadata(&full).expect("stat");
            let name = below.as_os_str().as_bytes().to_vec();
            if meta.is_dir() && below != Path::new(".git") {
                add(top, &below, all);
            } else if meta.is_file() {
                all.insert(
                    name,
                    (u32::from(meta.permissions().mode() & 0o100 != 0), fs::read(full).expect("read")),
                );
            } else if meta.is_symlink() {
                all.insert(name, (2, fs::read_link(full).expect("read").into_os_string().into_vec()));
            }
        }
    }
    let mut all = BTreeMap::new();
    add(top, Path::new(""), &mut all);
    all
}

pub(crate) fn patch(world: &World) -> (Vec<u8>, PatchReport) {
    let (base, lane) = world.trees();
    let mut out = Vec::new();
    let report = write_patch(&world.set(), &base, &lane, &mut out).expect("written");
    (out, report)
}

fn git(world: &World, dir: &Path, args: &[&str], input: &Path) -> (bool, String) {
    let config = world.top.join("hostile");
    fs::write(&config, HOSTILE).expect("written");
    let output = Command::new("git")
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", config)
        .env("GIT_CEILING_DIRECTORIES", &world.top)
        .stdin(Stdio::from(fs::File::open(input).expect("open")))
        .output()
        .expect("git is installed");
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn copy(from: PathBuf, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).expect("removed");
    }
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(done.success());
}

/// Applies the patch of a world to copies of both trees, forwards and backwards.
pub(crate) fn check(world: &World) -> PatchReport {
    let (text, report) = patch(world);
    let file = world.top.join("patch");
    fs::write(&file, &text).expect("written");
    let target = world.top.join("target");
    for (reverse, from, to) in [(false, world.origin(), world.lane()), (true, world.lane(), world.origin())] {
        copy(from, &target);
        // Directories that git does not know can stand in its way. They are listed: a person removes them.
        let listed =
            if reverse { "a directory without files" } else { "removal of a directory without files" };
        for lost in report.cannot_carry.iter().rev().filter(|lost| lost.what == listed) {
            let _ = fs::remove_dir(target.join(lost.path.as_path()));
        }
        if !text.is_empty() {
            let args: &[&str] = if reverse { &["apply", "--binary", "-R"] } else { &["apply", "--binary"] };
            let (done, said) = git(world, &target, args, &file);
            assert!(done, "reverse {reverse}: {said}\n{}", shown(&text));
        }
        let (mut is, mut wanted) = (carried(&target), carried(&to));
        if reverse {
            // `git apply -R` forgets the modes of what it brings back, of its own patches too (git
            // 2.47: a link becomes a file), so content alone is compared.
            for facts in is.values_mut().chain(wanted.values_mut()) {
                facts.0 = 0;
            }
        }
        for name in is.keys().chain(wanted.keys()) {
            assert_eq!(
                is.get(name),
                wanted.get(name),
                "reverse {reverse}: {}\n{}",
                name.escape_ascii(),
                shown(&text)
            );
        }
    }
    report
}

fn shown(text: &[u8]) -> String {
    text[..text.len().min(1500)].escape_ascii().to_string()
}

fn lost(report: &PatchReport, path: &str) -> Option<String> {
    report
        .cannot_carry
        .iter()
        .find(|lost| lost.path.as_bytes() == path.as_bytes())
        .map(|lost| lost.what.clone())
}

#[test]
fn text_of_any_ending_applies_and_comes_back() {
    let world = World::new(
        |o| {
            write(o.join("crlf"), "a\r\nb\r\nc\n");
            write(o.join("bom"), b"\xef\xbb\xbfx\r\n");
            write(o.join("cut"), "a\nb");
            write(o.join("grow"), "a\nb\n");
            write(o.join("latin"), b"caf\xe9\nx\n");
            write(o.join("cr"), "a\rb\rc");
            write(o.join("empty"), "");
            write(o.join("filled"), "");
            write(o.join("long"), "line\n".repeat(500) + "x\n" + &"line\n".repeat(500));
        },
        |l| {
            write(l.join("crlf"), "a\r\nB\r\nc\n");
            write(l.join("bom"), "x\r\n");
            write(l.join("cut"), "a\nb\n");
            write(l.join("grow"), "a\nb");
            write(l.join("latin"), b"caf\xe9\ny\xff\n");
            write(l.join("cr"), "a\rB\rc");
            write(l.join("filled"), "now\n");
            write(l.join("new-empty"), "");
            write(l.join("long"), "line\n".repeat(499) + "y\n" + &"line\n".repeat(502));
            fs::remove_file(l.join("empty")).expect("removed");
        },
    );
    assert_eq!(check(&world).cannot_carry, []);
}

#[test]
fn binary_content_goes_both_ways() {
    let noise = |seed: u32, len: usize| -> Vec<u8> {
        let mut state = seed;
        (0..len)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect()
    };
    let world = World::new(
        |o| {
            write(o.join("changed"), noise(1, 300));
            write(o.join("gone"), noise(2, 70_000));
            write(o.join("text"), "text\n");
            write(o.join("renamed"), noise(3, 5000));
        },
        |l| {
            write(l.join("changed"), noise(4, 301));
            fs::remove_file(l.join("gone")).expect("removed");
            write(l.join("new"), noise(5, 53));
            write(l.join("text"), b"te\0xt\n");
            fs::rename(l.join("renamed"), l.join("elsewhere")).expect("renamed");
        },
    );
    let report = check(&world);
    assert_eq!((report.cannot_carry.len(), report.entries), (0, 5));
}

#[test]
fn names_that_need_quotes_or_end_in_spaces_survive() {
    let names: [&[u8]; 12] = [
        b"with space",
        b"trail ",
        b"tab\there",
        b"new\nline",
        b"quo\"te",
        b"back\\slash",
        b"\xc3\xa4",
        b"\xff\xfe",
        b"esc\x1b[2J",
        b"-dash",
        b"a b/c d",
        b"b/b",
    ];
    let world = World::new(
        |o| {
            for name in names {
                write(o.join(OsStr::from_bytes(&[b"old-", name].concat())), "old\n");
                write(o.join(OsStr::from_bytes(&[b"mode-", name].concat())), "same\n");
                write(o.join(OsStr::from_bytes(&[b"move-", name].concat())), [b"moved ", name].concat());
            }
        },
        |l| {
            for name in names {
                let at = |front: &[u8]| l.join(OsStr::from_bytes(&[front, name].concat()));
                write(at(b"old-"), "new\n");
                chmod(at(b"mode-"), 0o755);
                write(at(b"add-"), "");
                fs::create_dir_all(at(b"to-").parent().expect("a directory")).expect("made");
                fs::rename(at(b"move-"), at(b"to-")).expect("renamed");
            }
        },
    );
    // What was moved out of `move-a b/` and `move-b/` left those without files.
    let left: Vec<String> =
        check(&world).cannot_carry.into_iter().map(|lost| format!("{:?}", lost.path)).collect();
    assert_eq!(left, ["\"move-a b\"", "\"move-b\""]);
}

#[test]
fn modes_links_types_and_renames_are_told_as_git_tells_them() {
    let world = World::new(
        |o| {
            write(o.join("s.sh"), "#!/bin/sh\n");
            write(o.join("f2l"), "a file\n");
            symlink("f2l", o.join("l2f")).expect("linked");
            symlink("old", o.join("link")).expect("linked");
            write(o.join("d2f/a"), "a\n");
            write(o.join("f2d"), "f\n");
            symlink("d2f", o.join("l2d")).expect("linked");
            for i in 0..5 {
                write(o.join(format!("src/m{i}.rs")), format!("line {i}\n").repeat(30));
            }
            write(o.join("src/in/deep"), "deep\n");
            write(o.join("src/lost"), "lost\n");
        },
        |l| {
            chmod(l.join("s.sh"), 0o755);
            fs::remove_file(l.join("f2l")).expect("removed");
            symlink("s.sh", l.join("f2l")).expect("linked");
            fs::remove_file(l.join("l2f")).expect("removed");
            write(l.join("l2f"), "now a file\n");
            fs::remove_file(l.join("link")).expect("removed");
            symlink("new", l.join("link")).expect("linked");
            fs::remove_dir_all(l.join("d2f")).expect("removed");
            write(l.join("d2f"), "file\n");
            fs::remove_file(l.join("f2d")).expect("removed");
            write(l.join("f2d/x"), "x\n");
            fs::remove_file(l.join("l2d")).expect("removed");
            write(l.join("l2d/y"), "y\n");
            fs::rename(l.join("src"), l.join("lib")).expect("renamed");
            write(l.join("lib/m1.rs"), "line 1\n".repeat(29) + "other\n");
            chmod(l.join("lib/m2.rs"), 0o755);
            fs::remove_file(l.join("lib/lost")).expect("removed");
            write(l.join("lib/more"), "more\n");
            write(l.join("src/m0.rs"), "a new one under the old name\n");
        },
    );
    let report = check(&world);
    assert_eq!(report.cannot_carry, []);
    let text = String::from_utf8(patch(&world).0).expect("plain text");
    assert!(text.contains("similarity index 100%\nrename from src/m3.rs\nrename to lib/m3.rs\n"), "{text}");
    assert!(text.contains("old mode 100644\nnew mode 100755\n"));
}

#[test]
fn what_git_cannot_carry_is_listed_and_blocks_nothing() {
    let world = World::new(
        |o| {
            write(o.join("f"), "f\n");
            write(o.join("a"), "a\n");
            write(o.join("d/only"), "x\n");
            fifo(o.join("oldpipe"));
            fs::create_dir(o.join("oldempty")).expect("made");
        },
        |l| {
            write(l.join("f"), "F\n");
            chmod(l.join("f"), 0o600);
            write(l.join("a"), "A\n");
            xattr(l.join("a"), "user.k", "v");
            fs::create_dir(l.join("e")).expect("made");
            fifo(l.join("pipe"));
            fs::remove_file(l.join("d/only")).expect("removed");
            fs::remove_file(l.join("oldpipe")).expect("removed");
            fs::remove_dir(l.join("oldempty")).expect("removed");
            write(l.join(".git/hooks/post-checkout"), "evil");
        },
    );
    let report = check(&world);
    assert_eq!(lost(&report, "f").as_deref(), Some("mode 0600"));
    assert_eq!(lost(&report, "a").as_deref(), Some("attribute user.k"));
    assert_eq!(lost(&report, "e").as_deref(), Some("a directory without files"));
    assert_eq!(lost(&report, "d").as_deref(), Some("a directory without files"));
    assert_eq!(lost(&report, "pipe").as_deref(), Some("a pipe"));
    assert_eq!(lost(&report, "oldempty").as_deref(), Some("removal of a directory without files"));
    assert!(lost(&report, ".git/hooks/post-checkout").is_some());
    assert!(!String::from_utf8(patch(&world).0).expect("text").contains(".git/"));
}

#[test]
fn the_same_trees_give_the_same_patch_as_git_reads_it() {
    let world = World::new(
        |o| write(o.join("a"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        |l| write(l.join("a"), "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"),
    );
    let text = String::from_utf8(patch(&world).0).expect("text");
    assert_eq!(
        text,
        "diff --git a/a b/a\nindex 07193989308c972f8a2d0f1b3a15c29ea4ac565b..4c5701d775286e43e9f53ee570f38b6070b09616 100644\n\
         --- a/a\n+++ b/a\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    );
}
