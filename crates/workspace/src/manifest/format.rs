//! The bytes of a manifest, version 1. All numbers are little-endian.
//!
//! ```text
//! header   64 bytes: magic "LANEMAN1", version, record size, count, blob length, gaps length, sum, 1 if all is cloned, zeros
//! records  88 bytes each, sorted by path
//! blob     path of each entry, then its link target
//! gaps     length and path of each directory that could not be read
//! ```
//!
//! Records have one size, so that loading decodes nothing and a lookup is a binary search. The sum covers
//! all but the header; it finds damage, not forgery (the file lies in the user's own state directory).

use tree::{Entry, Kind, Time};

use super::Recorded;

pub(super) const HEADER: usize = 64;
pub(super) const RECORD: usize = 88;
const MAGIC: &[u8; 8] = b"LANEMAN1";
const VERSION: u32 = 1;

const LATER: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) count: usize,
    pub(super) blob_len: usize,
    pub(super) gaps_len: usize,
    pub(super) sum: Sum,
    pub(super) all_cloned: bool,
}

impl Header {
    /// Reads and checks the whole: sizes, sum and every record's bounds.
    pub(super) fn read(bytes: &[u8]) -> Option<Header> {
        let head = bytes.get(..HEADER)?;
        if &head[..8] != MAGIC || u32_at(head, 8) != VERSION || u32_at(head, 12) as usize != RECORD {
            return None;
        }
        let length = |at| usize::try_from(u64_at(head, at)).ok();
        let (count, blob_len, gaps_len) = (length(16)?, length(24)?, length(32)?);
        let records_len = count.checked_mul(RECORD)?;
        let expected = HEADER.checked_add(records_len)?.checked_add(blob_len)?.checked_add(gaps_len)?;
        if bytes.len() != expected {
            return None;
        }
        let (records, rest) = bytes[HEADER..].split_at(records_len);
        let (blob, gaps) = rest.split_at(blob_len);
        let mut sum = Sum::default();
        [records, blob, gaps].into_iter().for_each(|part| sum.add(part));
        if sum.0 != u64_at(head, 40) {
            return None;
        }
        let fits = |record: &[u8]| {
            let end = u64_at(record, 0)
                .checked_add(u64::from(u32_at(record, 8)))
                .and_then(|end| end.checked_add(u64::from(u32_at(record, 12))));
            end.is_some_and(|end| end <= blob_len as u64) && kind(record[16]).is_some()
        };
        if !records.chunks_exact(RECORD).all(fits) {
            return None;
        }
        Some(Header { count, blob_len, gaps_len, sum, all_cloned: head[48] == 1 })
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(RECORD as u32).to_le_bytes());
        for (at, number) in [
            (16, self.count as u64),
            (24, self.blob_len as u64),
            (32, self.gaps_len as u64),
            (40, self.sum.0),
        ] {
            out[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        out[48] = u8::from(self.all_cloned);
        out
    }
}

/// Appends one unreadable path.
pub(super) fn encode_gap(path: &[u8], gaps: &mut Vec<u8>) {
    gaps.extend_from_slice(&(path.len() as u32).to_le_bytes());
    gaps.extend_from_slice(path);
}

/// The unreadable paths.
pub(super) fn decode_gaps(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut gaps = Vec::new();
    while bytes.len() >= 4 {
        let end = (4 + u32_at(bytes, 0) as usize).min(bytes.len());
        gaps.push(bytes[4..end].to_vec());
        bytes = &bytes[end..];
    }
    gaps
}

/// Appends one entry to records and blob.
pub(super) fn encode(path: &[u8], entry: &Entry, is_later: bool, records: &mut Vec<u8>, blob: &mut Vec<u8>) {
    let flags = if is_later { LATER } else { 0 };
    records.extend_from_slice(&(blob.len() as u64).to_le_bytes());
    records.extend_from_slice(&(path.len() as u32).to_le_bytes());
    records.extend_from_slice(&(entry.target.len() as u32).to_le_bytes());
    records.extend_from_slice(&[code(entry.kind), flags, 0, 0]);
    records.extend_from_slice(&(u32::try_from(entry.nlink).unwrap_or(u32::MAX)).to_le_bytes());
    for number in [entry.ino, entry.size, entry.allocated] {
        records.extend_from_slice(&number.to_le_bytes());
    }
    for time in [entry.mtime, entry.ctime] {
        records.extend_from_slice(&time.sec.to_le_bytes());
        records.extend_from_slice(&time.nsec.to_le_bytes());
    }
    for number in [entry.mode, entry.uid, entry.gid, 0] {
        records.extend_from_slice(&number.to_le_bytes());
    }
    debug_assert_eq!(records.len() % RECORD, 0);
    blob.extend_from_slice(path);
    blob.extend_from_slice(&entry.target);
}

pub(super) fn path<'a>(record: &[u8], blob: &'a [u8]) -> &'a [u8] {
    let start = u64_at(record, 0) as usize;
    &blob[start..start + u32_at(record, 8) as usize]
}

pub(super) fn owner(record: &[u8]) -> (u32, u32) {
    (u32_at(record, 76), u32_at(record, 80))
}

pub(super) fn ino(record: &[u8]) -> u64 {
    u64_at(record, 24)
}

pub(super) fn decode(record: &[u8], blob: &[u8]) -> Recorded {
    let after_path = u64_at(record, 0) as usize + u32_at(record, 8) as usize;
    let target = blob[after_path..after_path + u32_at(record, 12) as usize].to_vec();
    let time = |at| Time { sec: u64_at(record, at) as i64, nsec: u32_at(record, at + 8) };
    let (uid, gid) = owner(record);
    let entry = Entry {
        kind: kind(record[16]).unwrap_or(Kind::File),
        mode: u32_at(record, 72),
        uid,
        gid,
        size: u64_at(record, 32),
        mtime: time(48),
        ctime: time(60),
        ino: u64_at(record, 24),
        dev: 0,
        nlink: u64::from(u32_at(record, 20)),
        allocated: u64_at(record, 40),
        rdev: 0,
        target,
    };
    Recorded { entry, is_later: record[17] & LATER != 0, is_unread: false }
}

const KINDS: [Kind; 7] =
    [Kind::File, Kind::Dir, Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];

fn code(kind: Kind) -> u8 {
    KINDS.iter().position(|known| *known == kind).map_or(0, |at| at as u8)
}

fn kind(code: u8) -> Option<Kind> {
    KINDS.get(usize::from(code)).copied()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |sum, b| sum << 8 | u32::from(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, b| sum << 8 | u64::from(*b))
}

/// A fast sum over eight bytes at a time; parts are added in the order of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut words = bytes.chunks_exact(8);
        self.0 = words.by_ref().fold(self.0, |sum, word| step(sum, u64_at(word, 0)));
        self.0 = words.remainder().iter().fold(self.0, |sum, byte| step(sum, u64::from(*byte)));
    }
}
