//! The bytes of a manifest, version 2. All numbers are little-endian.
//!
//! ```text
//! header   64 bytes: magic "LANEMAN1", version, record size, count, blob length, gaps length, sum, 1 if all is cloned, zeros
//! records  88 bytes each, sorted by path
//! blob     path of each entry, then its link target
//! gaps     length and path of each directory that could not be read
//! sums     8 bytes for each 16 KiB of all between the header and here
//! ```
//!
//! Records have one size, so that loading decodes nothing and a lookup is a binary search that reads a few pages.
//! The sum in the header covers the header and the sums; they find damage, not forgery (the file lies in the
//! user's own state directory).

use tree::{Entry, Kind, Time};

use super::Recorded;

pub(super) const HEADER: usize = 64;
pub(super) const RECORD: usize = 88;
/// Bytes under one sum.
pub(super) const PAGE: usize = 16 * 1024;
const MAGIC: &[u8; 8] = b"LANEMAN1";
const VERSION: u32 = 2;
/// Where the header's sum stands.
const SUM: usize = 40;

const LATER: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) count: usize,
    pub(super) blob_len: usize,
    pub(super) gaps_len: usize,
    pub(super) all_cloned: bool,
}

impl Header {
    /// Reads a header and what it says of the file; `None` where it is none of this version. Its sum is checked by
    /// [`Header::is_sum`], once the sums of the pages are known.
    pub(super) fn read(head: &[u8; HEADER]) -> Option<Header> {
        if &head[..8] != MAGIC || u32_at(head, 8) != VERSION || u32_at(head, 12) as usize != RECORD {
            return None;
        }
        let length = |at| usize::try_from(u64_at(head, at)).ok();
        let (count, blob_len, gaps_len) = (length(16)?, length(24)?, length(32)?);
        let header = Header { count, blob_len, gaps_len, all_cloned: head[48] == 1 };
        header.checked_file_len()?;
        Some(header)
    }

    /// Bytes between the header and the sums.
    pub(super) fn body_len(&self) -> usize {
        self.count * RECORD + self.blob_len + self.gaps_len
    }

    /// Bytes of the whole file.
    pub(super) fn file_len(&self) -> usize {
        HEADER + self.body_len() + 8 * self.body_len().div_ceil(PAGE)
    }

    fn checked_file_len(&self) -> Option<usize> {
        let records = self.count.checked_mul(RECORD)?;
        let body = records.checked_add(self.blob_len)?.checked_add(self.gaps_len)?;
        body.div_ceil(PAGE).checked_mul(8)?.checked_add(body)?.checked_add(HEADER)
    }

    /// True where the header's sum is that of these bytes of the header and the sums of the pages.
    pub(super) fn is_sum(head: &[u8; HEADER], sums: &[u8]) -> bool {
        whole_sum(head, sums).0 == u64_at(head, SUM)
    }

    /// The header of a file whose pages have these sums.
    pub(super) fn to_bytes(self, sums: &[u8]) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&(RECORD as u32).to_le_bytes());
        for (at, number) in [(16, self.count), (24, self.blob_len), (32, self.gaps_len)] {
            out[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
        }
        out[48] = u8::from(self.all_cloned);
        let sum = whole_sum(&out, sums).0;
        out[SUM..SUM + 8].copy_from_slice(&sum.to_le_bytes());
        out
    }
}

fn whole_sum(head: &[u8; HEADER], sums: &[u8]) -> Sum {
    let mut sum = Sum::default();
    [&head[..SUM], &head[SUM + 8..], sums].into_iter().for_each(|part| sum.add(part));
    sum
}

/// The sums of a body that is written from front to back.
#[derive(Debug, Default)]
pub(super) struct PageSums {
    done: Vec<u8>,
    page: Vec<u8>,
}

impl PageSums {
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE - self.page.len()));
            self.page.extend_from_slice(now);
            bytes = rest;
            if self.page.len() == PAGE {
                self.close();
            }
        }
    }

    /// All sums as they stand in the file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if !self.page.is_empty() {
            self.close();
        }
        self.done
    }

    fn close(&mut self) {
        self.done.extend_from_slice(&Sum::of(&self.page).0.to_le_bytes());
        self.page.clear();
    }
}

/// The sums as they stand in the file.
pub(super) fn decode_sums(bytes: &[u8]) -> Vec<Sum> {
    bytes.chunks_exact(8).map(|sum| Sum(u64_at(sum, 0))).collect()
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

/// Where in the blob the path of a record stands.
pub(super) fn path_place(record: &[u8]) -> (usize, usize) {
    (u64_at(record, 0) as usize, u32_at(record, 8) as usize)
}

/// Where in the blob the link target of a record stands.
pub(super) fn target_place(record: &[u8]) -> (usize, usize) {
    let (path, len) = path_place(record);
    (path.saturating_add(len), u32_at(record, 12) as usize)
}

pub(super) fn owner(record: &[u8]) -> (u32, u32) {
    (u32_at(record, 76), u32_at(record, 80))
}

pub(super) fn is_dir(record: &[u8]) -> bool {
    kind(record[16]) == Some(Kind::Dir)
}

pub(super) fn ino(record: &[u8]) -> u64 {
    u64_at(record, 24)
}

/// What a record with this link target says; `None` where it has a kind that nobody wrote.
pub(super) fn decode(record: &[u8], target: Vec<u8>) -> Option<Recorded> {
    let time = |at| Time { sec: u64_at(record, at) as i64, nsec: u32_at(record, at + 8) };
    let (uid, gid) = owner(record);
    let entry = Entry {
        kind: kind(record[16])?,
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
    Some(Recorded { entry, is_later: record[17] & LATER != 0, is_unread: false })
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

/// A fast sum over eight bytes at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum(u64);

impl Sum {
    pub(super) fn of(bytes: &[u8]) -> Sum {
        let mut sum = Sum::default();
        sum.add(bytes);
        sum
    }

    fn add(&mut self, bytes: &[u8]) {
        let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut words = bytes.chunks_exact(8);
        self.0 = words.by_ref().fold(self.0, |sum, word| step(sum, u64_at(word, 0)));
        self.0 = words.remainder().iter().fold(self.0, |sum, byte| step(sum, u64::from(*byte)));
    }
}
