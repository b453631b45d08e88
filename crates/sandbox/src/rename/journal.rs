//! The journal of a rename in flight: enough to roll it back or finish it after a kill at any point.
//!
//! A file outside the lane, appended record by record, removed when the call was answered. It need not survive
//! a crash of the host: after one the whole upper layer is suspect. Records are length-framed bytes.
//! Invariant: a record is written before the step that it announces, so a kill finds it; a cut tail announces
//! a step that was not begun.

use std::cell::Cell;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};

use kernel::{Error, Result};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::fault::Fault;

/// Name of the journal in its directory.
pub(crate) const NAME: &str = "rename";

/// The directory that holds the journal, with the lock that keeps snapshots out while a rename runs.
#[derive(Debug)]
pub(crate) struct Journal {
    dir: OwnedFd,
    proc: OwnedFd,
    fault: Cell<Fault>,
    written: Cell<bool>,
}

/// What became of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It is done.
    Done,
    /// It was undone: everything is as before.
    Undone,
    /// It failed with this errno and everything is as before.
    Failed(kernel::Errno),
}

/// One move from a name to another by way of a temporary one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Move {
    pub(crate) from_dir: Vec<u8>,
    pub(crate) from: Vec<u8>,
    pub(crate) to_dir: Vec<u8>,
    pub(crate) to: Vec<u8>,
    pub(crate) temporary: Vec<u8>,
    /// Access and modification time of `to_dir` before.
    pub(crate) to_times: [i64; 4],
    /// Attributes of each directory before it was touched: path below `from`, mode, atime, mtime.
    pub(crate) dirs: Vec<(Vec<u8>, u32, [i64; 4])>,
    /// It is being rolled back.
    pub(crate) undone: bool,
}

/// An exchange: the second entry is parked beside the first, the first takes its place, the parked one
/// takes the first's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Exchange {
    pub(crate) parked: Vec<u8>,
    pub(crate) one_dir: Vec<u8>,
    pub(crate) one: Vec<u8>,
    pub(crate) two_dir: Vec<u8>,
    pub(crate) two: Vec<u8>,
    /// The second entry is parked, all of it.
    pub(crate) parked_whole: bool,
    /// The first one stands in the second one's place, all of it.
    pub(crate) placed: bool,
    /// It is being taken back.
    pub(crate) back: bool,
}

/// What the journal says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Record {
    /// The waiting call, to be answered if it still waits.
    pub(crate) id: u64,
    /// The exchange of which the moves are steps.
    pub(crate) exchange: Option<Exchange>,
    /// The moves in order; only the last can be unfinished.
    pub(crate) moves: Vec<Move>,
    /// Everything is done but the answer.
    pub(crate) end: Option<End>,
}

/// An open journal. It stays until [`Journal::clear`]: whoever is killed before leaves it to the next start.
#[derive(Debug)]
pub(crate) struct Open<'j> {
    journal: &'j Journal,
    file: std::fs::File,
}

impl Journal {
    /// `dir` is a directory outside the lane; `proc` the host's /proc.
    pub(crate) fn new(dir: OwnedFd, proc: OwnedFd) -> Journal {
        Journal { dir, proc, fault: Cell::new(Fault::default()), written: Cell::new(false) }
    }

    /// The host's /proc.
    pub(crate) fn proc(&self) -> &OwnedFd {
        &self.proc
    }

    /// Every descriptor that the journal needs.
    pub(crate) fn fds(&self) -> [std::os::fd::BorrowedFd<'_>; 2] {
        [self.dir.as_fd(), self.proc.as_fd()]
    }

    /// Starts a journal for the call of thread `tid`, and takes the lock. One that could not be recovered
    /// is never overwritten: then the answer is the kernel's own, `XDEV`.
    pub(crate) fn open(&self, id: u64, tid: u32) -> Result<Open<'_>> {
        let mut open = self.file(OFlags::CREATE | OFlags::EXCL).map_err(|error| match error.errno {
            kernel::Errno::EXIST => Error { errno: kernel::Errno::XDEV, ..error },
            _ => error,
        })?;
        self.written.set(true);
        self.fault.set(Fault::load(&self.dir, tid));
        self.step();
        open.put(b'N', &[&id.to_le_bytes()])?;
        Ok(open)
    }

    /// Goes on with the journal that a killed process left.
    pub(crate) fn reopen(&self) -> Result<Open<'_>> {
        let open = self.file(OFlags::APPEND)?;
        self.written.set(true);
        self.fault.set(Fault::load(&self.dir, 0));
        Ok(open)
    }

    fn file(&self, more: OFlags) -> Result<Open<'_>> {
        let flags = more | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let asked = |errno| Error::new("openat", NAME, errno);
        let file = rustix::fs::openat(&self.dir, NAME, flags, Mode::from_raw_mode(0o600)).map_err(asked)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(asked)?;
        Ok(Open { journal: self, file: std::fs::File::from(file) })
    }

    /// Between two steps: where a test's fault strikes.
    pub(crate) fn step(&self) {
        self.fault.set(self.fault.get().step(&self.dir));
    }

    /// The journal that a killed process left; `None` where there is none.
    pub(crate) fn left_behind(&self) -> Result<Option<Record>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = match rustix::fs::openat(&self.dir, NAME, flags, Mode::empty()) {
            Ok(file) => file,
            Err(kernel::Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::new("openat", NAME, errno)),
        };
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut bytes)
            .map_err(|error| Error::from_io("read", NAME, &error))?;
        Ok(Some(parse(&bytes)))
    }

    /// Removes the journal that this process wrote: nothing is in flight.
    pub(crate) fn clear(&self) -> Result<()> {
        if !self.written.replace(false) {
            return Ok(());
        }
        self.step();
        match rustix::fs::unlinkat(&self.dir, NAME, AtFlags::empty()) {
            Ok(()) | Err(kernel::Errno::NOENT) => Ok(()),
            Err(errno) => Err(Error::new("unlinkat", NAME, errno)),
        }
    }

    /// Leaves the journal where it is, for a person or a later start.
    pub(crate) fn leave(&self) {
        self.written.set(false);
    }

    /// The path of a directory inside the lane, as this process sees it.
    pub(crate) fn path_of(&self, dir: &OwnedFd) -> Result<Vec<u8>> {
        use std::os::fd::AsRawFd as _;
        let link = format!("self/fd/{}", dir.as_fd().as_raw_fd());
        rustix::fs::readlinkat(&self.proc, link.as_str(), Vec::new())
            .map(|path| path.into_bytes())
            .map_err(|errno| Error::new("readlinkat", &link, errno))
    }
}

impl Open<'_> {
    fn put(&mut self, kind: u8, fields: &[&[u8]]) -> Result<()> {
        let mut bytes = vec![kind, fields.len() as u8];
        for field in fields {
            bytes.extend_from_slice(&(field.len() as u32).to_le_bytes());
            bytes.extend_from_slice(field);
        }
        self.file.write_all(&bytes).map_err(|error| Error::from_io("write", NAME, &error))?;
        self.step();
        Ok(())
    }

    /// Announces a move before its first step.
    pub(crate) fn begin(&mut self, step: &Move) -> Result<()> {
        let times = bytes_of(step.to_times);
        self.put(b'M', &[&step.from_dir, &step.from, &step.to_dir, &step.to, &step.temporary, &times])
    }

    /// Announces that the last move is rolled back.
    pub(crate) fn undo(&mut self) -> Result<()> {
        self.put(b'U', &[])
    }

    /// Announces an exchange before its first move.
    pub(crate) fn exchange(&mut self, exchange: &Exchange) -> Result<()> {
        let Exchange { parked, one_dir, one, two_dir, two, .. } = exchange;
        self.put(b'X', &[parked, one_dir, one, two_dir, two])
    }

    /// Tells how far an exchange has come: its second entry is parked.
    pub(crate) fn parked_whole(&mut self) -> Result<()> {
        self.put(b'P', &[])
    }

    /// Tells how far an exchange has come: its first entry stands in the second one's place.
    pub(crate) fn placed(&mut self) -> Result<()> {
        self.put(b'Q', &[])
    }

    /// Announces that an exchange is taken back.
    pub(crate) fn back(&mut self) -> Result<()> {
        self.put(b'B', &[])
    }

    /// Notes a directory's attributes before it is touched.
    pub(crate) fn dir(&mut self, below: &[u8], mode: u32, times: [i64; 4]) -> Result<()> {
        self.put(b'D', &[below, &mode.to_le_bytes(), &bytes_of(times)])
    }

    /// Tells the end; what is left is to answer the caller.
    pub(crate) fn end(&mut self, end: End) -> Result<()> {
        let errno = match end {
            End::Done => 0,
            End::Undone => -1,
            End::Failed(errno) => errno.raw_os_error(),
        };
        self.put(b'E', &[&errno.to_le_bytes()])
    }

    /// The directory path of `dir` inside the lane.
    pub(crate) fn path_of(&self, dir: &OwnedFd) -> Result<Vec<u8>> {
        self.journal.path_of(dir)
    }

    /// Between two steps: where a test's fault strikes.
    pub(crate) fn step(&self) {
        self.journal.step();
    }
}

/// Reads records up to the first that was cut by a kill.
fn parse(bytes: &[u8]) -> Record {
    let mut record = Record::default();
    let mut rest = bytes;
    while let Some((kind, fields, after)) = next(rest) {
        rest = after;
        match (kind, fields.as_slice()) {
            (b'N', [id]) => record.id = id.as_slice().try_into().map_or(0, u64::from_le_bytes),
            (b'X', [parked, one_dir, one, two_dir, two]) => {
                record.exchange = Some(Exchange {
                    parked: parked.clone(),
                    one_dir: one_dir.clone(),
                    one: one.clone(),
                    two_dir: two_dir.clone(),
                    two: two.clone(),
                    ..Exchange::default()
                });
            }
            (b'P' | b'Q' | b'B', []) => {
                if let Some(exchange) = &mut record.exchange {
                    exchange.parked_whole |= kind == b'P';
                    exchange.placed |= kind == b'Q';
                    exchange.back |= kind == b'B';
                }
            }
            (b'U', []) => {
                if let Some(last) = record.moves.last_mut() {
                    last.undone = true;
                }
            }
            (b'E', [end]) => {
                record.end = Some(match end.as_slice().try_into().map_or(-1, i32::from_le_bytes) {
                    0 => End::Done,
                    errno if errno > 0 => End::Failed(kernel::Errno::from_raw_os_error(errno)),
                    _ => End::Undone,
                });
            }
            (b'M', [from_dir, from, to_dir, to, temporary, times]) => record.moves.push(Move {
                from_dir: from_dir.clone(),
                from: from.clone(),
                to_dir: to_dir.clone(),
                to: to.clone(),
                temporary: temporary.clone(),
                to_times: times_of(times),
                ..Move::default()
            }),
            (b'D', [below, mode, times]) => {
                let mode = mode.as_slice().try_into().map_or(0o755, u32::from_le_bytes);
                if let Some(last) = record.moves.last_mut() {
                    last.dirs.push((below.clone(), mode, times_of(times)));
                }
            }
            _ => break,
        }
    }
    record
}

fn bytes_of(times: [i64; 4]) -> Vec<u8> {
    times.iter().flat_map(|time| time.to_le_bytes()).collect()
}

fn times_of(bytes: &[u8]) -> [i64; 4] {
    let mut four = [0; 4];
    for (slot, chunk) in four.iter_mut().zip(bytes.chunks_exact(8)) {
        *slot = chunk.try_into().map_or(0, i64::from_le_bytes);
    }
    four
}

type Framed<'b> = (u8, Vec<Vec<u8>>, &'b [u8]);

fn next(bytes: &[u8]) -> Option<Framed<'_>> {
    let (&kind, rest) = bytes.split_first()?;
    let (&count, mut rest) = rest.split_first()?;
    let mut fields = Vec::new();
    for _ in 0..count {
        let (len, after) = rest.split_at_checked(4)?;
        let len = u32::from_le_bytes(len.try_into().ok()?) as usize;
        let (field, after) = after.split_at_checked(len)?;
        fields.push(field.to_vec());
        rest = after;
    }
    Some((kind, fields, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> (tempfile::TempDir, Journal) {
        let dir = tempfile::tempdir().expect("temporary directory");
        let open = |path: &std::path::Path| {
            rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("directory")
        };
        let journal = Journal::new(open(dir.path()), open("/proc".as_ref()));
        (dir, journal)
    }

    #[test]
    fn what_was_written_is_read_back_and_a_cut_tail_is_ignored() {
        let (dir, journal) = journal();
        let mut open = journal.open(42, 7).expect("open");
        assert_eq!(journal.open(43, 7).expect_err("one at a time").errno, kernel::Errno::XDEV);
        let step = Move {
            from_dir: b"/p".to_vec(),
            from: b"a\nb".to_vec(),
            to_dir: b"/p/q".to_vec(),
            to: b"c".to_vec(),
            temporary: b".t".to_vec(),
            to_times: [5, 6, 7, -8],
            ..Move::default()
        };
        open.begin(&step).expect("begin");
        open.dir(b"x/y", 0o2755, [1, 2, 3, 4]).expect("dir");
        open.undo().expect("undo");
        open.end(End::Failed(kernel::Errno::NOSPC)).expect("end");
        drop(open);
        let want = Record {
            id: 42,
            moves: vec![Move { dirs: vec![(b"x/y".to_vec(), 0o2755, [1, 2, 3, 4])], undone: true, ..step }],
            end: Some(End::Failed(kernel::Errno::NOSPC)),
            ..Record::default()
        };
        assert_eq!(journal.left_behind().expect("read"), Some(want.clone()));
        let path = dir.path().join(NAME);
        let bytes = std::fs::read(&path).expect("bytes");
        for cut in 0..bytes.len() {
            std::fs::write(&path, &bytes[..cut]).expect("cut");
            let got = journal.left_behind().expect("read").expect("record");
            assert!(got.moves.len() <= 1 && (got.id == 42 || got.id == 0));
        }
        drop(journal.reopen().expect("reopen"));
        journal.clear().expect("clear");
        assert_eq!(journal.left_behind().expect("read"), None);
    }
}
