//! [`LoopFs`]: a small filesystem of a chosen kind, made in a file, mounted for one test and gone after it.
//!
//! Invariant: it is unmounted when it is dropped, also by a panic. What a killed test left is recognised
//! by the number of its process in the directory's name, and is cleared by the next test that makes one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::procs;
use crate::require::{program, say};
use crate::running::until;
use crate::who::{Who, is_root};

const PREFIX: &str = "lane-loop-";
/// How long an unmount is tried again.
const PATIENCE: Duration = Duration::from_secs(3);

/// The kinds of filesystem that a test can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FsKind {
    /// Reflinks, subvolumes. At least 110 MiB.
    Btrfs,
    /// Reflinks. At least 300 MiB.
    Xfs,
    /// Neither.
    Ext4,
    /// In memory; fills up exactly.
    Tmpfs,
}

/// A mounted filesystem of its own.
#[derive(Debug)]
pub struct LoopFs {
    dir: PathBuf,
}

impl LoopFs {
    /// Makes and mounts one of `mib` MiB, whose top belongs to `owner`. Only root can: an ordinary user
    /// gets `None`, and the test's output says so.
    pub fn make(kind: FsKind, mib: u64, owner: Who) -> Option<LoopFs> {
        let fs = LoopFs::place(kind)?;
        let image = fs.dir.join("image");
        let mount: &[&str] = match kind {
            FsKind::Tmpfs => &["-t", "tmpfs", "-o"],
            _ => &["-o", "loop"],
        };
        let mut command = Command::new(program("mount"));
        command.args(mount);
        if kind == FsKind::Tmpfs {
            command.arg(format!("size={mib}m")).arg("tmpfs");
        } else {
            fs::File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("an image");
            let (maker, quiet) = match kind {
                FsKind::Btrfs => ("mkfs.btrfs", "-q"),
                FsKind::Xfs => ("mkfs.xfs", "-q"),
                _ => ("mkfs.ext4", "-qF"),
            };
            must(Command::new(program(maker)).arg(quiet).arg(&image));
            command.arg(&image);
        }
        must(command.arg(fs.path()));
        owner.own(&fs.path());
        Some(fs)
    }

    /// Mounts an image that [`LoopFs::copy_image`] has made: what a machine finds after its power has failed. The one
    /// that it was copied from must be gone by then.
    pub fn of_image(kind: FsKind, image: &Path) -> Option<LoopFs> {
        let fs = LoopFs::place(kind)?;
        must(Command::new(program("mount")).args(["-o", "loop"]).arg(image).arg(fs.path()));
        Some(fs)
    }

    /// The image that it was made in.
    pub fn image(&self) -> PathBuf {
        self.dir.join("image")
    }

    /// Puts such an image in the place of what is mounted, at the same path. Nobody may be inside.
    pub fn swap(&mut self, image: &Path) {
        let device = self.device();
        let under = || fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok();
        let old = under();
        assert!(unmount(&self.path()), "{} is busy", self.path().display());
        // What another test has just started may hold a copy of all mounts for a moment; two filesystems of one name do not
        // stand beside each other.
        until("the old image is let go", PATIENCE * 10, || under() != old);
        must(Command::new(program("mount")).args(["-o", "loop"]).arg(image).arg(self.path()));
    }

    /// Copies what has reached the disk until now, and nothing that is only in memory. A filesystem writes by itself at
    /// times: a copy during which it did is of no one moment, and is made again.
    pub fn copy_image(&self, to: &Path) {
        let image = self.dir.join("image");
        let device = self.device();
        for _ in 0..200 {
            let before = written(&device);
            must(Command::new(program("cp")).args(["--sparse=always", "--reflink=auto"]).arg(&image).arg(to));
            if before.is_some() && before == written(&device) {
                return;
            }
        }
        panic!("the filesystem never stops writing");
    }

    /// The name of the device under what is mounted.
    fn device(&self) -> String {
        let table = fs::read_to_string("/proc/self/mountinfo").expect("the mount table");
        let place = format!(" {} ", self.path().display());
        let line = table.lines().find(|line| line.contains(&place)).expect("mounted");
        let source = line.split(" - ").nth(1).and_then(|rest| rest.split(' ').nth(1)).expect("a source");
        source.strip_prefix("/dev/").expect("a device").to_owned()
    }

    /// A directory with a mount point; nothing where this process may not mount.
    fn place(kind: FsKind) -> Option<LoopFs> {
        if !is_root() {
            say(&format!("not root: the part on {kind:?} does not run, mounting an image needs root"));
            return None;
        }
        clear_stale();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let temp = tempfile::Builder::new().prefix(&prefix).rand_bytes(4).tempdir().expect("a directory");
        let fs = LoopFs { dir: temp.keep() };
        fs::set_permissions(&fs.dir, fs::Permissions::from_mode(0o755)).expect("a mode");
        fs::create_dir(fs.path()).expect("a mount point");
        Some(fs)
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.join("m")
    }
}

impl Drop for LoopFs {
    fn drop(&mut self) {
        if let Err(words) = clear(&self.dir) {
            say(&words);
            assert!(std::thread::panicking(), "{words}");
        }
    }
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {words}");
}

/// What a device was given to write and to forget so far; `None` while it is at it.
fn written(device: &str) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(format!("/sys/block/{device}/stat")).expect("a block device");
    let numbers: Vec<u64> = stat.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    // Writes, sectors of them, what is on its way, discards, sectors of them.
    (numbers[8] == 0).then(|| [4, 6, 11, 13].iter().map(|at| numbers[*at]).collect())
}

/// False where somebody stays inside.
fn unmount(place: &Path) -> bool {
    let plain = || {
        let output = Command::new("umount").arg(place).output();
        output.is_ok_and(|output| output.status.success())
    };
    // A child that another test is just starting has our descriptors until it is another program.
    let begun = Instant::now();
    let mut gone = plain();
    while !gone && begun.elapsed() < PATIENCE {
        std::thread::sleep(PATIENCE / 100);
        gone = plain();
    }
    gone
}

fn clear(dir: &Path) -> Result<(), String> {
    if !procs::mounts_below(dir).is_empty() && !unmount(&dir.join("m")) {
        // Somebody is still inside: it leaves the tree now, and the device when they are gone.
        let lazy = Command::new("umount").arg("-l").arg(dir.join("m")).output();
        let left = lazy.map(|output| output.status.success()).unwrap_or(false);
        fs::remove_dir_all(dir).ok();
        return Err(format!("{} was busy at the end of its test (let go: {left})", dir.display()));
    }
    fs::remove_dir_all(dir).map_err(|error| format!("remove {}: {error}", dir.display()))
}

fn clear_stale() {
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok());
        if pid.is_some_and(|pid| !procs::is_alive(pid)) {
            clear(&entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::{FsKind, LoopFs};
    use crate::procs;
    use crate::who::Who;

    #[test]
    fn each_kind_is_another_filesystem_that_goes_with_its_value_even_on_panic() {
        for (kind, mib) in [(FsKind::Btrfs, 120), (FsKind::Xfs, 320), (FsKind::Ext4, 16), (FsKind::Tmpfs, 4)]
        {
            let Some(made) = LoopFs::make(kind, mib, Who::User) else { return };
            let meta = std::fs::metadata(made.path()).expect("mounted");
            assert_ne!(meta.dev(), std::fs::metadata(&made.dir).expect("there").dev(), "{kind:?}");
            assert_eq!(meta.uid(), Who::User.uid());
            let dir = made.dir.clone();
            let panicked = std::thread::spawn(move || {
                let _inside = made;
                panic!("on purpose");
            });
            assert!(panicked.join().is_err());
            assert!(procs::mounts_below(&dir).is_empty() && !dir.exists(), "{kind:?}");
        }
    }
}
