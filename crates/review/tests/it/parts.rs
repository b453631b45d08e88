//! Parts of changes, taken through a choice, a plan and a keep: what was ticked arrives, and nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use proptest::prelude::*;
use review::apply::{Faults, NoFaults, Options, Places, execute};
use review::choice::{Choice, Lines, Part, Take};
use review::chosen::{Chosen, choose, pair_of};
use review::composed::Composed;
use review::digest::of_change;
use review::held::hold;
use review::plan::{KeepPlan, Why, Wish, plan};
use review::splice::Missing;
use review::stat::pair_diff;
use review::{Error, Result};
use testkit::Plain;
use tree::ChangeKind;

use crate::world::{Shape, World, change_rich, chmod, fill_rich, path, write, xattr};

fn whole(paths: &[&str]) -> Choice {
    let files = paths.iter().map(|text| (path(text), Take::Whole)).collect();
    Choice { files, ..Choice::default() }
}

fn with(mut choice: Choice, at: &str, part: Part) -> Choice {
    choice.files.insert(path(at), Take::Part(part));
    choice
}

/// The ids of the hunks of a file.
fn ids(world: &World, at: &str) -> Vec<String> {
    let (base, lane) = world.trees();
    let set = world.set();
    let change = set.changes.iter().find(|change| change.path == path(at)).expect("changed");
    let diff = pair_diff(&pair_of(change), &base, &lane).expect("a diff");
    diff.hunks.into_iter().map(|hunk| hunk.id).collect()
}

/// Some hunks of a file, by number.
fn hunks(world: &World, at: &str, numbers: &[usize]) -> Part {
    let ids = ids(world, at);
    let hunks = numbers.iter().map(|number| (ids[*number].clone(), Lines::All)).collect();
    Part { hunks, ..Part::default() }
}

/// Some lines of the first hunk of a file.
fn lines(world: &World, at: &str, numbers: &[u32]) -> Part {
    let id = ids(world, at)[0].clone();
    let lines = Lines::Some(numbers.iter().copied().collect());
    Part { hunks: BTreeMap::from([(id, lines)]), ..Part::default() }
}

fn chosen(world: &World, choice: &Choice) -> Result<Chosen<'static>> {
    let (base, lane) = world.trees();
    let (again, _) = world.trees();
    let tree = Composed::new(Box::new(lane), Box::new(again));
    let place = tree::DirTree::open(&world.beside()).expect("open");
    choose(&world.set(), &base, tree, choice, place.fd())
}

fn keep(world: &World, choice: &Choice) -> KeepPlan {
    let chosen = chosen(world, choice).expect("chosen");
    let (base, _) = world.trees();
    let wish = Wish { set: &chosen.set, selection: &chosen.selection, drift: &[], set_id: false };
    let plan = plan(&wish, &base, &chosen.tree).expect("a plan");
    let (staging, journal) = (world.beside(), world.journal());
    let places = Places { staging: Some(&staging), journal: &journal };
    execute(&plan, base.fd(), &chosen.tree, &places, &Options::default(), &NoFaults).expect("kept");
    world.assert_no_residue();
    plan
}

fn text(world: &World, at: &str) -> String {
    fs::read(world.origin().join(at)).map_or("-".to_owned(), |bytes| bytes.escape_ascii().to_string())
}

fn mode(world: &World, at: &str) -> u32 {
    fs::metadata(world.origin().join(at)).expect("stat").permissions().mode() & 0o7777
}

/// Twenty lines with an ending each.
fn page(edit: &[usize], ending: &str) -> String {
    (0..20).map(|i| format!("{i}{}{ending}", if edit.contains(&i) { "!" } else { "" })).collect()
}

#[test]
fn one_hunk_of_a_file_arrives_with_the_endings_of_every_line() {
    let mixed =
        |edit: &[usize]| format!("\u{feff}{}{}last", page(edit, "\r\n"), page(&[], "\n")).into_bytes();
    let world = World::new(|o| write(o.join("crlf"), mixed(&[])), |l| write(l.join("crlf"), mixed(&[1, 15])));
    let second = hunks(&world, "crlf", &[1]);
    keep(&world, &with(Choice::default(), "crlf", second));
    assert_eq!(fs::read(world.origin().join("crlf")).expect("read"), mixed(&[15]));
    // What is left is the other hunk, and then nothing.
    let rest = hunks(&world, "crlf", &[0]);
    assert_eq!(ids(&world, "crlf").len(), 1);
    keep(&world, &with(Choice::default(), "crlf", rest));
    world.assert_equal();
    assert!(world.set().is_empty());
}

#[test]
fn single_lines_of_a_new_file_and_of_a_deleted_one_are_taken() {
    let world = World::new(
        |o| {
            write(o.join("dir/sub/gone"), "a\nb\nc\n");
            chmod(o.join("dir/sub/gone"), 0o640);
            write(o.join("dir/also"), "x\n");
        },
        |l| {
            fs::remove_dir_all(l.join("dir")).expect("removed");
            write(l.join("new/file"), "1\n2\n3\n");
            chmod(l.join("new/file"), 0o600);
        },
    );
    let choice = with(whole(&["dir/also"]), "dir/sub/gone", lines(&world, "dir/sub/gone", &[2]));
    let choice = with(choice, "new/file", lines(&world, "new/file", &[1, 3]));
    keep(&world, &choice);
    assert_eq!((text(&world, "dir/sub/gone").as_str(), mode(&world, "dir/sub/gone")), ("a\\nc\\n", 0o640));
    assert_eq!((text(&world, "new/file").as_str(), mode(&world, "new/file")), ("1\\n3\\n", 0o600));
    assert_eq!(text(&world, "dir/also"), "-");
    // Every line of the deleted file is its deletion, every line of the new one the file.
    let mut rest = with(whole(&["dir", "dir/sub"]), "dir/sub/gone", lines(&world, "dir/sub/gone", &[1, 2]));
    rest = with(rest, "new/file", hunks(&world, "new/file", &[0]));
    keep(&world, &rest);
    world.assert_equal();
}

#[test]
fn a_directory_stays_where_a_part_of_a_deleted_file_in_it_stays() {
    let world = World::new(
        |o| write(o.join("dir/gone"), "a\nb\n"),
        |l| {
            fs::remove_dir_all(l.join("dir")).expect("removed");
            write(l.join("dir"), "a file now");
        },
    );
    let plan = keep(&world, &with(whole(&["dir"]), "dir/gone", lines(&world, "dir/gone", &[1])));
    assert_eq!(text(&world, "dir/gone"), "b\\n");
    assert_eq!(plan.skipped.len(), 1, "{plan:?}");
    assert_eq!(plan.skipped[0].why, Why::Holds(path("dir/gone")));
}

#[test]
fn mode_and_attributes_are_a_tick_of_their_own() {
    let fill = |o: &Path| {
        for name in ["content", "mode", "both", "part"] {
            write(o.join(name), page(&[], "\n"));
            chmod(o.join(name), 0o640);
            xattr(o.join(name), "user.a", "old");
        }
    };
    let world = World::new(fill, |l| {
        for name in ["content", "mode", "both", "part"] {
            write(l.join(name), page(&[1, 15], "\n"));
            chmod(l.join(name), 0o600);
            xattr(l.join(name), "user.a", "new");
        }
    });
    let mut choice = with(Choice::default(), "content", hunks(&world, "content", &[0, 1]));
    choice = with(choice, "mode", Part { mode: true, ..Part::default() });
    choice = with(choice, "both", Part { mode: true, ..hunks(&world, "both", &[0, 1]) });
    choice = with(choice, "part", Part { mode: true, ..hunks(&world, "part", &[1]) });
    keep(&world, &choice);
    let is = |name: &str| {
        let mut value = [0; 8];
        let len = rustix::fs::getxattr(world.origin().join(name), "user.a", &mut value).expect("read");
        (text(&world, name).matches('!').count(), mode(&world, name), value[..len].escape_ascii().to_string())
    };
    assert_eq!(is("content"), (2, 0o640, "old".to_owned()));
    assert_eq!(is("mode"), (0, 0o600, "new".to_owned()));
    assert_eq!(is("both"), (2, 0o600, "new".to_owned()));
    assert_eq!(is("part"), (1, 0o600, "new".to_owned()));
}

#[test]
fn a_rename_is_a_tick_of_its_own() {
    let fill = |o: &Path| {
        for name in ["hunk", "rename", "both", "mode"] {
            let text = format!("{name}\n{}{}", page(&[], "\n"), page(&[], "\n"));
            write(o.join(name), text);
        }
    };
    let world = World::new(fill, |l| {
        fs::create_dir(l.join("to")).expect("made");
        for name in ["hunk", "rename", "both", "mode"] {
            fs::remove_file(l.join(name)).expect("removed");
            let text = format!("{name}\n{}{}", page(&[1, 15], "\n"), page(&[], "\n"));
            write(l.join("to").join(name), text);
            chmod(l.join("to").join(name), 0o600);
        }
    });
    // Renames are found by equal content; this one has other content, and is told as such.
    let as_renames = |mut set: tree::ChangeSet| {
        for name in ["hunk", "rename", "both", "mode"] {
            let at = set.changes.iter().position(|change| change.path == path(name)).expect("deleted");
            let old = set.changes.remove(at).old;
            let to = path("to").join(name);
            let change = set.changes.iter_mut().find(|change| change.path == to).expect("added");
            change.kind = ChangeKind::Rename { from: path(name), modified: true };
            change.old = old;
        }
        set
    };
    let set = as_renames(world.set());
    let (base, lane) = world.trees();
    let part = |name: &str, numbers: &[usize]| {
        let at = path("to").join(name);
        let change = set.changes.iter().find(|change| change.path == at).expect("renamed");
        let diff = pair_diff(&pair_of(change), &base, &lane).expect("a diff");
        let hunks = numbers.iter().map(|number| (diff.hunks[*number].id.clone(), Lines::All)).collect();
        Part { hunks, ..Part::default() }
    };
    let mut choice = with(Choice::default(), "to/hunk", part("hunk", &[1]));
    choice = with(choice, "to/rename", Part { rename: true, ..Part::default() });
    choice = with(choice, "to/both", Part { rename: true, ..part("both", &[0]) });
    choice = with(choice, "to/mode", Part { mode: true, ..Part::default() });
    let (again, lane_again) = world.trees();
    let tree = Composed::new(Box::new(lane_again), Box::new(again));
    let chosen = choose(&set, &base, tree, &choice, base.fd()).expect("chosen");
    let wish = Wish { set: &chosen.set, selection: &chosen.selection, drift: &[], set_id: false };
    let plan = plan(&wish, &base, &chosen.tree).expect("a plan");
    assert!(plan.skipped.is_empty(), "{plan:?}");
    let places = Places { staging: None, journal: &world.journal() };
    execute(&plan, base.fd(), &chosen.tree, &places, &Options::default(), &NoFaults).expect("kept");
    let edits = |at: &str| text(&world, at).matches('!').count();
    assert_eq!((edits("hunk"), text(&world, "to/hunk").as_str(), mode(&world, "hunk")), (1, "-", 0o644));
    assert_eq!((edits("to/rename"), text(&world, "rename").as_str()), (0, "-"));
    assert_eq!(mode(&world, "to/rename"), 0o644);
    assert_eq!((edits("to/both"), text(&world, "both").as_str()), (1, "-"));
    assert_eq!((edits("mode"), mode(&world, "mode"), text(&world, "to/mode").as_str()), (0, 0o600, "-"));
}

#[test]
fn a_renamed_directory_takes_along_only_what_did_not_change_inside() {
    let world = World::new(
        |o| {
            for i in 0..4 {
                write(
                    o.join(format!("lib/part{i}")),
                    format!("part {i}\n{}{}", page(&[], "\n"), page(&[], "\n")),
                );
            }
            write(o.join("lib/inner/deep"), "deep".repeat(20));
            write(o.join("lib/lost"), "lost");
        },
        |l| {
            fs::rename(l.join("lib"), l.join("lib2")).expect("renamed");
            write(l.join("lib2/part1"), format!("part 1\n{}{}", page(&[1, 15], "\n"), page(&[], "\n")));
            write(l.join("lib2/added"), "added");
            fs::remove_file(l.join("lib2/lost")).expect("removed");
        },
    );
    let set = world.set();
    let dir = set.changes.iter().find(|change| change.path == path("lib2")).expect("listed");
    assert!(matches!(dir.kind, ChangeKind::Rename { .. }), "{set:?}");
    // A hunk inside alone: at the old place, and the directory stays.
    keep(&world, &with(Choice::default(), "lib2/part1", hunks(&world, "lib2/part1", &[1])));
    assert_eq!(text(&world, "lib/part1").matches('!').count(), 1);
    assert_eq!(text(&world, "lib2/part1"), "-");
    // The directory alone: what changed inside stays as it was.
    let plan = keep(&world, &whole(&["lib2"]));
    assert!(plan.is_complete(), "{plan:?}");
    assert_eq!(text(&world, "lib2/part1").matches('!').count(), 1);
    assert_eq!((text(&world, "lib2/lost").as_str(), text(&world, "lib2/added").as_str()), ("lost", "-"));
    assert!(!world.origin().join("lib").exists());
    let rest: Vec<String> =
        world.set().changes.iter().map(|c| c.path.as_path().display().to_string()).collect();
    keep(&world, &whole(&rest.iter().map(String::as_str).collect::<Vec<_>>()));
    world.assert_equal();
}

#[test]
fn a_directory_and_some_hunks_inside_it_move_together() {
    let world = World::new(
        |o| {
            for i in 0..4 {
                write(
                    o.join(format!("lib/part{i}")),
                    format!("part {i}\n{}{}", page(&[], "\n"), page(&[], "\n")),
                );
            }
        },
        |l| {
            fs::rename(l.join("lib"), l.join("lib2")).expect("renamed");
            write(l.join("lib2/part1"), format!("part 1\n{}{}", page(&[1, 15], "\n"), page(&[], "\n")));
        },
    );
    keep(&world, &with(whole(&["lib2"]), "lib2/part1", hunks(&world, "lib2/part1", &[0])));
    assert!(!world.origin().join("lib").exists());
    assert_eq!(text(&world, "lib2/part1").matches('!').count(), 1);
    assert_eq!(text(&world, "lib2/part3").len(), text(&world, "lib2/part2").len());
}

#[test]
fn what_cannot_be_taken_in_parts_is_refused_by_name() {
    let world = World::new(
        |o| {
            write(o.join("bin"), b"a\0b");
            write(o.join("text"), "a\n");
            std::os::unix::fs::symlink("a", o.join("link")).expect("linked");
        },
        |l| {
            write(l.join("bin"), b"a\0c");
            chmod(l.join("bin"), 0o600);
            write(l.join("text"), "b\n");
            fs::remove_file(l.join("link")).expect("removed");
            std::os::unix::fs::symlink("b", l.join("link")).expect("linked");
        },
    );
    let any = |id: &str| Part { hunks: BTreeMap::from([(id.to_owned(), Lines::All)]), ..Part::default() };
    let fails =
        |at: &str, part: Part| chosen(&world, &with(Choice::default(), at, part)).expect_err("refused");
    assert!(matches!(fails("bin", any("x")), Error::WholeOnly { path: at } if at == path("bin")));
    assert!(matches!(fails("link", any("x")), Error::WholeOnly { path: at } if at == path("link")));
    assert!(matches!(fails("none", any("x")), Error::NotAChange { path: at } if at == path("none")));
    let missing = fails("text", any("x"));
    assert!(matches!(missing, Error::NotInDiff { missing: Missing::Hunk(id), .. } if id == "x"));
    // The mode of a binary file is taken without its content.
    keep(&world, &with(Choice::default(), "bin", Part { mode: true, ..Part::default() }));
    assert_eq!((text(&world, "bin").as_str(), mode(&world, "bin")), ("a\\x00b", 0o600));
}

#[test]
fn a_part_of_a_guarded_file_needs_its_name_and_a_part_without_the_executable_bit_does_not() {
    let world = World::new(
        |o| {
            write(o.join(".envrc"), page(&[], "\n"));
            write(o.join("run.txt"), page(&[], "\n"));
        },
        |l| {
            write(l.join(".envrc"), page(&[1, 15], "\n"));
            write(l.join("run.txt"), page(&[1, 15], "\n"));
            chmod(l.join("run.txt"), 0o755);
        },
    );
    let mut choice = with(Choice::default(), ".envrc", hunks(&world, ".envrc", &[0]));
    choice = with(choice, "run.txt", hunks(&world, "run.txt", &[0]));
    let plan = keep(&world, &choice);
    assert_eq!((plan.steps.len(), plan.skipped.len()), (1, 1), "{plan:?}");
    assert!(matches!(plan.skipped[0].why, Why::Guarded(_)));
    choice.named.push(path(".envrc"));
    keep(&world, &with(choice, "run.txt", Part::default()));
    assert_eq!(text(&world, ".envrc").matches('!').count(), 1);
}

#[test]
fn held_content_is_kept_whatever_becomes_of_the_lane_meanwhile() {
    let world = World::new(fill_rich, change_rich);
    let mut choice = Choice::default();
    for change in world.set().changes {
        choice.named.push(change.path.clone());
        choice.files.insert(change.path, Take::Whole);
    }
    let wanted = Plain::of(&world.lane());
    let mut chosen = chosen(&world, &choice).expect("chosen");
    let (base, lane) = world.trees();
    let before: Vec<_> =
        chosen.set.changes.iter().map(|c| of_change(c, &base, &lane).expect("read")).collect();
    let place = tree::DirTree::open(&world.beside()).expect("open");
    let selection = chosen.selection.clone();
    hold(&mut chosen.set, &mut chosen.tree, place.fd(), &|change| selection.asks_for(change)).expect("held");
    let after: Vec<_> =
        chosen.set.changes.iter().map(|c| of_change(c, &base, &chosen.tree).expect("read")).collect();
    assert_eq!(before, after);
    // The same size and time, and other bytes: nothing but the content tells.
    let edit = world.lane().join("src/edit.txt");
    let stat = fs::metadata(&edit).expect("stat");
    write(edit.clone(), "ONE\nTWO\nTHREE\n".get(..stat.len() as usize).expect("as long"));
    let file = fs::File::options().append(true).open(&edit).expect("open");
    file.set_modified(stat.modified().expect("a time")).expect("set");
    let wish = Wish { set: &chosen.set, selection: &chosen.selection, drift: &[], set_id: true };
    let plan = plan(&wish, &base, &chosen.tree).expect("a plan");
    let places = Places { staging: Some(&world.beside()), journal: &world.journal() };
    execute(&plan, base.fd(), &chosen.tree, &places, &Options::default(), &NoFaults).expect("kept");
    assert!(plan.is_complete(), "{:?}", plan.skipped);
    wanted.assert_same(&Plain::of(&world.origin()));
    world.assert_no_residue();
}

#[test]
fn a_failure_at_any_step_of_a_keep_of_parts_leaves_everything_as_before() {
    struct Nth(usize, std::cell::Cell<usize>);
    impl Faults for Nth {
        fn at(&self, step: &'static str, _: &tree::TreePath) -> std::result::Result<(), kernel::Errno> {
            // A refusal there is no failure: the keep goes on without exchanging names.
            if step == "exchange at all" {
                return Ok(());
            }
            let now = self.1.replace(self.1.get() + 1);
            if now == self.0 { Err(kernel::Errno::IO) } else { Ok(()) }
        }
    }
    let world = World::new(
        |o| {
            write(o.join("a"), page(&[], "\r\n"));
            write(o.join("dir/gone"), "a\nb\nc\n");
        },
        |l| {
            write(l.join("a"), page(&[1, 15], "\r\n"));
            fs::remove_dir_all(l.join("dir")).expect("removed");
            write(l.join("new/file"), "1\n2\n");
        },
    );
    let mut choice = with(Choice::default(), "a", hunks(&world, "a", &[1]));
    choice = with(choice, "dir/gone", lines(&world, "dir/gone", &[2]));
    choice = with(choice, "new/file", lines(&world, "new/file", &[1]));
    let before = Shape::of(&world.origin());
    for at in 0.. {
        let chosen = chosen(&world, &choice).expect("chosen");
        let (base, _) = world.trees();
        let wish = Wish { set: &chosen.set, selection: &chosen.selection, drift: &[], set_id: false };
        let plan = plan(&wish, &base, &chosen.tree).expect("a plan");
        let places = Places { staging: Some(&world.beside()), journal: &world.journal() };
        let fault = Nth(at, std::cell::Cell::new(0));
        match execute(&plan, base.fd(), &chosen.tree, &places, &Options::default(), &fault) {
            Err(_) => {
                before.assert_same(&Shape::of(&world.origin()), &format!("step {at}"));
                world.assert_no_residue();
            }
            Ok(report) if report.leftover.is_some() => {
                review::apply::recover(&world.journal(), &base).expect("recovered");
                assert!(at > 10, "only {at} steps");
                break;
            }
            Ok(_) => panic!("step {at} was not reached"),
        }
    }
    assert_eq!(fs::read_to_string(world.origin().join("a")).expect("read"), page(&[15], "\r\n"));
    assert_eq!((text(&world, "dir/gone").as_str(), text(&world, "new/file").as_str()), ("a\\nc\\n", "1\\n"));
}

#[test]
fn every_change_ticked_whole_is_everything_named() {
    let world = World::new(fill_rich, change_rich);
    let mut choice = Choice::default();
    for change in world.set().changes {
        choice.named.push(change.path.clone());
        choice.files.insert(change.path, Take::Whole);
    }
    let plan = keep(&world, &choice);
    assert!(plan.is_complete(), "{:?}", plan.skipped);
    world.assert_equal();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Random ticks over one of every change: two keeps, one after the other, the second of all that is left.
    #[test]
    fn any_part_and_then_the_rest_makes_the_original_equal_to_the_lane(
        dice in prop::collection::vec(0u8..4, 40),
    ) {
        let world = World::new(fill_rich, change_rich);
        let before = Plain::of(&world.lane());
        let mut choice = Choice::default();
        for (change, dice) in world.set().changes.iter().zip(dice.iter().cycle()) {
            choice.named.push(change.path.clone());
            let at = change.path.as_path().display().to_string();
            match dice {
                0 => {}
                1 => drop(choice.files.insert(change.path.clone(), Take::Whole)),
                _ if review::chosen::has_parts(change) => {
                    let hunks = ids(&world, &at).into_iter().map(|id| {
                        let lines = if *dice == 2 { Lines::All } else { Lines::Some([1].into()) };
                        (id, lines)
                    }).collect();
                    let part = Part { hunks, mode: *dice == 3, rename: *dice == 3 };
                    choice.files.insert(change.path.clone(), Take::Part(part));
                }
                _ => {}
            }
        }
        keep(&world, &choice);
        let mut rest = Choice::default();
        for change in world.set().changes {
            rest.named.push(change.path.clone());
            rest.files.insert(change.path, Take::Whole);
        }
        let plan = keep(&world, &rest);
        prop_assert!(plan.is_complete(), "{:?}", plan.skipped);
        world.assert_equal();
        before.assert_same(&Plain::of(&world.lane()));
    }
}
