//! The delta and the union against real overlay mounts: what the kernel shows is copied away by `cp -a` and
//! compared with what this crate says, by the most naive means.

use proptest::prelude::*;

use crate::mounted::{self, Case, Mode};

/// Runs `script` in every kind of mount over a tree that `base` made, and checks everything.
fn check(base: &str, script: &str) {
    for mode in [Mode::User, Mode::Root, Mode::RootIndexed] {
        Case::run(mode, base, script).check();
    }
}

/// As [`check`], and the changes as lines, which must be the same for every kind of mount.
fn lines(base: &str, script: &str) -> Vec<String> {
    let mut said: Option<Vec<String>> = None;
    for mode in [Mode::User, Mode::Root, Mode::RootIndexed] {
        let case = Case::run(mode, base, script);
        case.check();
        let lines = case.lines();
        assert_eq!(*said.get_or_insert(lines.clone()), lines, "{mode:?}");
    }
    said.expect("three modes")
}

const BASE: &str = "
    echo gone >gone; mkdir gen; echo one >gen/one; mkdir gen/sub; echo two >gen/sub/two
    mkdir d2f; echo x >d2f/x; echo f >f2d; ln -s gone l; mkdir emptydir; echo keep >keep
    echo same >same; echo mode >mode; mkdir -p deep/er; echo deep >deep/er/file; echo 12345 >five
";

#[test]
fn every_kind_of_change_is_told_apart() {
    let told = lines(
        BASE,
        "
        rm gone; rm -r gen; mkdir gen; echo n >gen/new; rm -r d2f; echo f >d2f
        rm f2d; mkdir f2d; echo q >f2d/q; rm l; mkdir l; rmdir emptydir
        : >>same; chmod 755 mode; echo more >>deep/er/file; echo 54321 >five; mkfifo p; mkdir new; ln -s ../x new/l
        ",
    );
    assert_eq!(
        told,
        [
            "retype d2f",
            "delete d2f/x",
            "modify deep/er/file",
            "delete emptydir",
            "retype f2d",
            "add f2d/q",
            "modify five",
            "add gen/new",
            "delete gen/one",
            "delete gen/sub",
            "delete gen/sub/two",
            "delete gone",
            "retype l",
            "mode mode",
            "add new",
            "add new/l",
            "add p",
        ]
    );
}

#[test]
fn touching_and_putting_back_is_no_change() {
    let told = lines(
        BASE,
        "
        : >>same; echo x >>keep; echo keep >keep; chmod 600 mode; chmod 644 mode; touch deep/er deep/er/file
        echo s >deep/s; rm deep/s; mv gone away; mv away gone; echo t >t; rm t
        ",
    );
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn whiteout_over_missing_file_is_dropped() {
    let case = Case::run_then_change_lower(Mode::User, BASE, "rm gone; rm -r gen", "rm gone; rm -r gen");
    assert!(case.lines().is_empty(), "{:?}", case.lines());
}

#[test]
fn a_directory_that_was_replaced_twice_is_opaque_all_the_way_down() {
    let told = lines(
        "mkdir -p a/b/c; echo 1 >a/b/c/1; echo 2 >a/b/2; echo 3 >a/3",
        "rm -r a/b; mkdir -p a/b/c; echo n >a/b/c/n; rm -r a; mkdir -p a/b; echo 2 >a/b/2",
    );
    assert_eq!(told, ["delete a/3", "delete a/b/c", "delete a/b/c/1"]);
}

#[test]
fn a_renamed_directory_is_one_rename_with_the_changes_inside() {
    let base =
        "mkdir -p src/in; for n in 1 2 3 4 5; do echo $n >src/$n; echo in$n >src/in/$n; done; echo top >top";
    let script = "mv src lib; echo more >>lib/1; chmod 755 lib/2; rm lib/3; echo new >lib/new; mv lib/in/4 top4; chmod 700 lib/in";
    let told = lines(base, script);
    assert_eq!(
        told,
        [
            "rename lib from src",
            "rename lib/1 from src/1 modified",
            "rename lib/2 from src/2",
            "rename lib/in from src/in",
            "add lib/new",
            "delete src/3",
            "rename top4 from src/in/4",
        ]
    );
}

#[test]
fn a_rename_onto_a_taken_or_reborn_name_is_told_by_its_content() {
    let base = "mkdir e d; echo one >e/one; echo two >e/two; echo three >d/three";
    check(base, "mv e x; mkdir e; echo new >e/new");
    check(base, "rm -r d; mv e d");
    check(base, "rm -r d; mv e d; mkdir e; echo 1 >e/one");
    check(base, "mv e x; mv d e; mv x d");
    check(base, "mv e d/e; mv d f; mkdir d; mv f/e d/e");
    check(base, "mkdir n; mv e n/e; mv n/e/one one; rm -r n/e; echo n >n/e");
    check(base, "mv e x; mv x e; rm e/one");
    check(base, "mv e d/in; rm -r d/in; echo f >d/in");
    check("mkdir -p c/b/a c/b/f; echo x >c/b/f/x", "mv c/b a; mv -T c a/a");
    check("mkdir -p c/b/a c/b/f; echo x >c/b/f/x", "mv c/b a; rm -r a/f; mv c a/f");
}

#[test]
fn names_of_every_byte_and_length_are_told() {
    let long = "x".repeat(255);
    let base = format!(
        r"for n in $'bad\xff' $'new\nline' $'tab\tq' ' lead' 'trail ' '-rf' $'caf\xc3\xa9' $'cafe\xcc\x81' {long}; do echo a >./$n; done"
    );
    check(&base, "for n in *; do echo x >>./$n; done");
    check(&base, "rm -f -- *; mkdir -- -d; echo x >./-d/$'\\x01'");
    check(&base, "mkdir m; mv -- * m/");
}

#[test]
fn deep_trees_are_told() {
    let mut path = String::new();
    for n in 0..60 {
        path.push_str(&format!("level{n}/"));
    }
    let base = format!("mkdir -p {path}; echo x >{path}f");
    check(&base, &format!("echo y >>{path}f"));
    check(&base, "mv level0 moved");
    check(&base, "mkdir n; mv level0/level1 n/");
}

#[test]
fn sockets_are_gaps_and_fifos_are_never_opened() {
    let base = "mkfifo p; mkfifo q; echo f >f";
    check(base, "chmod 600 p; rm q; echo q >q; rm f; mkfifo f");
}

#[test]
fn hard_links_are_told_by_every_name() {
    let base = "echo one >x; ln x y; mkdir d; ln x d/z; echo other >o; ln o o2";
    check(base, "echo two >x");
    check(base, "echo two >d/z; rm x; mv y d/y");
    check(base, "echo n >n; ln n n2; ln o o3; rm o2");
    check(base, "chmod 700 y; echo more >>o");
    check(base, "mv d e; echo two >e/z");
    check(base, "ln x w; echo >>w");
}

#[test]
fn a_file_whose_content_was_not_copied_up_is_a_gap() {
    let set = Case::run(Mode::RootMetacopy, BASE, "chmod 755 five; echo x >>keep").delta();
    assert_eq!(set.changes.iter().map(mounted::line).collect::<Vec<_>>(), ["modify keep"]);
    assert_eq!(set.gaps.iter().map(|(path, _)| path.as_bytes()).collect::<Vec<_>>(), [b"five"]);
}

#[test]
fn a_copy_of_a_layer_stands_for_it_with_its_hard_links_and_marks() {
    let base = "echo one >x; ln x y; mkdir d; ln x d/z; echo other >o; ln o o2; mkdir -p e/in; echo e >e/in/e; ln -s x l; ln l l2";
    for (mode, script) in [Mode::User, Mode::Root, Mode::RootIndexed].into_iter().flat_map(|mode| {
        [
            "echo two >x; echo n >n; ln n n2; ln n d/n3; rm o; rm -r e; mkdir e; mkfifo p; ln -s n k; chmod 700 d",
            "echo two >d/z; rm x; mv y d/y; python3 -c 'import socket; socket.socket(1).bind(\"s\")'",
            "rm l; mv e f; echo more >>f/in/e; ln o o3; chmod 555 d",
        ]
        .map(|script| (mode, script))
    }) {
        Case::run(mode, base, script).check_copied();
    }
}

/// Runs each script in a mount of its own on the layers of those before, and checks everything.
fn check_stacked(base: &str, scripts: &[&str]) {
    for mode in [Mode::User, Mode::Root] {
        let case = Case::run_stacked(mode, base, scripts);
        case.check();
        case.check_flattened();
    }
}

#[test]
fn a_name_that_several_layers_speak_of_is_told_by_the_topmost() {
    check_stacked(
        BASE,
        &[
            "rm gone; echo 1 >keep; rm -r gen",
            "echo back >gone; mkdir gen; echo 2 >gen/two",
            "rm gone; echo 3 >>keep; rm -r gen; mkdir gen",
        ],
    );
    check_stacked(BASE, &["rm -r d2f; echo f >d2f", "rm d2f; mkdir d2f; echo x >d2f/x", "chmod 700 d2f"]);
    check_stacked(
        BASE,
        &["mkdir -p n/m; echo 1 >n/m/1", "rm -r n; mkdir -p n/m; echo 2 >n/m/2", "rm n/m/2; rmdir n/m"],
    );
    check_stacked(BASE, &["mkdir -p n/m; echo 1 >n/m/1", "rm -r n/m; rm same", "rm keep"]);
    check_stacked(BASE, &["chmod 700 deep/er", "echo new >deep/er/new", "rm deep/er/file; rm -r deep"]);
}

#[test]
fn a_directory_that_is_renamed_again_in_a_later_layer_is_told_by_where_it_stood_in_the_base() {
    let base = "mkdir -p e/in d; for n in 1 2 3; do echo $n >e/$n; echo in$n >e/in/$n; done; echo d >d/d";
    check_stacked(base, &["mv e x", "mv x y; echo new >y/new", "mv y z; rm z/1; mv z/in in"]);
    check_stacked(base, &["mv e x", "mv x e", "mv e/in e/out"]);
    check_stacked(base, &["mv e x; mv d e", "mv x/in e/in; mv e d", "mv d/in x/in; mv x e"]);
    check_stacked(
        base,
        &["mv e/in d/in; rm -r e", "mv d e; echo 2 >e/in/2", "mv e/in in; rm -r e; mkdir e; echo d >e/d"],
    );
    check_stacked(base, &["mkdir n; mv e n/e", "mv n m", "mv m/e/in m/in; rm -r m/e; mkdir m/e"]);
}

/// What a program in the lane sets on `user.overlay.*` the kernel stores escaped.
#[test]
fn attributes_are_changes_and_escaped_marks_are_attributes() {
    let case = Case::run(Mode::User, BASE, ": >>same; : >>five; chmod 700 gen; chmod 755 gen; : >>mode");
    assert!(case.lines().is_empty());
    let upper = kernel::open::root_dir(&case.at("upper")).expect("open");
    kernel::xattr::set_at(&upper, b"same", b"user.note", b"x").expect("xattr");
    kernel::xattr::set_at(&upper, b"five", b"user.overlay.origin", b"x").expect("xattr");
    kernel::xattr::set_at(&upper, b"gen", b"user.overlay.overlay.opaque", b"y").expect("xattr");
    kernel::xattr::set_at(&upper, b"mode", b"user.overlay.overlay.whiteout", b"y").expect("xattr");
    assert_eq!(case.lines(), ["mode gen", "mode mode", "mode same"]);
}

#[test]
fn another_owner_is_a_change_of_mode() {
    let case = Case::run(Mode::Root, BASE, "chown 12:34 same; chown -h 12 l; chgrp 34 gen");
    case.check();
    assert_eq!(case.lines(), ["mode gen", "mode l", "mode same"]);
}

#[derive(Debug, Clone)]
enum Step {
    Write(String, u8),
    Append(String),
    Touch(String),
    Remove(String),
    MakeDir(String),
    Move(String, String),
    Copy(String, String),
    Link(String, String),
    Symlink(String, String),
    Fifo(String),
    Chmod(String, u16),
}

impl Step {
    fn line(&self) -> String {
        match self {
            // Writing to a FIFO would wait for a reader.
            Step::Write(p, n) => format!("[ -p '{p}' ] || echo content{n} >'{p}'"),
            Step::Append(p) => format!("[ -p '{p}' ] || echo more >>'{p}'"),
            Step::Touch(p) => format!("[ -p '{p}' ] || : >>'{p}'"),
            Step::Remove(p) => format!("rm -rf '{p}'"),
            Step::MakeDir(p) => format!("mkdir -p '{p}'"),
            Step::Move(p, q) => format!("mv -T '{p}' '{q}'"),
            // Without the option, cp would open a FIFO that stands at the new name.
            Step::Copy(p, q) => format!("cp -aT --remove-destination '{p}' '{q}'"),
            Step::Link(p, q) => format!("ln '{p}' '{q}'"),
            Step::Symlink(p, q) => format!("ln -s '{p}' '{q}'"),
            Step::Fifo(p) => format!("mkfifo '{p}'"),
            Step::Chmod(p, mode) => format!("chmod {mode:o} '{p}'"),
        }
    }
}

fn path() -> impl Strategy<Value = String> {
    let name = prop_oneof![Just("a"), Just("b"), Just("c d"), Just("e")];
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (path(), 0u8..4).prop_map(|(p, n)| Step::Write(p, n)),
        1 => path().prop_map(Step::Append),
        1 => path().prop_map(Step::Touch),
        3 => path().prop_map(Step::Remove),
        4 => path().prop_map(Step::MakeDir),
        5 => (path(), path()).prop_map(|(p, q)| Step::Move(p, q)),
        1 => (path(), path()).prop_map(|(p, q)| Step::Copy(p, q)),
        1 => (path(), path()).prop_map(|(p, q)| Step::Link(p, q)),
        1 => (path(), path()).prop_map(|(p, q)| Step::Symlink(p, q)),
        1 => path().prop_map(Step::Fifo),
        2 => (path(), prop_oneof![Just(0o755u16), Just(0o700), Just(0o644)]).prop_map(|(p, m)| Step::Chmod(p, m)),
    ]
}

fn script(steps: &[Step]) -> String {
    steps.iter().map(|step| format!("{{ {}; }} 2>/dev/null\n", step.line())).collect()
}

/// `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 64 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_operations_is_told_exactly(
        base in prop::collection::vec(step(), 4..24),
        lane in prop::collection::vec(step(), 1..24),
        mode in prop_oneof![Just(Mode::User), Just(Mode::Root), Just(Mode::RootIndexed)],
    ) {
        Case::run(mode, &script(&base), &script(&lane)).check();
    }

    #[test]
    fn any_sequence_of_operations_on_three_layers_is_told_exactly(
        base in prop::collection::vec(step(), 4..24),
        lane in prop::collection::vec(prop::collection::vec(step(), 1..16), 3),
        mode in prop_oneof![Just(Mode::User), Just(Mode::Root)],
    ) {
        let scripts: Vec<String> = lane.iter().map(|steps| script(steps)).collect();
        let scripts: Vec<&str> = scripts.iter().map(String::as_str).collect();
        let case = Case::run_stacked(mode, &script(&base), &scripts);
        case.check();
        case.check_flattened();
    }
}
