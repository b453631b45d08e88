//! Real projects that tests and benchmarks run on, made by `scripts/corpora` outside the repository.

use std::path::PathBuf;
use std::process::Command;

use crate::env::TestEnv;
use crate::who::{Who, is_root};

/// Where the corpora lie: `$LANE_CORPORA`, else a cache directory that an ordinary user can reach too.
pub fn dir() -> PathBuf {
    if let Some(named) = std::env::var_os("LANE_CORPORA") {
        return PathBuf::from(named);
    }
    if is_root() {
        // Root's home is closed to others, and the tests drop to an ordinary user.
        return PathBuf::from("/var/cache/lane-corpora");
    }
    std::env::home_dir().unwrap_or_default().join(".cache/lane-corpora")
}

/// The corpus `name` (`rust`, `js`, `linux`, `py`, `s1k`, …) that belongs to this person, where it lies:
/// an origin that is never written may be used by any number of tests. The test is red where it was not made.
pub fn corpus(name: &str, who: Who) -> PathBuf {
    let store = if is_root() && who == Who::User { dir().join("user") } else { dir() };
    let path = store.join(name);
    crate::require!(
        store.join(format!(".{name}.done")).exists(),
        format!("the corpus {}", path.display()),
        format!("scripts/corpora {name}")
    );
    path
}

/// `bin` directory of a Rust toolchain that an ordinary user can reach.
pub fn rust_bin() -> PathBuf {
    let path = dir().join(".tools/rust/bin");
    crate::require!(
        path.join("cargo").exists(),
        "a toolchain for the ordinary user",
        "scripts/corpora toolchain"
    );
    path
}

impl TestEnv {
    /// Copies the corpus `name` into this world, for tests that write the origin. Blocks are shared where the
    /// filesystem can. Git's index learns the new inodes; cargo's caches are cold, because the path is new.
    pub fn copy_corpus(&self, name: &str) -> PathBuf {
        let (from, to) = (corpus(name, self.who()), self.project(name));
        let copied = Command::new("cp").args(["-a", "--reflink=auto"]).arg(&from).arg(&to).status();
        assert!(copied.is_ok_and(|status| status.success()), "copy {} to {}", from.display(), to.display());
        self.host(&to, "git", &["status", "--porcelain"]);
        to
    }

    /// Puts a toolchain that this person can reach before the path of every later command. Cargo's home is
    /// in this world; the corpora bring their dependencies along.
    pub fn with_rust(&mut self) {
        let path = format!("{}:{}", rust_bin().display(), crate::require::PATH);
        self.set("PATH", path);
    }
}

#[cfg(test)]
mod tests {
    use super::{corpus, rust_bin};
    use crate::{Running, TestEnv, Who};

    #[test]
    fn the_rust_corpus_is_warm_for_root_and_for_the_ordinary_user() {
        for who in Who::all() {
            let mut env = TestEnv::new("/bin/sh", who);
            env.with_rust();
            let mut build = env.command(rust_bin().join("cargo"));
            build.args(["build", "--offline"]).current_dir(corpus("rust", who));
            let ran = Running::start(build).wait(crate::env::PATIENCE).expect_code(0);
            assert!(!ran.err().contains("Compiling"), "something was built again: {ran}");
        }
    }
}
