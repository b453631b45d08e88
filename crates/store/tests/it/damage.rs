//! Damage: named, with what needs it, and harmful to nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use store::fsck::{Checked, Finding, check};
use store::{ItemKind, SnapshotId, Store};

use crate::world::{World, open};

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir).expect("list").map(|item| item.expect("item").path()).collect();
    found.sort();
    found
}

fn overwrite(path: &Path, bytes: &[u8]) {
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("chmod");
    fs::write(path, bytes).expect("write");
}

fn fresh(world: &World) -> Store {
    Store::open(open(&world.dir.join("store"))).expect("open")
}

fn checked(world: &World) -> Checked {
    check(&fresh(world), &mut |_| {}).expect("check")
}

/// What each file of each snapshot reads as; `None` where it cannot be read.
fn readable(world: &World) -> BTreeMap<(SnapshotId, String), Option<Vec<u8>>> {
    let store = fresh(world);
    let mut found = BTreeMap::new();
    for (id, record) in store.history(&world.lane).expect("history").snapshots() {
        let Ok(entries) = store.manifest(record.roots[0].top).iter() else { continue };
        for entry in entries {
            let Ok((path, item)) = entry else { break };
            if let ItemKind::File(content) = item.kind {
                let name = path.as_bytes().escape_ascii().to_string();
                found.insert((id, name), store.read(&content).ok());
            }
        }
    }
    found
}

fn small_world() -> World {
    let world = World::new();
    fs::write(world.layer().join("kept"), "k".repeat(300)).expect("write");
    fs::write(world.layer().join("other"), "o".repeat(200)).expect("write");
    world.snap();
    fs::write(world.layer().join("other"), "n".repeat(210)).expect("write");
    world.snap();
    world
}

#[test]
fn a_changed_byte_anywhere_in_a_pack_is_named_and_every_other_object_is_read() {
    let world = small_world();
    assert!(checked(&world).is_clean());
    let whole = readable(&world);
    assert_eq!(whole.len(), 4);
    let packs = files(&world.dir.join("store/packs"));
    assert_eq!(packs.len(), 2);
    for pack in packs {
        let bytes = fs::read(&pack).expect("read");
        let name = pack.file_name().expect("name").to_str().expect("text").to_owned();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x21;
            overwrite(&pack, &damaged);
            let told = checked(&world);
            assert!(!told.is_clean(), "byte {at} of {} in {name}", bytes.len());
            let mut lost = 0;
            for finding in &told.findings {
                match finding {
                    Finding::Object { damage, needed_by, needs, spare } => {
                        assert_eq!(damage.place.as_ref().map(|place| &place.0), Some(&name));
                        if !spare {
                            lost += 1;
                            assert!(!needed_by.is_empty() && *needs > 0);
                        }
                    }
                    Finding::Pack { pack, .. } => assert_eq!(pack.file_name(), name),
                    other => panic!("{other:?}"),
                }
            }
            // One byte costs one object at most, which is a file or the (only) node of a manifest.
            assert!(lost <= 1, "{told:#?}");
            let now = readable(&world);
            let missing = whole.keys().filter(|key| now.get(*key).is_none_or(Option::is_none)).count();
            assert!(missing <= 2 && (lost > 0) == (missing > 0), "{at}: {missing} {told:#?}");
            assert!(
                now.iter().all(|(key, value)| value.is_none() || whole[key] == *value),
                "wrong bytes were handed out"
            );
        }
        overwrite(&pack, &bytes);
    }
    assert!(checked(&world).is_clean());
}

#[test]
fn a_pack_that_is_cut_off_anywhere_gives_what_is_left_of_it() {
    let world = small_world();
    let whole = readable(&world);
    for pack in files(&world.dir.join("store/packs")) {
        let bytes = fs::read(&pack).expect("read");
        for len in (0..bytes.len()).step_by(7) {
            overwrite(&pack, &bytes[..len]);
            assert!(!checked(&world).is_clean());
            assert!(readable(&world).iter().all(|(key, value)| value.is_none() || whole[key] == *value));
        }
        // The footer alone is gone: nothing is lost.
        overwrite(&pack, &bytes[..bytes.len() - 1]);
        assert_eq!(readable(&world), whole);
        assert!(matches!(checked(&world).findings[..], [Finding::Pack { .. }]));
        overwrite(&pack, &bytes);
    }
}

#[test]
fn a_pack_that_is_gone_costs_only_what_was_in_it() {
    let world = small_world();
    let whole = readable(&world);
    for pack in files(&world.dir.join("store/packs")) {
        let aside = world.dir.join("aside");
        fs::rename(&pack, &aside).expect("move");
        let told = checked(&world);
        assert!(
            told.findings.iter().all(|finding| matches!(finding, Finding::Object { needs: 1.., .. })),
            "{told:#?}"
        );
        assert!(!told.is_clean());
        assert!(readable(&world).iter().all(|(key, value)| value.is_none() || whole[key] == *value));
        fs::rename(&aside, &pack).expect("move");
    }
    assert_eq!(readable(&world), whole);
}

#[test]
fn a_history_with_a_torn_tail_has_its_other_snapshots_and_takes_new_ones() {
    let world = small_world();
    let log = world.dir.join("store/history/lane.log");
    let bytes = fs::read(&log).expect("read");
    let before: Vec<_> =
        world.store.history(&world.lane).expect("history").snapshots().map(|s| s.0).collect();
    for cut in [1, 30, 60] {
        overwrite(&log, &bytes[..bytes.len() - cut]);
        let history = fresh(&world).history(&world.lane).expect("history");
        assert_eq!(history.snapshots().map(|s| s.0).collect::<Vec<_>>(), before[..1]);
        assert!(checked(&world).is_clean());
        let id = world.snap();
        let history = world.store.history(&world.lane).expect("history");
        assert_eq!(history.snapshots().map(|s| s.0).collect::<Vec<_>>(), [before[0], id]);
        assert_eq!(history.strays, []);
    }
    // In the middle it is damage: the rest is read, and nothing is written over.
    let mut damaged = bytes.clone();
    damaged[60] ^= 1;
    overwrite(&log, &damaged);
    assert!(!checked(&world).is_clean());
    let id = world.snap();
    let history = world.store.history(&world.lane).expect("history");
    assert_eq!(history.snapshots().map(|s| s.0).collect::<Vec<_>>(), [before[1], id]);
    assert!(fs::read(&log).expect("read").starts_with(&damaged));
}

#[test]
fn damaged_indexes_are_named_and_made_again() {
    let world = World::new();
    for n in 0..40 {
        fs::write(world.layer().join("f"), format!("{n}").repeat(200)).expect("write");
        world.snap();
    }
    let index = files(&world.dir.join("store/index"));
    assert!(!index.is_empty());
    for file in &index {
        let mut bytes = fs::read(file).expect("read");
        let last = bytes.len() - 9;
        bytes[last] ^= 4;
        overwrite(file, &bytes);
    }
    let found = checked(&world);
    assert_eq!(found.findings.len(), index.len());
    assert!(found.findings.iter().all(|finding| matches!(finding, Finding::Index { .. })));
    fresh(&world).rebuild_index().expect("rebuild");
    assert!(checked(&world).is_clean());
    assert_eq!(readable(&world).values().filter(|content| content.is_none()).count(), 0);
}

#[test]
fn a_store_of_another_kind_is_refused_and_says_why() {
    let world = small_world();
    let format = world.dir.join("store/format");
    let text = fs::read_to_string(&format).expect("read");
    let try_open = || Store::open(open(&world.dir.join("store")));
    fs::write(&format, text.replace("version 1", "version 2")).expect("write");
    assert!(matches!(try_open(), Err(store::Error::Format(store::FormatProblem::Version(_)))));
    fs::write(&format, text.replace("incompat", "incompat zstd")).expect("write");
    assert!(matches!(try_open(), Err(store::Error::Format(store::FormatProblem::Incompat(_)))));
    fs::write(&format, text.replace("ro-compat", "ro-compat tags")).expect("write");
    let reading = try_open().expect("may be read");
    assert!(matches!(reading.begin(), Err(store::Error::Format(store::FormatProblem::ReadOnly(_)))));
    fs::remove_file(&format).expect("remove");
    assert!(matches!(try_open(), Err(store::Error::Format(store::FormatProblem::Missing))));
}
