//! Controllers of control groups: where this process may make a group that limits memory, processor time or processes, in
//! version 2 or, where a machine has them only there, in version 1.
//!
//! Invariants: a group is made below a directory that has the controller on already, so that nothing of anybody else's is
//! changed; one controller of version 2 is never looked for in version 1 at the same time (the kernel has it in one place).
//! Rests on the kernel's cgroup-v1 and cgroup-v2 documents.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Mode};
use rustix::io::Errno;

use crate::error::{Asked as _, Result, path_bytes};

/// What can be limited by a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory with the page cache, and swap.
    Memory,
    /// Processor time.
    Cpu,
    /// Processes and threads.
    Pids,
    /// Disk time.
    Io,
}

impl Controller {
    /// Its name in both versions; disk time has none in version 1 that every scheduler heeds.
    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Cpu => "cpu",
            Controller::Pids => "pids",
            Controller::Io => "io",
        }
    }
}

/// A directory below which a group with a controller can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The directory.
    pub dir: PathBuf,
    /// 1 or 2.
    pub version: u8,
}

/// Where a group with this controller can be made; `None` where that is nowhere.
pub fn place(controller: Controller) -> Option<Place> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    second(controller, &groups, &mounts).or_else(|| first(controller, &groups, &mounts))
}

/// The nearest group from our own upwards that hands the controller to groups below it and lets us make one.
fn second(controller: Controller, groups: &str, mounts: &str) -> Option<Place> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, at) = mount(mounts, |kind, _| kind == "cgroup2")?;
    let own = below(&at, &root, own)?;
    let has = |dir: &Path| {
        let on = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        on.split_whitespace().any(|name| name == controller.name())
    };
    let dir =
        own.ancestors().take_while(|dir| dir.starts_with(&at)).find(|dir| has(dir) && may_write(dir))?;
    Some(Place { dir: dir.to_path_buf(), version: 2 })
}

/// Our own group of the controller's hierarchy.
fn first(controller: Controller, groups: &str, mounts: &str) -> Option<Place> {
    if controller == Controller::Io {
        return None;
    }
    let of = |names: &str| names.split(',').any(|name| name == controller.name());
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        of(names).then_some(path)
    })?;
    let (root, at) = mount(mounts, |kind, options| kind == "cgroup" && of(options))?;
    let dir = below(&at, &root, own)?;
    may_write(&dir).then_some(Place { dir, version: 1 })
}

/// Root and place of the first mount of mountinfo that fits by kind and options of its filesystem.
fn mount(mounts: &str, fits: impl Fn(&str, &str) -> bool) -> Option<(String, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut words = front.split(' ').skip(3);
        let (root, at) = (words.next()?, words.next()?);
        let mut back = back.split(' ');
        let (kind, options) = (back.next()?, back.nth(1).unwrap_or_default());
        (fits(kind, options) && !front.contains('\\')).then(|| (root.to_owned(), PathBuf::from(at)))
    })
}

/// Where a group stands in a mount that may show a part of the tree.
fn below(at: &Path, root: &str, group: &str) -> Option<PathBuf> {
    let inner = Path::new(group).strip_prefix(root).ok()?;
    Some(at.join(inner.strip_prefix("/").unwrap_or(inner)))
}

fn may_write(dir: &Path) -> bool {
    // Not even an attempt where it would be in vain.
    let may = |path: &Path| rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok();
    may(dir) && may(&dir.join("cgroup.procs"))
}

/// A group with limits, by its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limiting {
    /// Its directory.
    pub path: PathBuf,
    /// 1 or 2.
    pub version: u8,
}

impl Limiting {
    /// Makes a group of this name.
    pub fn make(place: &Place, name: &str) -> Result<Limiting> {
        let path = place.dir.join(name);
        match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => Ok(Limiting { path, version: place.version }),
            Err(errno) => Err(errno).asked("mkdir", path_bytes(&path)),
        }
    }

    /// Most bytes of memory; nothing of it is swapped out beyond that.
    pub fn memory(&self, most: u64) -> Result<()> {
        if self.version == 2 {
            self.tell("memory.max", most)?;
            return self.tell_if_there("memory.swap.max", 0);
        }
        self.tell("memory.limit_in_bytes", most)?;
        self.tell_if_there("memory.memsw.limit_in_bytes", most)
    }

    /// Processor time, in thousandths of one processor.
    pub fn cpu(&self, thousandths: u64) -> Result<()> {
        const PERIOD: u64 = 100_000;
        let quota = (thousandths * PERIOD / 1000).max(1000);
        if self.version == 2 {
            return self.say("cpu.max", &format!("{quota} {PERIOD}"));
        }
        self.tell("cpu.cfs_period_us", PERIOD)?;
        self.tell("cpu.cfs_quota_us", quota)
    }

    /// Most processes and threads.
    pub fn pids(&self, most: u64) -> Result<()> {
        self.tell("pids.max", most)
    }

    /// Share of the disk's time against others, 1 to 10000; 100 is everybody's.
    pub fn io(&self, weight: u64) -> Result<()> {
        self.say("io.weight", &format!("default {weight}"))
    }

    /// A process goes into it, with everybody that it will start; 0 is the caller.
    pub fn take(&self, pid: i32) -> Result<()> {
        self.say("cgroup.procs", &pid.to_string())
    }

    /// How often the memory limit ended a process in it.
    pub fn memory_kills(&self) -> u64 {
        self.counted(if self.version == 2 { "memory.events" } else { "memory.oom_control" }, "oom_kill")
    }

    /// How often a process could not be made in it.
    pub fn pids_refused(&self) -> u64 {
        self.counted("pids.events", "max")
    }

    /// For how long somebody in it waited for this resource, in microseconds; `None` where the kernel does not say.
    pub fn pressure(&self, controller: Controller) -> Option<u64> {
        let text = fs::read_to_string(self.path.join(format!("{}.pressure", controller.name()))).ok()?;
        let some = text.lines().find(|line| line.starts_with("some "))?;
        some.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
    }

    /// Removes it, once nobody is in it.
    pub fn remove(path: &Path) -> Result<()> {
        rustix::fs::rmdir(path).asked("rmdir", path_bytes(path))
    }

    fn counted(&self, file: &str, key: &str) -> u64 {
        let text = fs::read_to_string(self.path.join(file)).unwrap_or_default();
        let found =
            text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok());
        found.unwrap_or(0)
    }

    fn tell(&self, file: &str, number: u64) -> Result<()> {
        self.say(file, &number.to_string())
    }

    /// A kernel without swap accounting has not the file.
    fn tell_if_there(&self, file: &str, number: u64) -> Result<()> {
        if self.path.join(file).exists() { self.tell(file, number) } else { Ok(()) }
    }

    fn say(&self, file: &str, word: &str) -> Result<()> {
        let path = self.path.join(file);
        fs::write(&path, word).asked("write", path_bytes(&path))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{below, mount};

    const MOUNTS: &str = "\
33 32 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
34 32 0:30 /part /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
42 32 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn a_hierarchy_is_found_by_its_kind_and_controllers() {
        let found = |kind: &str, name: &str| {
            mount(MOUNTS, |is, options| {
                is == kind && (name.is_empty() || options.split(',').any(|one| one == name))
            })
        };
        assert_eq!(found("cgroup2", ""), Some(("/".into(), PathBuf::from("/sys/fs/cgroup/unified"))));
        assert_eq!(found("cgroup", "memory"), Some(("/part".into(), PathBuf::from("/sys/fs/cgroup/memory"))));
        assert_eq!(found("cgroup", "cpu").map(|(_, at)| at), Some(PathBuf::from("/sys/fs/cgroup/cpu")));
        assert_eq!(found("cgroup", "pids"), None);
    }

    #[test]
    fn a_group_outside_the_part_that_is_mounted_has_no_place() {
        let at = Path::new("/c");
        assert_eq!(below(at, "/", "/a/b"), Some(PathBuf::from("/c/a/b")));
        assert_eq!(below(at, "/a", "/a/b"), Some(PathBuf::from("/c/b")));
        assert_eq!(below(at, "/", "/"), Some(PathBuf::from("/c")));
        assert_eq!(below(at, "/x", "/a/b"), None);
    }
}
