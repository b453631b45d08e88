//! Artifacts: what a command puts at [`AT`], a place that it can only add to, is handed out on the host when the run ends.
//!
//! Inside, nothing there can be removed, renamed or cut short, where the kernel has Landlock. On the host, a file appears under
//! its name when it is whole, and never in the place of another: what is there already stays, and is named.
//!
//! Invariant: only files and directories are handed out, by content; no link, owner, attribute or special file leaves a lane
//! this way, and no file that holds the value of a secret.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use kernel::publish;
use review::leak::Needles;
use rustix::fs::{AtFlags, Mode};
use tree::walk::{Visit, walk};
use tree::{Kind, TreePath};

use crate::error::{Doing as _, EngineError, Result};
use crate::happened::{Happening, Sink};
use crate::lane::OpenLane;

/// Where a command finds it.
pub const AT: &str = "/out";
/// Its name in the lane's directory.
const DIR: &str = "out";
/// Files whose digest is told are read for it; larger ones too.
const PIECE: usize = 256 << 10;

/// What was handed out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handed {
    /// The host's directory.
    pub at: PathBuf,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What was left out, each with the reason.
    pub left_out: Vec<(TreePath, String)>,
}

/// Makes the place for a run, empty; `to` is where it will be handed out.
pub(crate) fn prepare(lane: &OpenLane, to: &Path) -> Result<PathBuf> {
    for root in &lane.roots {
        if to.starts_with(&root.view.path) {
            return Err(EngineError::TargetInside { path: to.to_owned(), root: root.view.path.clone() });
        }
    }
    let dir = lane.home.path().join(DIR);
    let made = || -> std::io::Result<()> {
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::create_dir(&dir)?;
        std::fs::create_dir_all(to)
    };
    made().map_err(|error| EngineError::Kernel {
        doing: format!("make the place for artifacts at {}", to.display()),
        source: kernel::Error::from_io("mkdir", crate::describe::bytes(to), &error),
    })?;
    Ok(dir)
}

/// Hands out what stands in the place, and clears it away. The command and everything else in the lane has ended.
pub(crate) fn hand_out(
    lane: &OpenLane,
    to: &Path,
    needles: Option<&Needles>,
    sink: &mut Option<Sink<'_>>,
) -> Result<Handed> {
    let from = lane.home.path().join(DIR);
    let own = kernel::open::root_dir(&from).doing(|| format!("open {}", from.display()))?;
    let target = kernel::open::root_dir(to).doing(|| format!("open {}", to.display()))?;
    let mut handed = Handed { at: to.to_owned(), ..Handed::default() };
    let mut names: Vec<(TreePath, tree::Entry)> = Vec::new();
    let gaps = walk(own.as_fd(), &mut |path, entry| {
        names.push((path.clone(), entry.clone()));
        Visit::Enter
    });
    handed.left_out.extend(gaps);
    for (path, entry) in names {
        let done = match entry.kind {
            Kind::Dir => make_dir(&target, &path).map(|()| None),
            Kind::File => copy(&own, &target, &path, entry.mode, needles).map(Some),
            _ => Err("no file and no directory".to_owned()),
        };
        match done {
            Ok(None) => {}
            Ok(Some((bytes, digest))) => {
                handed.files += 1;
                handed.bytes += bytes;
                if let Some(sink) = sink {
                    let path = to.join(crate::describe::path(path.as_bytes()));
                    sink.take(Happening::Artifact { path, bytes, digest });
                }
            }
            Err(why) => handed.left_out.push((path, why)),
        }
    }
    let _ = std::fs::remove_dir_all(&from);
    Ok(handed)
}

/// The directory above a path, below `top`, without following a link; and the last name.
fn place(top: &OwnedFd, path: &TreePath) -> std::result::Result<(OwnedFd, Vec<u8>), String> {
    let bytes = path.as_bytes();
    let (parent, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(cut) => (&bytes[..cut], &bytes[cut + 1..]),
        None => (&b"."[..], bytes),
    };
    let dir = kernel::open::dir_beneath(top, parent).map_err(|error| error.to_string())?;
    Ok((dir, name.to_vec()))
}

fn make_dir(target: &OwnedFd, path: &TreePath) -> std::result::Result<(), String> {
    let (dir, name) = place(target, path)?;
    match rustix::fs::mkdirat(&dir, &*name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(kernel::Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.to_string()),
    }
}

fn copy(
    own: &OwnedFd,
    target: &OwnedFd,
    path: &TreePath,
    mode: u32,
    needles: Option<&Needles>,
) -> std::result::Result<(u64, String), String> {
    let text = |error: kernel::Error| error.to_string();
    let io = |error: std::io::Error| error.to_string();
    let mut content = File::from(kernel::open::file_beneath(own, path.as_bytes()).map_err(text)?);
    if let Some(needles) = needles {
        let found = needles.in_bytes(path.as_bytes()).map(str::to_owned);
        let found = match found {
            Some(name) => Some(name),
            None => needles.in_content(&content).map_err(io)?.map(str::to_owned),
        };
        if let Some(name) = found {
            return Err(format!("it holds the value of the secret {name}"));
        }
        content.rewind().map_err(io)?;
    }
    let (dir, name) = place(target, path)?;
    let executable = if mode & 0o111 != 0 { 0o755 } else { 0o644 };
    let (made, temporary) = publish::temp_file(&dir, executable).map_err(text)?;
    let written = (|| {
        let mut summer = ledger::Summer::default();
        let (mut buffer, mut at) = (vec![0; PIECE], 0u64);
        loop {
            let got = content.read(&mut buffer).map_err(io)?;
            if got == 0 {
                break;
            }
            kernel::bytes::write_all_at(&made, &buffer[..got], at).map_err(text)?;
            summer.add(&buffer[..got]);
            at += got as u64;
        }
        publish::rename_noreplace(&dir, &temporary, &dir, &name).map_err(|error| match error.errno {
            kernel::Errno::EXIST => "there is one of that name already, which stays".to_owned(),
            _ => error.to_string(),
        })?;
        Ok((at, summer.digest()))
    })();
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&dir, &*temporary, AtFlags::empty());
    }
    written
}
