//! Secrets of one run: where their values come from, and the place in memory where the command finds them.
//!
//! They stand in a filesystem in memory of their own, at [`AT`], each a file that its reader can only read. It is mounted last,
//! when everything else of the view stands, and emptied when the command ends, under whoever still has a file open there.
//!
//! Invariants: no plan, message or error holds a value; what shows a [`Secret`] shows its name and length.

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use kernel::Errno;
use kernel::mount::{Attributes, Detached};
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::error::{Error, Result, Stage, Step as _};

/// Where secrets stand inside.
pub const AT: &str = "/run/secrets";
/// Most bytes of one.
pub const LIMIT: usize = 1 << 20;

/// A secret with its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name, which is the name of its file.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({}, {} bytes)", self.name, self.value.len())
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.value.fill(0);
        // So that the compiler does not take the filling for idle.
        std::hint::black_box(&self.value);
    }
}

/// What a command line of the host prints, without the newline at its end. It may ask on the terminal.
pub fn output_of(line: &OsStr) -> Result<Vec<u8>> {
    let failed = |cause: String, errno: i32| Error::Step {
        stage: Stage::Facts,
        step: "get a secret from a command".into(),
        cause,
        errno,
    };
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdout(Stdio::piped());
    let spawned = command.spawn().and_then(std::process::Child::wait_with_output);
    let output = spawned.map_err(|error| failed(error.to_string(), error.raw_os_error().unwrap_or(0)))?;
    if !output.status.success() {
        return Err(failed(format!("the command ended with {}", output.status), 0));
    }
    let mut value = output.stdout;
    if value.last() == Some(&b'\n') {
        value.pop();
    }
    Ok(value)
}

/// The secrets of a command where they stand.
#[derive(Debug)]
pub(crate) struct Planted {
    /// The filesystem in memory, writable, where nobody inside reaches it.
    own: Detached,
    names: Vec<String>,
}

/// Makes the filesystem; what is to be attached at [`AT`] is handed to `attach`.
pub(crate) fn plant(
    secrets: &[Secret],
    attach: impl FnOnce(Detached) -> kernel::Result<()>,
) -> Result<Option<Planted>> {
    if secrets.is_empty() {
        return Ok(None);
    }
    let planted: kernel::Result<Planted> = (|| {
        let no = Attributes { no_suid: true, no_dev: true, no_exec: true, ..Attributes::default() };
        let room = secrets.iter().map(|secret| secret.value.len() as u64 + 8192).sum::<u64>() + (64 << 10);
        let own = Detached::tmpfs(0o700, Some(room), no)?;
        for secret in secrets {
            let asked = |errno| kernel::Error::new("openat", &secret.name, errno);
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(own.root(), &secret.name, flags, Mode::from_raw_mode(0o400))
                .map_err(asked)?;
            kernel::bytes::write_all_at(&file, &secret.value, 0)?;
        }
        let shown = Detached::clone_of(own.root(), false, AT.as_bytes())?;
        shown.restrict(Attributes { read_only: true, ..no }, false)?;
        attach(shown)?;
        Ok(Planted { own, names: secrets.iter().map(|secret| secret.name.clone()).collect() })
    })();
    planted.step(Stage::Mounts, "mount the secrets").map(Some)
}

impl Planted {
    /// Takes them back: who has a file open finds it empty.
    pub(crate) fn revoke(&self) {
        for name in &self.names {
            let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            // Mode 0400 keeps even its owner from writing; without capabilities it has to be opened up first.
            let _ = rustix::fs::chmodat(self.own.root(), name, Mode::from_raw_mode(0o600), AtFlags::empty());
            let opened: std::result::Result<OwnedFd, Errno> =
                rustix::fs::openat(self.own.root(), name, flags, Mode::empty());
            if let Ok(file) = opened {
                let _ = rustix::fs::ftruncate(&file, 0);
            }
            let _ = rustix::fs::unlinkat(self.own.root(), name, AtFlags::empty());
        }
    }
}
