//! What a test needs from the machine: there, or the test is red and says what to install.

use std::path::PathBuf;

/// Fails the test where the condition does not hold, with the command that would make it hold.
///
/// `require!(path.exists(), "the corpus of ripgrep", "scripts/corpora rust")`
#[macro_export]
macro_rules! require {
    ($condition:expr, $what:expr, $remedy:expr) => {
        assert!($condition, "this test needs {}; to get it: `{}`", $what, $remedy)
    };
}

/// Debian package of each program that tests use.
const PACKAGES: &[(&str, &str)] = &[
    ("attr", "attr"),
    ("bwrap", "bubblewrap"),
    ("cc", "build-essential"),
    ("chromium", "chromium"),
    ("cmp", "diffutils"),
    ("curl", "curl"),
    ("getfacl", "acl"),
    ("getfattr", "attr"),
    ("git", "git"),
    ("less", "less"),
    ("losetup", "mount"),
    ("make", "build-essential"),
    ("mkfs.btrfs", "btrfs-progs"),
    ("mkfs.ext4", "e2fsprogs"),
    ("mkfs.xfs", "xfsprogs"),
    ("mount", "mount"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("nsenter", "util-linux"),
    ("python3", "python3"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("strace", "strace"),
    ("tmux", "tmux"),
    ("umount", "mount"),
    ("unshare", "util-linux"),
    ("vim", "vim"),
];

/// Directories that are searched for programs, here and in every command of the kit.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The full path of a program; the test is red where it is missing.
pub fn program(name: &str) -> PathBuf {
    let found = PATH.split(':').map(|dir| PathBuf::from(dir).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| {
        let package =
            PACKAGES.iter().find(|(program, _)| *program == name).map_or(name, |(_, package)| package);
        panic!("this test needs `{name}`; to get it: `scripts/setup-tests`, or `apt-get install {package}`")
    })
}

/// Says something in the test's output (shown with a failure, and with `--nocapture`).
#[expect(clippy::print_stderr, reason = "the kit speaks to whoever reads a test's output")]
pub fn say(words: &str) {
    eprintln!("{words}");
}
