//! The leader: starts one command inside and stands by it. In a new lane the leader is pid 1; for a
//! command that joins a live lane it is a process that entered the namespaces.
//!
//! Owns the session, the terminal inside, the walls of the command, and the passing on of signals. The
//! channel to the supervisor is closed on exec, so the command never holds it.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use kernel::fdpass;
use kernel::process;
use kernel::{Errno, pty, signal};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::termios::Winsize;

use crate::error::{Error, Result, Stage, Step as _};
use crate::filter;
use crate::limits::Own;
use crate::message::FromInside;
use crate::plan::{Command, Walls};
use crate::rootfs;

/// Where the command's three standard streams come from.
#[derive(Debug)]
pub struct Streams {
    /// Descriptor for each of stdin, stdout, stderr; `None` is the new terminal.
    pub given: [Option<OwnedFd>; 3],
    /// Size of the new terminal, so that the command's first look at it is right.
    pub size: Option<Winsize>,
}

impl Streams {
    fn wants_terminal(&self) -> bool {
        self.given.iter().any(Option::is_none)
    }
}

/// The started command, as the leader sees it.
pub(crate) struct Started {
    pub(crate) pid: i32,
}

/// Starts `command`. Called once by a leader that is inside all namespaces.
pub(crate) fn start(
    channel: &OwnedFd,
    command: &Command,
    streams: &Streams,
    walls: &Walls,
    joined: bool,
) -> Result<Started> {
    // A session of its own: the host's terminal is out of reach (TIOCSTI, SIGHUP of the host's session).
    let _ = rustix::process::setsid();
    let terminal = if streams.wants_terminal() {
        let (master, slave) = pty::open(if walls.bare { "/dev/ptmx" } else { "/dev/pts/ptmx" })
            .step(Stage::Exec, "open a terminal in the lane")?;
        pty::take_control(&slave).step(Stage::Exec, "take the terminal as controlling terminal")?;
        if let Some(size) = streams.size {
            let _ = pty::set_size(&slave, size);
        }
        fdpass::send(channel, &FromInside::Terminal.encode(), &[master.as_fd()])
            .step(Stage::Exec, "hand the terminal out")?;
        Some(slave)
    } else {
        None
    };
    let prepared = Prepared::new(command)?;
    let mut body = || {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let _ = fdpass::send(channel, &FromInside::Started(pid).encode(), &[]);
        let error = become_command(channel, &prepared, streams, terminal.as_ref(), walls, joined);
        let _ = fdpass::send(channel, &FromInside::failed(&error).encode(), &[]);
        // As a shell does: 127 not found, 126 found and not executable. A wall that failed is ours.
        match &error {
            Error::Step { stage: Stage::Exec, errno, .. } if *errno == Errno::NOENT.raw_os_error() => 127,
            Error::Step { stage: Stage::Exec, .. } => 126,
            _ => 125,
        }
    };
    let pid = process::fork_until_exec(&mut body).step(Stage::Exec, "fork the command")?;
    Ok(Started { pid: pid.as_raw_nonzero().get() })
}

struct Prepared<'c> {
    command: &'c Command,
    argv: Vec<CString>,
    envp: Vec<CString>,
}

impl<'c> Prepared<'c> {
    fn new(command: &'c Command) -> Result<Prepared<'c>> {
        let c = |bytes: Vec<u8>| {
            CString::new(bytes).map_err(|_| Error::Step {
                stage: Stage::Exec,
                step: "an argument or variable holds a NUL byte".into(),
                cause: "EINVAL".into(),
                errno: Errno::INVAL.raw_os_error(),
            })
        };
        let argv = command.argv.iter().map(|arg| c(arg.as_bytes().to_vec())).collect::<Result<Vec<_>>>()?;
        let envp = command
            .env
            .iter()
            .map(|(key, value)| c([key.as_bytes(), b"=", value.as_bytes()].concat()))
            .collect::<Result<Vec<_>>>()?;
        Ok(Prepared { command, argv, envp })
    }

    /// Tries the program as a shell would: a name with a slash as it is, else along PATH.
    fn exec(&self) -> Error {
        let Some(program) = self.command.argv.first() else {
            return step_error("no command", Errno::NOENT);
        };
        let shown = program.as_bytes().escape_ascii().to_string();
        let mut worst = Errno::NOENT;
        if program.as_bytes().contains(&b'/') {
            worst = self.try_one(program.as_bytes());
        } else {
            let path =
                self.command.env.iter().find(|(key, _)| key == "PATH").map(|(_, value)| value.as_os_str());
            let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
            for dir in path.as_bytes().split(|b| *b == b':') {
                let dir: &[u8] = if dir.is_empty() { b"." } else { dir };
                let errno = self.try_one(&[dir, b"/", program.as_bytes()].concat());
                match errno {
                    Errno::NOENT | Errno::NOTDIR => {}
                    Errno::ACCESS => worst = Errno::ACCESS,
                    other => return step_error(&shown, other),
                }
            }
        }
        step_error(&shown, worst)
    }

    fn try_one(&self, path: &[u8]) -> Errno {
        let Ok(file) = CString::new(path) else { return Errno::INVAL };
        let errno = process::exec(&file, &self.argv, &self.envp).errno;
        if errno != Errno::NOEXEC {
            return errno;
        }
        // A text file without an interpreter line is a shell script (execvp(3)).
        let mut argv = vec![c"/bin/sh".to_owned(), file];
        argv.extend(self.argv.iter().skip(1).cloned());
        process::exec(&c"/bin/sh".to_owned(), &argv, &self.envp).errno
    }
}

fn step_error(step: &str, errno: Errno) -> Error {
    Error::Step {
        stage: Stage::Exec,
        step: step.to_owned(),
        cause: kernel::Error::new("execve", step, errno).to_string(),
        errno: errno.raw_os_error(),
    }
}

fn become_command(
    channel: &OwnedFd,
    prepared: &Prepared<'_>,
    streams: &Streams,
    terminal: Option<&OwnedFd>,
    walls: &Walls,
    joined: bool,
) -> Error {
    let made: Result<()> = (|| {
        if joined {
            process::die_with_parent().step(Stage::Walls, "die with the client")?;
        }
        rustix::process::setpgid(None, None)
            .map_err(|e| kernel::Error::new("setpgid", "", e))
            .step(Stage::Exec, "own process group")?;
        if let Some(terminal) = terminal {
            // We are no longer in the foreground group: the change would stop us (SIGTTOU).
            signal::ignore(libc_sigttou());
            pty::set_foreground(terminal, rustix::process::getpid().as_raw_nonzero().get())
                .step(Stage::Exec, "come to the foreground")?;
        }
        for (number, given) in streams.given.iter().enumerate() {
            let Some(from) = given.as_ref().or(terminal) else { continue };
            let own = own_null(from);
            let from = own.as_ref().unwrap_or(from);
            let dup = match number {
                0 => rustix::stdio::dup2_stdin(from),
                1 => rustix::stdio::dup2_stdout(from),
                _ => rustix::stdio::dup2_stderr(from),
            };
            dup.map_err(|e| kernel::Error::new("dup2", format!("{number}"), e))
                .step(Stage::Exec, "set up the streams")?;
        }
        let cwd = &prepared.command.cwd;
        let cwd: &Path = if rootfs::is_dir_inside(cwd) { cwd } else { Path::new("/") };
        rustix::process::chdir(cwd)
            .map_err(|e| kernel::Error::new("chdir", kernel::error::path_bytes(cwd), e))
            .step(Stage::Exec, "enter the working directory")?;
        take_on(walls, channel.as_fd())?;
        signal::unblock_all().step(Stage::Exec, "unblock signals")?;
        signal::default(libc_sigttou());
        Ok(())
    })();

    match made {
        Ok(()) => prepared.exec(),
        Err(error) => error,
    }
}

/// The lane's own null device, for a stream that is the host's: that one could not be opened again by its name.
fn own_null(stream: &OwnedFd) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let given = rustix::fs::fstat(stream).ok()?;
    if !FileType::from_raw_mode(given.st_mode).is_char_device() {
        return None;
    }
    let own = rustix::fs::open("/dev/null", flags, Mode::empty()).ok()?;
    (rustix::fs::fstat(&own).ok()?.st_rdev == given.st_rdev).then_some(own)
}

fn libc_sigttou() -> i32 {
    rustix::process::Signal::TTOU.as_raw()
}

/// A number that differs between lanes, in which the same process ids come again.
fn own_number() -> u64 {
    let inode = |path: &str| rustix::fs::stat(path).map_or(0, |stat| stat.st_ino);
    inode("/proc/self/ns/mnt") ^ inode("/proc/self/ns/pid")
}

/// What stands between the command and the kernel. The leader has set no_new_privs and the bounding set.
fn take_on(walls: &Walls, channel: BorrowedFd<'_>) -> Result<()> {
    kernel::privilege::no_new_privs().step(Stage::Walls, "no_new_privs")?;
    kernel::privilege::drop_capabilities().step(Stage::Walls, "drop capabilities")?;
    let own = Own::of(&walls.limits);
    if let Some(most) = own.processors {
        let dice = rustix::process::getpid().as_raw_nonzero().get() as u64 ^ own_number();
        kernel::privilege::limit_processors(most, dice).step(Stage::Walls, "limit the processors")?;
    }
    if let Some(most) = own.file_size {
        kernel::privilege::limit_file_size(most).step(Stage::Walls, "limit the size of files")?;
    }
    if let Some(most) = own.processes {
        kernel::privilege::limit_processes(most).step(Stage::Walls, "limit the processes")?;
    }
    if !walls.fence.is_empty() {
        walls.fence.enforce().step(Stage::Walls, "take on the Landlock domain")?;
    }
    let reports = walls.reports();
    let listener = filter::compile(walls).install(reports).step(Stage::Walls, "seccomp filter")?;
    if let Some(listener) = listener {
        fdpass::send(channel, &FromInside::Listener.encode(), &[listener.as_fd()])
            .step(Stage::Walls, "hand the listener out")?;
    }
    Ok(())
}
