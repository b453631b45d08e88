//! [`Street`]: a network of a test's own, with a person's project on it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::{Ran, Running, TestEnv, Who, require};

/// How long a thing that happens at once may take on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(120);

/// A network namespace with servers, and a project.
#[derive(Debug)]
pub(crate) struct Street {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
    town: Running,
}

/// Addresses of the street. They stand on its loopback interface, which is no other to whoever connects.
const SETUP: &str = "set -e
mount --make-rprivate /
ip link set lo up
for a in 93.184.216.34 93.184.216.35 10.9.9.9 169.254.169.254 198.18.0.1; do ip addr add $a/32 dev lo; done
ip addr add 2606:2800:220:1::1/128 dev lo nodad
ip addr add fd77::1/128 dev lo nodad
mkdir etc
mount -t tmpfs tmpfs etc
mkdir etc/u etc/w
mount -t overlay overlay -o lowerdir=/etc,upperdir=etc/u,workdir=etc/w /etc
rm -f /etc/resolv.conf
echo nameserver 127.0.0.1 > /etc/resolv.conf
echo '93.184.216.35 hosts.example' >> /etc/hosts
grep -q :61001: /etc/passwd || echo tester:x:61001:61001::/:/bin/sh >> /etc/passwd
mkdir -p /run/sshd
exec python3 town.py .";

/// Does `test` for everybody that this process can be, on a street of its own.
pub(crate) fn each(test: impl Fn(&Street)) {
    if !testkit::who::is_root() {
        require::say("not root: a network with public addresses cannot be made for this test");
        return;
    }
    for who in Who::all() {
        // In a place that a lane shows: the usual temporary directory is its own inside.
        let env = TestEnv::inside(Path::new("/srv"), env!("CARGO_BIN_EXE_lane"), who);
        let project = env.make_git("p");
        let town = open(&env);
        let mut street = Street { env, project, town };
        test(&street);
        street.town.kill9();
    }
}

fn open(env: &TestEnv) -> Running {
    let root = env.root();
    std::fs::write(root.join("town.py"), include_str!("town.py")).unwrap();
    std::fs::create_dir(root.join("www")).unwrap();
    std::fs::write(root.join("www/index.html"), "hello\n").unwrap();
    let openssl = Command::new(require::program("openssl"))
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=street"])
        .args(["-addext", "subjectAltName=DNS:good.example,DNS:four.example,DNS:evil.example"])
        .current_dir(root)
        .stderr(Stdio::null())
        .status();
    assert!(openssl.unwrap().success());
    for program in ["ip", "python3", "curl", "nsenter", "setpriv"] {
        require::program(program);
    }
    let mut command = Command::new(require::program("unshare"));
    command.args(["-n", "-m", "sh", "-c", SETUP]).current_dir(root).env_clear().env("PATH", require::PATH);
    let mut town = Running::start(command);
    town.wait_for("ready", SOON);
    town
}

impl Street {
    pub(crate) fn who(&self) -> Who {
        self.env.who()
    }

    /// A command on the street, as root.
    fn on_it(&self) -> Command {
        let mut command = Command::new(require::program("nsenter"));
        command.args(["-n", "-m", "-t", &self.town.pid().to_string(), "--"]);
        command.env_clear().env("PATH", require::PATH).stdin(Stdio::null());
        command
    }

    /// `lane` with these arguments.
    pub(crate) fn lane(&self, args: &[&str]) -> Command {
        let mut command = self.on_it();
        let wd = format!("cd {} && exec \"$0\" \"$@\"", self.project.display());
        command.args(["sh", "-c", &wd]);
        if self.who() == Who::User {
            let id = self.who().uid().to_string();
            command.args(["setpriv", "--reuid", &id, "--regid", &id, "--clear-groups"]);
        }
        command.arg(self.env.lane_program()).args(args);
        command
            .env("HOME", self.env.home())
            .env("XDG_STATE_HOME", self.env.state_home())
            .env("SHELL", "/bin/sh");
        command
    }

    /// `lane` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.lane(args)).wait(SOON)
    }

    /// A command in a lane that comes and goes, with this network and no environment at all.
    pub(crate) fn inside(&self, options: &[&str], command: &[&str]) -> Ran {
        let mut args = vec!["run", "--rm"];
        args.extend(options);
        args.extend(["--", "env", "-i"]);
        args.extend(command);
        self.run(&args)
    }

    /// The same in a shell.
    pub(crate) fn sh(&self, options: &[&str], script: &str) -> Ran {
        self.inside(options, &["PATH=/usr/local/bin:/usr/bin:/bin", "sh", "-c", script])
    }

    /// The same in Python.
    pub(crate) fn python(&self, options: &[&str], script: &str) -> Ran {
        self.inside(options, &["/usr/bin/python3", "-c", script])
    }

    /// A program of the street itself, started.
    pub(crate) fn outside(&self, program: &str, args: &[&str]) -> Running {
        let mut command = self.on_it();
        let wd = format!("cd {} && exec \"$0\" \"$@\"", self.env.root().display());
        command.args(["sh", "-c", &wd]).arg(require::program(program)).args(args);
        Running::start(command)
    }

    /// What the servers were asked so far.
    pub(crate) fn told(&self) -> String {
        self.town.out_so_far()
    }

    /// A file beside the project, readable by everybody.
    pub(crate) fn file(&self, name: &str) -> String {
        self.env.root().join(name).to_str().unwrap().to_owned()
    }
}

/// The one refusal that a run tells of, as `what for program: rule; allow it: option`; there is no other.
pub(crate) fn refusal(ran: &Ran) -> String {
    let err = ran.err();
    let mut lines = err.lines();
    let what = lines.find_map(|line| line.strip_prefix("refused host ")).unwrap_or_else(|| panic!("{ran}"));
    let why = lines.next().unwrap().trim();
    assert!(!err.replacen("refused host ", "", 1).contains("refused "), "another: {ran}");
    let what = what.split(" (2 times)").next().unwrap().replace(" by ", " for ");
    let why = why.replace("allowed by `lane run ", "allow it: ");
    format!("refused: {what}: {}", why.trim_end_matches('`'))
}
