use std::collections::BTreeMap;

use proptest::prelude::*;
use tree::layer::Redirect;
use tree::{Time, TreePath};

use super::item::{Item, ItemKind};
use super::node::{Node, decode};
use crate::content::Content;
use crate::id::ObjectId;
use crate::store::Store;

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("valid path")
}

fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("temporary directory");
    let fd = kernel::open::root_dir(dir.path()).expect("open");
    let store = Store::create(&fd).expect("create");
    (dir, store)
}

fn plain(n: u64) -> Item {
    Item {
        kind: ItemKind::File(Content::Blob { id: ObjectId([n as u8; 32]), size: n }),
        mode: 0o644,
        uid: 1000,
        gid: 1000,
        mtime: Time { sec: n as i64, nsec: 5 },
        xattrs: Vec::new(),
        group: None,
    }
}

fn many(count: u64) -> BTreeMap<TreePath, Item> {
    (0..count).map(|n| (path(&format!("src/dir{:02}/file{n:05}.rs", n % 40)), plain(n))).collect()
}

fn items() -> impl Strategy<Value = Item> {
    let name = prop::collection::vec(1u8..255, 1..6)
        .prop_filter("a name", |name| !name.contains(&b'/') && name != b"." && name != b"..");
    let content = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..=128).prop_map(Content::Inline),
        (any::<[u8; 32]>(), any::<u64>()).prop_map(|(id, size)| Content::Blob { id: ObjectId(id), size }),
        (any::<[u8; 32]>(), any::<u64>()).prop_map(|(id, size)| Content::Parts { id: ObjectId(id), size }),
    ];
    let redirect = prop::option::of(prop_oneof![
        name.clone().prop_map(Redirect::Name),
        name.clone().prop_map(|name| Redirect::Path(TreePath::root().join(name))),
    ]);
    let kind = prop_oneof![
        4 => content.prop_map(ItemKind::File),
        2 => (any::<bool>(), redirect).prop_map(|(opaque, redirect)| ItemKind::Dir { opaque, redirect }),
        1 => name.clone().prop_map(ItemKind::Symlink),
        1 => Just(ItemKind::Fifo),
        1 => Just(ItemKind::Whiteout),
    ];
    let xattrs = prop::collection::btree_map(name.clone(), prop::collection::vec(any::<u8>(), 0..9), 0..3);
    let group = prop::option::of(name.prop_map(|name| TreePath::root().join(name)));
    (kind, 0u32..0o10000, any::<u32>(), any::<u32>(), any::<i64>(), 0u32..1_000_000_000, xattrs, group)
        .prop_map(|(kind, mode, uid, gid, sec, nsec, xattrs, group)| {
            if kind == ItemKind::Whiteout {
                return Item::whiteout();
            }
            let group = group.filter(|_| !matches!(kind, ItemKind::Dir { .. }));
            let xattrs = xattrs.into_iter().collect();
            Item { kind, mode, uid, gid, mtime: Time { sec, nsec }, xattrs, group }
        })
}

fn paths() -> impl Strategy<Value = TreePath> {
    // Few names, so that edits meet entries and paths lie below one another.
    prop::collection::vec(
        prop::sample::select(vec!["a", "b", "a.b", "a-b", "\u{e9}", "long-name-of-a-file"]),
        0..5,
    )
    .prop_map(|names| names.into_iter().fold(TreePath::root(), |path, name| path.join(name)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_item_comes_back_and_has_one_encoding(item in items()) {
        let mut out = Vec::new();
        item.put(&mut out);
        let mut take = crate::encode::Take(&out);
        prop_assert_eq!(Item::take(&mut take), Ok(item));
        prop_assert_eq!(take.end(), Ok(()));
    }

    #[test]
    fn edits_in_any_number_of_steps_give_the_manifest_of_the_whole_list(
        steps in prop::collection::vec(
            prop::collection::btree_map(paths(), prop::option::weighted(0.7, items()), 1..40), 1..5),
    ) {
        let (_dir, store) = store();
        let mut writer = store.begin().expect("begin");
        let mut model = BTreeMap::new();
        let mut id = writer.manifest([]).expect("empty");
        for step in steps {
            for (path, item) in &step {
                match item {
                    Some(item) => model.insert(path.clone(), item.clone()),
                    None => model.remove(path),
                };
            }
            let before = id;
            id = writer.edit(id, step).expect("edit");
            prop_assert_eq!(id, writer.manifest(model.clone()).expect("build"));
            let _ = before;
        }
        writer.finish_pack().expect("finish");
        let manifest = store.manifest(id);
        let read: Vec<_> = manifest.iter().expect("iter").collect::<Result<_, _>>().expect("read");
        prop_assert_eq!(read, model.clone().into_iter().collect::<Vec<_>>());
        prop_assert_eq!(manifest.count().expect("count"), model.len() as u64);
        for (path, item) in &model {
            let found = manifest.get(path).expect("get");
            prop_assert_eq!(found.as_ref(), Some(item));
        }
    }

    #[test]
    fn a_difference_is_what_comparing_both_lists_gives(
        old in prop::collection::btree_map(0u64..3000, 0u64..4, 0..1500),
        changes in prop::collection::btree_map(0u64..3000, prop::option::of(0u64..4), 0..30),
    ) {
        let entry = |(n, v): (u64, u64)| (path(&format!("d{:02}/f{n:05}", n % 17)), plain(v));
        let mut new = old.clone();
        for (n, value) in changes {
            match value {
                Some(value) => new.insert(n, value),
                None => new.remove(&n),
            };
        }
        let (_dir, store) = store();
        let mut writer = store.begin().expect("begin");
        let old: BTreeMap<TreePath, Item> = old.into_iter().map(entry).collect();
        let new: BTreeMap<TreePath, Item> = new.into_iter().map(entry).collect();
        let a = writer.manifest(old.clone()).expect("build");
        let b = writer.manifest(new.clone()).expect("build");
        writer.finish_pack().expect("finish");
        let naive: Vec<_> = old.keys().chain(new.keys()).collect::<std::collections::BTreeSet<_>>().into_iter()
            .map(|path| (path.clone(), old.get(path).cloned(), new.get(path).cloned()))
            .filter(|(_, old, new)| old != new)
            .collect();
        let found: Vec<_> =
            store.manifest(a).diff(&store.manifest(b)).expect("diff").collect::<Result<_, _>>().expect("read");
        prop_assert_eq!(found, naive);
    }

    #[test]
    fn any_bytes_are_a_node_in_one_way_or_not_at_all(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for level in [0, 1] {
            if bytes.len() > 1 {
                bytes[0] = 1;
                bytes[1] = level;
            }
            let _ = decode(&bytes);
        }
    }
}

#[test]
fn a_changed_bit_of_a_node_is_refused_or_another_node() {
    let (_dir, store) = store();
    let mut writer = store.begin().expect("begin");
    let id = writer.manifest(many(60)).expect("build");
    writer.finish_pack().expect("finish");
    let bytes = store.object(crate::ObjectKind::Node, id.object()).expect("read");
    let whole = decode(&bytes).expect("decodes");
    for at in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[at / 8] ^= 1 << (at % 8);
        assert!(decode(&bytes).is_err() || decode(&bytes) != Ok(whole.clone()), "{at}");
    }
}

#[test]
fn ten_changed_entries_of_five_thousand_rewrite_a_few_nodes_and_the_rest_is_not_read() {
    let (_dir, store) = store();
    let mut all = many(5000);
    let mut writer = store.begin().expect("begin");
    let old = writer.manifest(all.clone()).expect("build");
    let whole = writer.added();
    writer.finish_pack().expect("finish");
    let mut writer = store.begin().expect("begin");
    let paths: Vec<TreePath> = all.keys().cloned().step_by(500).collect();
    let edits: Vec<_> = paths.iter().map(|path| (path.clone(), Some(plain(9_999_999)))).collect();
    assert_eq!(edits.len(), 10);
    let new = writer.edit(old, edits.clone()).expect("edit");
    let added = writer.added();
    writer.finish_pack().expect("finish");
    assert!(added.objects <= 10 + 10 + 2, "{added:?}");
    assert!(added.bytes < 64 * 1024 && added.bytes * 6 < whole.bytes, "{added:?} of {whole:?}");
    all.extend(edits.into_iter().filter_map(|(path, item)| Some((path, item?))));
    let mut writer = store.begin().expect("begin");
    assert_eq!(writer.manifest(all).expect("build"), new);
    assert_eq!(writer.added(), Default::default());
    let differ = store.manifest(old).diff(&store.manifest(new)).expect("diff");
    assert_eq!(differ.map(|d| d.expect("read").0).collect::<Vec<_>>(), paths);
}

#[test]
fn the_longest_paths_make_a_tree_that_is_no_higher_than_others() {
    let (_dir, store) = store();
    let deep = vec!["n".repeat(250); 250].join("/");
    let all: BTreeMap<TreePath, Item> =
        (0..2000).map(|n| (path(&format!("{deep}/{n:06}")), plain(n))).collect();
    let mut writer = store.begin().expect("begin");
    let id = writer.manifest(all.clone()).expect("build");
    let some: Vec<_> = all.keys().step_by(77).map(|path| (path.clone(), Some(plain(5)))).collect();
    let edited = writer.edit(id, some.clone()).expect("edit");
    let mut expected = all;
    expected.extend(some.into_iter().filter_map(|(path, item)| Some((path, item?))));
    assert_eq!(writer.manifest(expected.clone()).expect("build"), edited);
    writer.finish_pack().expect("finish");
    let manifest = store.manifest(edited);
    assert_eq!(manifest.count().expect("count"), 2000);
    assert!(manifest.iter().expect("iter").all(|entry| entry.is_ok()));
}

#[test]
fn a_range_holds_a_directory_and_what_is_below_it_and_nothing_beside_it() {
    let (_dir, store) = store();
    let dir = || Item { kind: ItemKind::Dir { opaque: false, redirect: None }, ..plain(1) };
    let mut all: BTreeMap<TreePath, Item> = many(3000);
    for name in ["src/dir01", "src/dir01-x", "src/dir01.x"] {
        all.insert(path(name), dir());
    }
    let mut writer = store.begin().expect("begin");
    let id = writer.manifest(all.clone()).expect("build");
    writer.finish_pack().expect("finish");
    for below in ["", "src", "src/dir01", "src/dir01-x", "src/dir39/none", "zzz"] {
        let below = path(below);
        let found: Vec<TreePath> =
            store.manifest(id).below(&below).expect("read").map(|entry| entry.expect("read").0).collect();
        let naive: Vec<TreePath> = all.keys().filter(|path| path.starts_with(&below)).cloned().collect();
        assert_eq!(found, naive, "{below:?}");
    }
}

#[test]
fn skipping_ahead_goes_on_where_a_fresh_look_would_begin() {
    let (_dir, store) = store();
    let all = many(4000);
    let mut writer = store.begin().expect("begin");
    let id = writer.manifest(all.clone()).expect("build");
    writer.finish_pack().expect("finish");
    let paths: Vec<TreePath> = all.keys().cloned().collect();
    let ahead = ["src/dir00/z", "src/dir03", "src/dir03/file00083.rs", "src/dir17\u{1}", "src/dir39/x", "t"];
    for start in [0, 1, 31, 700] {
        let mut entries = store.manifest(id).iter().expect("iter");
        entries.by_ref().take(start).for_each(|entry| drop(entry.expect("read")));
        for target in ahead.map(path) {
            if paths.get(start).is_some_and(|at| *at > target) {
                continue;
            }
            entries.skip_to(&target).expect("skip");
            let next = entries.next().map(|entry| entry.expect("read").0);
            let expected = paths.iter().find(|path| **path >= target).cloned();
            assert_eq!(next, expected, "{start} {target:?}");
        }
    }
}

#[test]
fn a_node_in_the_wrong_place_is_refused() {
    let (_dir, store) = store();
    let mut writer = store.begin().expect("begin");
    let leaf = writer.manifest(many(3)).expect("build");
    let mut draft = super::node::Draft::new(1);
    for first in ["a", "b"] {
        draft.child(&super::node::Child { first: path(first), node: leaf.object(), entries: 3 });
    }
    let forged = writer.put_object(crate::ObjectKind::Node, &draft.close()).expect("put");
    writer.finish_pack().expect("finish");
    let manifest = store.manifest(crate::ManifestId(forged.0));
    assert!(manifest.iter().is_err());
    assert!(manifest.get(&path("a")).is_err());
    assert!(matches!(
        decode(&store.object(crate::ObjectKind::Node, forged).expect("read")),
        Ok(Node::Inner(..))
    ));
}
