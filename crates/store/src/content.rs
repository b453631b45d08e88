//! [`Content`]: what a manifest says about the bytes of a file, and the reading of them.
//!
//! Invariant: the same bytes (with the same holes, in a large file) are the same `Content` on every filesystem. Nothing
//! is handed out that does not have its hash, and what was a hole is one again.

use std::os::fd::{AsFd, OwnedFd};

use kernel::{bytes, meta, open};

use crate::encode::{Decoded, Malformed, Put, Take};
use crate::error::{Error, Result, Stepping as _};
use crate::id::{HASH, ObjectId, ObjectKind};
use crate::store::Store;

/// Files up to this size stand in the manifest itself.
pub const INLINE: usize = 128;
/// Files from this size on are stored in parts.
pub const LARGE: u64 = 1 << 20;

/// Most that is read into memory at once.
const READ: u64 = 1 << 30;

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Content {
    /// The bytes themselves.
    Inline(Vec<u8>),
    /// One object.
    Blob {
        /// Its id, which is the plain BLAKE3 of the bytes.
        id: ObjectId,
        /// Its length.
        size: u64,
    },
    /// A list of parts and holes.
    Parts {
        /// The list.
        id: ObjectId,
        /// Length of the whole file.
        size: u64,
    },
}

impl Content {
    /// Length of the file.
    pub fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blob { size, .. } | Content::Parts { size, .. } => *size,
        }
    }

    /// The object that it rests on, where there is one.
    pub fn object(&self) -> Option<(ObjectKind, ObjectId)> {
        match self {
            Content::Inline(_) => None,
            Content::Blob { id, .. } => Some((ObjectKind::Blob, *id)),
            Content::Parts { id, .. } => Some((ObjectKind::Parts, *id)),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Content::Inline(bytes) => {
                out.byte(0);
                out.bytes(bytes);
            }
            Content::Blob { id, size } => {
                out.byte(1);
                out.number(*size);
                out.raw(&id.0);
            }
            Content::Parts { id, size } => {
                out.byte(2);
                out.number(*size);
                out.raw(&id.0);
            }
        }
    }

    pub(crate) fn take(from: &mut Take<'_>) -> Decoded<Content> {
        match from.byte()? {
            0 => {
                let bytes = from.bytes()?;
                if bytes.len() > INLINE {
                    return Err(Malformed("content in a manifest is too long"));
                }
                Ok(Content::Inline(bytes.to_vec()))
            }
            1 => Ok(Content::Blob { size: from.number()?, id: ObjectId(from.hash()?) }),
            2 => Ok(Content::Parts { size: from.number()?, id: ObjectId(from.hash()?) }),
            _ => Err(Malformed("content of an unknown kind")),
        }
    }
}

/// A run of bytes of a large file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// A hole.
    Hole(u64),
    /// Stored bytes.
    Data(u64, ObjectId),
}

impl Part {
    fn len(&self) -> u64 {
        match self {
            Part::Hole(len) | Part::Data(len, _) => *len,
        }
    }
}

/// Parts of one list object at most, so that a changed part of a huge file rewrites a short list.
pub(crate) const LIST: usize = 256;
/// More levels of lists than any file has.
pub(crate) const PARTS_LEVELS: u8 = 8;
/// The version of a list.
const LIST_FORMAT: u8 = 1;

/// The bytes of a list of parts. `level` 0 lists parts; above, `Data` stands for a list of the level below.
pub(crate) fn encode_list(level: u8, parts: &[Part]) -> Vec<u8> {
    let mut out = vec![LIST_FORMAT, level];
    out.number(parts.len() as u64);
    for part in parts {
        match part {
            Part::Hole(len) => out.number(len << 1),
            Part::Data(len, id) => {
                out.number(len << 1 | 1);
                out.raw(&id.0);
            }
        }
    }
    out
}

pub(crate) fn decode_list(bytes: &[u8]) -> Decoded<(u8, Vec<Part>)> {
    let mut take = Take(bytes);
    if take.byte()? != LIST_FORMAT {
        return Err(Malformed("a parts list of an unknown version"));
    }
    let level = take.byte()?;
    let count = take.count()?;
    let mut parts = Vec::with_capacity(count.min(LIST));
    for _ in 0..count {
        let word = take.number()?;
        let len = word >> 1;
        if len == 0 {
            return Err(Malformed("an empty part"));
        }
        parts.push(if word & 1 == 0 { Part::Hole(len) } else { Part::Data(len, ObjectId(take.hash()?)) });
    }
    take.end()?;
    Ok((level, parts))
}

/// True where a list ends after the part of this hash, wherever it stands: lists of files that have parts in common
/// then have lists in common.
pub(crate) fn ends_list(id: &ObjectId) -> bool {
    id.0[HASH - 1] < 4
}

impl Store {
    /// Calls `each` with every part of a large file in order, and its offset. Lists of lists are read as they come.
    pub(crate) fn each_part(
        &self,
        id: ObjectId,
        size: u64,
        each: &mut dyn FnMut(u64, Part) -> Result<()>,
    ) -> Result<()> {
        let mut at = 0;
        self.parts_below(id, None, &mut at, each)?;
        if at != size {
            return Err(Error::malformed(format!("parts list {id}"), "its parts do not add up to the file"));
        }
        Ok(())
    }

    fn parts_below(
        &self,
        id: ObjectId,
        above: Option<(u8, u64)>,
        at: &mut u64,
        each: &mut dyn FnMut(u64, Part) -> Result<()>,
    ) -> Result<()> {
        let what = |why| move |Malformed(reason)| Error::malformed(format!("parts list {id}{why}"), reason);
        let bytes = self.object(ObjectKind::Parts, id)?;
        let (level, parts) = decode_list(&bytes).map_err(what(""))?;
        // Each level is one lower than the one above, so that no list leads back to itself.
        if level > PARTS_LEVELS || above.is_some_and(|(above, _)| level + 1 != above) {
            return Err(what("")(Malformed("a list at the wrong level")));
        }
        let begun = *at;
        for part in parts {
            let end = at.checked_add(part.len()).ok_or(Malformed("too long")).map_err(what(""))?;
            match part {
                Part::Data(len, below) if level > 0 => {
                    self.parts_below(below, Some((level, len)), at, each)?;
                }
                part => {
                    each(*at, part)?;
                    *at = end;
                }
            }
        }
        if above.is_some_and(|(_, len)| *at - begun != len) {
            return Err(what("")(Malformed("its parts do not add up")));
        }
        Ok(())
    }

    /// The bytes of one part, from the large file that holds the whole, or from a pack.
    fn part(&self, whole: Option<&OwnedFd>, at: u64, len: u64, id: ObjectId) -> Result<Vec<u8>> {
        if let Some(part) = whole.and_then(|fd| self.part_of(fd, at, len, id)) {
            return Ok(part);
        }
        let bytes = self.object(ObjectKind::Blob, id)?;
        if bytes.len() as u64 != len {
            return Err(Error::malformed(format!("content {id}"), "has another length than its list says"));
        }
        Ok(bytes)
    }

    /// One part of a file that holds the whole, if it is there as it should be.
    fn part_of(&self, whole: impl AsFd, at: u64, len: u64, id: ObjectId) -> Option<Vec<u8>> {
        let len = usize::try_from(len).ok().filter(|len| *len as u64 <= crate::pack::MAX_OBJECT)?;
        let mut bytes = vec![0; len];
        let got = bytes::read_full_at(whole, &mut bytes, at).ok()?;
        (got == len && ObjectId::of(ObjectKind::Blob, &bytes) == id).then_some(bytes)
    }

    /// The large file that holds all parts of a list, where there is one.
    pub(crate) fn large_file(&self, id: ObjectId) -> Result<Option<OwnedFd>> {
        let name = crate::large::path(id);
        match open::file_beneath(&self.large, name.as_bytes()) {
            Ok(fd) => Ok(Some(fd)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error).stepping("open", name),
        }
    }

    /// All bytes of a content, for those that are known to be small.
    pub fn read(&self, content: &Content) -> Result<Vec<u8>> {
        let size = content.size();
        if size > READ {
            return Err(Error::TooLarge { what: "content read into memory", size, limit: READ });
        }
        let mut all = Vec::new();
        self.read_parts(content, &mut |at, part| {
            all.resize(at as usize, 0);
            all.extend_from_slice(part);
            Ok(())
        })?;
        all.resize(content.size() as usize, 0);
        Ok(all)
    }

    /// Calls `each` with every run of stored bytes in order, and its offset; what is between is holes.
    pub fn read_parts(
        &self,
        content: &Content,
        each: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        match content {
            Content::Inline(bytes) if bytes.is_empty() => Ok(()),
            Content::Inline(bytes) => each(0, bytes),
            Content::Blob { id, size } => {
                let bytes = self.object(ObjectKind::Blob, *id)?;
                if bytes.len() as u64 != *size {
                    let what = format!("content {id}");
                    return Err(Error::malformed(what, "has another length than the manifest says"));
                }
                each(0, &bytes)
            }
            Content::Parts { id, size } => {
                let whole = self.large_file(*id)?;
                self.each_part(*id, *size, &mut |at, part| match part {
                    Part::Hole(_) => Ok(()),
                    Part::Data(len, part) => {
                        let bytes = self.part(whole.as_ref(), at, len, part);
                        let bytes = bytes.map_err(|error| match whole {
                            Some(_) => lost_part(error, *id, at),
                            None => error,
                        })?;
                        each(at, &bytes)
                    }
                })
            }
        }
    }

    /// Writes a content into an empty file: shared where the filesystem can, with its holes, every byte checked.
    pub fn copy_into(&self, content: &Content, to: impl AsFd) -> Result<()> {
        let to = to.as_fd();
        let size = content.size();
        if let Content::Parts { id: list, .. } = content
            && let Some(whole) = self.large_file(*list)?
            && let dev = meta::stat_fd(to).stepping("stat", b"content")?.dev
            && self.may_clone(dev)
        {
            if bytes::clone_content(&whole, to).stepping("share", crate::large::path(*list))? {
                bytes::set_len(to, size).stepping("share", b"content")?;
                return self.each_part(*list, size, &mut |at, part| {
                    let Part::Data(len, id) = part else { return Ok(()) };
                    // What is shared is checked as well; what is not as it was is written over from the packs.
                    if self.part_of(to, at, len, id).is_some() {
                        return Ok(());
                    }
                    let part = self.part(None, at, len, id).map_err(|error| lost_part(error, *list, at))?;
                    bytes::write_all_at(to, &part, at).stepping("write", b"content")
                });
            }
            self.cannot_clone(dev);
        }
        let mut end = 0;
        self.read_parts(content, &mut |at, part| {
            end = at + part.len() as u64;
            bytes::write_all_at(to, part, at).stepping("write", b"content")
        })?;
        if end < size {
            bytes::set_len(to, size).stepping("write", b"content")?;
        }
        Ok(())
    }
}

/// A part that no pack holds either is damage of the large file that should have it.
fn lost_part(error: Error, list: ObjectId, at: u64) -> Error {
    match error {
        Error::Damaged(mut damage) if damage.place.is_none() => {
            damage.place = Some((format!("large/{}", crate::large::path(list)), at));
            damage.why = "this part of it has another hash";
            Error::Damaged(damage)
        }
        error => error,
    }
}
