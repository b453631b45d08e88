//! Doors that were asked for, found on this host: which socket each means, what else its clients need.
//!
//! Invariant: what is shown is a socket, and it is shown at its own path; a door that leads nowhere stops the run.

use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use kernel::mountspec::{MountSpec, MountWhat};
use sandbox::credentials::{CredentialPath, Credentials};
use sandbox::door::{self, Door};

use crate::error::{EngineError, Result};

/// A door that is open.
#[derive(Debug, Clone)]
pub(crate) struct Open {
    door: Door,
    /// The socket, without links.
    socket: PathBuf,
    /// Where it is shown.
    at: PathBuf,
    /// Further files.
    files: Vec<PathBuf>,
}

/// Finds what each name means. `home`: without links.
pub(crate) fn find(names: &[String], home: Option<&Path>) -> Result<Vec<Open>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let all = door::all().map_err(EngineError::Sandbox)?;
    let value = |word: &str| value(word, home);
    names
        .iter()
        .map(|name| {
            let have = || all.iter().map(|door| door.name.clone()).collect();
            let door = all.iter().find(|door| door.name == *name).cloned();
            let door = door.ok_or_else(|| EngineError::NoSuchDoor { name: name.clone(), have: have() })?;
            let at = |template: &String| door::filled(template, &value)?.canonicalize().ok();
            let is_socket = |path: &PathBuf| path.metadata().is_ok_and(|meta| meta.file_type().is_socket());
            let socket = door.sockets.iter().filter_map(at).find(is_socket);
            let socket = socket.ok_or_else(|| EngineError::DoorLeadsNowhere {
                name: name.clone(),
                looked: door.sockets.clone(),
            })?;
            let files = door.files.iter().filter_map(at).filter(|path| path.is_file()).collect();
            let shown = door.shown_at.as_ref().and_then(|template| door::filled(template, &value));
            let at = shown.unwrap_or_else(|| socket.clone());
            Ok(Open { door, socket, at, files })
        })
        .collect()
}

fn value(word: &str, home: Option<&Path>) -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match word {
        "inside" => Some(format!("/run/user/{}", rustix::process::geteuid().as_raw())),
        "home" => home?.to_str().map(str::to_owned),
        "run" => variable("XDG_RUNTIME_DIR")
            .or_else(|| Some(format!("/run/user/{}", rustix::process::geteuid().as_raw()))),
        // `:0`, `:0.1`; one with a host before the colon is on a network.
        "display" => variable("DISPLAY")?.strip_prefix(':')?.split('.').next().map(str::to_owned),
        _ => variable(word),
    }
}

/// The list without what open doors need, and with what stays hidden of that.
pub(crate) fn granted(open: &[Open], mut credentials: Credentials) -> Credentials {
    for Open { door, .. } in open {
        credentials = credentials.without(&door.shows);
        credentials.path.extend(door.hides.iter().map(|at| CredentialPath {
            at: at.clone(),
            reason: format!("stays hidden behind the door {}", door.name),
            only_with: Vec::new(),
        }));
    }
    credentials
}

/// The mounts of open doors.
pub(crate) fn mounts(open: &[Open]) -> impl Iterator<Item = MountSpec> {
    // A socket takes connections behind a read-only mount as well.
    let shown = |(source, target): (&PathBuf, &PathBuf)| MountSpec {
        what: MountWhat::Bind { source: source.clone(), recursive: false },
        target: target.clone(),
        read_only: true,
        no_exec: true,
    };
    let pairs = |open: &'_ Open| {
        let files = open.files.iter().map(|file| (file.clone(), file.clone()));
        std::iter::once((open.socket.clone(), open.at.clone())).chain(files).collect::<Vec<_>>()
    };
    open.iter().flat_map(pairs).map(move |(source, target)| shown((&source, &target)))
}

/// Directories of the lane's own in which sockets are shown: clients use none that others may enter.
pub(crate) fn private(open: &[Open]) -> Vec<PathBuf> {
    let moved = open.iter().filter(|open| open.door.shown_at.is_some());
    moved.filter_map(|open| open.at.parent().map(Path::to_path_buf)).collect()
}

/// Variables that go in with doors of these names.
pub(crate) fn variables(names: &[String]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let all = door::all().map_err(EngineError::Sandbox)?;
    Ok(all.into_iter().filter(|door| names.contains(&door.name)).flat_map(|door| door.variables).collect())
}

/// What is told of open doors, as `(door, what it gives away)`.
pub(crate) fn told(open: &[Open]) -> impl Iterator<Item = (String, String)> {
    open.iter().map(|open| {
        let socket = open.socket.display();
        (format!("--door {}", open.door.name), format!("{socket}: a command can {}", open.door.what))
    })
}
