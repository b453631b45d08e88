//! [`PackWriter`]: a pack in the making.
//!
//! Invariant: what is written has no name until all of it is synced. Writing is sequential, and the disk begins
//! while objects are still being gathered, so that the sync at the end has little left to wait for.

use std::os::fd::{AsFd as _, BorrowedFd};

use kernel::publish::{self, Draft};
use kernel::{Result, bytes};

use super::{FOOTER, HEAD, HEADER, PLAIN, PackId, Placed, TAIL, head, header, seal};
use crate::id::{ObjectId, ObjectKind};
use crate::steps::{Step, Steps};

/// Bytes that are gathered before they are handed to the kernel.
const SPILL: usize = 1 << 20;

/// Objects on their way into a pack.
#[derive(Debug, Default)]
pub(crate) struct PackWriter {
    draft: Option<Draft>,
    buffer: Vec<u8>,
    written: u64,
    placed: Vec<Placed>,
}

impl PackWriter {
    pub(crate) fn is_empty(&self) -> bool {
        self.placed.is_empty()
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Bytes that the kernel does not have yet.
    pub(crate) fn pending(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// Adds an object, whose hash the caller has taken. `len` was held against the limit.
    pub(crate) fn add(
        &mut self,
        dir: BorrowedFd<'_>,
        steps: &Steps,
        id: ObjectId,
        kind: ObjectKind,
        bytes: &[u8],
    ) -> Result<()> {
        if self.is_empty() {
            self.buffer.extend_from_slice(&header());
        }
        let len = bytes.len() as u32;
        let offset = self.len() + HEAD as u64;
        self.buffer.extend_from_slice(&head(id, kind, PLAIN, len));
        self.buffer.extend_from_slice(bytes);
        self.placed.push(Placed { id, kind, encoding: PLAIN, offset, len });
        if self.buffer.len() >= SPILL {
            self.spill(dir, steps)?;
        }
        Ok(())
    }

    fn spill(&mut self, dir: BorrowedFd<'_>, steps: &Steps) -> Result<()> {
        if self.draft.is_none() {
            self.draft = Some(Draft::begin(dir, 0o400)?);
        }
        let Some(draft) = &self.draft else { return Ok(()) };
        steps.at(Step::PackWrite)?;
        bytes::write_all_at(draft, &self.buffer, self.written)?;
        bytes::start_writeback(draft, self.written, self.buffer.len() as u64);
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Writes the index, syncs, and puts the pack under its name.
    pub(crate) fn finish(mut self, dir: BorrowedFd<'_>, steps: &Steps) -> Result<()> {
        self.placed.sort_unstable_by_key(|placed| placed.id);
        let index_at = self.len();
        let mut index = Vec::with_capacity(self.placed.len() * super::RECORD + FOOTER);
        self.placed.iter().for_each(|placed| placed.put(&mut index));
        let mut footer = [0; FOOTER];
        footer[..8].copy_from_slice(&index_at.to_le_bytes());
        footer[8..12].copy_from_slice(&(self.placed.len() as u32).to_le_bytes());
        let hash = seal(&header()[..HEADER], &index, &footer[..16]);
        footer[16..48].copy_from_slice(&hash);
        footer[56..].copy_from_slice(TAIL);
        self.buffer.extend_from_slice(&index);
        self.buffer.extend_from_slice(&footer);
        self.spill(dir, steps)?;
        let mut id = PackId([0; 16]);
        id.0.copy_from_slice(&hash[..16]);
        if let Some(draft) = self.draft.take() {
            steps.at(Step::PackSync)?;
            publish::sync_data(draft.as_fd())?;
            steps.at(Step::PackPublish)?;
            // A pack of this name has the same index, so the same objects: it was whole when it got its name.
            draft.publish(dir, id.file_name().as_bytes())?;
        }
        Ok(())
    }
}
