//! [`View`]: everything that a program inside a lane can see of it, as its own listing tells.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use testkit::Ran;

use crate::world::World;

/// Lists a tree: type, mode, owner, time, content, attributes, and which names are one file. Opens files alone.
const LIST: &str = r#"
import hashlib, json, os, stat, sys
seen, groups = {}, {}
def look(path):
    s = os.lstat(path)
    kind = stat.S_IFMT(s.st_mode)
    facts = {"mode": oct(s.st_mode), "mtime": s.st_mtime_ns, "owner": [s.st_uid, s.st_gid]}
    if kind == stat.S_IFREG:
        facts["size"] = s.st_size
        with open(path, "rb", buffering=0) as f:
            facts["content"] = hashlib.sha256(f.read()).hexdigest()
        if s.st_nlink > 1:
            groups.setdefault((s.st_dev, s.st_ino), []).append(path.hex())
    elif kind == stat.S_IFLNK:
        facts["target"] = os.readlink(path).hex()
    if kind in (stat.S_IFREG, stat.S_IFDIR):
        names = [n for n in os.listxattr(path) if n.startswith("user.") and not n.startswith("user.overlay.")]
        facts["xattrs"] = {n: os.getxattr(path, n).hex() for n in names}
    seen[path.hex()] = facts
    if kind == stat.S_IFDIR:
        for name in sorted(os.listdir(path)):
            look(path + b"/" + name)
look(b".")
json.dump({"seen": seen, "groups": sorted(sorted(g) for g in groups.values() if len(g) > 1)}, sys.stdout)
"#;

/// Nanoseconds since 1970: what happens while tests run is later.
const NOW: u64 = 1_500_000_000_000_000_000;

/// What a program inside sees.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct View {
    /// By path in hexadecimal.
    seen: BTreeMap<String, Value>,
    /// Names of one file.
    groups: Value,
}

impl View {
    /// Looks.
    pub(crate) fn of(world: &World, lane: &str) -> View {
        testkit::require::program("python3");
        let args = ["run", "-q", "-n", lane, "--checkpoints", "none", "--", "/usr/bin/python3", "-c", LIST];
        View::told(world.run(&args).expect_code(0))
    }

    /// Looks at a directory of the host, by the same program.
    pub(crate) fn of_plain(world: &World, dir: &Path) -> View {
        View::told(world.env.host(dir, "python3", &["-c", LIST]))
    }

    fn told(ran: Ran) -> View {
        let told: Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|error| panic!("{error} in {ran}"));
        let seen = told["seen"].as_object().unwrap();
        View {
            seen: seen.iter().map(|(path, facts)| (path.clone(), facts.clone())).collect(),
            groups: told["groups"].clone(),
        }
    }

    /// The test is red unless both are equal; it names what differs.
    pub(crate) fn assert_same(&self, other: &View, when: &str) {
        let name = |hex: &str| {
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                .collect();
            bytes.escape_ascii().to_string()
        };
        let mut wrong = Vec::new();
        for path in self.seen.keys().chain(other.seen.keys().filter(|path| !self.seen.contains_key(*path))) {
            let (ours, theirs) = (self.seen.get(path), other.seen.get(path));
            if ours != theirs {
                wrong.push(format!("{}:\n  {ours:?}\n  {theirs:?}", name(path)));
            }
        }
        if self.groups != other.groups {
            wrong.push(format!("links: {}\n  {}", self.groups, other.groups));
        }
        assert!(wrong.is_empty(), "{when}: the lane is another:\n{}", wrong.join("\n"));
    }

    /// The same, but for which names are one file: in an overlay that cannot be told from the numbers of files (docs/limits.md).
    pub(crate) fn assert_same_but_links(&self, other: &View, when: &str) {
        let without = |view: &View| View { groups: Value::Null, ..view.clone() };
        without(self).assert_same(&without(other), when);
    }

    /// The same, but for times that are not of a fixture, whose files are old, and times of directories.
    pub(crate) fn assert_alike(&self, other: &View, when: &str) {
        let without = |view: &View| {
            let mut view = view.clone();
            for facts in view.seen.values_mut() {
                let is_dir = facts["mode"].as_str().is_some_and(|mode| mode.starts_with("0o4"));
                if is_dir || facts["mtime"].as_u64().is_some_and(|time| time > NOW) {
                    facts["mtime"] = Value::Null;
                }
            }
            view
        };
        without(self).assert_same_but_links(&without(other), when);
    }

    /// True where both are equal.
    pub(crate) fn is(&self, other: &View) -> bool {
        self == other
    }

    /// True where something stands at a path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path: String = format!("./{path}").bytes().map(|byte| format!("{byte:02x}")).collect();
        self.seen.contains_key(&path)
    }
}
