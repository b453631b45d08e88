//! Moving and comparing file content. Owns the order FICLONE → copy_file_range → read and write.
//!
//! Invariant: holes stay holes, short reads and writes are continued, and an answer of `Ok` means that
//! every byte which the source gave was taken. Rests on ioctl_ficlone(2), copy_file_range(2), lseek(2).

use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::error::{Asked, Error, Result};
use crate::open::retry;

/// How content was moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum How {
    /// Blocks are shared (FICLONE): no copy was made.
    Reflink,
    /// The kernel copied.
    CopyRange,
    /// We read and wrote.
    ReadWrite,
}

/// Below this size reading and writing costs less than copy_file_range does.
const SMALL: u64 = 64 * 1024;

/// Buffer for reading and writing.
const BUFFER: usize = 256 * 1024;

/// Moves content between one pair of filesystems and remembers what they can do, so that a tree pays
/// for a refused call once and not once per file.
#[derive(Debug)]
pub struct Mover {
    reflink: bool,
    copy_range: bool,
    buffer: Vec<u8>,
    /// How much of the buffer is the whole of the content that was moved last; `None` where it did not go through it whole.
    held: Option<usize>,
}

impl Default for Mover {
    fn default() -> Mover {
        Mover { reflink: true, copy_range: true, buffer: Vec::new(), held: None }
    }
}

impl Mover {
    /// A mover that has not tried anything yet.
    pub fn new() -> Mover {
        Mover::default()
    }

    /// Moves `len` bytes from the start of `from` to the start of the empty file `to`. Where `from` is
    /// shorter, all that it has is moved. `sparse` says that `from` may have holes (a seek for each is spent).
    ///
    /// Returns how it was done and how many bytes `to` holds.
    pub fn move_content(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        len: u64,
        sparse: bool,
    ) -> Result<(How, u64)> {
        self.held = None;
        if len == 0 {
            self.held = Some(0);
            return Ok((How::ReadWrite, 0));
        }
        if self.reflink {
            match retry(|| rustix::fs::ioctl_ficlone(to, from)) {
                // The clone is of the whole file, which may have grown since the caller looked.
                Ok(()) => return Ok((How::Reflink, crate::meta::stat_fd(to)?.size)),
                Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS | Errno::PERM) => {
                    self.reflink = false
                }
                // This one file cannot be cloned (an inline or swap file, other flags): copy it.
                Err(Errno::INVAL | Errno::TXTBSY | Errno::ACCESS) => {}
                Err(errno) => return Err(errno).asked("ioctl_ficlone", b""),
            }
        }
        if sparse {
            let answer = self.move_extents(from, to, len);
            // What went through the buffer may have been no more than a part.
            self.held = None;
            return answer;
        }
        let (how, moved) = self.move_range(from, to, 0, len)?;
        Ok((how, moved))
    }

    /// True once a clone was tried and cannot be had here.
    pub fn only_copies(&self) -> bool {
        !self.reflink
    }

    /// The content that was moved last, where all of it went through our hands in one piece: nobody has to read it again.
    pub fn held(&self) -> Option<&[u8]> {
        self.held.and_then(|len| self.buffer.get(..len))
    }

    /// Extent by extent, so that what is a hole in `from` is one in `to`.
    fn move_extents(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: u64) -> Result<(How, u64)> {
        let mut at = 0;
        let mut how = How::CopyRange;
        while at < len {
            let data = match rustix::fs::seek(from, SeekFrom::Data(at)) {
                Ok(data) => data.min(len),
                // No data after this point: the rest is one hole.
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL) => at,
                Err(errno) => return Err(errno).asked("lseek", b"SEEK_DATA"),
            };
            let end = match rustix::fs::seek(from, SeekFrom::Hole(data)) {
                Ok(hole) => hole.min(len),
                Err(Errno::INVAL) => len,
                Err(Errno::NXIO) => break,
                Err(errno) => return Err(errno).asked("lseek", b"SEEK_HOLE"),
            };
            if data >= end {
                break;
            }
            let (this, moved) = self.move_range(from, to, data, end - data)?;
            if this == How::ReadWrite {
                how = this;
            }
            if moved < end - data {
                break;
            }
            at = end;
        }
        // Seeking may have found an earlier end where the file shrank meanwhile.
        let len = len.min(crate::meta::stat_fd(from)?.size);
        retry(|| rustix::fs::ftruncate(to, len)).asked("ftruncate", b"")?;
        Ok((how, len))
    }

    fn move_range(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        start: u64,
        len: u64,
    ) -> Result<(How, u64)> {
        let mut done = 0;
        if self.copy_range && len > SMALL {
            while done < len {
                let (mut read_at, mut write_at) = (start + done, start + done);
                let ask = usize::try_from(len - done).unwrap_or(usize::MAX).min(1 << 30);
                match retry(|| {
                    rustix::fs::copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), ask)
                }) {
                    // Some filesystems (proc, some network ones) answer 0 though there is data: read to be sure.
                    Ok(0) => break,
                    Ok(moved) => done += moved as u64,
                    Err(
                        Errno::XDEV
                        | Errno::NOSYS
                        | Errno::OPNOTSUPP
                        | Errno::INVAL
                        | Errno::PERM
                        | Errno::BADF,
                    ) => {
                        self.copy_range = false;
                        break;
                    }
                    Err(errno) => return Err(errno).asked("copy_file_range", b""),
                }
            }
            if done == len {
                return Ok((How::CopyRange, done));
            }
        }
        let rest = self.read_and_write(from, to, start + done, len - done)?;
        let how = if done > 0 && rest == 0 { How::CopyRange } else { How::ReadWrite };
        Ok((how, done + rest))
    }

    fn read_and_write(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        start: u64,
        len: u64,
    ) -> Result<u64> {
        let want = usize::try_from(len).unwrap_or(BUFFER).min(BUFFER);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let mut done = 0;
        while done < len {
            let ask = usize::try_from(len - done).unwrap_or(BUFFER).min(BUFFER);
            let got = retry(|| rustix::io::pread(from, &mut self.buffer[..ask], start + done))
                .asked("pread", b"")?;
            if got == 0 {
                break;
            }
            write_all_at(to, &self.buffer[..got], start + done)?;
            self.held = (start + done == 0).then_some(got);
            done += got as u64;
        }
        Ok(done)
    }
}

/// Moves `len` bytes from the start of `from` to the start of the empty file `to`, keeping holes.
/// For many files between the same two filesystems use one [`Mover`].
pub fn move_content(from: BorrowedFd<'_>, to: BorrowedFd<'_>, len: u64) -> Result<How> {
    let stat = crate::meta::stat_fd(from)?;
    let sparse = stat.blocks * 512 < stat.size;
    Mover::new().move_content(from, to, len, sparse).map(|(how, _)| how)
}

/// Writes all of `bytes` at `offset`, however many calls that takes.
pub fn write_all_at(fd: impl AsFd, bytes: &[u8], offset: u64) -> Result<()> {
    let fd = fd.as_fd();
    let mut done = 0;
    while done < bytes.len() {
        let put =
            retry(|| rustix::io::pwrite(fd, &bytes[done..], offset + done as u64)).asked("pwrite", b"")?;
        if put == 0 {
            return Err(Error::new("pwrite", b"", Errno::IO));
        }
        done += put;
    }
    Ok(())
}

/// Reads the whole of a file, from its start.
pub fn read_all(fd: impl AsFd) -> Result<Vec<u8>> {
    let fd = fd.as_fd();
    let size =
        usize::try_from(crate::meta::stat_fd(fd)?.size).map_err(|_| Error::new("pread", b"", Errno::FBIG))?;
    // One byte more than it should be, so that the read that finds the end needs no second call.
    let mut bytes = vec![0; size + 1];
    let mut len = 0;
    loop {
        if len == bytes.len() {
            bytes.resize(len + BUFFER, 0);
        }
        match retry(|| rustix::io::pread(fd, &mut bytes[len..], len as u64)).asked("pread", b"")? {
            0 => break,
            got => len += got,
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Fills `buffer` from `offset` on; fewer bytes only at the end of the file.
pub fn read_full_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let fd = fd.as_fd();
    let mut len = 0;
    while len < buffer.len() {
        match retry(|| rustix::io::pread(fd, &mut buffer[len..], offset + len as u64)).asked("pread", b"")? {
            0 => break,
            got => len += got,
        }
    }
    Ok(len)
}

/// The parts of the first `len` bytes of a file that are no holes: start and end of each. Moves the file offset.
pub fn extents(fd: impl AsFd, len: u64) -> Result<Vec<(u64, u64)>> {
    let fd = fd.as_fd();
    let mut found = Vec::new();
    let mut at = 0;
    while at < len {
        let data = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
            Ok(data) => data.min(len),
            Err(Errno::NXIO) => break,
            // A filesystem that knows no holes has none.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(errno) => return Err(errno).asked("lseek", b"SEEK_DATA"),
        };
        let end = match rustix::fs::seek(fd, SeekFrom::Hole(data)) {
            Ok(hole) => hole.min(len),
            Err(Errno::INVAL | Errno::OPNOTSUPP) => len,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno).asked("lseek", b"SEEK_HOLE"),
        };
        if data >= end {
            break;
        }
        found.push((data, end));
        at = end;
    }
    Ok(found)
}

/// Lets `to` share all blocks of `from`; false where this filesystem, or this file, cannot.
pub fn clone_content(from: impl AsFd, to: impl AsFd) -> Result<bool> {
    let (from, to) = (from.as_fd(), to.as_fd());
    match retry(|| rustix::fs::ioctl_ficlone(to, from)) {
        Ok(()) => Ok(true),
        Err(
            Errno::OPNOTSUPP
            | Errno::XDEV
            | Errno::NOTTY
            | Errno::NOSYS
            | Errno::PERM
            | Errno::INVAL
            | Errno::TXTBSY
            | Errno::ACCESS,
        ) => Ok(false),
        Err(errno) => Err(errno).asked("ioctl_ficlone", b""),
    }
}

/// Gives a file its length; what is not written yet reads as zeros and takes no space.
pub fn set_len(fd: impl AsFd, len: u64) -> Result<()> {
    let fd = fd.as_fd();
    retry(|| rustix::fs::ftruncate(fd, len)).asked("ftruncate", b"")
}

/// Asks the kernel to begin writing these bytes to disk, and does not wait. Promises nothing.
pub fn start_writeback(fd: impl AsFd, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: sync_file_range(2) takes a descriptor, which is borrowed and so open, and plain numbers.
    unsafe {
        libc::sync_file_range(fd.as_fd().as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// An empty file in memory, for reading and writing, without a name anywhere.
pub fn memory_file() -> Result<OwnedFd> {
    rustix::fs::memfd_create(c"lane", rustix::fs::MemfdFlags::CLOEXEC).asked("memfd_create", b"")
}

/// What one call gives from `offset` on. Of a regular file that is all there is, or a full buffer.
pub fn read_once_at(fd: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize> {
    let fd = fd.as_fd();
    retry(|| rustix::io::pread(fd, &mut *buffer, offset)).asked("pread", b"")
}

/// True where both files hold the same bytes. Sizes are compared first; two names of one inode are not read.
pub fn same_content(a: impl AsFd, b: impl AsFd) -> Result<bool> {
    let (a, b) = (a.as_fd(), b.as_fd());
    let (one, two) = (crate::meta::stat_fd(a)?, crate::meta::stat_fd(b)?);
    if one.size != two.size {
        return Ok(false);
    }
    if one.identity() == two.identity() {
        return Ok(true);
    }
    let chunk = usize::try_from(one.size + 1).unwrap_or(BUFFER).min(BUFFER);
    let (mut left, mut right) = (vec![0u8; chunk], vec![0u8; chunk]);
    let mut offset = 0;
    loop {
        let got = read_full_at(a, &mut left, offset)?;
        let same = read_full_at(b, &mut right, offset)?;
        if left[..got] != right[..same] {
            return Ok(false);
        }
        if got < chunk {
            return Ok(true);
        }
        offset += got as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    fn pair(content: &[u8]) -> (tempfile::TempDir, File, File) {
        let dir = tempfile::tempdir().expect("temporary directory");
        std::fs::write(dir.path().join("a"), content).expect("write");
        let from = File::open(dir.path().join("a")).expect("open");
        let to = File::create_new(dir.path().join("b")).expect("create");
        let to = {
            drop(to);
            File::options().read(true).write(true).open(dir.path().join("b")).expect("open")
        };
        (dir, from, to)
    }

    #[test]
    fn content_of_every_size_arrives_whole() {
        for size in [0usize, 1, 4096, 65_535, 65_536, 65_537, 700_001] {
            let content: Vec<u8> = (0..size).map(|n| (n * 7 % 251) as u8).collect();
            let (dir, from, to) = pair(&content);
            move_content(from.as_fd(), to.as_fd(), size as u64).expect("move");
            assert_eq!(std::fs::read(dir.path().join("b")).expect("read"), content, "{size}");
            assert!(same_content(&from, &to).expect("compare"));
            assert_eq!(read_all(&to).expect("read"), content);
        }
    }

    #[test]
    fn reading_and_writing_gives_the_same_as_the_kernel() {
        let content: Vec<u8> = (0..900_000u32).map(|n| (n % 241) as u8).collect();
        let (dir, from, to) = pair(&content);
        let mut mover = Mover { reflink: false, copy_range: false, ..Mover::default() };
        let answer = mover.move_content(from.as_fd(), to.as_fd(), 900_000, false).expect("move");
        assert_eq!(answer, (How::ReadWrite, 900_000));
        assert_eq!(std::fs::read(dir.path().join("b")).expect("read"), content);
    }

    #[test]
    fn holes_stay_holes_also_at_the_end() {
        let (dir, _, to) = pair(b"");
        let from = File::options().read(true).write(true).open(dir.path().join("a")).expect("open");
        from.write_at(b"head", 0).expect("write");
        from.write_at(&[7; 100_000], 8 << 20).expect("write");
        from.set_len(64 << 20).expect("set_len");
        for copy_range in [true, false] {
            to.set_len(0).expect("set_len");
            let mut mover = Mover { reflink: false, copy_range, ..Mover::default() };
            mover.move_content(from.as_fd(), to.as_fd(), 64 << 20, true).expect("move");
            assert!(same_content(&from, &to).expect("compare"));
            assert_eq!(to.metadata().expect("stat").len(), 64 << 20);
            assert!(to.metadata().expect("stat").blocks() * 512 < 1 << 20);
        }
    }

    #[test]
    fn extents_are_what_was_written_and_nothing_of_the_holes() {
        let (_dir, _, to) = pair(b"");
        assert_eq!(extents(&to, 0).expect("extents"), []);
        set_len(&to, 8 << 20).expect("set_len");
        assert_eq!(extents(&to, 8 << 20).expect("extents"), []);
        write_all_at(&to, &[1; 65536], 1 << 20).expect("write");
        start_writeback(&to, 1 << 20, 65536);
        assert_eq!(extents(&to, 8 << 20).expect("extents"), [(1 << 20, (1 << 20) + 65536)]);
        assert_eq!(extents(&to, (1 << 20) + 10).expect("extents"), [(1 << 20, (1 << 20) + 10)]);
        let memory = memory_file().expect("memfd");
        write_all_at(&memory, b"x", 4).expect("write");
        assert_eq!(read_all(&memory).expect("read"), b"\0\0\0\0x");
    }

    #[test]
    fn a_file_that_is_shorter_than_announced_moves_what_it_has() {
        let (_dir, from, to) = pair(&[1; 100_000]);
        let (_, moved) = Mover::new().move_content(from.as_fd(), to.as_fd(), 300_000, false).expect("move");
        assert_eq!(moved, 100_000);
    }

    #[test]
    fn one_changed_byte_is_seen_wherever_it_is() {
        let content = vec![5u8; BUFFER + 17];
        for at in [0, BUFFER - 1, BUFFER, BUFFER + 16] {
            let (_dir, from, to) = pair(&content);
            write_all_at(&to, &content, 0).expect("write");
            assert!(same_content(&from, &to).expect("compare"));
            write_all_at(&to, b"x", at as u64).expect("write");
            assert!(!same_content(&from, &to).expect("compare"));
        }
    }
}
