//! `/proc/self/mountinfo` as a table: which mount holds a path, and what is mounted below it.
//!
//! Pure but for [`MountTable::load`]. Mount points are bytes with the kernel's octal escapes decoded
//! (space, tab, newline, backslash, `#`); see `proc_pid_mountinfo(5)`. Which mount a path is on is
//! found by following the parent links as a path lookup does, so that over-mounted and hidden mounts
//! are never mistaken for visible ones.

use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use kernel::error::Asked as _;

use crate::error::{Doing as _, Error, Result};

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its id, unique while it is mounted.
    pub id: u64,
    /// Id of the mount that it is mounted on.
    pub parent: u64,
    /// Device number as `major << 32 | minor`.
    pub dev: u64,
    /// Which directory of the filesystem is mounted.
    pub root: PathBuf,
    /// Where.
    pub mount_point: PathBuf,
    /// Read-only as a mount or as a filesystem.
    pub read_only: bool,
    /// Type, such as `ext4`.
    pub fs_type: String,
    /// Device or other source.
    pub source: PathBuf,
    /// Options of the filesystem, comma separated, undecoded.
    pub super_options: Vec<u8>,
}

impl Mount {
    /// True where names on this filesystem may be compared without regard to case.
    pub fn is_casefold(&self) -> bool {
        self.super_options.split(|b| *b == b',').any(|option| option.starts_with(b"casefold"))
    }
}

/// All mounts of this process's mount namespace, in the kernel's order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountTable {
    mounts: Vec<Mount>,
}

impl MountTable {
    /// Reads the table of this process.
    pub fn load() -> Result<MountTable> {
        let path = "/proc/self/mountinfo";
        let read = || -> std::io::Result<Vec<u8>> {
            // The file has no size; room for a usual table saves a dozen calls.
            let mut bytes = Vec::with_capacity(32 << 10);
            std::fs::File::open(path)?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        MountTable::parse(&read().asked("read", path).doing("read the mount table", path)?)
    }

    /// Reads the text of a mountinfo file.
    pub fn parse(text: &[u8]) -> Result<MountTable> {
        let mut mounts = Vec::new();
        for (index, line) in text.split(|b| *b == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            mounts.push(parse_line(line).ok_or(Error::MountInfo { line: index + 1 })?);
        }
        Ok(MountTable { mounts })
    }

    /// The mounts, in the kernel's order.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The mount with this id (as `statx` tells it).
    pub fn by_id(&self, id: u64) -> Option<&Mount> {
        self.mounts.iter().find(|mount| mount.id == id)
    }

    /// The mount that holds the absolute `path`, which has no link and no `..` in it.
    pub fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let mut at = self.top()?;
        // Bounded, so that no table whatever can hold us.
        for _ in 0..=self.mounts.len() {
            // A lookup leaves a mount at the first mount point on its way.
            let next = self
                .mounts
                .iter()
                .filter(|m| m.parent == at.id && m.id != at.id && path.starts_with(&m.mount_point))
                .filter(|m| m.mount_point.starts_with(&at.mount_point))
                .min_by_key(|m| m.mount_point.as_os_str().len());
            match next {
                Some(mount) => at = mount,
                None => return Some(at),
            }
        }
        None
    }

    /// Mount points strictly below `path`, sorted, each once: what an overlay over `path` would not show.
    pub fn below(&self, path: &Path) -> Vec<PathBuf> {
        let Some(holder) = self.mount_of(path) else { return Vec::new() };
        let mut points: Vec<PathBuf> = self
            .mounts
            .iter()
            .filter(|m| m.mount_point.starts_with(path) && m.mount_point != path)
            .filter(|m| self.hangs_on(m, holder.id))
            .map(|m| m.mount_point.clone())
            .collect();
        points.sort();
        points.dedup();
        points
    }

    /// Other paths under which the mount table shows what lies at `path` or below it: the same filesystem mounted
    /// once more, or a part of it bound elsewhere. Where mounts of another filesystem are mounted below `path`, theirs
    /// are not among them.
    pub fn aliases(&self, path: &Path) -> Vec<PathBuf> {
        let Some(holder) = self.mount_of(path) else { return Vec::new() };
        let inner = path.strip_prefix(&holder.mount_point).unwrap_or(Path::new(""));
        let lies_at = join(&holder.root, inner);
        let others = self.mounts.iter().filter(|m| m.dev == holder.dev && m.id != holder.id);
        let mut found: Vec<PathBuf> = others
            .filter_map(|other| {
                let alias = match lies_at.strip_prefix(&other.root) {
                    Ok(inner) => join(&other.mount_point, inner),
                    Err(_) if other.root.starts_with(&lies_at) => other.mount_point.clone(),
                    Err(_) => return None,
                };
                let is_seen = self.mount_of(&alias).is_some_and(|seen| seen.id == other.id);
                (is_seen && !alias.starts_with(path)).then_some(alias)
            })
            .collect();
        found.sort();
        found.dedup();
        found
    }

    /// The mount at `/`: the one whose parent is not in the table.
    fn top(&self) -> Option<&Mount> {
        let known = |id: u64| self.mounts.iter().any(|m| m.id == id);
        let is_slash = |m: &&Mount| m.mount_point == Path::new("/");
        self.mounts
            .iter()
            .filter(is_slash)
            .find(|m| m.parent == m.id || !known(m.parent))
            .or_else(|| self.mounts.iter().find(is_slash))
    }

    fn hangs_on(&self, mount: &Mount, holder: u64) -> bool {
        let mut at = mount;
        for _ in 0..=self.mounts.len() {
            if at.parent == holder {
                return true;
            }
            match self.by_id(at.parent) {
                Some(parent) if parent.id != at.id => at = parent,
                _ => return false,
            }
        }
        false
    }
}

/// As [`Path::join`], but nothing is appended for an empty path.
fn join(path: &Path, inner: &Path) -> PathBuf {
    if inner.as_os_str().is_empty() { path.to_path_buf() } else { path.join(inner) }
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = fields.next()?;
    let colon = device.iter().position(|b| *b == b':')?;
    let dev = number(&device[..colon])? << 32 | number(&device[colon + 1..])?;
    let root = decode(fields.next()?);
    let mount_point = decode(fields.next()?);
    let options = fields.next()?;
    // Optional fields end at a lone dash.
    fields.by_ref().find(|field| *field == b"-")?;
    let fs_type = String::from_utf8_lossy(decode(fields.next()?).as_os_str().as_bytes()).into_owned();
    // A few filesystems have an empty source, which shows as two blanks in a row.
    let source = decode(fields.next()?);
    let super_options = fields.next().unwrap_or(b"").to_vec();
    let is_ro = |list: &[u8]| list.split(|b| *b == b',').any(|option| option == b"ro");
    let read_only = is_ro(options) || is_ro(&super_options);
    Some(Mount { id, parent, dev, root, mount_point, read_only, fs_type, source, super_options })
}

fn number(bytes: &[u8]) -> Option<u64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Decodes the kernel's `\ooo` escapes; anything else stands for itself.
fn decode(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        if *first == b'\\'
            && let Some([a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7']) = tail.get(..3)
        {
            out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = &tail[3..];
            continue;
        }
        out.push(*first);
        rest = tail;
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::MountTable;

    const TABLE: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard
40 27 0:40 / /home rw - btrfs /dev/vdb rw,subvol=/home
41 40 0:41 / /home/u/my\\040proj/a\\011b\\012c\\134d\\043 rw,nosuid - tmpfs t rw,size=4k
42 40 0:42 /x /home/u/my\\040proj/ro ro - ext4 /dev/vdc rw
43 42 0:43 / /home/u/my\\040proj/ro/deep rw - tmpfs t rw
44 40 0:44 / /home/u/my rw - nfs4 host:/export rw,vers=4
45 27 0:45 / /srv rw - tmpfs first rw
46 45 0:46 / /srv rw - tmpfs second ro
47 27 0:47 / /srv/hidden rw - tmpfs below-srv rw
48 27 0:48 / /odd rw - fuse.sshfs  rw,casefold
";

    fn table() -> MountTable {
        MountTable::parse(TABLE).expect("the table is well formed")
    }

    fn check_holder(path: &str, expected: u64) {
        assert_eq!(table().mount_of(Path::new(path)).map(|m| m.id), Some(expected), "{path}");
    }

    #[test]
    fn a_second_mount_of_a_filesystem_gives_what_is_on_it_a_second_name() {
        let table = MountTable::parse(
            b"1 0 8:1 / / rw - ext4 a rw\n\
              2 1 8:2 / /home rw - ext4 b rw\n\
              3 1 8:2 / /mnt/data rw - ext4 b rw\n\
              4 1 8:2 /u/.ssh /srv/keys rw - ext4 b rw\n\
              5 1 8:3 / /mnt/over rw - ext4 c rw\n\
              6 1 8:2 /other /mnt/other rw - ext4 b rw\n",
        )
        .expect("a table");
        let aliases = |path: &str| table.aliases(Path::new(path));
        assert_eq!(aliases("/home/u/.ssh"), [Path::new("/mnt/data/u/.ssh"), Path::new("/srv/keys")]);
        assert_eq!(aliases("/home/u/.ssh/id"), [Path::new("/mnt/data/u/.ssh/id"), Path::new("/srv/keys/id")]);
        assert_eq!(aliases("/home/u"), [Path::new("/mnt/data/u"), Path::new("/srv/keys")]);
        assert_eq!(aliases("/home/other/x"), [Path::new("/mnt/data/other/x"), Path::new("/mnt/other/x")]);
        assert_eq!(aliases("/etc"), [] as [&Path; 0]);
    }

    #[test]
    fn a_path_is_on_the_mount_that_a_lookup_reaches() {
        check_holder("/", 27);
        check_holder("/etc/passwd", 27);
        check_holder("/homework", 27);
        check_holder("/home/u", 40);
        check_holder("/home/u/my", 44);
        check_holder("/home/u/my proj", 40);
        check_holder("/home/u/my proj/ro/x", 42);
        check_holder("/home/u/my proj/ro/deep/x", 43);
    }

    #[test]
    fn an_overmounted_mount_is_not_the_one_that_shows() {
        check_holder("/srv", 46);
        check_holder("/srv/hidden", 46);
        assert_eq!(table().below(Path::new("/srv")), Vec::<PathBuf>::new());
    }

    #[test]
    fn submounts_are_named_with_their_escapes_decoded() {
        let expected = ["/home/u/my proj/a\tb\nc\\d#", "/home/u/my proj/ro", "/home/u/my proj/ro/deep"];
        assert_eq!(table().below(Path::new("/home/u/my proj")), expected.map(PathBuf::from));
        assert_eq!(table().below(Path::new("/home/u/my proj/ro/deep")), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_mount_at_the_path_itself_is_no_submount() {
        assert_eq!(table().below(Path::new("/home/u/my")), Vec::<PathBuf>::new());
    }

    #[test]
    fn read_only_is_told_for_mount_and_for_filesystem() {
        let read_only: Vec<u64> = table().mounts().iter().filter(|m| m.read_only).map(|m| m.id).collect();
        assert_eq!(read_only, [42, 46]);
    }

    #[test]
    fn an_empty_source_does_not_shift_the_fields() {
        let odd = table().by_id(48).cloned().expect("listed");
        assert_eq!((odd.fs_type.as_str(), odd.source.as_path()), ("fuse.sshfs", Path::new("")));
        assert!(odd.is_casefold());
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        let error = MountTable::parse(b"22 27 0:21 / /proc rw - proc proc rw\nnonsense\n").expect_err("bad");
        assert_eq!(error.to_string(), "mountinfo line 2 is not understood");
    }

    #[test]
    fn this_machines_own_table_is_understood() {
        let table = MountTable::load().expect("readable");
        assert!(table.mount_of(Path::new("/proc/self")).is_some_and(|m| m.fs_type == "proc"));
    }
}
