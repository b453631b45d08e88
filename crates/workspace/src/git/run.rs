//! The scrubbed git runner: the one place that starts the git program.
//!
//! Invariant: git sees an environment of ours alone, no configuration but the named repository's own, and of that
//! nothing which starts a program: no hook, filter, file watcher, pager, editor, credential helper or network. Only
//! [`Runner::users`] reads the user's configuration (to learn who they are), and only [`Call::with_hooks`] runs hooks,
//! which are the repository's own. No call ever takes a directory that a lane wrote as its repository.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::error::{Error, Result};

/// Settings that win over those of a repository: each of these starts programs, or changes bytes.
const QUIET: [&str; 22] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "core.askPass=true",
    "core.sshCommand=false",
    "core.alternateRefsCommand=",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.eol=lf",
    "core.safecrlf=false",
    "credential.helper=",
    "protocol.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "submodule.recurse=false",
    "diff.external=",
    "advice.detachedHead=false",
    "safe.directory=*",
];

/// Variables of the user's that say who they are and where their configuration stands.
const OF_THE_USER: [&str; 12] = [
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
    "EMAIL",
];

/// The git program, and what of the user's environment it may be shown.
#[derive(Debug, Clone)]
pub struct Runner {
    program: PathBuf,
    path: OsString,
    vars: Vec<(OsString, OsString)>,
}

/// A call that is being put together.
#[derive(Debug)]
pub struct Call {
    command: Command,
    doing: &'static str,
}

/// What git answered.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub status: ExitStatus,
    /// What it printed.
    pub out: Vec<u8>,
    doing: &'static str,
    err: Vec<u8>,
}

impl Runner {
    /// Finds git in the absolute directories of `PATH`. `vars` is the caller's environment.
    pub fn find(vars: impl Iterator<Item = (OsString, OsString)>) -> Result<Runner> {
        let vars: Vec<(OsString, OsString)> = vars.collect();
        let path = vars.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        // A relative directory in it could be one of a lane's.
        let dirs: Vec<PathBuf> =
            std::env::split_paths(&path.unwrap_or_default()).filter(|dir| dir.is_absolute()).collect();
        let is_program = |file: &PathBuf| {
            file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let program = dirs.iter().map(|dir| dir.join("git")).find(is_program).ok_or(Error::NoGit)?;
        let path = std::env::join_paths(&dirs).unwrap_or_default();
        Ok(Runner { program, path, vars })
    }

    /// A call on the repository whose git directory this is. `doing` says what for.
    pub fn on(&self, git_dir: &Path, doing: &'static str) -> Call {
        let mut call = self.bare(doing);
        call.command.env("GIT_DIR", git_dir).current_dir(git_dir);
        call
    }

    /// A call that names no repository; `dir` is where it works.
    pub fn nowhere(&self, dir: &Path, doing: &'static str) -> Call {
        let mut call = self.bare(doing);
        call.command.current_dir(dir);
        call
    }

    /// A call that reads the user's own configuration beside the repository's: only for questions about the user.
    pub fn users(&self, git_dir: &Path, doing: &'static str) -> Call {
        let mut call = self.on(git_dir, doing);
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"] {
            call.command.env_remove(name);
        }
        for name in OF_THE_USER {
            if let Some((name, value)) = self.vars.iter().find(|(known, _)| known == name) {
                call.command.env(name, value);
            }
        }
        call
    }

    /// Where git looks for the user's list of ignored files when nothing else is configured.
    pub(crate) fn default_ignores(&self) -> Option<PathBuf> {
        let var = |name: &str| {
            let found =
                self.vars.iter().find(|(known, _)| known == name).map(|(_, value)| PathBuf::from(value));
            found.filter(|dir| dir.is_absolute())
        };
        let base = var("XDG_CONFIG_HOME").or_else(|| var("HOME").map(|home| home.join(".config")))?;
        Some(base.join("git/ignore"))
    }

    fn bare(&self, doing: &'static str) -> Call {
        let mut command = Command::new(&self.program);
        command.env_clear();
        command.envs([
            ("LC_ALL", "C"),
            ("TZ", "UTC"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_ATTR_NOSYSTEM", "1"),
            ("GIT_OPTIONAL_LOCKS", "0"),
            ("GIT_TERMINAL_PROMPT", "0"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_ALLOW_PROTOCOL", ""),
            ("GIT_PAGER", "cat"),
            ("GIT_EDITOR", "false"),
        ]);
        command.env("PATH", &self.path);
        command.arg("--no-pager");
        command.args(QUIET.iter().flat_map(|setting| ["-c", setting]));
        command.stdin(Stdio::null());
        Call { command, doing }
    }
}

impl Call {
    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Call {
        self.command.arg(arg);
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Call {
        self.command.args(args);
        self
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Call {
        self.command.env(name, value);
        self
    }

    /// Works in `dir`.
    #[must_use]
    pub fn dir(mut self, dir: &Path) -> Call {
        self.command.current_dir(dir);
        self
    }

    /// Reads these bytes.
    pub fn input(self, bytes: &[u8]) -> Result<Call> {
        let failed = |doing| move |error: std::io::Error| Error::Git { doing, said: error.to_string() };
        let memory = rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| failed(self.doing)(error.into()))?;
        let mut file = File::from(memory);
        file.write_all(bytes).and_then(|()| file.rewind()).map_err(failed(self.doing))?;
        Ok(self.input_file(file))
    }

    /// Reads this file.
    #[must_use]
    pub fn input_file(mut self, file: File) -> Call {
        self.command.stdin(file);
        self
    }

    /// A call of `git hook run`: the repository's own hooks, with the user's own environment, because the user asked
    /// for them. What they print goes to stderr.
    #[must_use]
    pub fn with_hooks(runner: &Runner, git_dir: &Path, work_tree: &Path, doing: &'static str) -> Call {
        let mut command = Command::new(&runner.program);
        command.env_clear();
        // What names another repository would lead the hook astray.
        let leads_astray = |name: &OsStr| {
            let known: [&[u8]; 6] = [
                b"GIT_DIR",
                b"GIT_WORK_TREE",
                b"GIT_INDEX_FILE",
                b"GIT_OBJECT_DIRECTORY",
                b"GIT_COMMON_DIR",
                b"GIT_ALTERNATE_OBJECT_DIRECTORIES",
            ];
            known.contains(&name.as_bytes())
        };
        command.envs(runner.vars.iter().filter(|(name, _)| !leads_astray(name)).cloned());
        command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", work_tree).current_dir(work_tree);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        Call { command, doing }
    }

    /// Runs it to its end, whatever that is. Its stderr is passed on.
    pub fn told(mut self) -> Result<ExitStatus> {
        self.command.status().map_err(|error| Error::Git { doing: self.doing, said: error.to_string() })
    }

    /// Runs it to its end, whatever that is.
    pub fn answer(mut self) -> Result<Answer> {
        let doing = self.doing;
        let output = self.command.output().map_err(|error| Error::Git { doing, said: error.to_string() })?;
        Ok(Answer { status: output.status, out: output.stdout, err: output.stderr, doing })
    }

    /// Runs it and expects success; what it printed.
    pub fn run(self) -> Result<Vec<u8>> {
        self.answer()?.ok()
    }

    /// Starts it, to be talked to.
    pub fn talk(mut self) -> Result<Child> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().map_err(|error| Error::Git { doing: self.doing, said: error.to_string() })
    }
}

impl Answer {
    /// What it printed, where it ended with success.
    pub fn ok(self) -> Result<Vec<u8>> {
        if self.status.success() {
            return Ok(self.out);
        }
        Err(Error::Git { doing: self.doing, said: said(&self.err) })
    }

    /// What it complained about.
    pub fn complaint(&self) -> String {
        said(&self.err)
    }
}

/// The last line of a complaint, which names the cause.
pub(crate) fn said(err: &[u8]) -> String {
    let text = String::from_utf8_lossy(err);
    let line = |line: &&str| !line.trim().is_empty();
    let first = text.lines().find(|text| text.starts_with("fatal:") || text.starts_with("error:"));
    let chosen = first.or_else(|| text.lines().rfind(line)).unwrap_or("git ended without a word");
    chosen.trim_start_matches("fatal:").trim_start_matches("error:").trim().to_owned()
}

/// Without the newline at the end.
pub(crate) fn line(out: &[u8]) -> &[u8] {
    out.strip_suffix(b"\n").unwrap_or(out)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{Runner, said};

    #[test]
    fn git_is_looked_for_in_absolute_directories_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = dir.path().join("git");
        std::fs::write(&program, "").expect("written");
        let find = |path: &str| Runner::find([(OsString::from("PATH"), OsString::from(path))].into_iter());
        let absolute = dir.path().display().to_string();
        assert!(find(&absolute).is_err(), "a file without an executable bit is no program");
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        assert_eq!(find(&format!("bin:.:{absolute}")).expect("found").program, program);
        assert!(find("bin:.:").is_err());
    }

    #[test]
    fn a_complaint_is_its_cause_in_one_line() {
        assert_eq!(said(b"warning: x\nfatal: bad object\nhint: y\n"), "bad object");
        assert_eq!(said(b"one\ntwo\n\n"), "two");
        assert_eq!(said(b""), "git ended without a word");
    }
}
