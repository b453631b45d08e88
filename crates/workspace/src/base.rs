//! The base of a lane: when it was taken, and how that is known.
//!
//! The base time is the ctime of a file that we make just before the mount, never the clock: only the
//! kernel's own stamps can be compared with the ctime of the origin's files. The stamp is read, then the
//! file is changed once more. Where the kernel keeps fine times for files that were looked at (since
//! 6.13), the second stamp lies after every change made before it and not after any change made later,
//! so that the comparison is exact; older kernels leave a doubt of one clock tick.
//!
//! Invariant: [`BaseStamp::is_later`] is the only comparison of an origin's ctime with the base.

use std::os::fd::AsFd as _;
use std::path::Path;

use kernel::error::Asked as _;
use kernel::{meta, open};
use rustix::fs::{Mode, OFlags};
use tree::Time;

use crate::error::{Doing as _, Error, Result};
use crate::git::Head;
use crate::home::{LaneHome, read_file};
use crate::manifest::Manifest;
use crate::spare::OLD_STAMP;

/// Name of the stamp in a lane's directory.
pub const STAMP: &[u8] = b"base";
const FIRST_LINE: &str = "lane base 1";
/// The stamp of a fork: the base time is its parent's and stands in the text.
const FIRST_LINE_OF_FORK: &str = "lane base 2";

/// When a lane's base was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseStamp {
    /// What has a later ctime has changed since.
    pub time: Time,
    /// The boot in which the lane was made.
    pub boot_id: String,
    /// Inode numbers of the roots then, the origin first.
    pub roots: Vec<u64>,
}

impl BaseStamp {
    /// True where something with this ctime was changed after the base was taken.
    pub fn is_later(&self, ctime: Time) -> bool {
        ctime > self.time
    }
}

/// Takes the base time: makes the stamp file of a lane whose roots have these inodes.
pub fn stamp(home: &LaneHome, roots: &[u64]) -> Result<BaseStamp> {
    let path = || home.path().join("base");
    let dir = &home.dir().fd;
    let old = match open::open_beneath(dir, OLD_STAMP, OFlags::WRONLY, Mode::empty()) {
        Err(error) if error.is_not_found() => None,
        other => Some(other.doing("make base stamp", path())?),
    };
    let is_new = old.is_none();
    let file = match old {
        Some(old) => {
            meta::set_times_fd(&old, (0, 0)).doing("make base stamp", path())?;
            old
        }
        None => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            open::open_beneath(dir, STAMP, flags, Mode::RUSR | Mode::WUSR).doing("make base stamp", path())?
        }
    };
    let first = meta::stat_fd(&file).doing("read base stamp", path())?.ctime;
    let boot_id = boot_id()?;
    let text = write_text(&boot_id, first, roots);
    let written =
        rustix::io::write(&file, text.as_bytes()).asked("write", STAMP).doing("write base stamp", path())?;
    if written != text.len() {
        let source = kernel::Error::new("write", STAMP, kernel::Errno::NOSPC);
        return Err(Error::Kernel { step: "write base stamp", path: path(), source });
    }
    if !is_new {
        rustix::fs::ftruncate(&file, text.len() as u64)
            .asked("ftruncate", STAMP)
            .doing("write base stamp", path())?;
        // Only now it is a lane.
        kernel::publish::rename_noreplace(dir, OLD_STAMP, dir, STAMP).doing("make base stamp", path())?;
    }
    let second = meta::stat_fd(&file).doing("read base stamp", path())?.ctime;
    Ok(BaseStamp { time: base_time(first, second), boot_id, roots: roots.to_vec() })
}

/// Gives a lane the base of another one, as it was read of that.
pub(crate) fn stamp_as(home: &LaneHome, base: &BaseStamp) -> Result<()> {
    use std::fmt::Write as _;
    let path = || home.path().join("base");
    let dir = &home.dir().fd;
    match kernel::node::unlink_at(dir, OLD_STAMP) {
        Err(error) if error.is_not_found() => {}
        other => other.doing("remove old base stamp", path())?,
    }
    let (time, boot) = (base.time, &base.boot_id);
    let mut text = format!("{FIRST_LINE_OF_FORK}\nboot {boot}\ntime {} {}\n", time.sec, time.nsec);
    for ino in &base.roots {
        let _infallible = writeln!(text, "root {ino}");
    }
    let (file, temp) = kernel::publish::temp_file(dir, 0o600).doing("make base stamp", path())?;
    kernel::bytes::write_all_at(&file, text.as_bytes(), 0).doing("write base stamp", path())?;
    // Only now it is a lane.
    kernel::publish::rename_noreplace(dir, &temp, dir, STAMP).doing("make base stamp", path())
}

/// Reads the stamp of a lane; a lane without one was never finished.
pub fn read_stamp(home: &LaneHome) -> Result<BaseStamp> {
    let path = || home.path().join("base");
    let missing = || Error::Missing { path: home.path().to_path_buf() };
    let text = read_file(&home.dir().fd, STAMP).doing("read base stamp", path())?.ok_or_else(missing)?;
    let second = meta::stat_at(&home.dir().fd, STAMP).doing("read base stamp", path())?.ctime;
    let damaged = || Error::Damaged { what: "base stamp", path: path() };
    let (boot_id, said, roots) = read_text(&text).ok_or_else(damaged)?;
    let time = match said {
        Said::First(first) => base_time(first, second),
        Said::Time(time) => time,
    };
    Ok(BaseStamp { time, boot_id, roots })
}

/// What the text of a stamp says of the time.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// The file's status time before it was written.
    First((i64, u32)),
    /// The base time.
    Time(Time),
}

/// Fine stamps: the second change has a time of its own, and whatever changes later is at it or after it.
/// Coarse ones: both stamps are the same tick, and only a later tick is surely later.
fn base_time(first: (i64, u32), second: (i64, u32)) -> Time {
    match (second > first, second.1) {
        (false, _) => Time { sec: second.0, nsec: second.1 },
        (true, 0) => Time { sec: second.0 - 1, nsec: 999_999_999 },
        (true, nsec) => Time { sec: second.0, nsec: nsec - 1 },
    }
}

fn write_text(boot_id: &str, first: (i64, u32), roots: &[u64]) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{FIRST_LINE}\nboot {boot_id}\nfirst {} {}\n", first.0, first.1);
    for ino in roots {
        let _infallible = writeln!(text, "root {ino}");
    }
    text
}

fn read_text(text: &[u8]) -> Option<(String, Said, Vec<u64>)> {
    let mut lines = std::str::from_utf8(text).ok()?.lines();
    let key = match lines.next()? {
        FIRST_LINE => "first ",
        FIRST_LINE_OF_FORK => "time ",
        _ => return None,
    };
    let boot_id = lines.next()?.strip_prefix("boot ")?.to_owned();
    let (sec, nsec) = lines.next()?.strip_prefix(key)?.split_once(' ')?;
    let (sec, nsec) = (sec.parse().ok()?, nsec.parse().ok()?);
    let said = if key == "time " { Said::Time(Time { sec, nsec }) } else { Said::First((sec, nsec)) };
    let roots = lines.map(|line| line.strip_prefix("root ")?.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some((boot_id, said, roots))
}

/// The id of this boot.
pub fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).asked("read", path).doing("read boot id", path)?;
    Ok(text.trim().to_owned())
}

/// Everything that is known about the base of one root.
#[derive(Debug)]
pub struct Base {
    /// When it was taken.
    pub stamp: BaseStamp,
    /// The root's inode then.
    pub root_ino: u64,
    /// What it held, once the background walk has finished.
    pub manifest: Option<Manifest>,
    /// What HEAD named, where the caller knows.
    pub git_head: Option<Head>,
}

impl Base {
    /// Reads what is known about the base of root `index` of a lane.
    pub fn load(home: &LaneHome, index: usize) -> Result<Base> {
        let stamp = read_stamp(home)?;
        let root_ino = stamp.roots.get(index).copied().unwrap_or(0);
        Ok(Base { manifest: Manifest::load(home.dir(), index)?, root_ino, stamp, git_head: None })
    }
}

/// Inode of a root directory, for [`stamp`].
pub fn root_ino(path: &Path) -> Result<u64> {
    let dir = crate::origin::open_dir(path)?;
    Ok(meta::stat_fd(dir.as_fd()).doing("look at the project", path)?.ino)
}

#[cfg(test)]
mod tests {
    use tree::Time;

    use super::{Said, base_time, read_text, write_text};

    #[test]
    fn a_fine_second_stamp_counts_itself_as_later() {
        let time = |sec, nsec| Time { sec, nsec };
        assert_eq!(base_time((5, 7), (5, 7)), time(5, 7));
        assert_eq!(base_time((5, 7), (5, 9)), time(5, 8));
        assert_eq!(base_time((5, 7), (6, 0)), time(5, 999_999_999));
    }

    #[test]
    fn a_stamp_reads_as_it_was_written_and_nothing_else_does() {
        let text = write_text("b-1", (-5, 7), &[3, 4]);
        assert_eq!(read_text(text.as_bytes()), Some(("b-1".into(), Said::First((-5, 7)), vec![3, 4])));
        let fork = "lane base 2\nboot b-1\ntime -5 7\nroot 3\n";
        let time = Time { sec: -5, nsec: 7 };
        assert_eq!(read_text(fork.as_bytes()), Some(("b-1".into(), Said::Time(time), vec![3])));
        for bad in [
            "",
            "lane base 3\nboot x\nfirst 1 2\n",
            "lane base 2\nboot x\nfirst 1 2\n",
            "lane base 1\nboot x\nfirst 1\n",
            "lane base 1\nboot x\nfirst 1 2\nroot x\n",
        ] {
            assert_eq!(read_text(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
