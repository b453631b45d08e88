use std::path::Path;

use super::{ForeignOwners, OriginFacts, caller};
use crate::mountinfo::MountTable;

#[test]
fn an_ordinary_directory_has_nothing_against_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().canonicalize().expect("exists");
    let mounts = MountTable::load().expect("readable");
    let facts = OriginFacts::gather(&path, &mounts).expect("facts");
    assert_eq!(facts.path, path);
    assert_eq!((facts.submounts.len(), facts.foreign.found(), facts.casefold), (0, false, false));
    assert_eq!(Some(facts.mount_point.as_path()), mounts.mount_of(&path).map(|m| m.mount_point.as_path()));
    assert!(!facts.fs_type.is_empty());
}

#[test]
fn what_is_no_directory_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("f");
    std::fs::write(&file, "").expect("written");
    let mounts = MountTable::load().expect("readable");
    let error = OriginFacts::gather(&file, &mounts).expect_err("a file");
    assert_eq!(error.to_string(), format!("not a directory: {}", file.display()));
    assert!(OriginFacts::gather(&dir.path().join("none"), &mounts).is_err_and(|error| error.is_not_found()));
}

#[test]
fn b13_submounts_of_a_real_table_are_found() {
    // Every machine has mounts below /; that is all this needs.
    let facts = OriginFacts::gather(Path::new("/"), &MountTable::load().expect("readable")).expect("facts");
    assert!(facts.submounts.iter().any(|point| point == Path::new("/proc")), "{:?}", facts.submounts);
}

#[test]
fn foreign_owners_are_noted_once_each_with_few_examples() {
    let mut found = ForeignOwners::default();
    for n in 0..20 {
        found.note((1, 1), (n % 3, 1), || format!("f{n}").into());
    }
    assert_eq!((found.count, found.owners.as_slice()), (13, [(0, 1), (2, 1)].as_slice()));
    assert_eq!(found.examples.len(), 5);
}

#[test]
fn a_file_of_another_owner_at_the_top_or_in_git_is_seen_at_once() {
    if caller().0 != 0 {
        // Only root can give files away; as a user the note above stands for it, and a system directory:
        let facts =
            OriginFacts::gather(Path::new("/etc"), &MountTable::load().expect("readable")).expect("facts");
        assert!(facts.foreign.owners.iter().any(|owner| owner.0 == 0 || owner.0 == 65534));
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join(".git/objects/ab")).expect("made");
    std::os::unix::fs::chown(dir.path().join(".git/objects/ab"), Some(12), Some(34)).expect("given away");
    let facts = OriginFacts::gather(dir.path(), &MountTable::load().expect("readable")).expect("facts");
    assert_eq!(facts.foreign.owners, [(12, 34)]);
    assert_eq!(facts.foreign.examples, [dir.path().join(".git/objects/ab")]);
    assert!(!facts.foreign.checked_fully);
}
