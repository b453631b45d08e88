//! Who may do what: each dangerous power has one address. Tests may use them all but `unsafe`.

use crate::source::Source;

/// A power, the words that show it in code, and the files (by the start of their path) that hold it.
struct Power {
    name: &'static str,
    words: &'static [&'static str],
    homes: &'static [&'static str],
    tests_too: bool,
}

const POWERS: &[Power] = &[
    Power {
        name: "unsafe code",
        words: &["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"],
        homes: &["crates/kernel/src/"],
        tests_too: true,
    },
    Power {
        name: "starting a process",
        words: &["Command::new(", "process::Command"],
        homes: &[
            "crates/sandbox/src/",
            "crates/workspace/src/git/run.rs",
            // What a benchmark compares: nothing that holds a lane.
            "crates/cli/src/commands/bench/process.rs",
            "crates/store/examples/measure.rs",
            "crates/testkit/src/",
            "xtask/src/",
        ],
        tests_too: false,
    },
    Power {
        name: "putting a file under its final name",
        words: &["fs::rename(", "renameat(", "renameat_with("],
        // The sandbox renames inside the lane, where the kernel refuses to; it never sees the origin.
        homes: &["crates/kernel/src/publish.rs", "crates/kernel/src/publish/", "crates/sandbox/src/rename/"],
        tests_too: false,
    },
    Power {
        name: "printing",
        words: &["println!", "print!(", "eprintln!", "eprint!(", "io::stdout()", "io::stderr()"],
        homes: &["crates/cli/src/", "crates/store/examples/", "crates/testkit/src/", "xtask/src/"],
        tests_too: false,
    },
    Power {
        name: "listening on a network",
        words: &["TcpListener"],
        homes: &["crates/cli/src/web/"],
        tests_too: false,
    },
    Power { name: "SQL", words: &["rusqlite"], homes: &["crates/ledger/src/"], tests_too: false },
    Power {
        name: "the environment",
        words: &["env::var(", "env::var_os(", "env::vars(", "env::vars_os(", "env::home_dir("],
        // Cargo tells a build script where to write by a variable.
        homes: &["crates/engine/src/", "crates/cli/src/", "crates/testkit/src/", "crates/sandbox/build.rs"],
        tests_too: false,
    },
    Power {
        name: "the clock",
        words: &["SystemTime::now("],
        // The age of a remnant is told from its ctime, which only the clock gives a meaning.
        homes: &["crates/engine/src/clock.rs", "crates/workspace/src/recover.rs", "crates/testkit/src/"],
        tests_too: false,
    },
    Power {
        name: "ending the process",
        words: &["process::exit("],
        homes: &["crates/cli/src/"],
        tests_too: false,
    },
    Power {
        name: "the inner half of the sandbox",
        words: &["sandbox::"],
        homes: &[
            "crates/sandbox/",
            "crates/engine/src/",
            "crates/cli/src/reexec.rs",
            "crates/cli/src/main.rs",
        ],
        tests_too: false,
    },
];

/// Complains about every line that shows a power outside its home.
pub fn check(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        // The checks themselves name the words.
        if file.path.starts_with("xtask/src/tidy/") {
            continue;
        }
        for power in POWERS {
            if power.homes.iter().any(|home| file.path.starts_with(home))
                || (file.is_test() && !power.tests_too)
            {
                continue;
            }
            for (number, line) in file.code() {
                if power.words.iter().any(|word| shows(line, word)) {
                    complaints
                        .push(format!("{}:{number}: {} has its address elsewhere", file.path, power.name));
                }
            }
        }
    }
    complaints
}

/// True where `word` stands in the line and is not the end of a longer name.
fn shows(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::source::Source;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[Source { path: path.to_owned(), text: text.to_owned() }])
    }

    #[test]
    fn a_power_away_from_home_is_named_with_its_line() {
        let found =
            complaints("crates/review/src/apply.rs", "//! Head.\nstd::fs::rename(a, b)\n// fs::rename(\n");
        assert_eq!(
            found,
            ["crates/review/src/apply.rs:2: putting a file under its final name has its address elsewhere"]
        );
        assert_eq!(complaints("crates/kernel/src/publish.rs", "renameat(a, b)\n").len(), 0);
    }

    #[test]
    fn tests_may_start_processes_but_not_be_unsafe() {
        assert_eq!(complaints("crates/cli/tests/it/run.rs", "Command::new(x)\n").len(), 0);
        assert_eq!(complaints("crates/cli/tests/it/run.rs", "unsafe { x }\n").len(), 1);
        assert_eq!(complaints("crates/tree/src/x.rs", "my_println!()\n").len(), 0);
    }
}
