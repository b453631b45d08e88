//! [`Journal`]: what a keep is about to do, on disk before it does it; and, once it is done, the record by which it can
//! be undone. It owns the form of both files and their states; it decides nothing.
//!
//! Invariant: the file is published whole (temporary name, sync, rename), ends with a checksum, and
//! names everything by inode number, so that reading it tells for each act whether it was done, and
//! undoing is the same work after a failure and after a kill. Paths are relative to the origin's
//! directory and to the staging directory, never absolute, except the staging directory's own place and the
//! places of the other roots of the same keep.

use std::os::fd::AsFd;
use std::path::PathBuf;

use kernel::publish;
use tree::{Entry, Kind, Time, TreePath};

/// Name of the journal in its directory.
pub(crate) const NAME: &[u8] = b"keep.journal";
/// Name of the lock beside it.
pub(crate) const LOCK: &[u8] = b"keep.lock";
/// Front of the names of records; the id of the keep follows.
pub(crate) const RECORD: &[u8] = b"kept.";

const MAGIC: &[u8] = b"lanekeeper keep journal 2\n";

/// How far it has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Only the staging directory may exist.
    Staging,
    /// Acts may have been done, in order.
    Moving,
    /// All is done; what is left is to close. The record of a keep that can be undone says this, too.
    Committed,
    /// A record: the keep was undone.
    Undone,
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// A plan is put into the origin.
    Keep,
    /// A keep is taken back because somebody asked for it.
    Undo,
}

/// Digest of a file's content, its attributes and its owner.
pub(crate) type Digest = [u8; 32];

/// One object as it was when we last looked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Relative to the object that is put in place or taken away.
    pub(crate) path: TreePath,
    pub(crate) kind: Kind,
    pub(crate) ino: u64,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
    /// Of files that we made, where they are not too large.
    pub(crate) digest: Option<Digest>,
    /// False for what goes to another place of the origin: its content is the user's at any time.
    pub(crate) ours: bool,
}

impl Seen {
    /// What is known of an entry.
    pub(crate) fn of(path: TreePath, entry: &Entry, ours: bool) -> Seen {
        Seen {
            path,
            kind: entry.kind,
            ino: entry.ino,
            mode: entry.mode,
            owner: (entry.uid, entry.gid),
            size: entry.size,
            mtime: entry.mtime,
            ctime: entry.ctime,
            digest: None,
            ours,
        }
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind == Kind::Dir
    }
}

/// Permission bits and attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) mode: u32,
    /// `None` where the act leaves them alone.
    pub(crate) xattrs: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// One act that changes the origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    /// The origin's `path` goes to `slot` in the staging directory. `old`: itself first, then what is below it.
    Take { path: TreePath, slot: TreePath, old: Vec<Seen> },
    /// `slot` goes to `path`, where nothing stands.
    Put { path: TreePath, slot: TreePath, new: Vec<Seen> },
    /// `slot` and `path` are exchanged.
    Swap { path: TreePath, slot: TreePath, old: Vec<Seen>, new: Vec<Seen> },
    /// Mode and attributes of `path` are set.
    Meta { path: TreePath, ino: u64, old: Meta, new: Meta },
}

impl Op {
    /// Where, in the origin.
    pub(crate) fn path(&self) -> &TreePath {
        match self {
            Op::Take { path, .. } | Op::Put { path, .. } | Op::Swap { path, .. } | Op::Meta { path, .. } => {
                path
            }
        }
    }
}

/// Inode of the object itself.
pub(crate) fn ino(list: &[Seen]) -> Option<u64> {
    list.first().map(|seen| seen.ino)
}

/// A directory of the origin whose modification time is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirTime {
    pub(crate) path: TreePath,
    pub(crate) ino: u64,
    pub(crate) mtime: Time,
    /// Names come or go in it, so it gets a new time when the keep succeeds.
    pub(crate) names_change: bool,
    /// Its time once all was done; `None` where it does not stand in the origin then.
    pub(crate) after: Option<Time>,
}

/// One root of a keep that writes several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Its journal directory.
    pub(crate) journal: PathBuf,
    /// Its directory.
    pub(crate) origin: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) state: State,
    pub(crate) task: Task,
    /// Id of the keep; empty where no record of it is to stay.
    pub(crate) id: Vec<u8>,
    /// What the caller wants to find in the record.
    pub(crate) about: Vec<u8>,
    /// Inode of the origin's directory.
    pub(crate) origin: u64,
    /// The directory that holds the staging directory; `None` for the origin itself.
    pub(crate) parent: Option<PathBuf>,
    /// Name of the staging directory.
    pub(crate) stage: Vec<u8>,
    /// All roots of the keep, the leading one first; empty where there is only this one.
    pub(crate) peers: Vec<Peer>,
    pub(crate) ops: Vec<Op>,
    pub(crate) dirs: Vec<DirTime>,
}

impl Journal {
    /// Publishes this state; afterwards it is on disk.
    pub(crate) fn publish(&self, dir: impl AsFd) -> kernel::Result<()> {
        publish::write_file(dir, NAME, &self.encode(), 0o600)
    }

    /// Name of the record of this keep.
    pub(crate) fn record_name(&self) -> Vec<u8> {
        [RECORD, &self.id].concat()
    }

    /// True where what was displaced is to stay, so that the keep can be undone.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.id.is_empty()
    }

    /// Where the staging directory is; relative where it is in the origin.
    pub(crate) fn stage_path(&self) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        self.parent.clone().unwrap_or_default().join(std::ffi::OsStr::from_bytes(&self.stage))
    }

    /// Name, in the journal's directory, of the copies of what is displaced. There are some only where the staging
    /// directory stands in the origin and cannot stay there.
    pub(crate) fn copies(&self) -> Option<Vec<u8>> {
        (self.is_recorded() && self.parent.is_none()).then(|| [b"old.", self.id.as_slice()].concat())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Out(MAGIC.to_vec());
        out.byte(match self.state {
            State::Staging => 0,
            State::Moving => 1,
            State::Committed => 2,
            State::Undone => 3,
        });
        out.byte(match self.task {
            Task::Keep => 0,
            Task::Undo => 1,
        });
        out.bytes(&self.id);
        out.bytes(&self.about);
        out.number(self.origin);
        out.bytes(self.parent.as_deref().map_or(b"", kernel::error::path_bytes));
        out.bytes(&self.stage);
        out.number(self.peers.len() as u64);
        for peer in &self.peers {
            out.bytes(kernel::error::path_bytes(&peer.journal));
            out.bytes(kernel::error::path_bytes(&peer.origin));
        }
        out.number(self.ops.len() as u64);
        for op in &self.ops {
            match op {
                Op::Take { path, slot, old } => {
                    out.byte(b'T');
                    out.paths(path, slot);
                    out.list(old);
                }
                Op::Put { path, slot, new } => {
                    out.byte(b'P');
                    out.paths(path, slot);
                    out.list(new);
                }
                Op::Swap { path, slot, old, new } => {
                    out.byte(b'S');
                    out.paths(path, slot);
                    out.list(old);
                    out.list(new);
                }
                Op::Meta { path, ino, old, new } => {
                    out.byte(b'M');
                    out.bytes(path.as_bytes());
                    out.number(*ino);
                    out.meta(old);
                    out.meta(new);
                }
            }
        }
        out.number(self.dirs.len() as u64);
        for dir in &self.dirs {
            out.bytes(dir.path.as_bytes());
            out.number(dir.ino);
            out.time(dir.mtime);
            out.byte(u8::from(dir.names_change));
            out.byte(u8::from(dir.after.is_some()));
            out.time(dir.after.unwrap_or_default());
        }
        let sum = blake3::hash(&out.0);
        out.0.extend_from_slice(sum.as_bytes());
        out.0
    }

    /// Reads a journal; the error is the reason why it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Journal, &'static str> {
        let (body, sum) = bytes.split_last_chunk::<32>().ok_or("too short")?;
        if blake3::hash(body) != *sum {
            return Err("checksum does not match");
        }
        let mut input = In(body.strip_prefix(MAGIC).ok_or("unknown version")?);
        let state = match input.byte()? {
            0 => State::Staging,
            1 => State::Moving,
            2 => State::Committed,
            3 => State::Undone,
            _ => return Err("unknown state"),
        };
        let task = match input.byte()? {
            0 => Task::Keep,
            1 => Task::Undo,
            _ => return Err("unknown task"),
        };
        let (id, about) = (input.bytes()?.to_vec(), input.bytes()?.to_vec());
        if !(id.is_empty() || is_id(&id)) {
            return Err("bad id");
        }
        let origin = input.number()?;
        let parent = input.file()?;
        let parent = (!parent.as_os_str().is_empty()).then_some(parent);
        let stage = input.bytes()?.to_vec();
        if TreePath::new(&stage).map(|name| name.is_root() || name.components().count() != 1).unwrap_or(true)
        {
            return Err("bad name of the staging directory");
        }
        let mut peers = Vec::new();
        for _ in 0..input.number()? {
            peers.push(Peer { journal: input.file()?, origin: input.file()? });
        }
        let mut ops = Vec::new();
        for _ in 0..input.number()? {
            let tag = input.byte()?;
            let path = input.path()?;
            ops.push(match tag {
                b'T' => Op::Take { path, slot: input.path()?, old: input.list()? },
                b'P' => Op::Put { path, slot: input.path()?, new: input.list()? },
                b'S' => Op::Swap { path, slot: input.path()?, old: input.list()?, new: input.list()? },
                b'M' => Op::Meta { path, ino: input.number()?, old: input.meta()?, new: input.meta()? },
                _ => return Err("unknown act"),
            });
        }
        let mut dirs = Vec::new();
        for _ in 0..input.number()? {
            let (path, ino, mtime) = (input.path()?, input.number()?, input.time()?);
            let (names_change, stands) = (input.byte()? != 0, input.byte()? != 0);
            let after = input.time()?;
            dirs.push(DirTime { path, ino, mtime, names_change, after: stands.then_some(after) });
        }
        if !input.0.is_empty() {
            return Err("bytes after the end");
        }
        Ok(Journal { state, task, id, about, origin, parent, stage, peers, ops, dirs })
    }
}

/// True for what may be the id of a keep: it becomes part of file names.
pub(crate) fn is_id(id: &[u8]) -> bool {
    !id.is_empty() && id.len() <= 64 && id.iter().all(u8::is_ascii_alphanumeric)
}

struct Out(Vec<u8>);

impl Out {
    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn paths(&mut self, path: &TreePath, slot: &TreePath) {
        self.bytes(path.as_bytes());
        self.bytes(slot.as_bytes());
    }

    fn time(&mut self, time: Time) {
        self.0.extend_from_slice(&time.sec.to_le_bytes());
        self.number(time.nsec.into());
    }

    fn list(&mut self, list: &[Seen]) {
        self.number(list.len() as u64);
        for seen in list {
            self.bytes(seen.path.as_bytes());
            self.byte(kind_byte(seen.kind));
            self.number(seen.ino);
            self.number(seen.mode.into());
            self.number(u64::from(seen.owner.0) << 32 | u64::from(seen.owner.1));
            self.number(seen.size);
            self.time(seen.mtime);
            self.time(seen.ctime);
            self.byte(u8::from(seen.ours) | u8::from(seen.digest.is_some()) << 1);
            if let Some(digest) = &seen.digest {
                self.0.extend_from_slice(digest);
            }
        }
    }

    fn meta(&mut self, meta: &Meta) {
        self.number(meta.mode.into());
        self.byte(u8::from(meta.xattrs.is_some()));
        let xattrs = meta.xattrs.as_deref().unwrap_or_default();
        self.number(xattrs.len() as u64);
        for (name, value) in xattrs {
            self.bytes(name);
            self.bytes(value);
        }
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("ends too early")?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Result<u64, &'static str> {
        let bytes = self.take(8)?.first_chunk::<8>().ok_or("ends too early")?;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self) -> Result<&'a [u8], &'static str> {
        let len = self.number()?;
        self.take(usize::try_from(len).map_err(|_| "ends too early")?)
    }

    fn file(&mut self) -> Result<PathBuf, &'static str> {
        use std::os::unix::ffi::OsStrExt as _;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(self.bytes()?)))
    }

    fn path(&mut self) -> Result<TreePath, &'static str> {
        TreePath::new(self.bytes()?).map_err(|_| "bad path")
    }

    fn time(&mut self) -> Result<Time, &'static str> {
        let sec = self.number()?.cast_signed();
        Ok(Time { sec, nsec: u32::try_from(self.number()?).map_err(|_| "bad time")? })
    }

    fn list(&mut self) -> Result<Vec<Seen>, &'static str> {
        let mut list = Vec::new();
        for _ in 0..self.number()? {
            let (path, kind, ino) = (self.path()?, kind_of(self.byte()?)?, self.number()?);
            let mode = u32::try_from(self.number()?).map_err(|_| "bad mode")?;
            let owner = self.number()?;
            let owner = ((owner >> 32) as u32, owner as u32);
            let (size, mtime, ctime) = (self.number()?, self.time()?, self.time()?);
            let flags = self.byte()?;
            let digest = match flags & 2 {
                0 => None,
                _ => Some(*self.take(32)?.first_chunk::<32>().ok_or("ends too early")?),
            };
            list.push(Seen {
                path,
                kind,
                ino,
                mode,
                owner,
                size,
                mtime,
                ctime,
                digest,
                ours: flags & 1 != 0,
            });
        }
        Ok(list)
    }

    fn meta(&mut self) -> Result<Meta, &'static str> {
        let mode = u32::try_from(self.number()?).map_err(|_| "bad mode")?;
        let some = self.byte()? != 0;
        let mut xattrs = Vec::new();
        for _ in 0..self.number()? {
            xattrs.push((self.bytes()?.to_vec(), self.bytes()?.to_vec()));
        }
        Ok(Meta { mode, xattrs: some.then_some(xattrs) })
    }
}

const KINDS: [(Kind, u8); 7] = [
    (Kind::File, b'f'),
    (Kind::Dir, b'd'),
    (Kind::Symlink, b'l'),
    (Kind::Fifo, b'p'),
    (Kind::Socket, b's'),
    (Kind::CharDevice, b'c'),
    (Kind::BlockDevice, b'b'),
];

fn kind_byte(kind: Kind) -> u8 {
    KINDS.iter().find(|(k, _)| *k == kind).map_or(b'?', |(_, byte)| *byte)
}

fn kind_of(byte: u8) -> Result<Kind, &'static str> {
    KINDS.iter().find(|(_, b)| *b == byte).map(|(kind, _)| *kind).ok_or("unknown type")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Journal {
        let path = |text: &str| TreePath::new(text).expect("a path");
        let mtime = Time { sec: -5, nsec: 7 };
        let seen = |digest| Seen {
            path: path("x\n"),
            kind: Kind::Fifo,
            ino: 9,
            mode: 0o640,
            owner: (7, u32::MAX),
            size: 1,
            mtime,
            ctime: Time { sec: 8, nsec: 9 },
            digest,
            ours: true,
        };
        let meta = |mode| Meta { mode, xattrs: Some(vec![(b"user.a".to_vec(), b"\0\xff".to_vec())]) };
        Journal {
            state: State::Moving,
            task: Task::Undo,
            id: b"k7x".to_vec(),
            about: b"{}\0".to_vec(),
            origin: 2,
            parent: Some(PathBuf::from("/somewhere")),
            stage: b".lane-stage-1".to_vec(),
            peers: vec![Peer { journal: PathBuf::from("/j"), origin: PathBuf::from("/o") }],
            ops: vec![
                Op::Take { path: path("a/b"), slot: path("o0"), old: vec![] },
                Op::Put { path: path("c"), slot: path("n0"), new: vec![seen(None)] },
                Op::Swap {
                    path: path("d"),
                    slot: path("n1"),
                    old: vec![seen(None)],
                    new: vec![seen(Some([5; 32]))],
                },
                Op::Meta { path: path("e"), ino: 5, old: meta(0o644), new: meta(0o755) },
            ],
            dirs: vec![
                DirTime { path: TreePath::root(), ino: 2, mtime, names_change: true, after: None },
                DirTime { path: path("q"), ino: 2, mtime, names_change: false, after: Some(mtime) },
            ],
        }
    }

    #[test]
    fn a_journal_reads_back_as_it_was_written() {
        assert_eq!(Journal::decode(&sample().encode()).expect("whole"), sample());
        let inside = Journal { parent: None, state: State::Committed, ops: vec![], ..sample() };
        assert_eq!(Journal::decode(&inside.encode()).expect("whole"), inside);
    }

    #[test]
    fn an_id_that_is_no_file_name_is_refused() {
        let bad = Journal { id: b"../x".to_vec(), ..sample() };
        assert!(Journal::decode(&bad.encode()).is_err());
    }

    #[test]
    fn a_damaged_byte_anywhere_is_noticed() {
        let bytes = sample().encode();
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x20;
            assert!(Journal::decode(&bad).is_err(), "byte {at}");
            assert!(Journal::decode(&bytes[..at]).is_err(), "cut at {at}");
        }
    }
}
