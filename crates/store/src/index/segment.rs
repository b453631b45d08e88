//! [`Segment`]: the indexes of many packs merged into one file.
//!
//! ```text
//! header  64    "LKINDEX1", packs (u32), zero (u32), records (u64), zero (u64), hash of all that follows
//! packs   16    for each pack its id
//! fanout  1024  for each first byte of a hash the number of records up to and with it (u32)
//! records 56    sorted: hash, offset (u64), length (u32), kind (u8), encoding (u8), zero (u16), pack (u32), zero (u32)
//! ```
//!
//! Invariant: a segment is derived. What it says is checked by the hash of the object that is read through it, and
//! what it fails to say is looked for in the packs.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use kernel::{Errno, Error, Result, bytes, meta, open};

use crate::encode::{hash_at, u32_at, u64_at};
use crate::id::{ObjectId, ObjectKind};
use crate::pack::{PackId, Placed};

const MAGIC: &[u8; 8] = b"LKINDEX1";
const HEADER: usize = 64;
const FANOUT: usize = 1024;
const RECORD: usize = 56;
/// Most packs of one segment.
const MAX_PACKS: usize = 1 << 20;
/// Records that are read in one look, about a page.
const WINDOW: u64 = 72;
/// Looks after which a small segment is read whole.
const LOOKS: u32 = 48;
const WHOLE: u64 = 8 << 20;

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) name: Vec<u8>,
    fd: OwnedFd,
    pub(crate) packs: Vec<PackId>,
    fanout: Vec<u8>,
    records_at: u64,
    looks: AtomicU32,
    whole: OnceLock<Vec<u8>>,
}

impl Segment {
    /// Opens a segment; `None` where it is none, or cut off.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Option<Segment>> {
        let fd = open::name_in(dir, name)?;
        let size = meta::stat_fd(&fd)?.size;
        let mut header = [0; HEADER];
        if bytes::read_full_at(&fd, &mut header, 0)? < HEADER || &header[..8] != MAGIC {
            return Ok(None);
        }
        let (packs, records) = (u32_at(&header, 8) as usize, u64_at(&header, 16));
        let records_at = (HEADER + packs.min(MAX_PACKS) * 16 + FANOUT) as u64;
        let whole = records.checked_mul(RECORD as u64).and_then(|len| len.checked_add(records_at));
        if packs > MAX_PACKS || whole != Some(size) {
            return Ok(None);
        }
        let mut front = vec![0; packs * 16 + FANOUT];
        bytes::read_full_at(&fd, &mut front, HEADER as u64)?;
        let fanout = front.split_off(packs * 16);
        let rising = (1..256).all(|at| u32_at(&fanout, (at - 1) * 4) <= u32_at(&fanout, at * 4));
        if !rising || u64::from(u32_at(&fanout, 255 * 4)) != records {
            return Ok(None);
        }
        let packs = front
            .chunks_exact(16)
            .map(|raw| {
                let mut id = PackId([0; 16]);
                id.0.copy_from_slice(raw);
                id
            })
            .collect();
        let (looks, whole) = (AtomicU32::new(0), OnceLock::new());
        Ok(Some(Segment { name: name.to_vec(), fd, packs, fanout, records_at, looks, whole }))
    }

    /// Number of records.
    pub(crate) fn len(&self) -> u64 {
        u32_at(&self.fanout, 255 * 4).into()
    }

    /// The object of this id, as this segment has it.
    pub(crate) fn find(&self, id: &ObjectId) -> Result<Option<(PackId, Placed)>> {
        let first = usize::from(id.0[0]);
        let start = if first == 0 { 0 } else { u32_at(&self.fanout, (first - 1) * 4) };
        let (mut low, mut high) = (u64::from(start), u64::from(u32_at(&self.fanout, first * 4)));
        if low == high {
            return Ok(None);
        }
        let looks = self.looks.fetch_add(1, Ordering::Relaxed);
        if looks >= LOOKS && self.whole.get().is_none() && self.len() * RECORD as u64 <= WHOLE {
            let records = self.read(0, self.len())?;
            let _ = self.whole.set(records);
        }
        // Hashes are spread evenly, so that the place of one can be told nearly from its value.
        let value = u64_be(&id.0[1..]);
        let mut guess = low + ((u128::from(value) * u128::from(high - low)) >> 64) as u64;
        while low < high {
            let from = guess.saturating_sub(WINDOW / 2).max(low);
            let to = (from + WINDOW).min(high);
            let records = match self.whole.get() {
                Some(whole) => whole[from as usize * RECORD..to as usize * RECORD].into(),
                None => std::borrow::Cow::from(self.read(from, to)?),
            };
            let at = |n: usize| &records[n * RECORD..][..RECORD];
            let count = records.len() / RECORD;
            if at(0)[..32] > id.0[..] {
                high = from;
            } else if at(count - 1)[..32] < id.0[..] {
                low = to;
            } else {
                let (mut low, mut high) = (0, count);
                while low < high {
                    let middle = low + (high - low) / 2;
                    match at(middle)[..32].cmp(&id.0) {
                        std::cmp::Ordering::Less => low = middle + 1,
                        std::cmp::Ordering::Greater => high = middle,
                        std::cmp::Ordering::Equal => return Ok(self.decode(at(middle))),
                    }
                }
                return Ok(None);
            }
            guess = low + (high - low) / 2;
        }
        Ok(None)
    }

    fn read(&self, from: u64, to: u64) -> Result<Vec<u8>> {
        let mut records = vec![0; ((to - from) as usize) * RECORD];
        let got = bytes::read_full_at(&self.fd, &mut records, self.records_at + from * RECORD as u64)?;
        if got < records.len() {
            return Err(Error::new("pread", &self.name, Errno::IO));
        }
        Ok(records)
    }

    fn decode(&self, record: &[u8]) -> Option<(PackId, Placed)> {
        let pack = *self.packs.get(u32_at(record, 48) as usize)?;
        let placed = Placed {
            id: ObjectId(hash_at(record, 0)),
            offset: u64_at(record, 32),
            len: u32_at(record, 40),
            kind: ObjectKind::from_byte(record[44])?,
            encoding: record[45],
        };
        Some((pack, placed))
    }

    /// All records, or `None` where the segment is damaged.
    pub(crate) fn all(&self) -> Result<Option<Vec<(PackId, Placed)>>> {
        let bytes = bytes::read_all(self.fd.as_fd())?;
        if bytes.len() < HEADER || hash(&bytes[HEADER..]) != hash_at(&bytes, 32) {
            return Ok(None);
        }
        let records = bytes.get(self.records_at as usize..).unwrap_or_default();
        Ok(records.chunks_exact(RECORD).map(|record| self.decode(record)).collect())
    }
}

/// The bytes of a segment over these packs. `records` are sorted by id.
pub(crate) fn encode(packs: &[PackId], records: &[(PackId, Placed)]) -> Vec<u8> {
    let mut out = vec![0; HEADER];
    let numbers: std::collections::HashMap<PackId, u32> =
        packs.iter().enumerate().map(|(number, pack)| (*pack, number as u32)).collect();
    packs.iter().for_each(|pack| out.extend_from_slice(&pack.0));
    let mut fanout = [0u32; 256];
    records.iter().for_each(|(_, placed)| fanout[usize::from(placed.id.0[0])] += 1);
    let mut sum = 0;
    for count in fanout {
        sum += count;
        out.extend_from_slice(&u32::to_le_bytes(sum));
    }
    for (pack, placed) in records {
        out.extend_from_slice(&placed.id.0);
        out.extend_from_slice(&placed.offset.to_le_bytes());
        out.extend_from_slice(&placed.len.to_le_bytes());
        out.extend_from_slice(&[placed.kind as u8, placed.encoding, 0, 0]);
        out.extend_from_slice(&numbers.get(pack).copied().unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
    }
    out[..8].copy_from_slice(MAGIC);
    out[8..12].copy_from_slice(&(packs.len() as u32).to_le_bytes());
    out[16..24].copy_from_slice(&(records.len() as u64).to_le_bytes());
    let hash = hash(&out[HEADER..]);
    out[32..64].copy_from_slice(&hash);
    out
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

fn u64_be(bytes: &[u8]) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[..8]);
    u64::from_be_bytes(raw)
}
