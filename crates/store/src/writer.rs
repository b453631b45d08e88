//! [`Writer`]: everything that one snapshot adds to the store, and the order in which it becomes true.
//!
//! Invariant: an id is given out only after every object behind it, the names of the files that hold them and the
//! record itself are synced, in this order. Until then nothing resolves, and what a kill leaves is an unnamed file.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use kernel::{bytes, meta};
use tree::Entry;
use tree::dir::entry_of;

use crate::content::{Content, INLINE, LARGE};
use crate::error::{Error, Result, Stepping as _};
use crate::history::{self, Event, History, LaneKey};
use crate::id::{ManifestId, ObjectId, ObjectKind, SnapshotId};
use crate::index::Index;
use crate::large::Shared;
use crate::pack::MAX_OBJECT;
use crate::pack::write::PackWriter;
use crate::record::{NewSnapshot, Record};
use crate::store::{Held, Store};

/// A pack is closed when it is this large, and another begun: what is collected later is rewritten pack by pack.
const PACK: u64 = 256 << 20;
/// So many bytes are written between two looks at the room that is left.
const LOOK: u64 = 1 << 20;
/// A file from this size on that takes less room than it is long may have holes.
const SPARSE: u64 = 64 * 1024;
/// Times that a file which changes while it is read is read again.
const AGAIN: u32 = 3;

/// A file as it was taken.
#[derive(Debug, Clone)]
pub struct Taken {
    /// Its content.
    pub content: Content,
    /// What it was when it was read.
    pub entry: Entry,
    /// False where it kept changing while it was read: the content is of no one moment.
    pub steady: bool,
    /// True where the entry's times say that this is its content: who sees them again need not read it again.
    pub dated: bool,
}

/// What a writer has added so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Objects that the store did not have.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Objects on their way into a store. Dropping it forgets them.
#[derive(Debug)]
#[must_use = "nothing is stored until the writer is finished"]
pub struct Writer<'s> {
    pub(crate) store: &'s Store,
    _held: Held,
    index: Arc<Index>,
    pack: PackWriter,
    fresh: HashSet<ObjectId>,
    /// Nodes and lists that are not published yet, for those that build upon them.
    unread: HashMap<ObjectId, Arc<[u8]>>,
    scratch: Vec<u8>,
    added: Added,
    /// What is there does not count.
    anew: bool,
    /// The lane came in: its history is there, or it was forgotten.
    entered: bool,
    /// Bytes of the filesystem that are to stay free.
    floor: u64,
    /// Bytes that were added since the room was looked at.
    unlooked: u64,
}

impl Store {
    /// Begins to add to the store. Waits while a collection removes; others may write at the same time.
    pub fn begin(&self) -> Result<Writer<'_>> {
        self.require_writable()?;
        let mut held = self.hold()?;
        // Only now: what a collection removed before must not count as there.
        let mut index = self.refresh()?;
        if index.remnants {
            drop(held);
            self.sweep()?;
            held = self.hold()?;
            index = self.refresh()?;
        }
        Ok(Writer {
            store: self,
            _held: held,
            index,
            pack: PackWriter::default(),
            fresh: HashSet::new(),
            unread: HashMap::new(),
            scratch: Vec::new(),
            added: Added::default(),
            anew: false,
            entered: false,
            floor: 0,
            unlooked: 0,
        })
    }
}

impl Writer<'_> {
    /// The store that is written to.
    pub fn store(&self) -> &Store {
        self.store
    }

    /// From now on everything is stored again, whether it is there or not: what is there may be damaged.
    pub fn anew(&mut self) {
        self.anew = true;
    }

    /// The lane has come in ([`Store::enter`]): where its history is gone when the snapshot is recorded, the lane was removed
    /// meanwhile, and no new history is made.
    pub fn entered(&mut self) {
        self.entered = true;
    }

    /// From now on adding is refused, with [`Error::NoRoom`], where it would leave less than so many bytes free.
    pub fn leave_free(&mut self, floor: u64) {
        self.floor = floor;
    }

    /// Asks whether there is room for what was added and not written yet, and for `more`.
    fn look(&mut self, more: u64) -> Result<()> {
        if self.floor == 0 {
            return Ok(());
        }
        let free = kernel::meta::room(&self.store.packs).stepping("ask for room", b"packs")?.free;
        if free < self.floor.saturating_add(self.pack.pending()).saturating_add(more) {
            return Err(Error::NoRoom { free, floor: self.floor });
        }
        self.unlooked = 0;
        Ok(())
    }

    /// What was added so far.
    pub fn added(&self) -> Added {
        self.added
    }

    /// True where an object is stored, or about to be.
    pub(crate) fn has(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.fresh.contains(id) || !self.anew && self.index.find(id).stepping("read", b"index")?.is_some())
    }

    /// Adds an object whose hash the caller has taken, unless it is there.
    pub(crate) fn put(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<()> {
        if self.has(&id)? {
            return Ok(());
        }
        self.copy(kind, id, bytes)
    }

    /// As [`Writer::put`], where a copy that is there already does not count.
    pub(crate) fn copy(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> Result<()> {
        if self.fresh.contains(&id) {
            return Ok(());
        }
        let size = bytes.len() as u64;
        if size > MAX_OBJECT {
            return Err(Error::TooLarge { what: "object", size, limit: MAX_OBJECT });
        }
        if self.pack.len() > PACK {
            self.publish_pack()?;
        }
        self.unlooked += size;
        if self.unlooked >= LOOK {
            self.look(size)?;
        }
        self.pack
            .add(self.store.packs.as_fd(), &self.store.steps, id, kind, bytes)
            .stepping("write", b"pack")?;
        self.fresh.insert(id);
        self.added.objects += 1;
        self.added.bytes += size;
        Ok(())
    }

    /// Adds an object and keeps it at hand.
    pub(crate) fn put_object(&mut self, kind: ObjectKind, bytes: &[u8]) -> Result<ObjectId> {
        let id = ObjectId::of(kind, bytes);
        self.put(kind, id, bytes)?;
        if self.fresh.contains(&id) {
            self.unread.insert(id, bytes.into());
        }
        Ok(id)
    }

    /// The bytes of an object, published or not.
    pub(crate) fn object(&self, kind: ObjectKind, id: ObjectId) -> Result<Arc<[u8]>> {
        match self.unread.get(&id) {
            Some(bytes) => Ok(bytes.clone()),
            None => Ok(self.store.object(kind, id)?.into()),
        }
    }

    /// Stores bytes as the content of a file.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<Content> {
        if bytes.len() <= INLINE {
            return Ok(Content::Inline(bytes.to_vec()));
        }
        let id = ObjectId::of(ObjectKind::Blob, bytes);
        self.put(ObjectKind::Blob, id, bytes)?;
        Ok(Content::Blob { id, size: bytes.len() as u64 })
    }

    /// Stores the content of an open file, which was `seen` before it was opened. A file that changes meanwhile is read
    /// again a few times. What cannot be read is [`Error::Unreadable`], which leaves the writer as it was.
    pub fn file(&mut self, file: BorrowedFd<'_>, seen: &Entry) -> Result<Taken> {
        let mut before = seen.clone();
        for turn in 0..=AGAIN {
            let content = match self.content(file, &before)? {
                (content, None) => content,
                // Shared in one moment: the file may have gone on, the content is whole.
                (content, Some(shared)) => {
                    return Ok(Taken { content, entry: shared.entry, steady: true, dated: shared.dated });
                }
            };
            let after = entry_of(&meta::stat_fd(file).map_err(Error::Unreadable)?);
            let same = (after.dev, after.ino, after.size) == (before.dev, before.ino, before.size)
                && (after.mtime, after.ctime) == (before.mtime, before.ctime)
                && content.size() == after.size;
            if same || turn == AGAIN {
                return Ok(Taken { content, entry: after, steady: same, dated: same });
            }
            before = after;
        }
        Err(Error::malformed("content", "it does not hold still"))
    }

    fn content(&mut self, file: BorrowedFd<'_>, seen: &Entry) -> Result<(Content, Option<Shared>)> {
        let size = seen.size;
        let sparse = size >= SPARSE && seen.allocated + SPARSE / 2 <= size;
        if (size >= LARGE || sparse)
            && let Some(large) = self.large(file, size, size < LARGE)?
        {
            return Ok((Content::Parts { id: large.id, size: large.size }, large.shared));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        // One byte more than there should be shows a file that has grown.
        let room = size as usize + 1;
        scratch.resize(room.max(scratch.len()), 0);
        let got = bytes::read_once_at(file, &mut scratch[..room], 0).map_err(Error::Unreadable);
        let content = got.and_then(|got| self.bytes(&scratch[..got]));
        self.scratch = scratch;
        content.map(|content| (content, None))
    }

    /// Closes the pack that is being made, if there is one, and publishes it.
    pub(crate) fn publish_pack(&mut self) -> Result<()> {
        if self.pack.is_empty() {
            return Ok(());
        }
        self.look(0)?;
        let pack = std::mem::take(&mut self.pack);
        pack.finish(self.store.packs.as_fd(), &self.store.steps).stepping("write", b"pack")
    }

    /// Makes everything durable and then the snapshot true. The id is whole from now on.
    pub fn finish(self, lane: &LaneKey, new: NewSnapshot) -> Result<Snapshot> {
        self.finish_after(lane, new, &History::default())
    }

    /// As [`Writer::finish`]. `history` is the lane's as the caller has read it: where nothing was added to it since, it is not
    /// read again.
    pub fn finish_after(self, lane: &LaneKey, new: NewSnapshot, history: &History) -> Result<Snapshot> {
        self.finish_with(lane, new, history).map(|(id, record)| Snapshot { id, record })
    }

    fn finish_with(
        mut self,
        lane: &LaneKey,
        new: NewSnapshot,
        history: &History,
    ) -> Result<(SnapshotId, Record)> {
        self.publish_pack()?;
        let made = history::append_after(self.store, lane, !self.entered, history, |history| {
            let record = new.into_record(lane, history);
            (record.id(), Event::Snapshot(Box::new(record)))
        })?;
        self.settle();
        match made {
            (id, Event::Snapshot(record)) => Ok((id, *record)),
            _ => Err(Error::malformed("history", "another record than was made")),
        }
    }

    /// Makes everything durable, and then says in a lane's history that a sealed layer, which its snapshots named by its
    /// id alone, is stored as `manifest`.
    pub fn finish_layer(
        mut self,
        lane: &LaneKey,
        layer: &[u8],
        manifest: ManifestId,
        time_ms: i64,
    ) -> Result<()> {
        self.publish_pack()?;
        let layer = layer.to_vec();
        history::append(self.store, lane, false, |_| ((), Event::Sealed { layer, manifest, time_ms }))?;
        self.settle();
        Ok(())
    }

    /// Publishes what was added without a snapshot: objects that are moved into a new pack, or that were lost.
    pub fn finish_pack(mut self) -> Result<()> {
        self.publish_pack()?;
        self.settle();
        Ok(())
    }

    /// Merges indexes where it is time. They are derived: what fails here has cost nobody anything.
    fn settle(&mut self) {
        if !self.index.is_due() {
            return;
        }
        let store = self.store;
        if let Ok(index) = store.refresh()
            && index.merge(store.index_dir.as_fd(), &store.steps).unwrap_or(false)
        {
            let _ = store.refresh();
        }
    }
}

/// A snapshot that was made.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// What was recorded.
    pub record: Record,
}
