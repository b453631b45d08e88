//! Projects for tests: git repositories, files with awkward names, trees of a given size.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::env::TestEnv;

/// Names that break careless programs; each is valid on Linux.
pub fn odd_names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = [
        b"a b" as &[u8],
        b" ",
        b"-rf",
        b"--",
        b"a:b",
        b"a,b",
        b"a\\b",
        b"a\"b",
        b"a'b",
        b"a\nb",
        b"a\tb",
        b"\x1b[31mred\x1b[0m",
        b"\xff\xfe",
        b"caf\xc3\xa9",
        b"cafe\xcc\x81",
        b"%s%n",
        b"$(id)",
        b"*",
        b"...",
        b"~",
        b"#x#",
        b".wh.a",
        b"CON",
    ]
    .iter()
    .map(|name| name.to_vec())
    .collect();
    names.push(vec![b'n'; 255]);
    names
}

impl TestEnv {
    /// Makes an empty project directory.
    pub fn make_dir(&self, name: &str) -> PathBuf {
        let top = self.project(name);
        self.mkdir(&top);
        top
    }

    /// Makes a git repository with a few files, a directory, a link and one commit.
    pub fn make_git(&self, name: &str) -> PathBuf {
        let top = self.make_dir(name);
        self.write(&top.join("README.md"), b"# A project\n");
        self.write(&top.join("src/main.rs"), b"fn main() {\n    println!(\"hello\");\n}\n");
        self.write(&top.join("src/lib.rs"), b"//! Nothing yet.\n");
        self.write(&top.join("run.sh"), b"#!/bin/sh\necho run\n");
        fs::set_permissions(top.join("run.sh"), fs::Permissions::from_mode(0o755)).expect("a mode");
        self.write(&top.join(".gitignore"), b"target/\n");
        self.link("src/main.rs", &top.join("main"));
        self.git_init(&top);
        top
    }

    /// Turns a directory into a git repository with everything in one commit.
    pub fn git_init(&self, top: &Path) {
        for args in [
            &["init", "-q", "-b", "main", "."] as &[&str],
            &["config", "gc.auto", "0"],
            &["add", "-A"],
            &["commit", "-q", "--allow-empty", "-m", "first"],
        ] {
            self.host(top, "git", args);
        }
    }

    /// Makes a git project of `count` small files, fifty to a directory.
    pub fn make_many(&self, name: &str, count: usize) -> PathBuf {
        let top = self.make_dir(name);
        for number in 0..count {
            let path = top.join(format!("d{:04}/f{number:06}.txt", number / 50));
            self.write(&path, format!("file {number}\n{}", "words and more words\n".repeat(20)).as_bytes());
        }
        self.git_init(&top);
        top
    }

    /// Makes a project whose files have all the [`odd_names`], at the top and in a directory.
    pub fn make_odd(&self, name: &str) -> PathBuf {
        let top = self.make_dir(name);
        for odd in odd_names() {
            let odd = OsStr::from_bytes(&odd);
            self.write(&top.join(odd), odd.as_bytes());
            self.write(&top.join("dir").join(odd), b"inside\n");
        }
        top
    }

    /// Writes a file of this person (directories above it included), replacing what it held.
    pub fn write(&self, path: &Path, bytes: &[u8]) {
        if let Some(parent) = path.parent() {
            self.mkdir(parent);
        }
        fs::write(path, bytes).unwrap_or_else(|error| panic!("write {}: {error}", path.display()));
        self.who().own(path);
    }

    /// Makes a directory of this person, and those above it.
    pub fn mkdir(&self, path: &Path) {
        if path.is_dir() {
            return;
        }
        if let Some(parent) = path.parent() {
            self.mkdir(parent);
        }
        fs::create_dir(path).unwrap_or_else(|error| panic!("mkdir {}: {error}", path.display()));
        self.who().own(path);
    }

    /// Makes a symbolic link of this person.
    pub fn link(&self, target: impl AsRef<Path>, path: &Path) {
        symlink(target, path).unwrap_or_else(|error| panic!("link {}: {error}", path.display()));
        self.who().own(path);
    }

    /// Makes a named pipe of this person.
    pub fn fifo(&self, path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)
            .unwrap_or_else(|error| panic!("mkfifo {}: {error}", path.display()));
        self.who().own(path);
    }

    /// Sets permission bits.
    pub fn chmod(&self, path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .unwrap_or_else(|error| panic!("chmod {}: {error}", path.display()));
    }
}
