//! Forks of lanes in every strategy: both show the same at first and go their own ways then, whatever becomes of the
//! other, and what each one changed is told against the same base.

use workspace::fork::{Sharing, WhyCopied};
use workspace::{LaneHome, Pool};

use crate::lane::{Lane, Shown, Way, lane, lines, shell, shown, ways};

const PROJECT: &str = "
    mkdir -p src/deep gen; echo one >src/one; echo two >src/deep/two; ln -s one src/link; echo g >gen/g
    echo keep >keep; echo gone >gone; mkdir d2f; echo x >d2f/x; umask 077; echo mode >mode";

fn tree(lane: &Lane) -> Shown {
    shown(&*lane.work.lane_tree().expect("a tree"))
}

/// What the same scripts make of a plain copy of the project.
fn plain(scripts: &[&str]) -> Shown {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("opened");
    for script in scripts {
        shell(dir.path(), script);
    }
    shown(&tree::DirTree::open(dir.path()).expect("opened"))
}

fn pool(lane: &Lane) -> Vec<String> {
    let pool = Pool::of(&lane.dir().join("state"));
    let Ok(names) = std::fs::read_dir(pool.path()) else { return Vec::new() };
    let names = names.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}

fn sealed_or_copied(way: Way, sharing: Sharing) {
    let expected = if way == Way::Copy { Sharing::Copied(WhyCopied::IsCopy) } else { Sharing::Sealed };
    assert_eq!(sharing, expected, "{way:?}");
}

#[test]
fn a_fork_shows_the_same_tells_the_same_and_then_both_go_their_own_ways() {
    for way in ways() {
        let parent = lane(way, PROJECT);
        let first = "echo more >>src/one; rm gone; rm -r d2f; echo f >d2f; mkdir -p new/n; echo n >new/n/n; chmod 755 mode; rm -r gen; mkdir gen; echo h >gen/h";
        parent.run(first);
        let (told, before) = (lines(&parent.changes()), tree(&parent));
        let (child, forked) = parent.fork("m4");
        sealed_or_copied(way, forked.sharing);
        assert_eq!(before, plain(&[PROJECT, first]), "{way:?}");
        for lane in [&parent, &child] {
            assert_eq!((lines(&lane.changes()), tree(lane)), (told.clone(), before.clone()), "{way:?}");
        }
        assert_eq!(
            workspace::base::read_stamp(&child.home).expect("read"),
            workspace::base::read_stamp(&parent.home).expect("read")
        );

        let (mine, its) = (
            "echo p >keep; rm -r new; echo back >gone",
            "rm src/one; echo c >>new/n/n; rm d2f; mkdir d2f; mv src/deep deep",
        );
        parent.run(mine);
        child.run(its);
        assert_eq!(tree(&parent), plain(&[PROJECT, first, mine]), "{way:?}");
        assert_eq!(tree(&child), plain(&[PROJECT, first, its]), "{way:?}");
        assert!(lines(&child.changes()).contains(&"D src/one".to_owned()), "{way:?}");

        // The parent goes first.
        let expected = tree(&child);
        parent.remove();
        assert_eq!(tree(&child), expected, "{way:?}");
        child.run("echo still >still; test -e new/n/n; test ! -e src/one");
        child.remove();
        assert_eq!(pool(&child), Vec::<String>::new(), "{way:?}");
    }
}

#[test]
fn a_fork_of_a_fork_of_a_fork_stands_on_all_of_them() {
    for way in ways() {
        let mut lanes = vec![lane(way, PROJECT)];
        let scripts = [
            "echo 1 >>keep; mkdir a; echo 1 >a/1; rm gone",
            "echo 2 >>keep; echo 2 >a/2; rm a/1; echo back >gone",
            "rm -r a; mkdir a; echo 3 >a/3; mv src/deep a/deep",
            "rm gone; echo 4 >>a/deep/two; mv a b",
        ];
        let mut done = vec![PROJECT];
        for (n, script) in scripts.iter().enumerate() {
            let last = lanes.last().expect("one");
            last.run(script);
            done.push(script);
            let (next, forked) = last.fork(&format!("m{n}"));
            sealed_or_copied(way, forked.sharing);
            assert_eq!(tree(&next), plain(&done), "{way:?} after {script}");
            lanes.push(next);
        }
        let told: Vec<Vec<String>> = lanes.iter().map(|lane| lines(&lane.changes())).collect();
        assert_eq!(told[4], told[3]);
        // Nobody wrote in the last one: its fork needs no layer more.
        let layers = pool(&lanes[0]).len();
        let (again, _) = lanes[4].fork("m9");
        assert_eq!((pool(&lanes[0]).len(), tree(&again)), (layers, tree(&lanes[4])));
        // Whoever stays has what he had.
        let (shown, told) = (tree(&again), lines(&again.changes()));
        for lane in lanes {
            lane.remove();
        }
        assert_eq!((tree(&again), lines(&again.changes())), (shown, told), "{way:?}");
        again.remove();
        assert_eq!(pool(&again), Vec::<String>::new(), "{way:?}");
    }
}

#[test]
fn many_forks_in_a_row_are_made_one_layer_on_the_way() {
    for way in ways() {
        let mut last = lane(way, PROJECT);
        let mut done = vec![PROJECT.to_owned()];
        let mut squashed = Vec::new();
        for n in 0..20 {
            let script = format!(
                "echo {n} >n{n}; echo {n} >>keep; mkdir -p sub/{n}; echo {n} >sub/{n}/f; rm -f n{}; rm -rf sub/{}",
                n - 3,
                n - 5
            );
            last.run(&script);
            done.push(script);
            let (next, forked) = last.fork(&format!("m{n}"));
            squashed.extend(forked.squashed.map(|squashed| (n, squashed.layers)));
            last.remove();
            last = next;
        }
        let done: Vec<&str> = done.iter().map(String::as_str).collect();
        assert_eq!(tree(&last), plain(&done), "{way:?}");
        if way != Way::Copy {
            assert_eq!(squashed, [(16, 16)], "{way:?}");
            assert_eq!(pool(&last).len(), 5, "{way:?}");
        }
        last.run("test ! -e n3; test -e n19; rm -r sub; echo more >>keep");
        last.remove();
        assert_eq!(pool(&last), Vec::<String>::new());
    }
}

#[test]
fn everything_that_a_lane_stands_on_is_brought_into_its_own_layer_again() {
    for way in ways().into_iter().filter(|way| *way != Way::Copy) {
        let parent = lane(way, PROJECT);
        parent.run("echo 1 >>keep; mkdir n; echo 1 >n/1; mv src lib; rm gone");
        let (child, _) = parent.fork("m4");
        child.run("rm n/1; echo 2 >n/2; mv lib/deep n/deep; echo l >h; ln h h2");
        let (shown, told) = (tree(&child), lines(&child.changes()));
        let of_parent = tree(&parent);
        assert!(child.work.is_stacked().expect("asked"));
        assert!(child.work.unite(&mut |_| {}).expect("united"));
        assert!(!child.work.is_stacked().expect("asked") && parent.work.is_stacked().expect("asked"));
        assert_eq!((tree(&child), lines(&child.changes())), (shown.clone(), told), "{way:?}");
        assert_eq!(tree(&parent), of_parent);
        child.run("test $(stat -c %h h) = 2; test -e n/deep/two; test ! -e gone; echo 3 >>n/2");
        // The parent's layer is its own alone now: it is taken as it is.
        assert!(parent.work.unite(&mut |_| {}).expect("united"));
        assert_eq!((tree(&parent), pool(&parent)), (of_parent, vec![]), "{way:?}");
        assert!(!parent.work.unite(&mut |_| {}).expect("nothing to do"));
    }
}

#[test]
fn hard_links_of_a_layer_stay_together_because_each_lane_has_a_copy_of_them() {
    for way in ways() {
        let parent = lane(way, "echo one >x; ln x y; echo z >z");
        parent.run("echo n >n; ln n n2; mkdir d; ln n d/n3; echo w >>x");
        let before = tree(&parent);
        let (child, forked) = parent.fork("m4");
        // The index of a mount as root speaks of the layer that is the upper.
        let (sharing, layers) = match way {
            Way::Copy => (Sharing::Copied(WhyCopied::IsCopy), 0),
            Way::OverlayRoot => (Sharing::Copied(WhyCopied::HardLinks), 0),
            _ => (Sharing::Sealed, 1),
        };
        assert_eq!((forked.sharing, pool(&parent).len()), (sharing, layers), "{way:?}");
        assert_eq!((tree(&parent), tree(&child)), (before.clone(), before), "{way:?}");
        if sharing == Sharing::Sealed {
            // One file in each, and not what stands beside it.
            let uppers = [&parent, &child].map(|lane| lane.work.layer().expect("opened").fd);
            for upper in uppers {
                let names = kernel::dir::entries(&upper).expect("listed");
                let names: Vec<Vec<u8>> = names.into_iter().map(|entry| entry.name).collect();
                assert_eq!(names, [b"d".to_vec(), b"n".to_vec(), b"n2".to_vec()], "{way:?}");
            }
            // Nothing but the file is above what both stand on: there is no layer more.
            let (again, forked) = child.fork("m5");
            assert_eq!((forked.sharing, pool(&parent).len()), (Sharing::Copied(WhyCopied::HardLinks), 1));
            assert_eq!(tree(&again), tree(&child));
            again.run("test n -ef d/n3; test n -ef n2");
        }
        child.run("test n -ef d/n3; echo more >>n2; cmp n d/n3");
        parent.run("test n -ef d/n3; test $(cat n) = n");
        if way == Way::OverlayRoot {
            // Links of the project are kept together by an index, which went along.
            child.run("test $(wc -l <y) = 2; echo again >>y; cmp x y");
        }
    }
}

#[test]
fn only_one_name_of_a_linked_file_of_the_project_was_written_and_root_sees_it_under_all_in_the_fork() {
    if !ways().contains(&Way::OverlayRoot) {
        return;
    }
    let parent = lane(Way::OverlayRoot, "echo one >x; ln x y; mkdir d; ln x d/z");
    parent.run("echo two >d/z");
    let (child, forked) = parent.fork("m4");
    assert_eq!(forked.sharing, Sharing::Copied(WhyCopied::HardLinks));
    child.run("test $(cat x) = two; test x -ef y; echo three >y; test $(cat d/z) = three");
    parent.run("test $(cat y) = two");
}

#[test]
fn renamed_directories_of_the_project_keep_their_content_in_a_fork_when_they_change_there() {
    if !ways().contains(&Way::OverlayRoot) {
        return;
    }
    let path = |text: &str| tree::TreePath::new(text).expect("a path");
    let parent = lane(Way::OverlayRoot, PROJECT);
    parent.run("mv src lib; echo n >lib/n");
    let (child, _) = parent.fork("m4");
    child.run("mv lib/deep deep; echo c >deep/c");
    let shown = tree(&child);
    assert!(child.work.stand_alone(&[path("keep")], false).expect("asked"));
    assert!(!child.work.stand_alone(&[path("src")], false).expect("asked"));
    assert!(child.work.stand_alone(&[path("src")], true).expect("brought"));
    shell(&child.origin, "rm -r src; mkdir src; echo other >src/other");
    assert_eq!(tree(&child), shown);
}

#[test]
fn a_discarded_fork_in_the_making_leaves_the_parent_as_it_was() {
    for way in ways() {
        let parent = lane(way, PROJECT);
        parent.run("echo 1 >>keep; mkdir n; echo 1 >n/1");
        let before = (tree(&parent), lines(&parent.changes()));
        let (child, _) = parent.fork_unfinished("m4");
        assert!(child.home.is_forking().expect("asked"));
        drop(child);
        let state = parent.dir().join("state");
        let known = |id: &str| id == "k3";
        let found = workspace::recover::remnants(&state, &known, std::time::Duration::MAX).expect("looked");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(workspace::recover::clear(&state, &found[0]).expect("cleared"));
        assert_eq!((tree(&parent), lines(&parent.changes())), before, "{way:?}");
        assert!(matches!(LaneHome::open(&state, "m4"), Err(workspace::Error::Missing { .. })));
        let (child, _) = parent.fork("m5");
        assert_eq!((tree(&child), lines(&child.changes())), before, "{way:?}");
    }
}

#[test]
fn layers_beside_the_project_are_sealed_beside_it_and_go_with_the_last_lane() {
    for way in ways() {
        let parent = crate::lane::lane_beside(way, PROJECT);
        parent.run("echo 1 >>keep");
        let (child, _) = parent.fork("m4");
        child.run("echo 2 >>keep");
        parent.run("test $(wc -l <keep) = 2");
        let place = parent.dir().join("beside");
        if way != Way::Copy {
            assert!(place.join("layers/k3-1/keep").is_file(), "{way:?}");
        }
        parent.remove();
        child.run("test $(wc -l <keep) = 3");
        child.remove();
        assert!(!place.exists(), "{way:?}");
    }
}
