//! Every attack of the table, at every level, by `run` and by `exec`, and what became of the host.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

use serde::Deserialize;
use testkit::{Listing, Running, Who, require};

use crate::world::{SOON, World, everybody};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    attack: Vec<Attack>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some of it is for the page")]
struct Attack {
    name: String,
    group: String,
    does: String,
    code: Option<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default)]
    landlock_only: Vec<String>,
    says: Option<String>,
    says_landlock_only: Option<String>,
    tested: Option<String>,
}

fn table() -> Vec<Attack> {
    toml::from_str::<Table>(include_str!("table.toml")).expect("a table").attack
}

/// Runs each piece of code in a process of its own and says what became of it, a line each.
const DRIVER: &str = r#"
import ctypes, errno, fcntl, json, mmap, os, pty, resource, select, signal, socket, sys
given = json.loads(sys.argv[1])
globals().update(given['names'])
libc = ctypes.CDLL(None, use_errno=True)
iov = (ctypes.c_ulong * 2)(ctypes.addressof(ctypes.create_string_buffer(8)), 8)
caps = ((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0))
def call(nr, *args):
    ctypes.set_errno(0)
    def word(arg):
        if isinstance(arg, (bytes, ctypes.Array)): return arg
        return ctypes.c_long(arg)
    back = libc.syscall(ctypes.c_long(nr), *[word(arg) for arg in args])
    if back == -1: raise OSError(ctypes.get_errno(), 'call %d' % nr)
    return back
def int80(nr):
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(bytes([0xb8, nr, 0, 0, 0, 0xcd, 0x80, 0xc3]))
    back = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    if back < 0: raise OSError(-back, 'int 0x80')
def outcome(code):
    try: exec(code, globals())
    except OSError as error: return errno.errorcode.get(error.errno, str(error))
    except BaseException as error: return type(error).__name__
    return 'done'
for attack in given['attacks']:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os.write(theirs, outcome(attack['code']).encode())
        os._exit(0)
    os.close(theirs)
    said = os.read(ours, 200).decode()
    os.close(ours)
    status = os.waitpid(child, 0)[1]
    print(attack['name'], said or 'status %d' % status, flush=True)
"#;

/// A process of the person outside, as a target.
struct Target(Running);

impl Target {
    fn start(world: &World) -> Target {
        let mut command = world.env.command("/bin/sleep");
        command.arg("1000").env("TARGET", "precious");
        Target(Running::start(command))
    }

    fn assert_unharmed(&self) {
        let pid = self.0.pid();
        assert!(testkit::procs::is_alive(pid), "the process outside was ended");
        let nice = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        let priority = |stat: &str| stat.rsplit(')').next().unwrap().split(' ').nth(17).unwrap().to_owned();
        assert_eq!(priority(&nice), priority(&own), "the process outside was slowed");
    }
}

fn attack(world: &World, verb: &[&str], level: &str, target: &Target) {
    let table = table();
    let abstract_name =
        format!("lane-attack-{}-{:?}-{}", std::process::id(), world.env.who(), verb.join("-"));
    let _listening =
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name).unwrap()).unwrap();
    let in_tmp = tempfile::Builder::new().prefix("lane-attack").tempdir_in("/tmp").unwrap();
    std::fs::set_permissions(in_tmp.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let socket = |path: &std::path::Path| {
        let _ = std::fs::remove_file(path);
        let listening = UnixListener::bind(path).unwrap();
        world.env.who().own(path);
        listening
    };
    let tmp_socket = in_tmp.path().join("s");
    let _in_tmp = socket(&tmp_socket);
    let out = world.env.root().join("out");
    let _in_the_open = socket(&out.join("sock"));
    let given = serde_json::json!({
        "names": {
            "OUT": out, "ORIGIN": world.project, "HOME": world.env.home(), "STATE": world.env.state(),
            "PID": target.0.pid(), "ABSTRACT": abstract_name, "TMPSOCK": tmp_socket,
            "PTYS": level == "namespaces",
        },
        "attacks": table.iter().filter_map(|attack| {
            Some(serde_json::json!({ "name": attack.name, "code": attack.code.as_ref()? }))
        }).collect::<Vec<_>>(),
    });
    let before = Listing::without(world.env.root(), &["s", "t"]);
    let mut command = world.env.lane(&world.project, verb);
    command.args(["--", "/usr/bin/python3", "-c", DRIVER]).arg(given.to_string());
    command
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")
        .env("SSH_AUTH_SOCK", "/run/agent")
        .env("ATTACK_TOKEN", "t");
    let ran = Running::start(command).wait(SOON * 3).expect_code(0);
    let out = ran.out();
    let said: std::collections::BTreeMap<&str, &str> =
        out.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut wrong = Vec::new();
    for attack in table.iter().filter(|attack| attack.code.is_some()) {
        let expected = if level == "namespaces" { &attack.namespaces } else { &attack.landlock_only };
        let got = said.get(attack.name.as_str()).copied().unwrap_or("nothing");
        if !expected.iter().any(|expected| expected == got) {
            wrong.push(format!("{}: {got}, not {}", attack.name, expected.join(" or ")));
        }
    }
    assert!(wrong.is_empty(), "{:?} {verb:?}:\n{}\n{ran}", world.env.who(), wrong.join("\n"));
    target.assert_unharmed();
    if level == "namespaces" {
        before.assert_same(&Listing::without(world.env.root(), &["s", "t"]));
    } else {
        // Modes, times and attributes are what this level does not protect.
        assert_eq!(std::fs::read(world.env.root().join("out/secret")).unwrap(), b"PRECIOUS\n");
        assert_eq!(std::fs::read(world.project.join("README.md")).unwrap(), b"read me\n");
    }
}

#[test]
fn every_attack_gets_the_answer_of_the_table_with_namespaces() {
    require::program("python3");
    everybody(|world| {
        let target = Target::start(world);
        attack(world, &["run", "-n", "a"], "namespaces", &target);
        world.ok(&["run", "-n", "live", "-d", "--", "sleep", "1000"]);
        attack(world, &["exec", "live"], "namespaces", &target);
        world.ok(&["stop", "live"]);
    });
}

#[test]
fn every_attack_gets_the_answer_of_the_table_with_landlock_alone() {
    require::program("python3");
    everybody(|world| {
        let target = Target::start(world);
        attack(
            world,
            &["run", "-n", "a", "--net", "host", "--level", "landlock-only"],
            "landlock-only",
            &target,
        );
    });
}

#[test]
fn outside_the_same_attacks_do_go_through() {
    // Else the answers inside would be no proof of anything. Those that harm nobody, as the ordinary user.
    require::program("python3");
    let world = World::new(Who::User);
    let harmless = [
        "write-outside",
        "write-outside-by-dots",
        "read-a-credential",
        "change-a-mode",
        "change-times",
        "host-process-environment",
        "new-user-namespace",
        "signal-a-process",
        "limit-a-process",
        "write-the-original",
    ];
    let target = Target::start(&world);
    let attacks: Vec<_> = table()
        .into_iter()
        .filter(|attack| harmless.contains(&attack.name.as_str()))
        .map(|attack| {
            let code = attack.code.unwrap().replace("os.kill(PID, 9)", "os.kill(PID, 0)");
            serde_json::json!({ "name": attack.name, "code": code })
        })
        .collect();
    assert_eq!(attacks.len(), harmless.len());
    let given = serde_json::json!({ "names": {
        "OUT": world.env.root().join("out"), "ORIGIN": world.project, "HOME": world.env.home(), "STATE": world.env.state(), "PID": target.0.pid(),
    }, "attacks": attacks });
    let mut command: Command = world.env.command("/usr/bin/python3");
    command.args(["-c", DRIVER]).arg(given.to_string()).current_dir(&world.project);
    let out = Running::start(command).wait(SOON).expect_code(0).out();
    assert!(out.lines().all(|line| line.ends_with(" done")), "{out}");
}

#[test]
fn every_attack_has_a_name_and_a_place_where_it_is_tried() {
    let table = table();
    let mut names: Vec<&str> = table.iter().map(|attack| attack.name.as_str()).collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(all >= 80, "{all}");
    let sources =
        [include_str!("bombs.rs"), include_str!("survivors.rs"), include_str!("way_back.rs")].concat();
    for attack in &table {
        match &attack.tested {
            Some(test) => assert!(sources.contains(&format!("fn {test}")), "{test} is no test"),
            None => assert!(
                attack.code.is_some() && !attack.namespaces.is_empty() && !attack.landlock_only.is_empty()
            ),
        }
    }
}
