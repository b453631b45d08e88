//! A toolchain that lies in another home than the caller's: usable, never written, without its credentials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use testkit::{Listing, Who};

use crate::ground::{Ground, in_the_open};

/// The toolchains here are hard links to one: another one in the making shows in the listing of the first.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A directory that is removed at the end, below a parent that lanes do not show.
struct Home(
    tempfile::TempDir,
    #[expect(dead_code, reason = "held until the home is removed")] MutexGuard<'static, ()>,
);

impl Home {
    /// The home of somebody: with cargo and rustc by hard links or copies, and with logins.
    fn with_toolchain(who: Who) -> Home {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let place = if testkit::who::is_root() { Path::new("/home") } else { Path::new("/var/tmp") };
        fs::create_dir_all(place).unwrap();
        let home = tempfile::Builder::new().prefix("lt-home-").tempdir_in(place).unwrap();
        let from = testkit::corpora::rust_bin().parent().unwrap().to_path_buf();
        // `rustup`'s layout: the toolchain in one directory, what starts it in the other.
        let toolchain = home.path().join(".rustup/toolchains/here");
        fs::create_dir_all(toolchain.parent().unwrap()).unwrap();
        let linked = Command::new("cp").arg("-al").arg(&from).arg(&toolchain).output().unwrap();
        if !linked.status.success() {
            fs::remove_dir_all(&toolchain).ok();
            assert!(Command::new("cp").arg("-a").arg(&from).arg(&toolchain).status().unwrap().success());
        }
        let made = Home(home, alone);
        let bin = made.at(".cargo/bin");
        fs::create_dir_all(&bin).unwrap();
        for name in ["cargo", "rustc"] {
            std::os::unix::fs::symlink(toolchain.join("bin").join(name), bin.join(name)).unwrap();
        }
        fs::create_dir_all(made.at(".ssh")).unwrap();
        for login in [".cargo/credentials.toml", ".ssh/id_ed25519", ".netrc"] {
            fs::write(made.at(login), "secret\n").unwrap();
        }
        // The toolchain itself is root's, as its links are; the rest is this person's.
        for own in
            ["", ".cargo", ".cargo/bin", ".cargo/credentials.toml", ".ssh", ".ssh/id_ed25519", ".netrc"]
        {
            who.own(&made.at(own));
        }
        who.own(&made.at(".rustup"));
        who.own(&made.at(".rustup/toolchains"));
        made
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }
}

/// A crate in a world whose toolchain is in the home of `owner`.
fn ground(who: Who, home: &Home) -> Ground {
    fs::set_permissions(home.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut env = in_the_open(who);
    env.set("PATH", format!("{}:{}", home.at(".cargo/bin").display(), testkit::require::PATH));
    env.set("CARGO_HOME", home.at(".cargo").display().to_string());
    env.set("RUSTUP_HOME", home.at(".rustup").display().to_string());
    let project = env.make_dir("crate");
    let ground = Ground { env, project };
    ground.write("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    ground.write("src/main.rs", "fn main() { println!(\"built\"); }\n");
    ground.env.git_init(&ground.project);
    ground
}

#[test]
fn cargo_builds_with_a_toolchain_in_another_home_whose_credentials_stay_absent() {
    for who in Who::all() {
        let home = Home::with_toolchain(who);
        let ground = ground(who, &home);
        let before =
            (Listing::of(home.0.path()), Listing::of(&ground.project), Listing::of(&ground.env.home()));
        let ran =
            ground.sh("t", "cargo build -q --offline; target/debug/small; echo $CARGO_HOME; echo $HOME");
        let expected = format!("built\n{}\n{}\n", home.at(".cargo").display(), ground.env.home().display());
        assert_eq!(ran.out(), expected, "{ran}");
        absent(&ground, &home);
        // What cargo writes into its home stays in the lane, from run to run.
        ground.sh("t", "echo x > $CARGO_HOME/note; rm -f $CARGO_HOME/bin/rustc; ls $CARGO_HOME >/dev/null");
        assert_eq!(ground.sh("t", "cat $CARGO_HOME/note; test ! -e $CARGO_HOME/bin/rustc").out(), "x\n");
        let after =
            (Listing::of(home.0.path()), Listing::of(&ground.project), Listing::of(&ground.env.home()));
        before.0.assert_same(&after.0);
        before.1.assert_same(&after.1);
        before.2.assert_same(&after.2);
    }
}

fn absent(ground: &Ground, home: &Home) {
    for login in [".cargo/credentials.toml", ".ssh", ".netrc"] {
        ground.sh("t", &format!("test ! -e {}", home.at(login).display()));
    }
}

#[test]
fn the_toolchain_of_somebody_else_is_read_only_and_without_its_credentials_too() {
    let owners = Who::all();
    for who in &owners {
        for owner in owners.iter().filter(|owner| *owner != who) {
            let home = Home::with_toolchain(*owner);
            let ground = ground(*who, &home);
            let before = Listing::of(home.0.path());
            // Cargo takes a lock below its home where it can; with what is given here it needs none.
            assert_eq!(ground.sh("t", "cargo build -q --offline; target/debug/small").out(), "built\n");
            absent(&ground, &home);
            ground.sh("t", "! touch $CARGO_HOME/x 2>/dev/null; ! rm $CARGO_HOME/bin/cargo 2>/dev/null; true");
            before.assert_same(&Listing::of(home.0.path()));
        }
    }
}

#[test]
fn a_toolchain_in_a_temporary_directory_is_usable_and_without_its_credentials() {
    for who in Who::all() {
        let place = tempfile::Builder::new().prefix("lt-tools-").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        who.own(place.path());
        let mut env = in_the_open(who);
        env.write(&place.path().join("cargo/bin/tool"), b"#!/bin/sh\necho tool\n");
        env.chmod(&place.path().join("cargo/bin/tool"), 0o755);
        env.write(&place.path().join("cargo/credentials.toml"), b"secret\n");
        env.set("PATH", format!("{}:{}", place.path().join("cargo/bin").display(), testkit::require::PATH));
        env.set("CARGO_HOME", place.path().join("cargo").display().to_string());
        let project = env.make_git("app");
        let ground = Ground { env, project };
        let before = Listing::of(place.path());
        assert_eq!(ground.sh("t", "tool; test ! -e $CARGO_HOME/credentials.toml").out(), "tool\n");
        before.assert_same(&Listing::of(place.path()));
    }
}
