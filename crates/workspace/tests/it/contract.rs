//! One table of edits, every strategy: the tree inside equals a plain directory after the same edits, the
//! changes are the expected ones, and the origin is as it was.

use tree::TreePath;
use tree::dir::DirTree;

use crate::lane::{Way, fingerprint, lane, lines, shell, shown, ways};

const PROJECT: &str = "
    mkdir -p src/deep empty docs
    printf 'one\\n' > top; printf 'two\\n' > src/a; printf 'three\\n' > src/b; printf 'four\\n' > src/deep/c
    printf 'guide of the project\\n' > docs/guide; printf 'notes of the project\\n' > docs/notes
    printf '#!/bin/sh\\n' > tool; chmod 755 tool
    ln -s src/a link; mkfifo pipe
    printf 'odd\\n' > \"$(printf 'new\\nline\\377')\"
    chmod 2750 docs";

/// `edits` give `expected` in every way, and the tree that they give in a plain directory.
fn check(edits: &str, expected: &[&str]) {
    let plain = tempfile::tempdir().expect("a directory");
    let plain_dir = plain.path().join("project");
    std::fs::create_dir(&plain_dir).expect("made");
    shell(&plain_dir, PROJECT);
    shell(&plain_dir, edits);
    let plain_tree = shown(&DirTree::open(&plain_dir).expect("opened"));
    for way in ways() {
        let lane = lane(way, PROJECT);
        let before = fingerprint(&lane.origin);
        lane.run(edits);
        assert_eq!(lines(&lane.changes()), expected, "{way:?}: {edits}");
        let inside = shown(&*lane.work.lane_tree().expect("opened"));
        assert_eq!(inside, plain_tree, "{way:?}: {edits}");
        assert_eq!(fingerprint(&lane.origin), before, "{way:?} wrote the origin: {edits}");
    }
}

#[test]
fn looking_changes_nothing() {
    check("find . -type f -exec cat {} + > /dev/null; ls -laR > /dev/null", &[]);
}

#[test]
fn files_are_added_modified_and_deleted() {
    check("echo new > src/new; echo more >> src/a; rm src/b", &["M src/a", "D src/b", "A src/new"]);
}

#[test]
fn a_file_that_was_only_touched_or_written_with_the_same_bytes_is_no_change() {
    check("touch src/a; printf 'three\\n' > src/b; cp -p top t && mv t top", &[]);
}

#[test]
fn what_was_made_and_removed_again_is_no_change() {
    check("echo x > src/x; mkdir -p n/m; rm -r n src/x", &[]);
}

#[test]
fn modes_are_changes_of_their_own() {
    check("chmod 600 src/a; chmod 700 src/deep; chmod 711 tool", &["P src/a", "P src/deep", "P tool"]);
}

#[test]
fn the_mode_of_the_root_stays_the_lanes_own() {
    // The root stands for the tree and is no entry in it: its mode holds inside and is never kept.
    check("chmod 711 .; test \"$(stat -c %a .)\" = 711", &[]);
}

#[test]
fn the_root_inside_looks_like_the_origins() {
    for way in ways() {
        let lane = lane(way, "chmod 2751 .; touch -d 2001-02-03T04:05:06.789 .");
        lane.run(
            "test \"$(stat -c '%a %y' .)\" = \"2751 $(date -d 2001-02-03T04:05:06.789 '+%F %T.%N %z')\"",
        );
    }
}

#[test]
fn a_type_that_changes_is_told_with_what_went_below_it() {
    check(
        "rm -r src; echo file > src; rm top; mkdir top; rm link; echo x > link",
        &["T link", "T src", "D src/a", "D src/b", "D src/deep", "D src/deep/c", "T top"],
    );
}

#[test]
fn a_directory_removed_and_made_anew_holds_only_what_is_new() {
    check(
        "rm -r src; mkdir src; echo other > src/z; printf 'two\\n' > src/a",
        &["D src/b", "D src/deep", "D src/deep/c", "A src/z"],
    );
}

#[test]
fn a_deleted_directory_names_everything_that_went() {
    check("rm -r src empty", &["D empty", "D src", "D src/a", "D src/b", "D src/deep", "D src/deep/c"]);
}

#[test]
fn links_and_pipes_are_entries_like_others() {
    check(
        "ln -sfn docs link; ln -s nowhere new; rm pipe; mkfifo other",
        &["M link", "A new", "A other", "D pipe"],
    );
}

#[test]
fn a_renamed_file_is_one_rename() {
    check(
        "mv docs/guide manual; mv src/a src/a2; echo more >> src/a2",
        &["R docs/guide -> manual", "D src/a", "A src/a2"],
    );
}

#[test]
fn a_renamed_directory_is_one_rename_however_it_was_carried_out() {
    check("mv docs handbook", &["R docs -> handbook"]);
}

#[test]
fn a_directory_renamed_inside_a_renamed_one_stays_whole_when_the_outer_one_stands_alone() {
    let project =
        "mkdir -p src/a/deep src/plain/b; for n in file a/f a/deep/g plain/b/h; do echo $n > src/$n; done";
    let edits = "mv src/a src/A; mv src/plain/b src/plain/B; mv src lib";
    for way in ways() {
        let lane = lane(way, project);
        lane.run(edits);
        let inside = || shown(&*lane.work.lane_tree().expect("opened"));
        let wanted = inside();
        let touched = [TreePath::new("src/file").expect("a path")];
        assert!(lane.work.stand_alone(&touched, true).expect("made to stand alone"), "{way:?}");
        assert_eq!(inside(), wanted, "{way:?}");
        shell(&lane.origin, "rm -r src");
        assert_eq!(inside(), wanted, "{way:?}: without its origin");
        lane.run("cat lib/file lib/A/f lib/A/deep/g lib/plain/B/h > /dev/null; test $(find . | wc -l) = 10");
    }
}

#[test]
fn names_that_are_no_text_are_told_exactly() {
    check(
        "for f in new*; do echo x >> \"$f\"; done; : > \"$(printf '\\376')\"",
        &["M new\\nline\\xff", "A \\xfe"],
    );
}

#[test]
fn empty_directories_count() {
    check("rmdir empty; mkdir -p a/b", &["A a", "A a/b", "D empty"]);
}

#[test]
fn edits_over_several_mounts_add_up() {
    for way in ways() {
        let lane = lane(way, PROJECT);
        lane.run("echo 1 > n; rm src/a; mkdir -p x/y");
        lane.run("test ! -e src/a; echo 2 >> n; rm -r docs; rmdir x/y");
        lane.run("test \"$(cat n)\" = \"$(printf '1\\n2')\"; mkdir docs");
        assert_eq!(
            lines(&lane.changes()),
            ["P docs", "D docs/guide", "D docs/notes", "A n", "D src/a", "A x"],
            "{way:?}"
        );
    }
}

#[test]
fn the_base_tree_is_the_origin() {
    for way in ways() {
        let lane = lane(way, PROJECT);
        lane.run("echo x > top; rm -r src");
        let origin = shown(&DirTree::open(&lane.origin).expect("opened"));
        assert_eq!(shown(&*lane.work.base_tree().expect("opened")), origin, "{way:?}");
    }
}

#[test]
fn an_overlay_takes_only_what_was_written_and_each_inode_once() {
    for way in ways().into_iter().filter(|way| *way != Way::Copy) {
        let lane = lane(
            way,
            "mkdir d; head -c 300000 /dev/zero > d/big; for n in 1 2 3 4 5 6 7 8; do : > d/f$n; done",
        );
        assert_eq!(lane.work.exclusive_bytes(&|_| false).expect("measured"), 0, "{way:?}");
        lane.run("rm d/f*");
        let with_whiteouts = lane.work.exclusive_bytes(&|_| false).expect("measured");
        assert!(with_whiteouts <= 16 << 10, "{way:?}: {with_whiteouts}");
        lane.run("head -c 100000 /dev/urandom > n; ln n n2; ln n n3");
        let written = lane.work.exclusive_bytes(&|_| false).expect("measured") - with_whiteouts;
        assert!((100_000..150_000).contains(&written), "{way:?}: {written}");
    }
}

#[test]
fn what_prepare_says_of_its_cost_is_so() {
    let project = "head -c 100000 /dev/urandom > a; echo x > b; mkdir d; mkfifo p";
    for way in ways() {
        let lane = lane(way, project);
        let root = lane.root.clone();
        let again = workspace::workspace(&lane.home, &root).expect("opened");
        let cost = again.prepare(&mut |_| ()).expect("an interrupted making can be repeated");
        match way {
            Way::Copy => {
                assert_eq!((cost.files, cost.left_out.len()), (2, 0));
                let shared = cost.cloned == cost.files;
                assert!(shared || cost.allocated >= 100_000, "{cost:?}");
            }
            _ => assert_eq!((cost.files, cost.allocated), (0, 0)),
        }
        assert_eq!(lines(&lane.changes()), [""; 0], "{way:?}");
    }
}

#[test]
fn b08_what_git_ignores_is_there() {
    for way in ways() {
        let lane = lane(
            way,
            "mkdir .git node_modules; echo .env > .gitignore; echo K=1 > .env; echo m > node_modules/m",
        );
        lane.run("test \"$(cat .env)\" = K=1; test -e node_modules/m");
    }
}

#[test]
fn b12_a_write_through_one_name_of_a_hard_link_is_told_as_it_is_inside() {
    let project = "echo one > x; ln x y; mkdir d; ln x d/z; echo other > o";
    for way in ways() {
        let lane = lane(way, project);
        lane.run("echo two > x");
        let inside = shown(&*lane.work.lane_tree().expect("opened"));
        let content = |name: &str| inside[&TreePath::new(name).expect("a path")].2.clone();
        if way == Way::OverlayUser {
            // The kernel breaks the link for an ordinary user's mount.
            assert_eq!((content("x"), content("d/z")), (b"two\n".to_vec(), b"one\n".to_vec()));
            assert_eq!(lines(&lane.changes()), ["M x"]);
        } else {
            lane.run("test \"$(cat d/z)\" = two; test \"$(cat y)\" = two");
            assert_eq!(lines(&lane.changes()), ["M d/z", "M x", "M y"], "{way:?}");
            assert_eq!((content("x"), content("d/z")), (b"two\n".to_vec(), b"two\n".to_vec()), "{way:?}");
        }
        let origin = DirTree::open(&lane.origin).expect("opened");
        let walk = workspace::RecordOptions::default();
        let go_on = std::sync::atomic::AtomicBool::new(false);
        workspace::record(origin.fd(), &walk, lane.home.dir(), "manifest.0", &go_on).expect("recorded");
        let manifest = workspace::Manifest::load(lane.home.dir(), 0).expect("loaded").expect("there");
        let path = |name: &str| TreePath::new(name).expect("a path");
        let others = |name| manifest.other_names(&[path(name)], &origin).expect("looked");
        assert_eq!((others("x"), others("o")), (vec![path("d/z"), path("y")], Vec::new()));
    }
}

#[test]
fn what_a_copy_cannot_take_is_listed_and_is_no_deletion() {
    let project = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'; echo x > secret; chmod 0 secret";
    let lane = lane(Way::Copy, project);
    let again = workspace::workspace(&lane.home, &lane.root).expect("opened");
    let cost = again.prepare(&mut |_| ()).expect("prepared");
    let left_out: Vec<String> = cost.left_out.iter().map(|(path, _)| format!("{path:?}")).collect();
    // Root reads what its mode forbids.
    let expected: &[&str] =
        if rustix::process::geteuid().is_root() { &["\"sock\""] } else { &["\"secret\"", "\"sock\""] };
    assert_eq!(left_out, expected);
    assert_eq!(lines(&lane.changes()), [""; 0]);
}

#[test]
fn our_own_state_inside_a_project_is_no_part_of_it() {
    for way in ways() {
        // The project is the directory that holds the state directory too, as a home directory would.
        let mut lane = lane(way, PROJECT);
        let around = lane.dir.path();
        lane.root.origin.clone_from(&around);
        lane.work = workspace::workspace(&lane.home, &lane.root).expect("opened");
        lane.origin = around;
        lane.work.prepare(&mut |_| ()).expect("prepared");
        lane.run("echo x > new");
        assert_eq!(lines(&lane.changes()), ["A new"], "{way:?}");
    }
}

#[test]
fn b16_removal_copes_with_what_a_lane_leaves() {
    for way in ways() {
        let lane = lane(way, PROJECT);
        lane.run("rm top; mkdir -p m/d; echo x > m/d/f; chmod 444 m/d/f; chmod 555 m/d m; mkdir z; echo x > z/f; chmod 0 z");
        let path = lane.home.path().to_path_buf();
        lane.work.remove().expect("layers removed");
        lane.home.remove().expect("removed");
        assert!(!path.exists(), "{way:?}");
    }
}
