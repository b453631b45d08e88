//! The host edits the origin while lanes stand on it: edits of files that the lane left alone are no
//! changes of the lane, edits of files that it changed are drift, in every strategy.

use std::os::fd::AsFd as _;
use std::sync::atomic::AtomicBool;

use tree::dir::DirTree;
use tree::{ChangeSet, Recall, Time};
use workspace::manifest::file_name;
use workspace::{Base, Drift, RecordOptions, drift, drift_seen, record};

use crate::lane::{Lane, Way, lane, lines, shell, ways};

const PROJECT: &str = "mkdir d; for n in a b c e; do echo base > d/$n; done; echo base > top";

/// The background walk of an overlay lane; a copy has made its own.
fn walk(lane: &Lane) {
    if lane.way == Way::Copy {
        return;
    }
    let origin = DirTree::open(&lane.origin).expect("opened");
    let since = workspace::base::read_stamp(&lane.home).expect("read").time;
    let options = RecordOptions { since: Some(since), ..RecordOptions::default() };
    record(origin.as_fd(), &options, lane.home.dir(), &file_name(0), &AtomicBool::new(false))
        .expect("recorded");
}

fn drifted(lane: &Lane) -> Vec<(String, Drift)> {
    let base = Base::load(&lane.home, 0).expect("loaded");
    let origin = DirTree::open(&lane.origin).expect("opened");
    let found = drift(&lane.changes().changes, &base, &origin).expect("judged");
    // Asked without renames, with what was seen a moment ago, and of what was written alone, the answer is the same.
    if lane.work.sees_origin() {
        let seen = |set: &ChangeSet| drift_seen(&set.changes, &base, &origin).expect("judged");
        let mut plain = Vec::new();
        let now = Time { sec: i64::MAX / 4, nsec: 0 };
        let sums = lane.work.sums(&Recall::empty(now), &mut |set| plain = seen(set)).expect("compared");
        assert_eq!(sums, lane.changes(), "{:?}", lane.way);
        assert_eq!(plain, found, "{:?}", lane.way);
        let touched = seen(&lane.work.touched().expect("read"));
        assert!(found.iter().all(|one| touched.contains(one)), "{:?}: {touched:?}", lane.way);
    }
    found.into_iter().map(|d| (d.path.as_bytes().escape_ascii().to_string(), d.what)).collect()
}

#[test]
fn edits_beside_the_lanes_own_are_no_changes_and_no_drift() {
    for way in ways() {
        let lane = lane(way, PROJECT);
        walk(&lane);
        lane.run("echo lane > d/a; echo lane > d/new");
        shell(&lane.origin, "echo host > d/b; rm d/c; echo host > d/made; echo host > host");
        assert_eq!(lines(&lane.changes()), ["M d/a", "A d/new"], "{way:?}");
        assert_eq!(drifted(&lane), [], "{way:?}");
    }
}

#[test]
fn edits_of_the_lanes_own_files_are_drift() {
    for way in ways() {
        let lane = lane(way, PROJECT);
        walk(&lane);
        lane.run("echo lane > d/a; echo lane > d/b; echo lane > d/new; rm d/e; echo lane > top");
        shell(
            &lane.origin,
            "echo host > d/a; echo host > t; mv t d/b; echo host > d/new; echo host > d/e; rm top",
        );
        let expected = [
            ("d/a", Drift::Modified),
            ("d/b", Drift::Replaced),
            ("d/e", Drift::Modified),
            ("d/new", Drift::Created),
            ("top", Drift::Deleted),
        ];
        assert_eq!(drifted(&lane), expected.map(|(name, what)| (name.to_owned(), what)), "{way:?}");
    }
}

#[test]
fn a_copy_tells_its_changes_though_the_host_deleted_their_base() {
    let lane = lane(Way::Copy, PROJECT);
    lane.run("echo lane > d/a; rm d/b");
    shell(&lane.origin, "rm -r d");
    assert_eq!(lines(&lane.changes()), ["M d/a", "D d/b"]);
    // Both deleted `d/b`: that is no conflict.
    assert_eq!(drifted(&lane), [("d/a".to_owned(), Drift::Deleted)]);
}

#[test]
fn a_copy_is_not_disturbed_by_what_the_host_writes() {
    let lane = lane(Way::Copy, PROJECT);
    shell(&lane.origin, "echo host > d/a; rm top");
    lane.run("test \"$(cat d/a)\" = base; test -e top");
    assert_eq!(lines(&lane.changes()), [""; 0]);
}
