//! [`Union`]: the merged view of layers, read without mounting it.
//!
//! Invariant: shows what the kernel would show for the same layers: an upper name hides lower ones, two
//! directories merge unless the upper one is opaque, a whiteout hides, a redirected directory merges with
//! the one that it names. A stack of more than two layers is two layers, of which the lower is a stack.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use kernel::{Errno, Error, Result};

use crate::dir::DirTree;
use crate::entry::Entry;
use crate::layer::{DirMarks, Format, Redirect};
use crate::links::LinkIndex;
use crate::path::TreePath;
use crate::source::{Opened, Source, Xattr};
use crate::upper::{DirLayer, Layer};

/// The merged view of a layer that is no directory over any other tree.
pub fn over_layer<'a>(layer: Box<dyn Layer + 'a>, lower: Box<dyn Source + 'a>) -> Box<dyn Source + 'a> {
    Box::new(Merged::of(layer, lower, Stands::Top))
}

/// The same for a mount with `index=on`. The lower tree must be the one that the index was read for.
pub fn over_layer_indexed<'a>(
    layer: Box<dyn Layer + 'a>,
    lower: Box<dyn Source + 'a>,
    index: Option<Arc<LinkIndex>>,
) -> Box<dyn Source + 'a> {
    Box::new(Merged::of(layer, lower, Stands::Top).with_index(index))
}

/// What the kernel would show for a stack of layers. A reading of one moment: directories are looked up
/// once, so make a new one after the layers have changed.
pub struct Union(Box<dyn Source>);

impl Union {
    /// The merged view of `layers` (open directories), the topmost first. No layers at all: `EINVAL`.
    pub fn new(layers: Vec<OwnedFd>, format: Format) -> Result<Union> {
        let mut upward = layers.into_iter().rev().map(DirTree::from_fd);
        let bottom = upward.next().ok_or_else(|| Error::new("union", b"", Errno::INVAL))?;
        let mut shown: Box<dyn Source> = Box::new(bottom);
        let mut rest = upward.peekable();
        while let Some(layer) = rest.next() {
            let stands = if rest.peek().is_none() { Stands::Top } else { Stands::Between };
            shown = Box::new(Merged::new(layer, shown, format, stands));
        }
        Ok(Union(shown))
    }

    /// The merged view of one layer over any other tree.
    pub fn over(upper: OwnedFd, lower: Box<dyn Source>, format: Format) -> Union {
        Union::over_indexed(upper, lower, format, None)
    }

    /// As [`Union::over`], for a mount with `index=on`. The lower tree must be the one that the index was read for.
    pub fn over_indexed(
        upper: OwnedFd,
        lower: Box<dyn Source>,
        format: Format,
        index: Option<Arc<LinkIndex>>,
    ) -> Union {
        Union(Box::new(Merged::new(DirTree::from_fd(upper), lower, format, Stands::Top).with_index(index)))
    }
}

impl fmt::Debug for Union {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Union")
    }
}

impl Source for Union {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.0.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        self.0.list(path)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        self.0.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        self.0.xattrs(path)
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        self.0.list_entries(path)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        self.0.open_seen(path)
    }
}

/// Where a layer stands: whiteouts by attribute count in all but the top one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stands {
    Top,
    Between,
}

/// A directory of the merged view.
#[derive(Clone)]
struct Place {
    /// The upper layer has it, under the same path.
    upper: bool,
    /// Where the lower tree has what merges with it.
    lower: Option<TreePath>,
    /// Empty files of the upper directory may be whiteouts.
    xattr_whiteouts: bool,
}

/// Which layer shows a path.
enum Shown {
    Nothing,
    Upper(Entry),
    Lower(TreePath, Entry),
    /// A lower file that was written under another of its names: the path is one of the index.
    Indexed(TreePath, Entry),
}

/// A name of an upper directory.
enum Listed {
    Gone,
    Unseen,
    Seen(Entry),
}

impl Listed {
    fn is_gone(&self) -> bool {
        matches!(self, Listed::Gone)
    }

    fn entry(self) -> Option<Entry> {
        match self {
            Listed::Seen(entry) => Some(entry),
            Listed::Gone | Listed::Unseen => None,
        }
    }
}

/// One layer over a tree.
pub(crate) struct Merged<'a> {
    upper: Box<dyn Layer + 'a>,
    lower: Box<dyn Source + 'a>,
    stands: Stands,
    index: Option<Arc<LinkIndex>>,
    places: Mutex<HashMap<TreePath, Option<Place>>>,
}

/// Directories remembered at most; more would only cost memory.
const PLACES: usize = 16 * 1024;

impl<'a> Merged<'a> {
    pub(crate) fn new(
        upper: DirTree,
        lower: Box<dyn Source + 'a>,
        format: Format,
        stands: Stands,
    ) -> Merged<'a> {
        Merged::of(Box::new(DirLayer::new(upper, format)), lower, stands)
    }

    pub(crate) fn of(upper: Box<dyn Layer + 'a>, lower: Box<dyn Source + 'a>, stands: Stands) -> Merged<'a> {
        Merged { upper, lower, stands, index: None, places: Mutex::new(HashMap::new()) }
    }

    pub(crate) fn with_index(mut self, index: Option<Arc<LinkIndex>>) -> Merged<'a> {
        self.index = index;
        self
    }

    /// True where `path` shows a lower file that was written under another of its names.
    pub(crate) fn is_indexed(&self, path: &TreePath) -> Result<bool> {
        Ok(matches!(self.find(path)?, Shown::Indexed(..)))
    }

    /// The directory at `path`; `None` where there is no directory.
    fn place(&self, path: &TreePath) -> Result<Option<Place>> {
        let mut missing = Vec::new();
        let mut at = path.clone();
        let mut place = loop {
            if let Some(known) = self.known(&at) {
                break known;
            }
            match at.parent() {
                Some(parent) => {
                    missing.push(at);
                    at = parent;
                }
                None => {
                    let root = self.root_place()?;
                    self.remember(&at, &Some(root.clone()));
                    break Some(root);
                }
            }
        };
        while let Some(next) = missing.pop() {
            place = match place {
                Some(parent) => self.step(&parent, &next)?,
                None => None,
            };
            self.remember(&next, &place);
        }
        Ok(place)
    }

    fn root_place(&self) -> Result<Place> {
        let root = TreePath::root();
        let marks = self.upper.marks(&root)?;
        let lower = self.lower.entry(&root)?.is_some_and(|entry| entry.is_dir());
        Ok(Place { upper: true, lower: lower.then_some(root), xattr_whiteouts: self.counts(&marks) })
    }

    fn counts(&self, marks: &DirMarks) -> bool {
        marks.xattr_whiteouts && self.stands == Stands::Between
    }

    /// The directory `path`, of which `parent` is the place of the parent.
    fn step(&self, parent: &Place, path: &TreePath) -> Result<Option<Place>> {
        match self.shown(parent, path)? {
            Shown::Nothing => Ok(None),
            Shown::Lower(lower, entry) => Ok(entry.is_dir().then_some(Place {
                upper: false,
                lower: Some(lower),
                xattr_whiteouts: false,
            })),
            Shown::Indexed(..) => Ok(None),
            Shown::Upper(entry) if !entry.is_dir() => Ok(None),
            Shown::Upper(_) => {
                let marks = self.upper.marks(path)?;
                let lower = match merges_with(&marks, parent.lower.as_ref(), path.name()) {
                    Some(lower) if self.lower_entry(&lower)?.is_some_and(|entry| entry.is_dir()) => {
                        Some(lower)
                    }
                    _ => None,
                };
                Ok(Some(Place { upper: true, lower, xattr_whiteouts: self.counts(&marks) }))
            }
        }
    }

    fn shown(&self, parent: &Place, path: &TreePath) -> Result<Shown> {
        if parent.upper
            && let Some(entry) = self.upper.entry(path)?
        {
            let gone = entry.is_whiteout() || self.gone_by_xattr(parent, path, &entry)?;
            return Ok(if gone { Shown::Nothing } else { Shown::Upper(entry) });
        }
        let Some(lower) = &parent.lower else { return Ok(Shown::Nothing) };
        let lower = lower.join(path.name());
        let Some(entry) = self.lower_entry(&lower)? else { return Ok(Shown::Nothing) };
        Ok(match self.successor(&entry)? {
            Some((name, entry)) => Shown::Indexed(name, entry),
            None => Shown::Lower(lower, entry),
        })
    }

    fn successor(&self, old: &Entry) -> Result<Option<(TreePath, Entry)>> {
        self.index.as_ref().map_or(Ok(None), |index| index.successor(old))
    }

    fn gone_by_xattr(&self, parent: &Place, path: &TreePath, entry: &Entry) -> Result<bool> {
        Ok(parent.xattr_whiteouts
            && entry.is_file()
            && entry.size == 0
            && self.upper.is_xattr_whiteout(path)?)
    }

    /// The lowest layer may hold whiteouts too, which hide nothing but are not shown.
    fn lower_entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        Ok(self.lower.entry(path)?.filter(|entry| !entry.is_whiteout()))
    }

    fn find(&self, path: &TreePath) -> Result<Shown> {
        let Some(parent) = path.parent() else {
            return Ok(self.upper.entry(path)?.map_or(Shown::Nothing, Shown::Upper));
        };
        match self.place(&parent)? {
            Some(place) => self.shown(&place, path),
            None => Ok(Shown::Nothing),
        }
    }

    /// True where a regular file of the upper layer at `path` is surely what shows there.
    fn is_plainly_upper(&self, path: &TreePath) -> Result<bool> {
        let Some(parent) = path.parent() else { return Ok(false) };
        Ok(self.place(&parent)?.is_some_and(|place| place.upper && !place.xattr_whiteouts))
    }

    fn dir_place(&self, path: &TreePath) -> Result<Place> {
        match self.place(path)? {
            Some(place) => Ok(place),
            None if matches!(self.find(path)?, Shown::Nothing) => Err(not_there(path)),
            None => Err(Error::new("union", path.as_bytes(), Errno::NOTDIR)),
        }
    }

    /// The names of the upper directory; without `all`, only what may be a whiteout is looked at.
    fn upper_names(&self, place: &Place, path: &TreePath, all: bool) -> Result<Vec<(Vec<u8>, Listed)>> {
        let mut found = Vec::new();
        for (name, entry) in self.upper.names(path, all || place.xattr_whiteouts)? {
            let listed = match entry {
                None => Listed::Unseen,
                Some(entry) => {
                    let gone = entry.is_whiteout()
                        || place.xattr_whiteouts && self.gone_by_xattr(place, &path.join(&name), &entry)?;
                    if gone { Listed::Gone } else { Listed::Seen(entry) }
                }
            };
            found.push((name, listed));
        }
        Ok(found)
    }

    fn known(&self, path: &TreePath) -> Option<Option<Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
    }

    fn remember(&self, path: &TreePath, place: &Option<Place>) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= PLACES {
            places.clear();
        }
        places.insert(path.clone(), place.clone());
    }
}

fn not_there(path: &TreePath) -> Error {
    Error::new("union", path.as_bytes(), Errno::NOENT)
}

/// The lower directory that the marks of an upper directory `name` make it merge with; `parent` is what its
/// parent merges with.
pub fn merges_with(marks: &DirMarks, parent: Option<&TreePath>, name: &[u8]) -> Option<TreePath> {
    if marks.opaque {
        return None;
    }
    match &marks.redirect {
        Some(Redirect::Path(path)) => Some(path.clone()),
        Some(Redirect::Name(other)) => parent.map(|parent| parent.join(other)),
        None => parent.map(|parent| parent.join(name)),
    }
}

impl Source for Merged<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        Ok(match self.find(path)? {
            Shown::Nothing => None,
            Shown::Upper(entry) | Shown::Lower(_, entry) | Shown::Indexed(_, entry) => Some(entry),
        })
    }

    fn list(&self, path: &TreePath) -> Result<Vec<Vec<u8>>> {
        let place = self.dir_place(path)?;
        let upper = if place.upper { self.upper_names(&place, path, false)? } else { Vec::new() };
        let Some(lower) = &place.lower else {
            return Ok(upper
                .into_iter()
                .filter(|(_, listed)| !listed.is_gone())
                .map(|(name, _)| name)
                .collect());
        };
        let mut names: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
        for (name, listed) in upper {
            names.insert(name, !listed.is_gone());
        }
        // Without looking: a whiteout in the lowest layer is met by those that ask for the entry.
        for name in self.lower.list(lower)? {
            names.entry(name).or_insert(true);
        }
        Ok(names.into_iter().filter_map(|(name, shown)| shown.then_some(name)).collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        // What opens as a regular file is no whiteout.
        if self.is_plainly_upper(path)?
            && let Ok(file) = self.upper.open(path)
        {
            return Ok(file);
        }
        match self.find(path)? {
            Shown::Nothing => Err(not_there(path)),
            Shown::Upper(_) => self.upper.open(path),
            Shown::Lower(lower, _) => self.lower.open(&lower),
            Shown::Indexed(name, _) => {
                self.index.as_ref().ok_or_else(|| not_there(path))?.files().open(&name)
            }
        }
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        match self.find(path)? {
            Shown::Nothing => Err(not_there(path)),
            Shown::Upper(_) => self.upper.xattrs(path),
            Shown::Lower(lower, _) => self.lower.xattrs(&lower),
            Shown::Indexed(name, _) => {
                self.index.as_ref().ok_or_else(|| not_there(path))?.files().xattrs(&name)
            }
        }
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        if self.is_plainly_upper(path)?
            && let Ok(opened) = self.upper.open_seen(path)
        {
            return Ok(opened);
        }
        match self.find(path)? {
            Shown::Nothing => Err(not_there(path)),
            Shown::Upper(_) => self.upper.open_seen(path),
            Shown::Lower(lower, _) => self.lower.open_seen(&lower),
            Shown::Indexed(name, _) => {
                self.index.as_ref().ok_or_else(|| not_there(path))?.files().open_seen(&name)
            }
        }
    }

    fn list_entries(&self, path: &TreePath) -> Result<Vec<(Vec<u8>, Entry)>> {
        let place = self.dir_place(path)?;
        let mut names: BTreeMap<Vec<u8>, Option<Entry>> = BTreeMap::new();
        if place.upper {
            for (name, listed) in self.upper_names(&place, path, true)? {
                names.insert(name, listed.entry());
            }
        }
        if let Some(lower) = &place.lower {
            for (name, entry) in self.lower.list_entries(lower)? {
                if names.contains_key(&name) {
                    continue;
                }
                let entry = self.successor(&entry)?.map_or(entry, |(_, successor)| successor);
                names.insert(name, (!entry.is_whiteout()).then_some(entry));
            }
        }
        Ok(names.into_iter().filter_map(|(name, entry)| entry.map(|entry| (name, entry))).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use kernel::{node, xattr};

    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).expect("valid path")
    }

    fn fill(root: &Path, files: &[&str]) -> OwnedFd {
        fs::create_dir_all(root).expect("mkdir");
        for file in files {
            let file = root.join(file);
            fs::create_dir_all(file.parent().expect("parent")).expect("mkdir");
            fs::write(&file, root.file_name().expect("name").as_encoded_bytes()).expect("write");
        }
        kernel::open::root_dir(root).expect("open")
    }

    fn read(union: &Union, at: &str) -> Vec<u8> {
        kernel::bytes::read_all(union.open(&path(at)).expect("open")).expect("read")
    }

    fn names(union: &Union, at: &str) -> Vec<String> {
        let listed = union.list(&path(at)).expect("list");
        let with_entries: Vec<Vec<u8>> =
            union.list_entries(&path(at)).expect("list").into_iter().map(|(name, _)| name).collect();
        assert_eq!(listed, with_entries);
        listed.iter().map(|name| name.escape_ascii().to_string()).collect()
    }

    #[test]
    fn three_layers_hide_and_show_in_their_order() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let bottom = fill(&dir.path().join("bottom"), &["d/one", "d/two", "d/three", "gone/x", "f"]);
        let middle = fill(&dir.path().join("middle"), &["d/two", "d/mid", "again/x"]);
        let top = fill(&dir.path().join("top"), &["d/three", "gone/y"]);
        node::whiteout_at(kernel::open::dir_beneath(&middle, b"d").expect("open"), b"one").expect("mknod");
        node::whiteout_at(&middle, b"gone").expect("mknod");
        node::whiteout_at(&top, b"again").expect("mknod");
        let union = Union::new(vec![top, middle, bottom], Format::User).expect("layers");
        assert_eq!(names(&union, ""), ["d", "f", "gone"]);
        assert_eq!(names(&union, "d"), ["mid", "three", "two"]);
        assert_eq!(names(&union, "gone"), ["y"]);
        assert_eq!(
            (read(&union, "d/two"), read(&union, "d/three"), read(&union, "f")),
            (b"middle".to_vec(), b"top".to_vec(), b"bottom".to_vec())
        );
        for absent in ["d/one", "again", "again/x", "gone/x", "f/x", "none"] {
            assert_eq!(union.entry(&path(absent)).expect("entry"), None, "{absent}");
        }
        assert_eq!(union.list(&path("f")).expect_err("a file").errno, Errno::NOTDIR);
        assert_eq!(union.list(&path("again")).expect_err("nothing").errno, Errno::NOENT);
    }

    #[test]
    fn whiteouts_by_attribute_count_in_marked_directories_of_lower_layers_only() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let bottom = fill(&dir.path().join("bottom"), &["marked/f", "plain/f", "top/f"]);
        let middle = fill(&dir.path().join("middle"), &[]);
        for (layer, name) in [("middle", "marked"), ("middle", "plain"), ("top", "top")] {
            let at = dir.path().join(layer).join(name);
            fs::create_dir_all(&at).expect("mkdir");
            fs::write(at.join("f"), b"").expect("write");
            let fd = kernel::open::root_dir(&at).expect("open");
            xattr::set_at(&fd, b"f", b"user.overlay.whiteout", b"").expect("xattr");
            if name != "plain" {
                xattr::set(&fd, b"user.overlay.opaque", b"x").expect("xattr");
            }
        }
        let top = kernel::open::root_dir(&dir.path().join("top")).expect("open");
        let union = Union::new(vec![top, middle, bottom], Format::User).expect("layers");
        assert_eq!(names(&union, "marked"), Vec::<String>::new());
        assert_eq!(names(&union, "plain"), ["f"]);
        assert_eq!(names(&union, "top"), ["f"]);
    }

    #[test]
    fn a_single_layer_is_itself_and_no_layer_is_refused() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let only = fill(&dir.path().join("only"), &["a/b"]);
        let union = Union::new(vec![only], Format::User).expect("layers");
        assert_eq!(names(&union, "a"), ["b"]);
        assert_eq!(Union::new(Vec::new(), Format::User).expect_err("no layers").errno, Errno::INVAL);
    }
}
