//! Whether a repository has an object, told from its files alone: loose ones, the indexes of packs, and the same of its
//! alternates. See `gitformat-pack(5)`.
//!
//! Invariant: reads only, and no more of an index than a lookup needs. What cannot be read counts as not there. An object
//! that no ref leads to counts as there: git keeps it for a while, too.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Alternates of alternates are followed so far, as git does.
const DEPTH: usize = 5;
const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// The objects of a repository with SHA-1 names.
#[derive(Debug, Default)]
pub struct Objects {
    dirs: Vec<PathBuf>,
    packs: Vec<Pack>,
}

/// The index of one pack.
#[derive(Debug)]
struct Pack {
    file: File,
    /// Where the table of first bytes begins.
    fanout: u64,
    /// Where the names begin, how far they are apart, and where in an entry a name begins.
    names: u64,
    stride: u64,
    skip: u64,
}

impl Objects {
    /// Those of the repository in `common_dir`; none where its names are of another kind.
    pub fn open(common_dir: &Path) -> Objects {
        let mut found = Objects::default();
        if !has_other_names(common_dir) {
            found.add(&common_dir.join("objects"), DEPTH);
        }
        found
    }

    /// True where there can be none.
    pub fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    fn add(&mut self, dir: &Path, depth: usize) {
        if !dir.is_dir() || self.dirs.iter().any(|known| known == dir) {
            return;
        }
        self.dirs.push(dir.to_owned());
        let packs = std::fs::read_dir(dir.join("pack")).into_iter().flatten().flatten();
        let indexes =
            packs.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "idx"));
        // An index without its pack is a remnant.
        self.packs.extend(
            indexes.filter(|path| path.with_extension("pack").exists()).filter_map(|path| Pack::open(&path)),
        );
        if depth == 0 {
            return;
        }
        let alternates = std::fs::read(dir.join("info/alternates")).unwrap_or_default();
        for line in alternates.split(|b| *b == b'\n').filter(|line| !line.is_empty() && line[0] != b'#') {
            use std::os::unix::ffi::OsStrExt as _;
            self.add(&dir.join(Path::new(std::ffi::OsStr::from_bytes(line))), depth - 1);
        }
    }

    /// True where there is an object of this name.
    pub fn has(&self, name: &[u8; 20]) -> bool {
        let text: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        let loose = |dir: &PathBuf| dir.join(&text[..2]).join(&text[2..]).is_file();
        self.packs.iter().any(|pack| pack.has(name).unwrap_or(false)) || self.dirs.iter().any(loose)
    }
}

impl Pack {
    fn open(path: &Path) -> Option<Pack> {
        let file = File::open(path).ok()?;
        let mut head = [0; 8];
        file.read_exact_at(&mut head, 0).ok()?;
        Some(match head == MAGIC {
            true => Pack { file, fanout: 8, names: 8 + 1024, stride: 20, skip: 0 },
            false => Pack { file, fanout: 0, names: 1024, stride: 24, skip: 4 },
        })
    }

    fn number(&self, at: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, at).ok()?;
        Some(u64::from(u32::from_be_bytes(bytes)))
    }

    fn has(&self, name: &[u8; 20]) -> Option<bool> {
        let first = u64::from(name[0]);
        let mut low = if first == 0 { 0 } else { self.number(self.fanout + (first - 1) * 4)? };
        let mut high = self.number(self.fanout + first * 4)?;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut there = [0; 20];
            self.file.read_exact_at(&mut there, self.names + middle * self.stride + self.skip).ok()?;
            match there.cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(true),
            }
        }
        Some(false)
    }
}

/// True where the repository's objects do not have SHA-1 names (`extensions.objectFormat`).
fn has_other_names(common_dir: &Path) -> bool {
    let config = std::fs::read(common_dir.join("config")).unwrap_or_default().to_ascii_lowercase();
    let mut lines = config.split(|b| *b == b'\n').map(<[u8]>::trim_ascii);
    lines.any(|line| {
        let value = line.strip_prefix(b"objectformat").map(<[u8]>::trim_ascii_start);
        value.and_then(|value| value.strip_prefix(b"=")).is_some_and(|value| value.trim_ascii() != b"sha1")
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::Objects;

    fn git(dir: &Path, args: &[&str]) -> String {
        let ran = Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"])
            .args(args)
            .current_dir(dir)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .expect("git");
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }

    fn name(text: &str) -> [u8; 20] {
        let byte = |at: usize| u8::from_str_radix(&text[at * 2..at * 2 + 2], 16).expect("hexadecimal");
        std::array::from_fn(byte)
    }

    #[test]
    fn loose_packed_and_borrowed_objects_are_found_and_others_are_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for top in [&one, &two] {
            std::fs::create_dir(top).expect("made");
            git(top, &["init", "-q"]);
        }
        let mut ids = Vec::new();
        for number in 0..40 {
            std::fs::write(one.join(format!("f{number}")), format!("{number}\n")).expect("written");
            ids.push(git(&one, &["hash-object", "-w", &format!("f{number}")]));
        }
        git(&one, &["add", "."]);
        git(&one, &["commit", "-qm", "x"]);
        ids.push(git(&one, &["rev-parse", "HEAD"]));
        git(&one, &["repack", "-adq"]);
        std::fs::write(one.join("late"), "late\n").expect("written");
        let late = git(&one, &["hash-object", "-w", "late"]);
        let info = two.join(".git/objects/info");
        std::fs::create_dir_all(&info).expect("made");
        std::fs::write(info.join("alternates"), "# a remark\n../../../one/.git/objects\n").expect("written");
        for top in [&one, &two] {
            let objects = Objects::open(&top.join(".git"));
            assert!(ids.iter().chain([&late]).all(|id| objects.has(&name(id))), "{objects:?}");
            assert!(!objects.has(&[0; 20]) && !objects.has(&[0xff; 20]));
        }
        assert!(Objects::open(&dir.path().join("none")).is_empty());
    }
}
