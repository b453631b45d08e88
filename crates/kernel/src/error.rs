//! The error of this floor: which call, on what, and the errno. Owns no prose and no advice.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;

/// Result of a kernel call.
pub type Result<T> = std::result::Result<T, Error>;

/// A system call that failed: its name, what it was asked, and the kernel's answer.
#[derive(Debug, Clone)]
pub struct Error {
    /// Name of the system call or of the step, e.g. `openat2`.
    pub call: &'static str,
    /// The arguments that matter to a reader, already escaped; may be empty.
    pub args: String,
    /// The kernel's answer.
    pub errno: Errno,
    /// What the kernel itself said (the log of an `fsopen` descriptor); may be empty.
    pub log: String,
}

impl Error {
    /// An error of `call` on `args` (bytes of a path are escaped).
    pub fn new(call: &'static str, args: impl AsRef<[u8]>, errno: Errno) -> Error {
        Error { call, args: args.as_ref().escape_ascii().to_string(), errno, log: String::new() }
    }

    /// The same error with the kernel's own words added.
    #[must_use]
    pub fn with_log(mut self, log: String) -> Error {
        self.log = log;
        self
    }

    /// An error from `std::io`, which keeps the errno where there is one.
    pub fn from_io(call: &'static str, args: impl AsRef<[u8]>, error: &std::io::Error) -> Error {
        let errno = error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error);
        Error::new(call, args, errno)
    }

    /// True where the thing asked for is not there.
    pub fn is_not_found(&self) -> bool {
        self.errno == Errno::NOENT || self.errno == Errno::NOTDIR
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}): {}", self.call, self.args, self.errno)?;
        if !self.log.is_empty() {
            write!(f, " (kernel: {})", self.log)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Attaches call and arguments to a bare errno.
pub trait Asked<T> {
    /// `call` was asked of `args`.
    fn asked(self, call: &'static str, args: impl AsRef<[u8]>) -> Result<T>;
}

impl<T> Asked<T> for rustix::io::Result<T> {
    fn asked(self, call: &'static str, args: impl AsRef<[u8]>) -> Result<T> {
        self.map_err(|errno| Error::new(call, args, errno))
    }
}

impl<T> Asked<T> for std::io::Result<T> {
    fn asked(self, call: &'static str, args: impl AsRef<[u8]>) -> Result<T> {
        self.map_err(|error| Error::from_io(call, args, &error))
    }
}

/// Bytes of a path, for [`Error::new`] and [`Asked::asked`].
pub fn path_bytes(path: &std::path::Path) -> &[u8] {
    path.as_os_str().as_bytes()
}
