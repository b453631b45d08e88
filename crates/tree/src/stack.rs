//! [`Stack`]: several layers as the one upper layer that would show the same over any lower tree.
//!
//! A lane's own layer may stand on sealed ones, which are former uppers. Whoever looks at the lane against its base
//! wants one layer: the top-most mention of a name, whiteouts included, and marks that say what of the base merges
//! with a directory after all layers have had their word. A whiteout of any layer stays one, a cut of any layer makes a
//! directory opaque, and redirects through several layers become one that names a path of the base.
//!
//! Invariant: the merge rules are those of [`crate::union`]. The lower of two layers is asked by the paths of the tree
//! that it and the base make, which is what a redirect of the upper one names. Whiteouts by attribute do not count:
//! the kernel makes none in an upper layer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use kernel::{Errno, Error, Result};

use crate::dir::DirTree;
use crate::entry::Entry;
use crate::layer::{DirMarks, Format, Redirect};
use crate::path::TreePath;
use crate::source::{Opened, Xattr};
use crate::union::merges_with;
use crate::upper::{DirLayer, Layer, LayerName, OnDisk};

/// Layers as one. A reading of one moment: directories are looked up once.
pub struct Stack<'a>(Box<dyn Layer + 'a>);

impl<'a> Stack<'a> {
    /// `layers`, the topmost first, as one. No layers at all: `EINVAL`.
    pub fn new(layers: Vec<Box<dyn Layer + 'a>>) -> Result<Stack<'a>> {
        let mut upward = layers.into_iter().rev();
        let mut all = upward.next().ok_or_else(|| Error::new("stack", b"", Errno::INVAL))?;
        for top in upward {
            all = Box::new(Two { top, below: all, places: Mutex::new(HashMap::new()) });
        }
        Ok(Stack(all))
    }

    /// Directories as layers, `top` first.
    pub fn of_dirs(top: OwnedFd, below: Vec<OwnedFd>, format: Format) -> Result<Stack<'static>> {
        let layer = |fd| Box::new(DirLayer::new(DirTree::from_fd(fd), format)) as Box<dyn Layer>;
        Stack::new(std::iter::once(top).chain(below).map(layer).collect())
    }
}

impl fmt::Debug for Stack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stack")
    }
}

impl Layer for Stack<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        self.0.entry(path)
    }

    fn marks(&self, path: &TreePath) -> Result<DirMarks> {
        self.0.marks(path)
    }

    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>> {
        self.0.names(path, all)
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        self.0.open(path)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        self.0.xattrs(path)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        self.0.open_seen(path)
    }

    fn is_xattr_whiteout(&self, path: &TreePath) -> Result<bool> {
        self.0.is_xattr_whiteout(path)
    }

    fn is_metadata_only(&self, path: &TreePath) -> Result<bool> {
        self.0.is_metadata_only(path)
    }

    fn on_disk(&self, path: &TreePath) -> Result<Option<OnDisk>> {
        self.0.on_disk(path)
    }
}

/// One layer over another one.
struct Two<'a> {
    top: Box<dyn Layer + 'a>,
    below: Box<dyn Layer + 'a>,
    places: Mutex<HashMap<TreePath, Option<Place>>>,
}

/// A directory of both as one layer.
#[derive(Clone)]
struct Place {
    /// The top layer has it, under the same path.
    top: bool,
    /// What of the tree below merges with it.
    low: Option<Low>,
}

/// A directory of the tree that the lower layer and the base make.
#[derive(Clone)]
struct Low {
    path: TreePath,
    /// The lower layer has it.
    has: bool,
    /// What of the base merges with it there, by the marks alone.
    through: Option<TreePath>,
}

impl Place {
    fn through(&self) -> Option<&TreePath> {
        self.low.as_ref().and_then(|low| low.through.as_ref())
    }
}

/// Directories remembered at most; more would only cost memory.
const PLACES: usize = 16 * 1024;

impl Two<'_> {
    /// The directory at `path`; `None` where neither layer has one there.
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
                    let root = Low { path: at.clone(), has: true, through: Some(at.clone()) };
                    break Some(Place { top: true, low: Some(root) });
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

    /// The directory `path`, of which `parent` is the place of the parent.
    fn step(&self, parent: &Place, path: &TreePath) -> Result<Option<Place>> {
        let top = if parent.top { self.top.entry(path)? } else { None };
        let Some(top) = top else {
            let low = self.below_of(parent, path.name())?.filter(|low| low.has);
            return Ok(low.map(|low| Place { top: false, low: Some(low) }));
        };
        if !top.is_dir() {
            return Ok(None);
        }
        let marks = self.top.marks(path)?;
        let low = match &marks.redirect {
            _ if marks.opaque => None,
            Some(Redirect::Path(from)) => self.low_at(from)?,
            Some(Redirect::Name(from)) => self.below_of(parent, from)?,
            None => self.below_of(parent, path.name())?,
        };
        Ok(Some(Place { top: true, low }))
    }

    fn below_of(&self, parent: &Place, name: &[u8]) -> Result<Option<Low>> {
        parent.low.as_ref().map_or(Ok(None), |low| self.low_in(low, name))
    }

    /// The directory `name` in `dir`; `None` where nothing can be there: the lower layer hides it.
    fn low_in(&self, dir: &Low, name: &[u8]) -> Result<Option<Low>> {
        let path = dir.path.join(name);
        let beside = dir.through.as_ref().map(|through| through.join(name));
        let entry = if dir.has { self.below.entry(&path)? } else { None };
        Ok(match entry {
            None => beside.map(|through| Low { path, has: false, through: Some(through) }),
            Some(entry) if entry.is_dir() => {
                let through = merges_with(&self.below.marks(&path)?, dir.through.as_ref(), name);
                Some(Low { path, has: true, through })
            }
            Some(_) => None,
        })
    }

    fn low_at(&self, path: &TreePath) -> Result<Option<Low>> {
        let root = TreePath::root();
        let mut low = Some(Low { path: root.clone(), has: true, through: Some(root) });
        for name in path.components() {
            low = match low {
                Some(dir) => self.low_in(&dir, name)?,
                None => return Ok(None),
            };
        }
        Ok(low)
    }

    /// The layer that has the top-most mention of `path`, with the path there.
    fn find(&self, path: &TreePath) -> Result<Option<(&dyn Layer, TreePath, Entry)>> {
        let Some(parent) = path.parent() else {
            return Ok(self.top.entry(path)?.map(|entry| (&*self.top, path.clone(), entry)));
        };
        let Some(place) = self.place(&parent)? else { return Ok(None) };
        if place.top
            && let Some(entry) = self.top.entry(path)?
        {
            return Ok(Some((&*self.top, path.clone(), entry)));
        }
        let Some(low) = place.low.filter(|low| low.has) else { return Ok(None) };
        let at = low.path.join(path.name());
        Ok(self.below.entry(&at)?.map(|entry| (&*self.below, at, entry)))
    }

    fn require(&self, path: &TreePath) -> Result<(&dyn Layer, TreePath)> {
        let (layer, at, _) = self.find(path)?.ok_or_else(|| not_there(path))?;
        Ok((layer, at))
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

impl Layer for Two<'_> {
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        Ok(self.find(path)?.map(|(_, _, entry)| entry))
    }

    fn marks(&self, path: &TreePath) -> Result<DirMarks> {
        let Some(parent) = path.parent() else { return Ok(DirMarks::default()) };
        let place = self.place(path)?.ok_or_else(|| not_there(path))?;
        let above = self.place(&parent)?;
        let above = above.as_ref().and_then(Place::through);
        let through = place.through().cloned();
        let plain = above.map(|dir| dir.join(path.name()));
        let redirect = through.clone().filter(|through| plain.as_ref() != Some(through));
        // Two ways to say one thing are one here, as the kernel says it: no cut where nothing shows anyway, a name
        // where that is enough.
        let redirect = redirect.map(|from| match from.parent() {
            Some(dir) if Some(&dir) == above => Redirect::Name(from.name().to_vec()),
            _ => Redirect::Path(from),
        });
        Ok(DirMarks { opaque: through.is_none() && above.is_some(), xattr_whiteouts: false, redirect })
    }

    fn names(&self, path: &TreePath, all: bool) -> Result<Vec<LayerName>> {
        let place = self.place(path)?.ok_or_else(|| not_there(path))?;
        let low = place.low.filter(|low| low.has);
        let Some(low) = low else { return self.top.names(path, all) };
        let below = self.below.names(&low.path, all)?;
        if !place.top {
            return Ok(below);
        }
        let mut names: BTreeMap<Vec<u8>, Option<Entry>> = below.into_iter().collect();
        names.extend(self.top.names(path, all)?);
        Ok(names.into_iter().collect())
    }

    fn open(&self, path: &TreePath) -> Result<OwnedFd> {
        let (layer, at) = self.require(path)?;
        layer.open(&at)
    }

    fn xattrs(&self, path: &TreePath) -> Result<Vec<Xattr>> {
        let (layer, at) = self.require(path)?;
        layer.xattrs(&at)
    }

    fn open_seen(&self, path: &TreePath) -> Result<Opened> {
        let (layer, at) = self.require(path)?;
        layer.open_seen(&at)
    }

    fn is_xattr_whiteout(&self, _path: &TreePath) -> Result<bool> {
        Ok(false)
    }

    fn is_metadata_only(&self, path: &TreePath) -> Result<bool> {
        let (layer, at) = self.require(path)?;
        layer.is_metadata_only(&at)
    }

    fn on_disk(&self, path: &TreePath) -> Result<Option<OnDisk>> {
        let (layer, at) = self.require(path)?;
        layer.on_disk(&at)
    }
}

fn not_there(path: &TreePath) -> Error {
    Error::new("stack", path.as_bytes(), Errno::NOENT)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use kernel::{node, open, xattr};

    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::new(text).expect("valid path")
    }

    struct Layers {
        dir: tempfile::TempDir,
        names: Vec<&'static str>,
    }

    impl Layers {
        fn new(names: &[&'static str]) -> Layers {
            let dir = tempfile::tempdir().expect("temporary directory");
            for name in names {
                fs::create_dir(dir.path().join(name)).expect("mkdir");
            }
            Layers { dir, names: names.to_vec() }
        }

        fn file(&self, at: &str) {
            let file = self.dir.path().join(at);
            fs::create_dir_all(file.parent().expect("parent")).expect("mkdir");
            fs::write(file, at).expect("write");
        }

        fn dir(&self, at: &str, mark: &str, value: &str) {
            fs::create_dir_all(self.dir.path().join(at)).expect("mkdir");
            if !mark.is_empty() {
                let fd = open::root_dir(&self.dir.path().join(at)).expect("open");
                let name = Format::User.mark(mark.as_bytes());
                xattr::set(&fd, &name, value.as_bytes()).expect("xattr");
            }
        }

        fn gone(&self, at: &str) {
            let at = self.dir.path().join(at);
            fs::create_dir_all(at.parent().expect("parent")).expect("mkdir");
            let parent = open::root_dir(at.parent().expect("parent")).expect("open");
            node::whiteout_at(&parent, at.file_name().expect("name").as_encoded_bytes()).expect("mknod");
        }

        fn stack(&self) -> Stack<'static> {
            let open = |name: &&str| open::root_dir(&self.dir.path().join(name)).expect("open");
            let mut fds = self.names.iter().map(open);
            Stack::of_dirs(fds.next().expect("one"), fds.collect(), Format::User).expect("layers")
        }
    }

    fn shown(stack: &Stack<'_>, at: &str) -> Vec<String> {
        let word = |(name, entry): LayerName| {
            let entry = entry.expect("looked at");
            let end = if entry.is_whiteout() {
                " gone"
            } else if entry.is_dir() {
                "/"
            } else {
                ""
            };
            format!("{}{end}", name.escape_ascii())
        };
        stack.names(&path(at), true).expect("names").into_iter().map(word).collect()
    }

    #[test]
    fn the_topmost_mention_of_a_name_counts_and_whiteouts_stay() {
        let layers = Layers::new(&["top", "mid", "low"]);
        for file in ["low/d/a", "low/d/b", "low/d/c", "low/e/x", "mid/d/b", "top/d/c", "mid/again"] {
            layers.file(file);
        }
        for gone in ["mid/d/a", "top/e", "low/again"] {
            layers.gone(gone);
        }
        let stack = layers.stack();
        assert_eq!(shown(&stack, ""), ["again", "d/", "e gone"]);
        assert_eq!(shown(&stack, "d"), ["a gone", "b", "c"]);
        let read = |at: &str| kernel::bytes::read_all(stack.open(&path(at)).expect("open")).expect("read");
        assert_eq!(
            (read("d/b"), read("d/c"), read("again")),
            (b"mid/d/b".to_vec(), b"top/d/c".to_vec(), b"mid/again".to_vec())
        );
        assert_eq!(stack.entry(&path("e/x")).expect("entry"), None);
        assert!(stack.names(&path("e"), true).is_err());
    }

    #[test]
    fn a_directory_is_opaque_where_any_layer_cuts_it_off() {
        let layers = Layers::new(&["top", "mid", "low"]);
        layers.dir("low/plain/cut", "", "");
        layers.dir("top/plain/cut", "", "");
        layers.dir("mid/plain/cut", "opaque", "y");
        layers.dir("top/new", "", "");
        layers.gone("mid/new");
        layers.file("low/new/hidden");
        layers.file("low/plain/cut/hidden");
        let stack = layers.stack();
        let marks = |at: &str| stack.marks(&path(at)).expect("marks");
        assert_eq!(marks("plain"), DirMarks::default());
        assert!(marks("plain/cut").opaque && marks("new").opaque);
        assert_eq!((shown(&stack, "plain/cut"), shown(&stack, "new")), (vec![], vec![]));
    }

    #[test]
    fn a_file_of_a_lower_layer_cuts_a_directory_off_and_a_file_of_an_upper_one_hides_it() {
        let layers = Layers::new(&["top", "mid", "low"]);
        layers.file("mid/f2d");
        layers.dir("top/f2d", "", "");
        layers.file("low/f2d/x");
        layers.file("low/d2f/x");
        layers.file("top/d2f");
        let stack = layers.stack();
        assert!(stack.marks(&path("f2d")).expect("marks").opaque);
        assert_eq!(shown(&stack, "f2d"), Vec::<String>::new());
        assert_eq!(stack.entry(&path("d2f/x")).expect("entry"), None);
        assert_eq!(shown(&stack, ""), ["d2f", "f2d/"]);
    }

    #[test]
    fn no_layer_is_refused() {
        assert_eq!(Stack::new(Vec::new()).expect_err("none").errno, Errno::INVAL);
    }
}
