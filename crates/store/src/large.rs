//! Large and sparse files on their way into the store: cut into parts by content, holes kept; where the filesystem can
//! share blocks, the whole file is shared and nothing is copied.
//!
//! Invariant: the list of parts follows from the bytes and holes alone, whether they are shared or copied. A shared
//! file is of one moment, and its list is of that moment too.

use std::os::fd::{AsFd as _, BorrowedFd};

use fastcdc::v2020::FastCDC;
use kernel::publish::{self, Draft};
use kernel::{Errno, bytes, meta, node, open};

use tree::Entry;
use tree::dir::entry_of;

use crate::capture::is_settled;
use crate::content::{LIST, Part, encode_list, ends_list};
use crate::error::{Error, Result, Stepping as _};
use crate::id::{ObjectId, ObjectKind};
use crate::steps::Step;
use crate::writer::Writer;

/// Smallest, usual and largest part. Parts of one content stay the same as long as these and the cutting (FastCDC of
/// 2020, normalization level 1) do; another choice is another format.
const MIN: usize = 32 * 1024;
const USUAL: usize = 128 * 1024;
const MAX: usize = 256 * 1024;

/// Bytes read at once.
const BUFFER: usize = 4 << 20;

/// The file of a list of parts, below `large`.
pub(crate) fn path(id: ObjectId) -> String {
    let name = id.to_string();
    format!("{}/{name}", &name[..2])
}

/// A large file, stored.
pub(crate) struct Large {
    /// Its list.
    pub(crate) id: ObjectId,
    /// Its length.
    pub(crate) size: u64,
    /// Where its blocks are shared: of which moment it is.
    pub(crate) shared: Option<Shared>,
}

/// The moment at which a file was shared.
#[derive(Debug)]
pub(crate) struct Shared {
    /// What it was then.
    pub(crate) entry: Entry,
    /// Its times tell that moment from all later ones.
    pub(crate) dated: bool,
}

impl Writer<'_> {
    /// Stores a file in parts; `None` where it is small and has no holes after all, so that it is better one object.
    pub(crate) fn large(&mut self, file: BorrowedFd<'_>, size: u64, small: bool) -> Result<Option<Large>> {
        if small && bytes::extents(file, size).map_err(Error::Unreadable)? == [(0, size)] {
            return Ok(None);
        }
        let Some((draft, shared)) = (if small { None } else { self.share(file)? }) else {
            let id = self.cut_all(file, size, true)?;
            return Ok(Some(Large { id, size, shared: None }));
        };
        let size = shared.entry.size;
        // The file itself is likelier to be in memory than what shares its blocks. Sharing has cleaned its pages, so
        // that whoever stores into it from now on, if only through a mapping, moves its times.
        let mut id = None;
        if shared.dated && is_settled(shared.entry.ctime, self.store.now()?) {
            let cut = self.cut_all(file, size, false)?;
            let after = entry_of(&meta::stat_fd(file).map_err(Error::Unreadable)?);
            id = same(&after, &shared.entry).then_some(cut);
        }
        let id = match id {
            Some(id) => id,
            None => self.cut_all(draft.as_fd(), size, false)?,
        };
        self.publish_shared(draft, id)?;
        Ok(Some(Large { id, size, shared: Some(shared) }))
    }

    /// Cuts a whole file into parts, stores them where asked to, and stores their list.
    fn cut_all(&mut self, from: BorrowedFd<'_>, size: u64, store: bool) -> Result<ObjectId> {
        let mut parts = Vec::new();
        let mut at = 0;
        for (start, end) in bytes::extents(from, size).map_err(Error::Unreadable)? {
            if start > at {
                parts.push(Part::Hole(start - at));
            }
            at = self.cut(from, start, end, store, &mut parts)?;
            if at < end {
                // Shorter than it was a moment ago; the caller compares and tries again.
                break;
            }
        }
        if at < size {
            parts.push(Part::Hole(size - at));
        }
        self.lists(parts)
    }

    /// Cuts one run of bytes into parts; answers where it ended.
    fn cut(
        &mut self,
        from: BorrowedFd<'_>,
        start: u64,
        end: u64,
        store: bool,
        parts: &mut Vec<Part>,
    ) -> Result<u64> {
        let mut buffer = vec![0; BUFFER.min((end - start) as usize)];
        let (mut at, mut filled) = (start, 0);
        loop {
            let rest = (end - at) as usize - filled;
            let want = rest.min(buffer.len() - filled);
            let got = bytes::read_full_at(from, &mut buffer[filled..filled + want], at + filled as u64)
                .map_err(Error::Unreadable)?;
            filled += got;
            let last = got < want || want == rest;
            let mut done = 0;
            // A cut depends on at most MAX bytes, so that those are seen whole unless the run ends.
            for chunk in FastCDC::new(&buffer[..filled], MIN, USUAL, MAX) {
                if !last && filled - chunk.offset < MAX {
                    break;
                }
                let bytes = &buffer[chunk.offset..chunk.offset + chunk.length];
                let id = ObjectId::of(ObjectKind::Blob, bytes);
                if store {
                    self.put(ObjectKind::Blob, id, bytes)?;
                }
                parts.push(Part::Data(bytes.len() as u64, id));
                done = chunk.offset + chunk.length;
            }
            at += done as u64;
            buffer.copy_within(done..filled, 0);
            filled -= done;
            if last {
                return Ok(at);
            }
        }
    }

    /// Stores parts as a list, or as a list of lists.
    fn lists(&mut self, mut parts: Vec<Part>) -> Result<ObjectId> {
        let mut level = 0;
        loop {
            let mut lists = Vec::new();
            let mut list = Vec::new();
            let count = parts.len();
            for (number, part) in parts.into_iter().enumerate() {
                list.push(part);
                let ends = matches!(part, Part::Data(_, id) if ends_list(&id));
                if ends || list.len() == LIST || number + 1 == count {
                    let len = list.iter().map(|part| match part {
                        Part::Hole(len) | Part::Data(len, _) => *len,
                    });
                    let len = len.sum();
                    lists.push(Part::Data(
                        len,
                        self.put_object(ObjectKind::Parts, &encode_list(level, &list))?,
                    ));
                    list.clear();
                }
            }
            match lists[..] {
                [] => return self.put_object(ObjectKind::Parts, &encode_list(level, &[])),
                [Part::Data(_, id)] => return Ok(id),
                _ => {}
            }
            parts = lists;
            level += 1;
        }
    }

    /// A file without a name that shares all blocks of this one, and of which moment it is; `None` where that cannot be.
    fn share(&mut self, file: BorrowedFd<'_>) -> Result<Option<(Draft, Shared)>> {
        let store = self.store;
        let stat = || meta::stat_fd(file).map(|stat| entry_of(&stat)).map_err(Error::Unreadable);
        let before = stat()?;
        if !store.may_clone(before.dev) {
            return Ok(None);
        }
        let draft = Draft::begin(&store.large, 0o400).stepping("make", b"large file")?;
        store.steps.at(Step::LargeWrite).stepping("share", b"large file")?;
        if bytes::clone_content(file, &draft).stepping("share", b"large file")? {
            let mut entry = stat()?;
            let dated = same(&before, &entry);
            entry.size = meta::stat_fd(&draft).stepping("stat", b"large file")?.size;
            return Ok(Some((draft, Shared { entry, dated })));
        }
        store.cannot_clone(before.dev);
        Ok(None)
    }

    fn publish_shared(&mut self, draft: Draft, id: ObjectId) -> Result<()> {
        let store = self.store;
        let name = path(id);
        let (front, last) = name.split_once('/').unwrap_or_default();
        match node::mkdir_at(&store.large, front.as_bytes(), 0o700) {
            Ok(()) => publish::sync_dir(&store.large).stepping("sync", front)?,
            Err(error) if error.errno == Errno::EXIST => {}
            Err(error) => return Err(error).stepping("make directory", front),
        }
        let dir = open::dir_beneath(&store.large, front.as_bytes()).stepping("open", front)?;
        store.steps.at(Step::LargeSync).stepping("sync", &name)?;
        publish::sync_data(&draft).stepping("sync", &name)?;
        store.steps.at(Step::LargePublish).stepping("publish", &name)?;
        draft.publish(&dir, last.as_bytes()).stepping("publish", &name)?;
        Ok(())
    }
}

/// True where nobody has touched a file between two looks.
fn same(one: &Entry, two: &Entry) -> bool {
    (one.size, one.mtime, one.ctime) == (two.size, two.mtime, two.ctime)
}

#[cfg(test)]
mod tests {
    use fastcdc::v2020::FastCDC;

    use super::{MAX, MIN, USUAL};

    #[test]
    fn known_bytes_are_cut_where_they_were_always_cut() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut bytes = Vec::new();
        while bytes.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        let cuts: Vec<usize> = FastCDC::new(&bytes, MIN, USUAL, MAX).map(|chunk| chunk.length).collect();
        assert_eq!(cuts, [44750, 130934, 173622, 43931, 138913, 262144, 79992, 143486, 30804]);
    }
}
