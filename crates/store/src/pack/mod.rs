//! The bytes of a pack: many objects in one file that is written once, in one go, and never again.
//!
//! ```text
//! header  16  "LKPACK1\n", flags (u32), zero (u32)
//! object  16  length (u32), kind (u8), encoding (u8), check (u16), first 8 bytes of the hash; then the bytes
//! …
//! index   48  for each object, sorted: hash, offset of its bytes (u64), length (u32), kind (u8), encoding (u8), zero (u16)
//! footer  64  offset of the index (u64), count (u32), flags (u32), hash of header, index and these, zero (u64), "LKTAIL1\n"
//! ```
//!
//! Numbers are little-endian. The name of a pack is the front of the footer's hash. Readers go by the index; the heads
//! of the objects serve when it is damaged or cut off.

pub(crate) mod read;
pub(crate) mod write;

use std::fmt;

use crate::encode::{hash_at, u32_at, u64_at};
use crate::id::{ObjectId, ObjectKind, hex, parse_hex};

pub(crate) const MAGIC: &[u8; 8] = b"LKPACK1\n";
pub(crate) const TAIL: &[u8; 8] = b"LKTAIL1\n";
pub(crate) const HEADER: usize = 16;
pub(crate) const HEAD: usize = 16;
pub(crate) const RECORD: usize = 48;
pub(crate) const FOOTER: usize = 64;
/// Largest object that is written or read.
pub const MAX_OBJECT: u64 = 64 << 20;
/// How the bytes of an object stand in the pack: as they are. Other values are features of later versions.
pub(crate) const PLAIN: u8 = 0;

const CONTEXT: &str = "lanekeeper store v1 pack";
const SUFFIX: &str = ".pack";

/// A pack's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(pub [u8; 16]);

impl PackId {
    /// The name of its file.
    pub fn file_name(&self) -> String {
        format!("{self}{SUFFIX}")
    }

    /// The pack that a file name stands for.
    pub fn from_file_name(name: &[u8]) -> Option<PackId> {
        parse_hex(std::str::from_utf8(name).ok()?.strip_suffix(SUFFIX)?).map(PackId)
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackId({self})")
    }
}

/// Where the bytes of an object stand in their pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) id: ObjectId,
    pub(crate) kind: ObjectKind,
    pub(crate) encoding: u8,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

impl Placed {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
        out.extend_from_slice(&[self.kind as u8, self.encoding, 0, 0]);
    }

    fn read(record: &[u8]) -> Option<Placed> {
        Some(Placed {
            id: ObjectId(hash_at(record, 0)),
            offset: u64_at(record, 32),
            len: u32_at(record, 40),
            kind: ObjectKind::from_byte(record[44])?,
            encoding: record[45],
        })
    }
}

/// The head of an object.
fn head(id: ObjectId, kind: ObjectKind, encoding: u8, len: u32) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4] = kind as u8;
    head[5] = encoding;
    head[8..].copy_from_slice(&id.0[..8]);
    let check = check(&head);
    head[6..8].copy_from_slice(&check);
    head
}

fn check(head: &[u8; HEAD]) -> [u8; 2] {
    let mut bare = *head;
    bare[6..8].fill(0);
    let hash = blake3::hash(&bare);
    [hash.as_bytes()[0], hash.as_bytes()[1]]
}

/// What a head says, where it is one: kind, encoding, length, front of the hash.
fn read_head(head: &[u8; HEAD]) -> Option<(ObjectKind, u8, u32, [u8; 8])> {
    // The cheap questions first: this is asked of every byte of a damaged pack.
    let kind = ObjectKind::from_byte(head[4])?;
    let len = u32_at(head, 0);
    if u64::from(len) > MAX_OBJECT || head[6..8] != check(head) {
        return None;
    }
    let mut front = [0; 8];
    front.copy_from_slice(&head[8..]);
    Some((kind, head[5], len, front))
}

/// True where a head says what the index says.
pub(crate) fn head_fits(bytes: &[u8; HEAD], placed: &Placed) -> bool {
    *bytes == head(placed.id, placed.kind, placed.encoding, placed.len)
}

fn header() -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header
}

/// The hash that names a pack.
fn seal(header: &[u8], index: &[u8], footer_front: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
    hasher.update(header).update(index).update(footer_front);
    *hasher.finalize().as_bytes()
}
