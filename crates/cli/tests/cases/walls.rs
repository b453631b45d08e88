//! What a command cannot do: the walls, probed from inside.

use crate::world::{World, each, everybody};

const CALLS: &str = r#"
import ctypes, errno, os, mmap, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    back = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(arg) for arg in args])
    return 'done' if back != -1 else errno.errorcode[ctypes.get_errno()]
NEW = {'user': 0x10000000, 'mnt': 0x20000, 'pid': 0x20000000, 'net': 0x40000000, 'ipc': 0x8000000, 'uts': 0x4000000, 'cgroup': 0x2000000, 'time': 0x80}
for name, nr, args in [
    ('mount', 165, ()), ('umount2', 166, ()), ('pivot_root', 155, ()), ('move_mount', 429, ()), ('open_tree', 428, ()),
    ('fsopen', 430, ()), ('fsconfig', 431, ()), ('fsmount', 432, ()), ('fspick', 433, ()), ('mount_setattr', 442, ()),
    ('open_tree_attr', 467, ()), ('userfaultfd', 323, (0,)), ('chroot', 161, ()), ('setns', 308, (0, 0)), ('bpf', 321, ()), ('keyctl', 250, ()), ('add_key', 248, ()),
    ('request_key', 249, ()), ('perf_event_open', 298, ()), ('open_by_handle_at', 304, ()), ('init_module', 175, ()),
    ('kexec_load', 246, ()), ('settimeofday', 164, ()), ('sethostname', 170, ()), ('swapon', 167, ()), ('syslog', 103, (3,)),
    ('tiocsti', 16, (0, 0x5412, 0)), ('tiocsti-high', 16, (0, 0x100005412, 0)), ('tioclinux', 16, (0, 0x541c, 0)),
    ('vsock', 41, (40, 1, 0)),
] + [('unshare-' + name, 272, (flag,)) for name, flag in NEW.items()] + [('clone-' + name, 56, (flag | 17,)) for name, flag in NEW.items() if name != 'time']:
    print(name, call(nr, *args))
for name, nr in [('io_uring_setup', 425), ('io_uring_enter', 426), ('io_uring_register', 427), ('clone3', 435), ('newest', 900), ('unassigned', 400)]:
    print('absent', name, call(nr))
if os.uname().machine == 'x86_64':
    print('absent x32-getpid', call(0x40000000 | 39))
    print('absent x32-mount', call(0x40000000 | 165))
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes([0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3]))
    go = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    print('absent int80-getpid', errno.errorcode.get(-go(), 'done'))
"#;

#[test]
fn calls_that_could_take_a_wall_down_are_refused() {
    everybody(|world| {
        world.lane("a");
        let out = world.python("a", CALLS).out();
        assert!(out.lines().count() > 45, "{out}");
        for line in out.lines() {
            let wanted = if line.starts_with("absent ") { "ENOSYS" } else { "EPERM" };
            assert!(line.ends_with(wanted), "{:?}: {line}", world.who());
        }
    });
}

const STATUS: &str = r#"
import os
status = dict(line.rstrip('\n').split(':\t', 1) for line in open('/proc/self/status'))
for name in ['NoNewPrivs', 'Seccomp', 'CapEff', 'CapPrm', 'CapInh', 'CapAmb', 'Uid']:
    print(name, status[name].split()[0])
if os.getuid() == 0: print('CapBnd', status['CapBnd'])
for name in sorted(os.listdir('/proc/self/ns')):
    print('ns', name, os.readlink('/proc/self/ns/' + name))
"#;

/// The namespace links of the test itself.
fn own_link(name: &str) -> String {
    std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap().to_string_lossy().into_owned()
}

#[test]
fn privilege_is_gone_and_every_namespace_is_the_lanes_own() {
    each(|world| {
        for (lane, net) in [("a", "none"), ("b", "host")] {
            world.lane(lane);
            let args = ["run", "-n", lane, "--net", net, "--", "/usr/bin/python3", "-c", STATUS];
            let out = world.ok(&args).out();
            let has = |line: &str| assert!(out.lines().any(|found| found == line), "{line} in {out}");
            has("NoNewPrivs 1");
            has("Seccomp 2");
            for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
                has(&format!("{set} 0000000000000000"));
            }
            if world.who().uid() == 0 {
                has("CapBnd 0000000000000000");
            }
            has(&format!("Uid {}", world.who().uid()));
            for name in ["mnt", "pid", "ipc", "uts", "cgroup", "user", "net"] {
                let is_same = out.contains(&own_link(name));
                // Root needs no user namespace; the host's network is what was asked for.
                let same = (name == "user" && world.who().uid() == 0) || (name == "net" && net == "host");
                assert_eq!(is_same, same, "{name} with --net {net} as {:?}: {out}", world.who());
            }
        }
    });
}

#[test]
fn a_joined_command_stands_behind_the_same_walls() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--net", "none", "--", "sleep", "1000"]);
        let inside = |args: &[&str]| {
            let mut all = vec!["exec", "a", "--", "/usr/bin/python3", "-c"];
            all.extend(args);
            world.ok(&all).out()
        };
        let out = inside(&[STATUS]);
        for line in ["NoNewPrivs 1", "Seccomp 2", "CapEff 0000000000000000"] {
            assert!(out.contains(line), "{line} in {out}");
        }
        for name in ["mnt", "pid", "ipc", "uts", "cgroup", "net"] {
            assert!(!out.contains(&own_link(name)), "{name}: {out}");
        }
        for line in inside(&[CALLS]).lines() {
            assert!(line.ends_with(if line.starts_with("absent ") { "ENOSYS" } else { "EPERM" }), "{line}");
        }
        world.ok(&["stop", "a"]);
    });
}

const PID_ONE: &str = r#"
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
assert os.getpid() > 1
for name in ['mem', 'environ', 'maps', 'auxv']:
    try:
        data = os.read(os.open('/proc/1/' + name, os.O_RDONLY), 64)
        print('open', name, 'empty' if not data else 'done')
    except OSError as error: print('open', name, errno.errorcode[error.errno])
for name in ['root', 'cwd', 'exe', 'ns/mnt']:
    try: print('link', name, os.readlink('/proc/1/' + name))
    except OSError as error: print('link', name, errno.errorcode[error.errno])
    try: print('into', name, os.listdir('/proc/1/' + name + '/'))
    except OSError as error: print('into', name, errno.errorcode[error.errno])
try: numbers = os.listdir('/proc/1/fd')
except OSError as error: numbers = ['0']
for number in numbers:
    for name, ask in [('link', os.readlink), ('open', lambda path: os.open(path, os.O_RDONLY))]:
        try: print('fd', name, ask('/proc/1/fd/' + number))
        except OSError as error: print('fd', name, errno.errorcode[error.errno])
for name, request in [('attach', 16), ('seize', 0x4206)]:
    ctypes.set_errno(0)
    back = libc.ptrace(request, 1, None, None)
    print('ptrace', name, 'done' if back == 0 else errno.errorcode[ctypes.get_errno()])
ctypes.set_errno(0)
fd = libc.syscall(434, 1, 0)
got = libc.syscall(438, fd, 0, 0)
print('pidfd_getfd', 'done' if got >= 0 else errno.errorcode[ctypes.get_errno()])
for number in range(1, 65):
    try: os.kill(1, number)
    except OSError: pass
child = os.fork()
if child == 0: os._exit(7)
assert os.waitpid(child, 0)[1] == 7 << 8
print('still here')
"#;

#[test]
fn pid_1_cannot_be_read_traced_or_killed_from_inside() {
    everybody(|world| {
        world.lane("a");
        let out = world.python("a", PID_ONE).out();
        assert!(out.ends_with("still here\n"), "{out}");
        for line in out.lines().filter(|line| *line != "still here") {
            let refused = ["EACCES", "EPERM", "ENOTDIR", "empty"].iter().any(|end| line.ends_with(end));
            assert!(refused, "{:?}: {line}", world.who());
        }
    });
}

#[test]
fn a_debugger_works_on_the_lanes_own_processes() {
    let script = r#"
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
child = os.fork()
if child == 0:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
    os._exit(5)
assert os.WIFSTOPPED(os.waitpid(child, 0)[1])
assert libc.ptrace(7, child, None, None) == 0
assert os.waitpid(child, 0)[1] == 5 << 8
"#;
    everybody(|world| {
        world.lane("a");
        world.python("a", script);
    });
}

fn refused(world: &World, lane: &str, script: &str, words: &[&str]) {
    let ran = world.try_sh(lane, script);
    assert_ne!(ran.code, Some(0), "{script}: {ran}");
    assert!(words.iter().any(|word| ran.err().contains(word)), "{script}: {ran}");
}

#[test]
fn the_system_and_the_kernels_switches_are_read_only() {
    each(|world| {
        world.lane("a");
        for path in ["/usr/made", "/etc/made", "/usr/bin/made", "/etc/passwd"] {
            refused(world, "a", &format!(": >> {path}"), &["Read-only file system", "Permission denied"]);
        }
        for path in ["/proc/sys/kernel/panic", "/proc/sysrq-trigger", "/sys/kernel/mm/ksm/run"] {
            if std::path::Path::new(path).exists() {
                refused(
                    world,
                    "a",
                    &format!("echo 0 > {path}"),
                    &["Read-only file system", "Permission denied"],
                );
            }
        }
        // Of /sys there is what programs ask about processors and memory, and nothing else.
        world.sh("a", "test \"$(ls /sys /sys/kernel | tr '\\n' ' ')\" = '/sys: devices kernel  /sys/kernel: mm ' || { ls /sys /sys/kernel; exit 1; }");
        refused(
            world,
            "a",
            "mknod node b 8 0 && dd if=node of=/dev/null count=1",
            &["not permitted", "Permission denied"],
        );
        // What a lane has of its own can be written.
        world.sh("a", "for d in /tmp /var/tmp /dev/shm /run/user/$(id -u); do echo x > $d/made; done; test ! -e /dev/sda");
    });
}

#[test]
fn nothing_that_the_caller_had_open_is_open_inside() {
    everybody(|world| {
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sleep", "1000"]);
        for verb in [&["run", "-n", "b"] as &[&str], &["exec", "a"]] {
            let mut command = world.env.command("/bin/bash");
            command.current_dir(&world.project);
            command.args(["-c", r#"exec 7</etc/passwd 9>/dev/null 200</; exec "$0" "$@""#]);
            command.arg(world.env.lane_program()).args(verb).args(["--", "/usr/bin/python3", "-c"]);
            command.arg("import os; print(sorted(int(fd) for fd in os.listdir('/proc/self/fd')))");
            let ran = testkit::Running::start(command).wait(crate::world::SOON).expect_code(0);
            // The list itself is read through a descriptor of its own.
            assert_eq!(ran.out(), "[0, 1, 2, 3]\n", "{verb:?}: {ran}");
        }
        world.ok(&["stop", "a"]);
    });
}

#[test]
fn a_file_on_stdin_cannot_be_opened_again_for_writing() {
    everybody(|world| {
        world.lane("a");
        let input = world.env.root().join("input");
        world.env.write(&input, b"precious\n");
        let mut command = world.env.lane(&world.project, &["run", "-n", "a", "--", "/usr/bin/python3", "-c"]);
        command.arg(
            "import os, sys\nassert sys.stdin.read() == 'precious\\n'\ntry: os.write(os.open('/proc/self/fd/0', os.O_WRONLY | os.O_NONBLOCK), b'spoilt')\nexcept OSError: pass",
        );
        command.stdin(std::fs::File::options().read(true).write(true).open(&input).unwrap());
        testkit::Running::start(command).wait(crate::world::SOON).expect_code(0);
        assert_eq!(std::fs::read(&input).unwrap(), b"precious\n");
    });
}
