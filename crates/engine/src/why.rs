//! Why something was refused, and the one thing that would allow it: from a record of the ledger to plain facts.
//!
//! The words for a person stand in the faces; here is which rule it was and which flag or line of the policy there is. Where
//! nothing allows it, that is said too.

use ledger::Happened;

use crate::happened::{Wall, kind};

/// What was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Milliseconds since 1970.
    pub at: i64,
    /// Which wall: `syscall`, `path`, `host`, `leak` or `limit`.
    pub wall: String,
    /// What it was about: a path, a host, a call or a limit.
    pub what: Vec<u8>,
    /// The program that asked, where it is known.
    pub program: Option<String>,
    /// How often within a second.
    pub times: u64,
    /// The rule, in words.
    pub rule: String,
    /// What would allow it.
    pub allow: Allow,
}

/// What would allow something that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allow {
    /// A flag of `lane run`.
    Flag(String),
    /// A grant to the lane while it is live, or the same as a flag of the next run.
    Grant {
        /// What is granted, such as `net:example.com`.
        grant: String,
        /// The flag.
        flag: String,
    },
    /// Something to be done first, in words.
    Do(String),
    /// Nothing; the reason.
    Nothing(String),
}

/// Classes of calls that a flag opens, with the flag.
const BY_FLAG: [(&str, &str); 2] = [("mounts", "--nest"), ("namespaces", "--nest")];

/// What each class of refused calls is refused for.
const RULES: [(&str, &str); 8] = [
    ("mounts", "the mounts are a wall; they stand before the command begins"),
    ("namespaces", "a namespace of its own would hold capabilities"),
    ("handles", "a file handle leads past every directory"),
    ("keys", "keyrings are shared with your other programs"),
    ("machine", "it concerns the whole machine"),
    ("kernel", "it puts programs or probes into the kernel"),
    ("terminal", "it would type into a terminal"),
    ("sockets", "it leads to the host past the network's wall"),
];

/// The refusal that a record tells of; `None` for any other record.
pub fn of(record: &Happened) -> Option<Refusal> {
    let text = |name: &str| record.data[name].as_str().unwrap_or_default().to_owned();
    let program = record.data["program"].as_str().map(str::to_owned);
    let times = record.data["times"].as_u64().unwrap_or(1);
    let told = |wall: &str, what: Vec<u8>, rule: String, allow: Allow| {
        let (wall, program) = (wall.to_owned(), program.clone());
        Some(Refusal { at: record.at, wall, what, program, times, rule, allow })
    };
    if record.kind == kind::LIMIT {
        let limit = text("limit");
        let flag = match limit.as_str() {
            "time" => "--timeout",
            "memory" => "--memory",
            "pids" => "--pids",
            "cpus" => "--cpus",
            "disk" | "inodes" => "--disk",
            _ => "",
        };
        let allow = match flag {
            "" => Allow::Nothing("no flag raises this limit".to_owned()),
            flag => Allow::Do(format!("a larger `{flag}` allows it")),
        };
        return told("limit", limit.into_bytes(), format!("the limit is {}", text("value")), allow);
    }
    if record.kind != kind::REFUSED {
        return None;
    }
    let path = record.path.clone().unwrap_or_default();
    let shown = String::from_utf8_lossy(&path).into_owned();
    match Wall::from_word(record.data["wall"].as_str()?)? {
        Wall::Syscall => {
            let (call, class) = (text("call"), text("rule"));
            let rule = RULES
                .iter()
                .find(|(known, _)| *known == class)
                .map_or(class.clone(), |(_, why)| (*why).to_owned());
            let what =
                if path.is_empty() { call.into_bytes() } else { [call.as_bytes(), b" ", &path].concat() };
            let allow = match BY_FLAG.iter().find(|(known, _)| *known == class) {
                Some((_, flag)) => Allow::Flag((*flag).to_owned()),
                None => Allow::Nothing("no flag allows this call in a lane".to_owned()),
            };
            told("syscall", what, rule, allow)
        }
        Wall::Path => {
            let write = record.data["write"].as_bool().unwrap_or(false);
            let (rule, flag) = if write {
                ("it is read-only inside", format!("--bind {shown}"))
            } else {
                ("it is not shown inside", format!("--ro {shown}"))
            };
            let rule = match record.data["why"].as_str() {
                Some(why) => format!("{rule}: {why}"),
                None => rule.to_owned(),
            };
            told("path", path, rule, Allow::Flag(flag))
        }
        Wall::Host => {
            let host = record.host.clone().unwrap_or_default();
            let allow = match (record.data["flag"].as_str(), record.data["never"].as_str()) {
                (_, Some(never)) => Allow::Nothing(never.to_owned()),
                (Some(flag), _) => Allow::Flag(flag.to_owned()),
                (None, None) => {
                    Allow::Grant { grant: format!("net:{host}"), flag: format!("--net allow:{host}") }
                }
            };
            told("host", host.into_bytes(), text("rule"), allow)
        }
        Wall::Leak => {
            let secret = text("secret");
            let what = "take the value out of the file, then try again".to_owned();
            told("leak", path, format!("it holds the value of the secret {secret}"), Allow::Do(what))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Allow, Happened, of};

    fn record(kind: &str, path: Option<&str>, host: Option<&str>, data: serde_json::Value) -> Happened {
        let path = path.map(|path| path.as_bytes().to_vec());
        Happened { at: 1, kind: kind.into(), path, host: host.map(str::to_owned), data }
    }

    #[test]
    fn each_wall_names_its_rule_and_the_one_thing_that_would_allow_it() {
        let data =
            json!({ "wall": "syscall", "rule": "mounts", "call": "mount", "program": "sh", "times": 3 });
        let mount = of(&record("refused", Some("/mnt"), None, data)).expect("a refusal");
        assert_eq!((mount.what.as_slice(), mount.times), (&b"mount /mnt"[..], 3));
        assert_eq!(mount.allow, Allow::Flag("--nest".into()));
        let data = json!({ "wall": "syscall", "rule": "machine", "call": "reboot" });
        let reboot = of(&record("refused", None, None, data)).expect("a refusal");
        assert!(matches!(reboot.allow, Allow::Nothing(_)));
        let data = json!({ "wall": "path", "rule": "view", "errno": 2, "write": false });
        let path = of(&record("refused", Some("/home/a/.ssh/id"), None, data)).expect("a refusal");
        assert_eq!(path.allow, Allow::Flag("--ro /home/a/.ssh/id".into()));
        let data = json!({ "wall": "host", "rule": "not on the list" });
        let host = of(&record("refused", None, Some("example.com"), data)).expect("a refusal");
        let grant = Allow::Grant { grant: "net:example.com".into(), flag: "--net allow:example.com".into() };
        assert_eq!(host.allow, grant);
        let data = json!({ "limit": "time", "value": "3 s" });
        let time = of(&record("limit", None, None, data)).expect("a refusal");
        assert_eq!(time.allow, Allow::Do("a larger `--timeout` allows it".into()));
        assert_eq!(of(&record("exec", None, None, json!({}))), None);
    }
}
