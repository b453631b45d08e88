//! [`Journal`]: what a keep is about to do, on disk before it does it. It owns the file's form and
//! its three states; it decides nothing.
//!
//! Invariant: the file is published whole (temporary name, sync, rename), ends with a checksum, and
//! names everything by inode number, so that reading it tells for each act whether it was done, and
//! undoing is the same work after a failure and after a kill. Paths are relative to the origin's
//! directory and to the staging directory, never absolute, except the staging directory's own place.

use std::os::fd::AsFd;
use std::path::PathBuf;

use kernel::publish;
use tree::{Kind, Time, TreePath};

use crate::sha1::Sha1;

/// Name of the journal in its directory.
pub(crate) const NAME: &[u8] = b"keep.journal";
/// Name of the lock beside it.
pub(crate) const LOCK: &[u8] = b"keep.lock";

const MAGIC: &[u8] = b"lanekeeper keep journal 1\n";

/// How far the keep has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Only the staging directory may exist.
    Staging,
    /// Acts may have been done, in order.
    Moving,
    /// All is done; the staging directory is refuse.
    Committed,
}

/// Something that stands in the staging directory or came from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Relative to the object that is put in place.
    pub(crate) path: TreePath,
    pub(crate) kind: Kind,
    pub(crate) ino: u64,
    pub(crate) size: u64,
    pub(crate) mtime: Time,
    /// False for what was moved here out of the origin: its content is the user's at any time.
    pub(crate) ours: bool,
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
    /// The origin's `path` goes to `slot` in the staging directory.
    Take { path: TreePath, slot: TreePath, ino: u64 },
    /// `slot` goes to `path`, where nothing stands.
    Put { path: TreePath, slot: TreePath, new: Vec<Seen> },
    /// `slot` and `path` are exchanged.
    Swap { path: TreePath, slot: TreePath, old_ino: u64, new: Vec<Seen> },
    /// Mode and attributes of `path` are set.
    Meta { path: TreePath, ino: u64, old: Meta, new: Meta },
}

/// A directory of the origin whose modification time is put back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirTime {
    pub(crate) path: TreePath,
    pub(crate) ino: u64,
    pub(crate) mtime: Time,
    /// Names come or go in it, so it gets a new time when the keep succeeds.
    pub(crate) names_change: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) state: State,
    /// Inode of the origin's directory.
    pub(crate) origin: u64,
    /// The directory that holds the staging directory; `None` for the origin itself.
    pub(crate) parent: Option<PathBuf>,
    /// Name of the staging directory.
    pub(crate) stage: Vec<u8>,
    pub(crate) ops: Vec<Op>,
    pub(crate) dirs: Vec<DirTime>,
}

impl Journal {
    /// Publishes this state; afterwards it is on disk.
    pub(crate) fn publish(&self, dir: impl AsFd) -> kernel::Result<()> {
        publish::write_file(dir, NAME, &self.encode(), 0o600)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Out(MAGIC.to_vec());
        out.byte(match self.state {
            State::Staging => 0,
            State::Moving => 1,
            State::Committed => 2,
        });
        out.number(self.origin);
        out.bytes(self.parent.as_deref().map_or(b"", kernel::error::path_bytes));
        out.bytes(&self.stage);
        out.number(self.ops.len() as u64);
        for op in &self.ops {
            match op {
                Op::Take { path, slot, ino } => {
                    out.byte(b'T');
                    out.paths(path, slot);
                    out.number(*ino);
                }
                Op::Put { path, slot, new } => {
                    out.byte(b'P');
                    out.paths(path, slot);
                    out.list(new);
                }
                Op::Swap { path, slot, old_ino, new } => {
                    out.byte(b'S');
                    out.paths(path, slot);
                    out.number(*old_ino);
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
        }
        let mut sum = Sha1::new();
        sum.update(&out.0);
        out.0.extend_from_slice(&sum.finish());
        out.0
    }

    /// Reads a journal; the error is the reason why it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Journal, &'static str> {
        let (body, sum) = bytes.split_last_chunk::<20>().ok_or("too short")?;
        let mut own = Sha1::new();
        own.update(body);
        if own.finish() != *sum {
            return Err("checksum does not match");
        }
        let mut input = In(body.strip_prefix(MAGIC).ok_or("unknown version")?);
        let state = match input.byte()? {
            0 => State::Staging,
            1 => State::Moving,
            2 => State::Committed,
            _ => return Err("unknown state"),
        };
        let origin = input.number()?;
        let parent = input.bytes()?;
        let parent = (!parent.is_empty()).then(|| {
            use std::os::unix::ffi::OsStrExt as _;
            PathBuf::from(std::ffi::OsStr::from_bytes(parent))
        });
        let stage = input.bytes()?.to_vec();
        if TreePath::new(&stage).map(|name| name.is_root() || name.components().count() != 1).unwrap_or(true)
        {
            return Err("bad name of the staging directory");
        }
        let mut ops = Vec::new();
        for _ in 0..input.number()? {
            let tag = input.byte()?;
            let path = input.path()?;
            ops.push(match tag {
                b'T' => Op::Take { path, slot: input.path()?, ino: input.number()? },
                b'P' => Op::Put { path, slot: input.path()?, new: input.list()? },
                b'S' => Op::Swap { path, slot: input.path()?, old_ino: input.number()?, new: input.list()? },
                b'M' => Op::Meta { path, ino: input.number()?, old: input.meta()?, new: input.meta()? },
                _ => return Err("unknown act"),
            });
        }
        let mut dirs = Vec::new();
        for _ in 0..input.number()? {
            let (path, ino, mtime) = (input.path()?, input.number()?, input.time()?);
            dirs.push(DirTime { path, ino, mtime, names_change: input.byte()? != 0 });
        }
        if !input.0.is_empty() {
            return Err("bytes after the end");
        }
        Ok(Journal { state, origin, parent, stage, ops, dirs })
    }
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
            self.number(seen.size);
            self.time(seen.mtime);
            self.byte(u8::from(seen.ours));
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
            list.push(Seen {
                path: self.path()?,
                kind: kind_of(self.byte()?)?,
                ino: self.number()?,
                size: self.number()?,
                mtime: self.time()?,
                ours: self.byte()? != 0,
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
        let seen = Seen { path: path("x\n"), kind: Kind::Fifo, ino: 9, size: 1, mtime, ours: true };
        let meta = |mode| Meta { mode, xattrs: Some(vec![(b"user.a".to_vec(), b"\0\xff".to_vec())]) };
        Journal {
            state: State::Moving,
            origin: 2,
            parent: Some(PathBuf::from("/somewhere")),
            stage: b".lane-stage-1".to_vec(),
            ops: vec![
                Op::Take { path: path("a/b"), slot: path("o0"), ino: 3 },
                Op::Put { path: path("c"), slot: path("n0"), new: vec![seen.clone()] },
                Op::Swap { path: path("d"), slot: path("n1"), old_ino: 4, new: vec![seen] },
                Op::Meta { path: path("e"), ino: 5, old: meta(0o644), new: meta(0o755) },
            ],
            dirs: vec![DirTime { path: TreePath::root(), ino: 2, mtime, names_change: true }],
        }
    }

    #[test]
    fn a_journal_reads_back_as_it_was_written() {
        assert_eq!(Journal::decode(&sample().encode()).expect("whole"), sample());
        let inside = Journal { parent: None, state: State::Committed, ops: vec![], ..sample() };
        assert_eq!(Journal::decode(&inside.encode()).expect("whole"), inside);
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
