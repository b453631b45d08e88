//! Opening an inode by its file handle, open_by_handle_at(2). Needs `CAP_DAC_READ_SEARCH` in the initial user namespace.

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::{Error, Result};

/// Longest handle that the kernel makes (`MAX_HANDLE_SZ`).
pub const MAX_HANDLE: usize = 128;

/// Opens what the handle of type `kind` with these bytes means on the filesystem that `mount` is on. A handle of a
/// file that is gone answers `ESTALE`.
pub fn open_by_handle(mount: impl AsFd, kind: i32, handle: &[u8], flags: OFlags) -> Result<OwnedFd> {
    let wrong = || Error::new("open_by_handle_at", b"", Errno::INVAL);
    if handle.len() > MAX_HANDLE {
        return Err(wrong());
    }
    let len = u32::try_from(handle.len()).map_err(|_| wrong())?;
    // struct file_handle: handle_bytes, handle_type, then the bytes. A vector of u32 has its alignment.
    let mut words = vec![len, kind.cast_unsigned()];
    for chunk in handle.chunks(4) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        words.push(u32::from_ne_bytes(word));
    }
    let flags = (flags | OFlags::CLOEXEC).bits().cast_signed();
    loop {
        // SAFETY: `words` lives through the call, is aligned for `struct file_handle` (two 4-byte integers and
        // bytes), and is at least as long as its first field says; the kernel only reads it. `mount` is an
        // open descriptor for the whole call.
        let fd =
            unsafe { libc::open_by_handle_at(mount.as_fd().as_raw_fd(), words.as_mut_ptr().cast(), flags) };
        if fd >= 0 {
            // SAFETY: the call succeeded, so `fd` is open, new, and owned by nobody else.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(Error::from_io("open_by_handle_at", b"", &error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_of_the_wrong_size_or_type_is_refused() {
        let dir = crate::open::root_dir(std::path::Path::new("/")).expect("open");
        assert_eq!(
            open_by_handle(&dir, 1, &[0; 200], OFlags::PATH).expect_err("too long").errno,
            Errno::INVAL
        );
        assert!(open_by_handle(&dir, 1, &[0xff; 8], OFlags::PATH).is_err());
    }
}
