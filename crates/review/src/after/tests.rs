use std::collections::BTreeMap;

use tree::{Kind, Time};

use super::*;

fn path(text: &str) -> TreePath {
    TreePath::new(text).expect("a path")
}

fn entry(kind: Kind) -> Entry {
    let time = Time::default();
    Entry {
        kind,
        mode: 0o644,
        uid: 0,
        gid: 0,
        size: 0,
        mtime: time,
        ctime: time,
        ino: 0,
        dev: 0,
        nlink: 1,
        allocated: 0,
        rdev: 0,
        target: Vec::new(),
    }
}

/// `from>to`, with nothing for what is not there; `=` in front where the content is the same; a `/` at the end is a directory.
fn pair(text: &str) -> Pair {
    let (text, content_differs) = match text.strip_prefix('=') {
        Some(text) => (text, false),
        None => (text, true),
    };
    let side = |text: &str| {
        let kind = if text.ends_with('/') { Kind::Dir } else { Kind::File };
        (!text.is_empty()).then(|| (path(text.trim_end_matches('/')), entry(kind)))
    };
    let (old, new) = text.split_once('>').expect("two sides");
    Pair { old: side(old), new: side(new), content_differs }
}

fn pairs(texts: &[&str]) -> Vec<Pair> {
    texts.iter().map(|text| pair(text)).collect()
}

fn told(pairs: &[Pair]) -> Vec<String> {
    let side = |side: &Option<crate::flat::Side>| {
        side.as_ref().map_or_else(String::new, |(path, entry)| {
            let end = if entry.is_dir() { "/" } else { "" };
            format!("{}{end}", path.as_path().display())
        })
    };
    let one = |pair: &Pair| {
        let same = if pair.content_differs { "" } else { "=" };
        format!("{same}{}>{}", side(&pair.old), side(&pair.new))
    };
    pairs.iter().map(one).collect()
}

fn together(first: &[&str], then: &[&str]) -> Vec<String> {
    told(&compose(pairs(first), &pairs(then)))
}

#[test]
fn two_lists_are_one_after_the_other() {
    assert_eq!(together(&["a>a"], &["b>b"]), ["a>a", "b>b"]);
    assert_eq!(together(&["a>a"], &["a>a"]), ["a>a"]);
    assert_eq!(together(&["=a>b"], &["b>b"]), ["a>b"], "moved, then changed");
    assert_eq!(together(&["a>a"], &["=a>b"]), ["a>b"], "changed, then moved");
    assert_eq!(together(&["=a>b"], &["=b>c"]), ["=a>c"]);
    assert_eq!(together(&[">a"], &["a>a"]), [">a"]);
    assert_eq!(together(&[">a"], &["=a>b"]), [">b"], "what came and was moved is new");
    assert_eq!(together(&[">a"], &["a>"]), [""; 0]);
    assert_eq!(together(&["a>"], &[">a"]), ["a>a"]);
    assert_eq!(together(&["=a>b"], &["b>"]), ["a>"]);
    assert_eq!(together(&["=a>b"], &[">a"]), [">a", "=a>b"]);
    assert_eq!(
        together(&["d/>", "d/x>"], &[">d/", ">d/y"]),
        ["d/x>", ">d/y"],
        "the directory is what it was"
    );
    assert_eq!(together(&["=a>a"], &["=a>a"]), ["=a>a"], "two modes");
}

/// A tree as its paths, of files that hold their own path and a word.
struct Words(BTreeMap<TreePath, String>);

impl Source for Words {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        let below = || self.0.keys().any(|at| at != path && at.starts_with(path));
        Ok(match self.0.contains_key(path) {
            true => Some(entry(Kind::File)),
            false => (path.is_root() || below()).then(|| entry(Kind::Dir)),
        })
    }

    fn list(&self, dir: &TreePath) -> Result<Vec<Vec<u8>>> {
        let rest = self.0.keys().filter_map(|at| at.strip_prefix(dir));
        let names: BTreeSet<Vec<u8>> =
            rest.filter_map(|rest| rest.components().next().map(<[u8]>::to_vec)).collect();
        Ok(names.into_iter().collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        let file = kernel::bytes::memory_file()?;
        kernel::bytes::write_all_at(&file, self.0[path].as_bytes(), 0)?;
        Ok(file)
    }

    fn xattrs(&self, _: &TreePath) -> Result<Vec<Xattr>> {
        Ok(Vec::new())
    }
}

fn words(texts: &[(&str, &str)]) -> Rc<dyn Source> {
    Rc::new(Words(texts.iter().map(|(at, word)| (path(at), (*word).to_owned())).collect()))
}

fn all(tree: &dyn Source, dir: &TreePath, found: &mut Vec<String>) {
    for name in tree.list(dir).expect("listed") {
        let at = dir.join(&name);
        let entry = tree.entry(&at).expect("looked at").expect("what is listed is there");
        if entry.is_dir() {
            all(tree, &at, found);
        } else {
            let content = kernel::bytes::read_all(tree.open(&at).expect("opened")).expect("read");
            found.push(format!("{}={}", at.as_path().display(), String::from_utf8_lossy(&content)));
        }
    }
}

#[test]
fn a_tree_after_two_plans_shows_both_and_what_neither_touched() {
    let origin = words(&[("a", "o"), ("d/x", "o"), ("d/y", "o"), ("g/1", "o"), ("z", "o")]);
    let one = words(&[("a", "one"), ("e/x", "one"), ("e/y", "one"), ("n/new", "one"), ("z", "one")]);
    let first = pairs(&["a>a", "=d/>e/", "=d/x>e/x", "=d/y>e/y", ">n/", ">n/new", "g/>", "g/1>"]);
    let after: Rc<dyn Source> = Rc::new(After::new(origin, one, &first));
    let two = words(&[("e/x", "two"), ("n/more", "two"), ("g", "two")]);
    let then = pairs(&["e/x>e/x", ">n/more", ">g"]);
    let after = After::new(after, two, &then);
    let mut found = Vec::new();
    all(&after, &TreePath::root(), &mut found);
    assert_eq!(found, ["a=one", "e/x=two", "e/y=one", "g=two", "n/more=two", "n/new=one", "z=o"]);
    for gone in ["d", "d/x", "g/1"] {
        assert_eq!(after.entry(&path(gone)).expect("looked at"), None, "{gone}");
        assert!(after.open(&path(gone)).is_err() && after.xattrs(&path(gone)).is_err(), "{gone}");
    }
    assert!(after.list(&path("g")).is_err(), "it is a file now");
}

#[test]
fn a_composed_list_is_a_set_of_changes() {
    let set = as_set(pairs(&["a>a", "=b>c", ">d/", "e/>"]));
    let told: Vec<String> =
        set.changes.iter().map(|change| format!("{:?} {:?}", change.path, change.kind)).collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(set.changes.iter().any(|change| *change.old_path() == path("b") && change.path == path("c")));
}
