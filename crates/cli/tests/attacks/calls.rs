//! The table of system calls, compared with what the kernel answers: each call is made inside a lane, with arguments that do
//! nothing.

use testkit::require;

use crate::world::everybody;

/// Calls that would end, stop or fork whoever makes them, or change what the rest of the test stands on.
const LEFT_OUT: &[&str] = &[
    "exit",
    "exit_group",
    "fork",
    "vfork",
    "clone",
    "pause",
    "rt_sigreturn",
    "rt_sigsuspend",
    "restart_syscall",
    "execve",
    "execveat",
    "kill",
    "tkill",
    "tgkill",
    "sigaltstack",
    "munmap",
    "brk",
    "arch_prctl",
    "set_tid_address",
    "rseq",
    "set_robust_list",
    "uretprobe",
    "uprobe",
    "mseal",
    "close_range",
    "seccomp",
    "rt_sigprocmask",
    "rt_sigaction",
    "pivot_root",
    "ioctl",
    "socket",
    "unshare",
    "alarm",
    "select",
    "poll",
    "pselect6",
    "ppoll",
    "epoll_wait",
    "nanosleep",
    "clock_nanosleep",
    "wait4",
    "waitid",
    "futex",
    "map_shadow_stack",
    "close",
    "vhangup",
    "prctl",
    "mprotect",
    "mremap",
    "setsid",
    "personality",
    "munlockall",
    "mlockall",
    "sync",
    "dup2",
    "dup3",
    "remap_file_pages",
    "chroot",
    "umask",
    "rt_sigtimedwait",
    "msgrcv",
    "semop",
    "setgroups",
    "setuid",
    "setgid",
    "setreuid",
    "setregid",
    "setresuid",
    "setresgid",
    "setfsuid",
    "setfsgid",
];

const PROBE: &str = r#"
import ctypes, errno, json, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in json.loads(sys.argv[1]):
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        ctypes.set_errno(0)
        back = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(-1)] * 6)
        os.write(theirs, (errno.errorcode.get(ctypes.get_errno(), '?') if back == -1 else 'done').encode())
        os._exit(0)
    os.close(theirs)
    said = os.read(ours, 99).decode()
    os.close(ours)
    os.waitpid(child, 0)
    print(number, said or 'ended')
"#;

/// The rows of the page: number, name, answer.
fn rows() -> Vec<(u32, String, String)> {
    let page = include_str!("../../../../docs/syscalls.md");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = cells.get(1)?.parse().ok()?;
        Some((number, cells[2].trim_matches('`').to_owned(), cells[3].to_owned()))
    };
    page.lines().filter_map(row).collect()
}

#[test]
fn every_call_answers_as_the_page_says() {
    require::program("python3");
    if std::env::consts::ARCH != "x86_64" {
        return;
    }
    let rows = rows();
    assert!(rows.len() > 380, "{}", rows.len());
    let tried: Vec<&(u32, String, String)> =
        rows.iter().filter(|(_, name, _)| !LEFT_OUT.contains(&name.as_str())).collect();
    let mut numbers: Vec<u32> = tried.iter().map(|(number, ..)| *number).collect();
    // Numbers of nobody.
    numbers.extend([337, 400, 423, 470, 471, 511, 512, 547, 1000]);
    let numbers = serde_json::json!(numbers).to_string();
    everybody(|world| {
        let args = ["run", "-n", "a", "--", "/usr/bin/python3", "-c", PROBE, &numbers];
        let inside = world.ok(&args).out();
        let mut command = world.env.command("/usr/bin/python3");
        command.args(["-c", PROBE, &numbers]).current_dir(&world.project);
        let outside = testkit::Running::start(command).wait(crate::world::SOON).expect_code(0).out();
        let of = |text: &str, number: u32| {
            let found =
                text.lines().find_map(|line| line.strip_prefix(&format!("{number} ")).map(str::to_owned));
            found.unwrap_or_default()
        };
        let mut wrong = Vec::new();
        for (number, name, answer) in &tried {
            let got = of(&inside, *number);
            let right = match answer.as_str() {
                "EPERM" => got == "EPERM",
                "ENOSYS" => got == "ENOSYS",
                // The kernel decides: it never says that there is no such call, unless it says so outside too.
                _ => got != "ENOSYS" || of(&outside, *number) == "ENOSYS",
            };
            if !right {
                wrong.push(format!("{number} {name}: {got}, not {answer}"));
            }
        }
        for number in [337, 400, 423, 470, 471, 511, 512, 547, 1000] {
            if of(&inside, number) != "ENOSYS" {
                wrong.push(format!("{number}: {}", of(&inside, number)));
            }
        }
        assert!(wrong.is_empty(), "{:?}:\n{}", world.env.who(), wrong.join("\n"));
    });
}
