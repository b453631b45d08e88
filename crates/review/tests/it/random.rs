//! Random trees and random changes: what is kept equals what the lane shows, and a patch does too.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use kernel::Errno;
use proptest::prelude::*;
use review::apply::{Faults, NoFaults};
use tree::TreePath;

use crate::patches;
use crate::world::{Shape, World, chmod, fifo, xattr};

/// One thing that somebody does to a tree. Paths are drawn from a small stock, so that they meet.
#[derive(Debug, Clone)]
enum Act {
    Write(usize, usize),
    Dir(usize),
    Remove(usize),
    Rename(usize, usize),
    Link(usize, usize),
    HardLink(usize, usize),
    Mode(usize, u32),
    Fifo(usize),
    Attribute(usize, u8),
}

const NAMES: [&str; 7] = ["a", "b", "src", "x y", "n\nl", "q\"", "ü"];

fn stock(number: usize) -> PathBuf {
    let depth = number % 3;
    let mut path = PathBuf::new();
    let mut rest = number / 3;
    for _ in 0..=depth {
        path.push(NAMES[rest % NAMES.len()]);
        rest /= NAMES.len();
    }
    path
}

fn content(number: usize) -> Vec<u8> {
    match number % 8 {
        0 => Vec::new(),
        1 => b"one\ntwo\n".to_vec(),
        2 => b"no newline".to_vec(),
        3 => vec![0, 1, 2, 0xff],
        4 => b"crlf\r\nmixed\n".to_vec(),
        5 => "a longer text\n".repeat(number % 40 + 1).into_bytes(),
        6 => format!("unique {number}\nshared\nshared\nshared\n").into_bytes(),
        _ => "another text\nwith lines\n".repeat(20).into_bytes(),
    }
}

/// Does it, as far as it can be done; what cannot be is no act.
fn perform(top: &Path, act: &Act) {
    let at = |number: &usize| top.join(stock(*number));
    let room = |path: &Path| {
        let _ = fs::create_dir_all(path.parent().expect("below the top"));
    };
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    match act {
        Act::Write(p, c) => {
            let path = at(p);
            room(&path);
            // Never through a link or into a pipe.
            if is_file(&path) || fs::symlink_metadata(&path).is_err() {
                let _ = fs::write(path, content(*c));
            }
        }
        Act::Dir(p) => {
            let _ = fs::create_dir_all(at(p));
        }
        Act::Remove(p) => {
            let path = at(p);
            let is_dir = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
            let _ = if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
        Act::Rename(p, q) => {
            room(&at(q));
            let _ = fs::rename(at(p), at(q));
        }
        Act::Link(p, c) => {
            room(&at(p));
            // Never in a circle: git stumbles over what a circle of links leaves.
            let _ = symlink(format!("no/where{c}"), at(p));
        }
        Act::HardLink(p, q) => {
            room(&at(q));
            if is_file(&at(p)) {
                let _ = fs::hard_link(at(p), at(q));
            }
        }
        Act::Mode(p, mode) => {
            let path = at(p);
            if let Ok(meta) = fs::symlink_metadata(&path)
                && !meta.is_symlink()
            {
                chmod(path, if meta.is_dir() { 0o700 | mode } else { 0o400 | mode });
            }
        }
        Act::Fifo(p) => {
            room(&at(p));
            if fs::symlink_metadata(at(p)).is_err() && at(p).parent().is_some_and(Path::is_dir) {
                fifo(at(p));
            }
        }
        Act::Attribute(p, value) => {
            if is_file(&at(p)) || (at(p).is_dir() && !at(p).is_symlink()) {
                xattr(at(p), "user.test", &value.to_string());
            }
        }
    }
}

fn act(plain: bool) -> impl Strategy<Value = Act> {
    let path = || 0..400usize;
    let special = if plain { 0 } else { 1 };
    prop_oneof![
        6 => (path(), 0..200usize).prop_map(|(p, c)| Act::Write(p, c)),
        2 => path().prop_map(Act::Dir),
        3 => path().prop_map(Act::Remove),
        4 => (path(), path()).prop_map(|(p, q)| Act::Rename(p, q)),
        1 => (path(), path()).prop_map(|(p, c)| Act::Link(p, c)),
        1 => (path(), path()).prop_map(|(p, q)| Act::HardLink(p, q)),
        2 => (path(), prop_oneof![Just(0o755u32), Just(0o644), Just(0o711), Just(0o666)]).prop_map(|(p, m)| Act::Mode(p, m)),
        special => path().prop_map(Act::Fifo),
        special => (path(), 0..3u8).prop_map(|(p, v)| Act::Attribute(p, v)),
    ]
}

fn acts(plain: bool, len: usize) -> impl Strategy<Value = Vec<Act>> {
    proptest::collection::vec(act(plain), 0..len)
}

fn world(fill: &[Act], change: &[Act]) -> World {
    World::new(
        |o| fill.iter().for_each(|act| perform(o, act)),
        |l| change.iter().for_each(|act| perform(l, act)),
    )
}

struct FailAt(std::cell::Cell<usize>);

impl Faults for FailAt {
    fn at(&self, _: &'static str, _: &TreePath) -> Result<(), Errno> {
        let left = self.0.get();
        self.0.set(left.wrapping_sub(1));
        if left == 0 { Err(Errno::IO) } else { Ok(()) }
    }
}

/// Few cases by default; `PROPTEST_CASES` asks for more.
fn config() -> ProptestConfig {
    let asked = ProptestConfig::default();
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { asked.cases } else { 40 };
    ProptestConfig { cases, max_shrink_iters: 400, failure_persistence: None, ..asked }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn keeping_everything_makes_the_origin_equal_to_the_lane(fill in acts(false, 60), change in acts(false, 40)) {
        let world = world(&fill, &change);
        let plan = world.keep_everything();
        prop_assert!(plan.is_complete(), "{:?} {:?}", plan.skipped, plan.unmatched);
        world.assert_equal();
        prop_assert!(world.set().is_empty());
    }

    #[test]
    fn keeping_a_part_and_then_the_rest_is_keeping_everything(
        fill in acts(false, 60), change in acts(false, 40), part in proptest::collection::vec(0..400usize, 1..4)
    ) {
        let world = world(&fill, &change);
        let names: Vec<String> = part.iter().map(|p| stock(*p).into_os_string().into_string().expect("text")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let plan = world.plan(&names);
        world.execute(&plan, &NoFaults).expect("kept");
        world.assert_no_residue();
        world.keep_everything();
        world.assert_equal();
    }

    #[test]
    fn a_failure_anywhere_leaves_the_origin_as_it_was(
        fill in acts(false, 60), change in acts(false, 40), at in 0..120usize
    ) {
        let world = world(&fill, &change);
        let before = Shape::of(&world.origin());
        let plan = world.plan_everything();
        if let Err(error) = world.execute(&plan, &FailAt(std::cell::Cell::new(at))) {
            if matches!(error, review::Error::NotRolledBack { .. }) {
                let (base, _) = world.trees();
                review::apply::recover(&world.journal(), &base).expect("recovered");
            }
            before.assert_same(&Shape::of(&world.origin()), "failed");
            world.assert_no_residue();
        }
    }

    #[test]
    fn a_patch_applied_by_git_gives_the_files_and_links_of_the_lane(fill in acts(true, 60), change in acts(true, 40)) {
        patches::check(&world(&fill, &change));
    }
}

#[test]
fn a_directory_that_moves_into_a_new_one_and_loses_an_entry_is_taken_back_without_a_remnant() {
    use Act::{Dir, Fifo, Link, Remove, Rename, Write};
    let fill = [
        Write(6, 4),
        Write(256, 0),
        Write(325, 1),
        Write(329, 163),
        Rename(172, 19),
        Write(58, 49),
        Write(193, 75),
    ];
    let change = [
        Remove(255),
        Dir(299),
        Write(184, 0),
        Link(20, 0),
        Write(293, 0),
        Fifo(397),
        Rename(183, 40),
        Rename(201, 256),
        Rename(30, 12),
        Rename(360, 61),
        Write(97, 0),
        Dir(395),
        Write(211, 74),
        Write(149, 11),
        Write(258, 83),
        Write(320, 110),
        Rename(192, 347),
        Dir(182),
        Write(17, 17),
        Rename(172, 371),
    ];
    for at in 0..120 {
        let world = world(&fill, &change);
        let before = Shape::of(&world.origin());
        let plan = world.plan_everything();
        if world.execute(&plan, &FailAt(std::cell::Cell::new(at))).is_err() {
            before.assert_same(&Shape::of(&world.origin()), "failed");
            world.assert_no_residue();
        }
    }
}
