//! The walk that records a base, and the writer under it. Meant for a thread that gave way (see
//! `kernel::priority`): it reads stats only, never content, and stops when it is told to.
//!
//! Invariant: records stream to the file as they come; in memory stand only the paths. What is not
//! published leaves no file.

use std::io::{BufWriter, Write as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use kernel::error::Asked as _;
use tree::walk::{Visit, walk};
use tree::{Entry, Time, TreePath};

use super::format;
use crate::error::{Doing as _, Error, Result};
use crate::home::HomeDir;

/// A manifest that is being written and is not published yet.
#[derive(Debug)]
pub struct Draft {
    dir: OwnedFd,
    path: PathBuf,
    temp: Vec<u8>,
    file: BufWriter<std::fs::File>,
    sums: format::PageSums,
    count: usize,
    record: Vec<u8>,
    blob: Vec<u8>,
    gaps: Vec<u8>,
    last: Vec<u8>,
    all_cloned: bool,
    published: bool,
}

/// What a walk recorded, and what it could not read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recording {
    /// Entries recorded.
    pub entries: usize,
    /// Entries that had changed after the base time.
    pub later: usize,
    /// What could not be read, with the reason; also marked in the manifest.
    pub gaps: Vec<(TreePath, String)>,
}

impl Draft {
    /// Starts a manifest in a lane's directory.
    pub fn begin(home: &HomeDir) -> Result<Draft> {
        let path = home.path.clone();
        let dir = kernel::open::dir_beneath(&home.fd, b"").doing("open lane directory", &path)?;
        let (file, temp) = kernel::publish::temp_file(&dir, 0o600).doing("begin manifest", &path)?;
        let mut draft = Draft {
            dir,
            path,
            temp,
            file: BufWriter::with_capacity(1 << 16, file.into()),
            sums: format::PageSums::default(),
            count: 0,
            record: Vec::with_capacity(format::RECORD),
            blob: Vec::new(),
            gaps: Vec::new(),
            last: Vec::new(),
            all_cloned: false,
            published: false,
        };
        draft.write_raw(&[0; format::HEADER])?;
        Ok(draft)
    }

    /// Adds an entry; paths arrive in their order.
    pub fn push(&mut self, path: &TreePath, entry: &Entry, is_later: bool) -> Result<()> {
        debug_assert!(
            self.count == 0 || super::compare(&self.last, path.as_bytes()).is_lt(),
            "{path:?} out of order"
        );
        self.last.clear();
        self.last.extend_from_slice(path.as_bytes());
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        format::encode(path.as_bytes(), entry, is_later, &mut record, &mut self.blob);
        let written = self.write(&record);
        self.record = record;
        self.count += 1;
        written
    }

    /// Says whether every file of the tree shares its bytes with another.
    pub fn all_cloned(&mut self, all: bool) {
        self.all_cloned = all;
    }

    /// Notes a path that could not be read; allowed at any time.
    pub fn push_unread(&mut self, path: &TreePath) {
        format::encode_gap(path.as_bytes(), &mut self.gaps);
    }

    /// Makes it the file of that name in the lane's directory: whole or not at all.
    pub fn publish(mut self, name: &str) -> Result<()> {
        let (blob, gaps) = (std::mem::take(&mut self.blob), std::mem::take(&mut self.gaps));
        self.write(&blob)?;
        self.write(&gaps)?;
        let sums = std::mem::take(&mut self.sums).finish();
        self.write_raw(&sums)?;
        let header = format::Header {
            count: self.count,
            blob_len: blob.len(),
            gaps_len: gaps.len(),
            all_cloned: self.all_cloned,
        }
        .to_bytes(&sums);
        let finished = self.file.flush().and_then(|()| self.file.get_ref().write_all_at(&header, 0));
        finished.asked("write", &self.temp).doing("write manifest", &self.path)?;
        kernel::publish::sync_file(self.file.get_ref()).doing("write manifest", &self.path)?;
        kernel::publish::rename_replace(&self.dir, &self.temp, &self.dir, name.as_bytes())
            .doing("publish manifest", &self.path)?;
        self.published = true;
        kernel::publish::sync_dir(&self.dir).doing("publish manifest", &self.path)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sums.add(bytes);
        self.write_raw(bytes)
    }

    fn write_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).asked("write", &self.temp).doing("write manifest", &self.path)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            // Best effort: what stays is a temporary name, which the next clean-up knows.
            let _left_to_recover = kernel::node::unlink_at(&self.dir, &self.temp);
        }
    }
}

/// How a walk records.
#[derive(Debug, Default)]
pub struct RecordOptions<'a> {
    /// The base time: what has a later ctime was changed before the walk came by, and is marked. `None`
    /// where the walk itself is the base (a copy is made after it).
    pub since: Option<Time>,
    /// Paths that are not looked at, nor what is below them: our own state where the project holds it.
    pub skip: &'a [TreePath],
    /// Paths that count as unread though they can be read: what a copy could not take.
    pub unread: &'a [TreePath],
    /// Every file shares its bytes with another tree.
    pub all_cloned: bool,
}

/// Walks `root` and publishes what it finds as the file `name` in a lane's directory. Ends with
/// [`Error::Stopped`] soon after `stop` is set.
pub fn record(
    root: BorrowedFd<'_>,
    options: &RecordOptions<'_>,
    home: &HomeDir,
    name: &str,
    stop: &AtomicBool,
) -> Result<Recording> {
    let mut draft = Draft::begin(home)?;
    draft.all_cloned = options.all_cloned;
    let mut recording = Recording::default();
    let is_later = |entry: &Entry| options.since.is_some_and(|base| entry.ctime > base);
    let top = kernel::meta::stat_fd(root).doing("record the base", &home.path)?;
    let top = tree::dir::entry_of(&top);
    draft.push(&TreePath::root(), &top, is_later(&top))?;
    let mut failed: Option<Error> = None;
    let gaps = walk(root, &mut |path, entry| {
        if stop.load(Ordering::Relaxed) {
            failed = Some(Error::Stopped);
            return Visit::Stop;
        }
        if options.skip.contains(path) {
            return Visit::SkipBelow;
        }
        let is_later = is_later(entry);
        recording.entries += 1;
        recording.later += usize::from(is_later);
        if let Err(error) = draft.push(path, entry, is_later) {
            failed = Some(error);
            return Visit::Stop;
        }
        Visit::Enter
    });
    if let Some(error) = failed {
        return Err(error);
    }
    gaps.iter().for_each(|(path, _)| draft.push_unread(path));
    options.unread.iter().for_each(|path| draft.push_unread(path));
    draft.publish(name)?;
    recording.gaps = gaps;
    Ok(recording)
}
