//! [`Table`]: what a pack holds, by its own index, or by its heads where the index is damaged.
//!
//! Invariant: a table never points outside its pack, and a damaged pack still gives every object that is whole.

use std::os::fd::{AsFd, BorrowedFd};

use kernel::{Result, bytes, meta};

use super::{FOOTER, HEAD, HEADER, MAGIC, PLAIN, PackId, Placed, RECORD, TAIL, read_head, seal};
use crate::encode::{hash_at, u32_at, u64_at};
use crate::id::ObjectId;

/// The objects of one pack, sorted.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) pack: PackId,
    /// Index records as they stand in the file.
    records: Vec<u8>,
    /// Why the pack's own index was not used.
    pub(crate) broken: Option<&'static str>,
    /// Bytes of the file.
    pub(crate) size: u64,
}

impl Table {
    /// Reads the index of an open pack; where it is damaged, finds the objects by their heads.
    pub(crate) fn load(pack: PackId, fd: impl AsFd) -> Result<Table> {
        let fd = fd.as_fd();
        let size = meta::stat_fd(fd)?.size;
        match Table::by_index(pack, fd, size)? {
            Ok(records) => Ok(Table { pack, records, broken: None, size }),
            Err(why) => {
                let records = Table::by_heads(fd, size)?;
                Ok(Table { pack, records, broken: Some(why), size })
            }
        }
    }

    fn by_index(
        pack: PackId,
        fd: BorrowedFd<'_>,
        size: u64,
    ) -> Result<std::result::Result<Vec<u8>, &'static str>> {
        if size < (HEADER + FOOTER) as u64 {
            return Ok(Err("the file is cut off"));
        }
        // Small packs are had in one call.
        let mut tail = vec![0; size.min(64 * 1024) as usize];
        let tail_at = size - tail.len() as u64;
        bytes::read_full_at(fd, &mut tail, tail_at)?;
        let footer = tail[tail.len() - FOOTER..].to_vec();
        if &footer[56..] != TAIL || footer[48..56] != [0; 8] {
            return Ok(Err("the footer is damaged or cut off"));
        }
        let (index_at, count) = (u64_at(&footer, 0), u64::from(u32_at(&footer, 8)));
        let end = index_at.checked_add(count * RECORD as u64);
        if index_at < HEADER as u64 || end != Some(size - FOOTER as u64) {
            return Ok(Err("the footer is damaged"));
        }
        let index = if index_at >= tail_at {
            tail[(index_at - tail_at) as usize..tail.len() - FOOTER].to_vec()
        } else {
            let mut index = vec![0; (count * RECORD as u64) as usize];
            bytes::read_full_at(fd, &mut index, index_at)?;
            index
        };
        let mut header = [0; HEADER];
        bytes::read_full_at(fd, &mut header, 0)?;
        let hash = seal(&header, &index, &footer[..16]);
        if hash != hash_at(&footer, 16) || hash[..16] != pack.0 || header[..8] != *MAGIC {
            return Ok(Err("the index is damaged"));
        }
        let fits = |record: &[u8]| {
            Placed::read(record).is_some_and(|placed| {
                placed.offset.checked_add(placed.len.into()).is_some_and(|end| end <= index_at)
            })
        };
        if !index.chunks_exact(RECORD).all(fits) {
            return Ok(Err("the index points outside the pack"));
        }
        Ok(Ok(index))
    }

    /// Walks the heads. A damaged head ends a run; the next is looked for byte by byte.
    fn by_heads(fd: BorrowedFd<'_>, size: u64) -> Result<Vec<u8>> {
        let mut found: Vec<Placed> = Vec::new();
        let mut at = HEADER as u64;
        let mut window = vec![0; 64 * 1024];
        while at + HEAD as u64 <= size {
            let got = bytes::read_full_at(fd, &mut window, at)?;
            let next = (0..(got + 1).saturating_sub(HEAD)).find_map(|skip| {
                let mut head = [0; HEAD];
                head.copy_from_slice(&window[skip..skip + HEAD]);
                let (kind, encoding, len, front) = read_head(&head)?;
                let offset = at + (skip + HEAD) as u64;
                // What a head says is true only where the bytes agree with it.
                let end = offset.checked_add(u64::from(len))?;
                (encoding == PLAIN && end <= size).then_some((kind, offset, len, front, end))
            });
            let Some((kind, offset, len, front, end)) = next else {
                at += (got.max(HEAD) - HEAD + 1) as u64;
                continue;
            };
            let mut content = vec![0; len as usize];
            bytes::read_full_at(fd, &mut content, offset)?;
            let id = ObjectId::of(kind, &content);
            if id.0[..8] == front {
                found.push(Placed { id, kind, encoding: PLAIN, offset, len });
                at = end;
            } else {
                // The bytes are damaged, or this was no head. The true next one is found either way.
                at = offset - HEAD as u64 + 1;
            }
        }
        found.sort_unstable_by_key(|placed| placed.id);
        let mut records = Vec::new();
        found.iter().for_each(|placed| placed.put(&mut records));
        Ok(records)
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.records.len() / RECORD
    }

    /// All objects, sorted by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Placed> + '_ {
        self.records.chunks_exact(RECORD).filter_map(Placed::read)
    }

    /// The object of this id.
    pub(crate) fn find(&self, id: &ObjectId) -> Option<Placed> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let record = &self.records[middle * RECORD..][..RECORD];
            match record[..32].cmp(&id.0) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Placed::read(record),
            }
        }
        None
    }
}
