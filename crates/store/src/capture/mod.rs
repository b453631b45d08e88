//! Capturing a layer: walk it, take over what is known to be unchanged, read the rest.
//!
//! Invariant: nothing below the layer is written, nothing but regular files and directories is opened, and what is not
//! in the manifest is listed. An entry is taken over only where inode and status time say that it is the very one
//! that was read, and where it was not touched too shortly before it was read for the clock to tell. In memory (tmpfs),
//! where stores through mappings have no date, files are always read.
//!
//! A lane that runs is captured like a live migration: [`Capture::pass`] while it runs, stop it, [`Capture::pass`]
//! again, which reads only what has changed since, let it go on, and only then [`Capture::finish`].

pub(crate) mod base;
mod entry;
mod known;
mod stacked;
pub(crate) mod stamps;

use std::collections::{HashMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::meta;
use kernel::publish::Draft;
use tree::dir::{entry_at, entry_of};
use tree::layer::{DirMarks, Format};
use tree::walk::{Mounts, Visit, walk_dirs, walk_dirs_ahead};
use tree::{Entry, Layer, Source, Time, TreePath};

use crate::encode::MAX_PATH;
use crate::error::{Error, Result, Stepping as _};
use crate::history::LaneKey;
use crate::id::ManifestId;
use crate::manifest::item::{Item, ItemKind};
use crate::store::Store;
use crate::writer::Writer;
use entry::Reader;
pub(crate) use known::is_settled;
use known::{Groups, Items, Known, Seen, Stamp, edits, group};
use stamps::Boot;

/// How one pass over a layer is to go.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// How the layer's marks are written.
    pub format: Format,
    /// Paths (with everything below) that are left out and not listed.
    pub skip: &'a [TreePath],
    /// Files, by device and inode, that are read whatever their times say, now and by the next pass: those that somebody
    /// has mapped writable and shared, whose stores the kernel need not date.
    pub reread: &'a HashSet<(u64, u64)>,
    /// What was touched after this is not believed to be unchanged later. `None` is the beginning of this pass; one
    /// that gathers `reread` first asks [`Store::now`] before.
    pub trusted_before: Option<Time>,
    /// Files and directories that refuse their owner are given the owner's bits while they are read. Only for a layer
    /// that nobody uses meanwhile. Without it they are gaps.
    pub open_closed: bool,
}

impl std::fmt::Debug for Pass<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pass").field("format", &self.format).finish_non_exhaustive()
    }
}

/// No file.
static NONE: std::sync::LazyLock<HashSet<(u64, u64)>> = std::sync::LazyLock::new(HashSet::new);

impl Pass<'_> {
    /// A pass over a layer that nobody uses.
    pub fn at_rest(format: Format) -> Pass<'static> {
        Pass { format, skip: &[], reread: &NONE, trusted_before: None, open_closed: true }
    }
}

/// The capture of one layer.
#[derive(Debug)]
pub struct Capture {
    lane: LaneKey,
    root: u32,
    boot: Boot,
    /// The manifest that the edits are told against, with its entries.
    base: Option<(ManifestId, Items)>,
    known: Known,
    /// Something is known that the stamps do not say.
    news: bool,
    gaps: Vec<(TreePath, String)>,
    read: u64,
}

/// Where a layer covers what an earlier capture of it did not.
#[derive(Debug)]
pub struct Fresh {
    /// The earlier capture.
    pub since: ManifestId,
    /// Entries that it did not have, or not of this type.
    pub paths: Vec<TreePath>,
    /// A directory among them hides everything below it.
    pub hides: bool,
}

impl Fresh {
    fn of(since: ManifestId, before: &[(TreePath, Arc<Item>)], seen: &[Seen]) -> Fresh {
        let mut fresh = Fresh { since, paths: Vec::new(), hides: false };
        let mut before = before.iter().peekable();
        for seen in seen {
            while before.next_if(|(path, _)| *path < seen.path).is_some() {}
            let old = before.next_if(|(path, _)| *path == seen.path).map(|(_, item)| &item.kind);
            let same = match (old, &seen.item.kind) {
                (Some(old @ ItemKind::Dir { .. }), kind @ ItemKind::Dir { .. }) => old == kind,
                (Some(old), kind) => std::mem::discriminant(old) == std::mem::discriminant(kind),
                (None, _) => false,
            };
            if !same {
                let plain = ItemKind::Dir { opaque: false, redirect: None };
                fresh.hides |= matches!(seen.item.kind, ItemKind::Dir { .. }) && seen.item.kind != plain;
                fresh.paths.push(seen.path.clone());
            }
        }
        fresh
    }
}

/// A layer that was captured. It becomes part of a snapshot by [`Writer::finish`].
#[derive(Debug)]
pub struct Captured {
    /// The layer.
    pub manifest: ManifestId,
    /// Number of entries, the root of the layer included.
    pub entries: u64,
    /// Bytes of content, of each link group once.
    pub bytes: u64,
    /// What is not in it, with the reason.
    pub gaps: Vec<(TreePath, String)>,
    /// Files that were read, by the last pass.
    pub read: u64,
    /// Files in it have several names, or something could not be looked at.
    pub linked: bool,
    /// What it has and the last capture had not; `None` where that is not known.
    pub fresh: Option<Fresh>,
    lane: LaneKey,
    root: u32,
    boot: Boot,
    known: Known,
    news: bool,
}

impl Store {
    /// The present time as this filesystem tells it.
    pub fn now(&self) -> Result<Time> {
        let file = Draft::begin(&self.stamps, 0o600).stepping("make", b"stamps")?;
        Ok(entry_of(&meta::stat_fd(&file).stepping("stat", b"stamps")?).ctime)
    }
}

impl Capture {
    /// Begins to capture a root of a lane, with what the last capture of it has left to know. `boot_id` tells runs of the
    /// machine apart: what was known before another boot is not believed.
    pub fn begin(store: &Store, lane: &LaneKey, root: u32, boot_id: &str) -> Capture {
        let boot = Boot::of(boot_id);
        let loaded = stamps::load(store, lane, root, boot);
        let (base, known) = match loaded {
            Some((manifest, known)) => {
                let items = known.seen.iter().map(|seen| (seen.path.clone(), seen.item.clone())).collect();
                (Some((manifest, items)), known)
            }
            None => (None, Known::default()),
        };
        Capture { lane: lane.clone(), root, boot, base, known, news: false, gaps: Vec::new(), read: 0 }
    }

    /// Walks the layer and reads what is not known. What the pass before has read counts as known, what it could not
    /// read is tried again. An error is the store's; what cannot be read of the layer is a gap.
    pub fn pass(&mut self, writer: &mut Writer<'_>, layer: BorrowedFd<'_>, pass: &Pass<'_>) -> Result<()> {
        let undated = meta::is_in_memory(layer).stepping("look at", b"layer")?;
        self.walk(writer, pass, undated, &mut |walk| {
            let done = walk.run(layer);
            walk.reader.close_again(layer);
            done
        })
    }

    /// The same of several layers that are to be taken as one, over `lower`.
    pub fn pass_over(
        &mut self,
        writer: &mut Writer<'_>,
        layer: &dyn Layer,
        lower: &dyn Source,
        pass: &Pass<'_>,
    ) -> Result<()> {
        let top = layer.on_disk(&TreePath::root()).stepping("look at", b"layer")?;
        let undated = match &top {
            Some((top, _)) => meta::is_in_memory(top).stepping("look at", b"layer")?,
            None => true,
        };
        self.walk(writer, pass, undated, &mut |walk| walk.run_over(layer, lower))
    }

    fn walk(
        &mut self,
        writer: &mut Writer<'_>,
        pass: &Pass<'_>,
        undated: bool,
        run: &mut dyn FnMut(&mut Walk<'_, '_, '_>) -> Result<()>,
    ) -> Result<()> {
        let begun = match pass.trusted_before {
            Some(time) => time,
            None => writer.store().now()?,
        };
        let mut walk = Walk {
            reader: Reader {
                writer,
                format: pass.format,
                open_closed: pass.open_closed,
                open_dirs: true,
                closed: Vec::new(),
            },
            pass,
            known: &self.known,
            at: 0,
            found: Known { dev: 0, trusted_before: begun, seen: Vec::with_capacity(self.known.seen.len()) },
            groups: HashMap::new(),
            cuts: Cuts::default(),
            undated,
            gaps: Vec::new(),
            read: 0,
            news: false,
        };
        let done = run(&mut walk);
        let Walk { mut found, groups, gaps, read, news, .. } = walk;
        done?;
        group(&mut found.seen, groups);
        self.news |= news || found.seen.len() != self.known.seen.len();
        (self.known, self.gaps, self.read) = (found, gaps, read);
        Ok(())
    }

    /// True where the last pass has seen what a manifest says that the capture before has left, and nothing else. False says
    /// nothing.
    pub fn is_as(&self, manifest: ManifestId) -> bool {
        !self.news && self.base.as_ref().is_some_and(|(base, _)| *base == manifest)
    }

    /// Files that look like credentials, among those that the last pass has seen.
    pub fn credentials(&self, is_credential: &dyn Fn(&TreePath) -> bool) -> Vec<TreePath> {
        let files = self.known.seen.iter().filter(|seen| matches!(seen.item.kind, ItemKind::File(_)));
        files.filter(|seen| is_credential(&seen.path)).map(|seen| seen.path.clone()).collect()
    }

    /// Stores what the last pass has seen as a manifest.
    pub fn finish(self, writer: &mut Writer<'_>) -> Result<Captured> {
        let seen = &self.known.seen;
        let manifest = match &self.base {
            Some((base, items)) => writer.edit(*base, edits(items, seen))?,
            None => writer.manifest(seen.iter().map(|seen| (seen.path.clone(), (*seen.item).clone())))?,
        };
        let fresh = self.base.as_ref().map(|(since, items)| Fresh::of(*since, items, seen));
        let first = |seen: &&Seen| seen.item.group.as_ref().is_none_or(|first| *first == seen.path);
        Ok(Captured {
            manifest,
            entries: seen.len() as u64,
            bytes: seen.iter().filter(first).map(|seen| seen.item.size()).fold(0, u64::saturating_add),
            linked: !self.gaps.is_empty() || seen.iter().any(|seen| seen.item.group.is_some()),
            fresh,
            gaps: self.gaps,
            read: self.read,
            lane: self.lane,
            root: self.root,
            boot: self.boot,
            known: self.known,
            news: self.news,
        })
    }
}

impl Captured {
    /// Leaves what is known to the next capture of this root. To be called after the snapshot was made; what
    /// goes wrong costs the next one time, and nothing else.
    pub fn remember(&self, store: &Store) -> Result<()> {
        if !self.news {
            return Ok(());
        }
        // Whoever is alone with the store clears half-written files away.
        let _held = store.hold()?;
        stamps::save(store, &self.lane, self.root, self.boot, self.manifest, &self.known)
    }
}

/// Entries from which on a second thread is worth its beginning.
const LARGE: usize = 1000;

/// Why what lies very deep is not in a snapshot.
const TOO_LONG: &str = "what lies below has a path that is too long";

/// Which directories on the way show nothing of the base. Below them a mark that cuts says nothing more, and is left out:
/// so equal trees have equal manifests, however their layers came about.
#[derive(Debug, Default)]
struct Cuts {
    /// Directories above.
    above: Vec<Above>,
}

/// A directory above what is looked at.
#[derive(Debug)]
struct Above {
    path: TreePath,
    /// It merges with one of the base.
    merges: bool,
    /// It and all above it say what they said at the last capture.
    same: bool,
}

impl Cuts {
    /// True where everything above says what it said at the last capture: so do the marks that are known below.
    fn is_same_above(&mut self, path: &TreePath) -> bool {
        while self.above.last().is_some_and(|above| !path.starts_with(&above.path) || *path == above.path) {
            self.above.pop();
        }
        self.above.last().is_none_or(|above| above.same)
    }

    /// Makes the marks of a directory what they say. Directories come in the order of a walk. `known` is what the last
    /// capture has.
    fn settle(&mut self, path: &TreePath, kind: &mut ItemKind, known: Option<&ItemKind>) {
        if !matches!(kind, ItemKind::Dir { .. }) {
            return;
        }
        let same_above = self.is_same_above(path);
        let shows = self.above.last().is_none_or(|above| above.merges);
        let mut merges = shows;
        if let ItemKind::Dir { opaque, redirect } = kind {
            *opaque &= shows;
            merges = redirect.is_some() || shows && !*opaque;
        }
        let same = same_above && known == Some(&*kind);
        self.above.push(Above { path: path.clone(), merges, same });
    }
}

struct Walk<'a, 'w, 's> {
    reader: Reader<'w, 's>,
    pass: &'a Pass<'a>,
    known: &'a Known,
    /// The next known entry.
    at: usize,
    found: Known,
    groups: Groups,
    cuts: Cuts,
    /// Not every change of content has a date here.
    undated: bool,
    gaps: Vec<(TreePath, String)>,
    read: u64,
    news: bool,
}

impl Walk<'_, '_, '_> {
    fn run(&mut self, layer: BorrowedFd<'_>) -> Result<()> {
        let root = TreePath::root();
        match entry_at(layer, b"") {
            Ok(Some(entry)) => {
                self.found.dev = entry.dev;
                self.visit((layer, b""), &root, &entry, None)?;
            }
            Ok(None) => {}
            Err(error) => return Err(error).stepping("read", b"layer"),
        }
        let (mut failed, mut long) = (None, Vec::new());
        // What is known is what there is to ask.
        let walk = if self.known.seen.len() >= LARGE { walk_dirs_ahead } else { walk_dirs };
        let gaps = walk(layer, Mounts::Stay, &mut |visited| {
            if self.pass.skip.contains(visited.path) {
                return Visit::SkipBelow;
            }
            if visited.path.as_bytes().len() > MAX_PATH {
                long.push((visited.path.clone(), TOO_LONG.to_owned()));
                return Visit::SkipBelow;
            }
            match self.visit((visited.dir, visited.name), visited.path, visited.entry, None) {
                Ok(()) => Visit::Enter,
                Err(error) => {
                    failed = Some(error);
                    Visit::Stop
                }
            }
        });
        self.gaps.extend(gaps);
        self.gaps.append(&mut long);
        self.settle_gaps();
        failed.map_or(Ok(()), Err)
    }

    fn settle_gaps(&mut self) {
        for (path, why) in &mut self.gaps {
            // No record can hold the path itself: it says where the way there ends.
            while path.as_bytes().len() > MAX_PATH {
                *path = path.parent().unwrap_or_default();
                TOO_LONG.clone_into(why);
            }
        }
        self.gaps.sort();
        self.gaps.dedup();
    }

    /// Takes an entry in. `marks` are those of a directory, where they are not to be read from it.
    fn visit(
        &mut self,
        (dir, name): (BorrowedFd<'_>, &[u8]),
        path: &TreePath,
        entry: &Entry,
        marks: Option<&DirMarks>,
    ) -> Result<()> {
        // What a mark says depends on the directories above: where they have changed, it is read again. Where it cannot be,
        // whoever reads the directory says why.
        let is_asked = marks.is_none() && entry.is_dir() && !self.cuts.is_same_above(path);
        let own = match is_asked && self.unchanged(path, entry).is_some() {
            true => tree::layer::dir_marks(dir, name, self.pass.format).ok(),
            false => None,
        };
        let marks = marks.or(own.as_ref());
        if let Some(item) = self.known_item(path, entry, marks) {
            self.take(path, Stamp { ino: entry.ino, ctime: entry.ctime }, item, entry);
            return Ok(());
        }
        match self.reader.read(dir, name, path, entry) {
            Ok(Some(mut read)) => {
                if let (ItemKind::Dir { opaque, redirect }, Some(marks)) = (&mut read.item.kind, marks) {
                    (*opaque, *redirect) = (marks.opaque, marks.redirect.clone());
                }
                let known = self.known.seen.get(self.at).filter(|seen| seen.path == *path);
                self.cuts.settle(path, &mut read.item.kind, known.map(|seen| &seen.item.kind));
                self.read += u64::from(entry.is_file());
                self.news = true;
                let mut stamp = Stamp { ino: read.entry.ino, ctime: read.entry.ctime };
                if !read.dated || self.pass.reread.contains(&(entry.dev, entry.ino)) {
                    stamp.ino = 0;
                }
                if !read.steady {
                    self.gaps.push((path.clone(), "changed while it was read".to_owned()));
                }
                self.take(path, stamp, Arc::new(read.item), entry);
            }
            // Gone since the directory was read.
            Ok(None) => {}
            Err(Error::Unreadable(error)) => self.gaps.push((path.clone(), error.to_string())),
            Err(Error::Malformed { why, .. }) => self.gaps.push((path.clone(), why.to_owned())),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// What is known of an entry, where that is still true of its marks too.
    fn known_item(&mut self, path: &TreePath, entry: &Entry, marks: Option<&DirMarks>) -> Option<Arc<Item>> {
        let item = self.unchanged(path, entry)?;
        if let ItemKind::Dir { .. } = &item.kind {
            let mut kind = match marks {
                Some(marks) => ItemKind::Dir { opaque: marks.opaque, redirect: marks.redirect.clone() },
                None => item.kind.clone(),
            };
            self.cuts.settle(path, &mut kind, Some(&item.kind));
            return (kind == item.kind).then_some(item);
        }
        Some(item)
    }

    /// What is known of an entry, where that is still true.
    fn unchanged(&mut self, path: &TreePath, entry: &Entry) -> Option<Arc<Item>> {
        while self.known.seen.get(self.at).is_some_and(|seen| seen.path < *path) {
            self.at += 1;
        }
        let seen = self.known.seen.get(self.at).filter(|seen| seen.path == *path)?;
        let same = seen.stamp == Stamp { ino: entry.ino, ctime: entry.ctime }
            && entry.dev == self.known.dev
            && seen.stamp.ino != 0
            && is_settled(entry.ctime, self.known.trusted_before)
            && match seen.item.kind {
                ItemKind::Whiteout => entry.is_whiteout(),
                ItemKind::File(_) => {
                    !self.undated && entry.size == seen.item.size() && entry.mtime == seen.item.mtime
                }
                _ => true,
            }
            && !self.pass.reread.contains(&(entry.dev, entry.ino));
        same.then(|| seen.item.clone())
    }

    fn take(&mut self, path: &TreePath, stamp: Stamp, item: Arc<Item>, entry: &Entry) {
        // The kernel makes all whiteouts of a mount names of one node.
        if entry.nlink > 1 && !entry.is_dir() && item.kind != ItemKind::Whiteout {
            self.groups.entry(entry.ino).or_default().push(self.found.seen.len());
        }
        self.found.seen.push(Seen { path: path.clone(), stamp, item });
    }
}
