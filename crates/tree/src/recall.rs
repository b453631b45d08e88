//! [`Recall`]: what was read of files' content, so that sums need not read it again.
//!
//! What is remembered of a file counts as long as its inode, its size and its times are what they were. Of a file
//! with several names the change time is not asked, because every name that comes or goes moves it. A store
//! through a mapping need not move a time, and times can be put back by hand: that may go unseen here.
//!
//! Invariant: this answers for sums alone. Nothing that is shown, kept or exported rests on it, and a lane never
//! sees it, because it holds the key of its digests.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::OwnedFd;

use kernel::{Result, bytes};

use crate::compare::Side;
use crate::digest::{BLOCK, Digest, KEY, Key};
use crate::entry::{Entry, Time};

/// The digest of a file is taken at these lengths and at its end, so that two files of which one is known are told
/// apart where they first differ, and not only after the last byte.
const STEPS: [u64; 4] = [64 << 10, 512 << 10, 4 << 20, 32 << 20];
/// Bytes read at a time; every step is a multiple of it, and it is one of digests' blocks.
const BUFFER: usize = 64 << 10;
/// From here on, half of what is to be read is worth a second thread.
const MUCH: u64 = 1 << 20;
/// What is younger is not remembered: where the kernel's times are coarse, a later write may have the same time.
const YOUNG: i64 = 20_000_000;

const MAGIC: &[u8; 8] = b"LANEREC1";
/// Bytes of a record before its digests: six numbers, flags, and how many digests follow.
const RECORD: usize = 64;
const LINKED: usize = 48;
const BARE: usize = 49;
const COUNT: usize = 63;

/// What is remembered of the files of one root of a lane.
#[derive(Debug)]
pub struct Recall {
    key: Key,
    now: Time,
    known: RefCell<HashMap<(u64, u64), Known>>,
    buffer: RefCell<Vec<u8>>,
    has_news: Cell<bool>,
    read: Cell<u64>,
}

/// What is remembered of one file, and when it is still true.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    size: u64,
    mtime: Time,
    ctime: Time,
    /// Whether it had several names.
    is_linked: bool,
    /// Digests of what it begins with, one for each step that was read.
    steps: Vec<Digest>,
    /// Whether it has no attributes of the user's.
    is_bare: Option<bool>,
    /// Somebody asked for it in this pass.
    is_used: bool,
}

impl Known {
    fn new(entry: &Entry) -> Known {
        Known {
            size: entry.size,
            mtime: entry.mtime,
            ctime: entry.ctime,
            is_linked: is_linked(entry),
            steps: Vec::new(),
            is_bare: None,
            is_used: true,
        }
    }

    fn holds_for(&self, entry: &Entry) -> bool {
        let same_change = self.ctime == entry.ctime || is_linked(entry);
        self.size == entry.size && self.mtime == entry.mtime && same_change
    }

    /// True where no later write can have left its times as they are.
    fn is_settled(&self, now: Time) -> bool {
        let last = if self.is_linked { self.mtime } else { self.ctime };
        let age = (i128::from(now.sec) - i128::from(last.sec)) * 1_000_000_000
            + (i128::from(now.nsec) - i128::from(last.nsec));
        age > i128::from(YOUNG)
    }
}

impl Recall {
    /// Nothing is remembered yet. `now` is the time of day.
    pub fn empty(now: Time) -> Recall {
        Recall::with(Key::new(), HashMap::new(), now)
    }

    fn with(key: Key, known: HashMap<(u64, u64), Known>, now: Time) -> Recall {
        Recall {
            key,
            now,
            known: RefCell::new(known),
            buffer: RefCell::new(Vec::new()),
            has_news: Cell::new(false),
            read: Cell::new(0),
        }
    }

    /// What [`Recall::to_bytes`] wrote; `None` where these are no such bytes, or not all of them.
    pub fn from_bytes(bytes: &[u8], now: Time) -> Option<Recall> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (key, rest) = rest.split_first_chunk::<KEY>()?;
        let (records, sum) = rest.split_last_chunk::<16>()?;
        let key = Key::from_bytes(key);
        if digest_bytes(key.add(Digest::default(), records)) != *sum {
            return None;
        }
        let mut known = HashMap::new();
        let mut rest = records;
        while !rest.is_empty() {
            let (record, more) = rest.split_at_checked(RECORD)?;
            let (steps, more) = more.split_at_checked(16 * usize::from(record[COUNT]))?;
            let word = |at: usize| word_at(&record[8 * at..]);
            let half = |at: usize| (word_at(&record[8 * at..]) >> 32) as u32;
            let one = Known {
                size: word(2),
                mtime: Time { sec: word(3) as i64, nsec: word(5) as u32 },
                ctime: Time { sec: word(4) as i64, nsec: half(5) },
                is_linked: record[LINKED] == 1,
                is_bare: [None, Some(false), Some(true)].get(usize::from(record[BARE])).copied()?,
                steps: steps.chunks_exact(16).map(|one| Digest([word_at(one), word_at(&one[8..])])).collect(),
                is_used: false,
            };
            known.insert((word(0), word(1)), one);
            rest = more;
        }
        Some(Recall::with(key, known, now))
    }

    /// What was asked for since it was made, and is settled: what nobody asked for is of no use any more.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [MAGIC.as_slice(), &self.key.to_bytes()].concat();
        let begin = bytes.len();
        for ((dev, ino), known) in self.known.borrow().iter() {
            if !known.is_used || !known.is_settled(self.now) {
                continue;
            }
            let nsec = u64::from(known.mtime.nsec) | u64::from(known.ctime.nsec) << 32;
            let words = [*dev, *ino, known.size, known.mtime.sec as u64, known.ctime.sec as u64, nsec];
            let mut record = [0; RECORD];
            for (to, word) in record.chunks_exact_mut(8).zip(words) {
                to.copy_from_slice(&word.to_le_bytes());
            }
            record[LINKED] = u8::from(known.is_linked);
            record[BARE] = known.is_bare.map_or(0, |bare| 1 + u8::from(bare));
            record[COUNT] = known.steps.len() as u8;
            bytes.extend_from_slice(&record);
            known.steps.iter().for_each(|one| bytes.extend_from_slice(&digest_bytes(*one)));
        }
        let sum = self.key.add(Digest::default(), &bytes[begin..]);
        bytes.extend_from_slice(&digest_bytes(sum));
        bytes
    }

    /// True where something was learned that [`Recall::to_bytes`] would write.
    pub fn has_news(&self) -> bool {
        self.has_news.get()
    }

    /// Bytes of content that were read since it was made.
    pub fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// True where two files hold the same bytes. One that is not what its entry says is equal to nothing.
    pub(crate) fn same_content(&self, old: Side<'_>, new: Side<'_>) -> Result<bool> {
        if old.entry.size != new.entry.size {
            return Ok(false);
        }
        for step in 0..steps(old.entry.size) {
            match (self.step(old, step)?, self.step(new, step)?) {
                (Some(one), Some(other)) if one == other => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// True where two files or directories have the same attributes of the user's.
    pub(crate) fn same_xattrs(&self, old: Side<'_>, new: Side<'_>) -> Result<bool> {
        let (one, other) = (self.is_bare(old)?, self.is_bare(new)?);
        if one || other {
            return Ok(one == other);
        }
        Ok(old.source.xattrs(old.path)? == new.source.xattrs(new.path)?)
    }

    /// The digest of a file up to the end of a step; `None` where it is not what its entry says.
    pub(crate) fn step(&self, side: Side<'_>, step: usize) -> Result<Option<Digest>> {
        if let Some(known) = self.about(side.entry, |known| known.steps.get(step).copied()).flatten() {
            return Ok(Some(known));
        }
        let mut taken = self.about(side.entry, |known| known.steps.clone()).unwrap_or_default();
        let file = side.source.open(side.path)?;
        let mut buffer = self.buffer.borrow_mut();
        buffer.resize(BUFFER, 0);
        while taken.len() <= step {
            let before = taken.last().copied().unwrap_or_default();
            let from = taken.len().checked_sub(1).map_or(0, |last| end_of(last, side.entry.size));
            let to = end_of(taken.len(), side.entry.size);
            self.read.set(self.read.get() + (to - from));
            let Some(digest) = read_on(&self.key, &file, before, from..to, &mut buffer)? else {
                return Ok(None);
            };
            taken.push(digest);
        }
        self.learn(side.entry, |known| known.steps.clone_from(&taken));
        Ok(taken.get(step).copied())
    }

    fn is_bare(&self, side: Side<'_>) -> Result<bool> {
        if let Some(known) = self.about(side.entry, |known| known.is_bare).flatten() {
            return Ok(known);
        }
        let is_bare = side.source.xattrs(side.path)?.is_empty();
        self.learn(side.entry, |known| known.is_bare = Some(is_bare));
        Ok(is_bare)
    }

    fn about<T>(&self, entry: &Entry, ask: impl FnOnce(&Known) -> T) -> Option<T> {
        let mut known = self.known.borrow_mut();
        let one = known.get_mut(&(entry.dev, entry.ino)).filter(|one| one.holds_for(entry))?;
        one.is_used = true;
        Some(ask(one))
    }

    fn learn(&self, entry: &Entry, note: impl FnOnce(&mut Known)) {
        if entry.dev == 0 {
            // It was recorded once, and says nothing of the file that stands there now.
            return;
        }
        let mut known = self.known.borrow_mut();
        let one = known.entry((entry.dev, entry.ino)).or_insert_with(|| Known::new(entry));
        if !one.holds_for(entry) {
            *one = Known::new(entry);
        }
        one.is_used = true;
        note(one);
        self.has_news.set(self.has_news.get() || one.is_settled(self.now));
    }
}

/// Continues a digest by a range of a file; `None` where the file ends before. Much is read in two halves at once.
fn read_on(
    key: &Key,
    file: &OwnedFd,
    before: Digest,
    range: Range<u64>,
    buffer: &mut [u8],
) -> Result<Option<Digest>> {
    let half = (range.end - range.start) / 2 / BUFFER as u64 * BUFFER as u64;
    if half < MUCH {
        return read_through(key, file, before, range, buffer);
    }
    let middle = range.start + half;
    std::thread::scope(|scope| {
        let second = range.end - middle;
        let other = std::thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, || {
            read_through(key, file, Digest::default(), middle..range.end, &mut vec![0; BUFFER])
        });
        let head = read_through(key, file, before, range.start..middle, buffer)?;
        let tail = match other.map(|other| other.join()) {
            Ok(Ok(tail)) => tail?,
            // No thread to be had.
            _ => read_through(key, file, Digest::default(), middle..range.end, buffer)?,
        };
        Ok(head.zip(tail).map(|(head, tail)| key.join(head, tail, second)))
    })
}

fn read_through(
    key: &Key,
    file: &OwnedFd,
    before: Digest,
    range: Range<u64>,
    buffer: &mut [u8],
) -> Result<Option<Digest>> {
    let (mut digest, mut at) = (before, range.start);
    while at < range.end {
        let want = usize::try_from(range.end - at).unwrap_or(BUFFER).min(BUFFER);
        let got = bytes::read_full_at(file, &mut buffer[..want], at)?;
        if got < want {
            return Ok(None);
        }
        digest = key.add(digest, &buffer[..got]);
        at += got as u64;
    }
    Ok(Some(digest))
}

fn is_linked(entry: &Entry) -> bool {
    entry.is_file() && entry.nlink > 1
}

/// How many steps a file of this size has.
pub(crate) fn steps(size: u64) -> usize {
    STEPS.iter().take_while(|end| **end < size).count() + 1
}

fn end_of(step: usize, size: u64) -> u64 {
    STEPS.get(step).map_or(size, |end| (*end).min(size))
}

fn digest_bytes(digest: Digest) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&digest.0[0].to_le_bytes());
    bytes[8..].copy_from_slice(&digest.0[1].to_le_bytes());
    bytes
}

fn word_at(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

const _: () = assert!(BUFFER.is_multiple_of(BLOCK));

#[cfg(test)]
mod tests;
