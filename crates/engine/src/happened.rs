//! What happened in a run, whichever wall saw it, and the [`Sink`] that takes it down.
//!
//! One closed list of happenings for every wall, relay and supervisor. A sink belongs to one run; any number of processes may
//! have one for the same run. What it takes is written down at the latest a second later, as one slip beside the ledger, so
//! that a supervisor that is killed has lost no more than that, and that no command waits for the database.
//!
//! Invariants: no happening holds file content or the value of a secret. What repeats itself within a second is told once with
//! a number; of what comes faster than [`MOST`] a second the rest is counted, and the count is told.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ledger::{Happened, NewRun, Slip};
use review::leak::Needles;
use sandbox::seen::{Seen, Witness};
use serde_json::{Value, json};

use crate::clock;
use crate::engine::Engine;

/// How long what was taken may wait until it is written down.
const PATIENCE: Duration = Duration::from_millis(900);
/// Happenings of one second that are told one by one.
const MOST: usize = 10_000;
/// As many wait at most before they are written down, however little time has passed.
const FULL: usize = 4_000;

/// Kinds of happenings, as they stand in the ledger.
pub mod kind {
    /// A program was started.
    pub const EXEC: &str = "exec";
    /// A mount of the view was made.
    pub const MOUNT: &str = "mount";
    /// Something was refused.
    pub const REFUSED: &str = "refused";
    /// A host was reached.
    pub const HOST: &str = "host";
    /// A secret was handed in or taken back.
    pub const SECRET: &str = "secret";
    /// A file was handed out.
    pub const ARTIFACT: &str = "artifact";
    /// How much was written, by class.
    pub const WRITES: &str = "writes";
    /// A limit was hit.
    pub const LIMIT: &str = "limit";
    /// A file was opened.
    pub const OPEN: &str = "open";
    /// Which files of rules held.
    pub const POLICY: &str = "policy";
    /// Something was allowed to a lane while it ran.
    pub const GRANT: &str = "grant";
    /// More happened than was told.
    pub const LEFT_OUT: &str = "left-out";
    /// All of them.
    pub const ALL: [&str; 12] =
        [EXEC, MOUNT, REFUSED, HOST, SECRET, ARTIFACT, WRITES, LIMIT, OPEN, POLICY, GRANT, LEFT_OUT];
}

/// Which wall refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// The system call filter.
    Syscall,
    /// The view: what is absent or read-only.
    Path,
    /// The network.
    Host,
    /// The check of what leaves a lane for values of secrets.
    Leak,
}

impl Wall {
    /// As it stands in the ledger.
    pub fn word(self) -> &'static str {
        match self {
            Wall::Syscall => "syscall",
            Wall::Path => "path",
            Wall::Host => "host",
            Wall::Leak => "leak",
        }
    }

    /// The reverse.
    pub fn from_word(word: &str) -> Option<Wall> {
        [Wall::Syscall, Wall::Path, Wall::Host, Wall::Leak].into_iter().find(|wall| wall.word() == word)
    }
}

/// Classes of places that a run writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The project and further roots.
    Project,
    /// The lane's layer over the home.
    Home,
    /// Caches in it.
    Caches,
    /// Paths that were bound read-write: the host's own.
    System,
    /// Places of credentials, in the lane's layer over the home.
    Credentials,
}

impl Class {
    /// As it stands in the ledger.
    pub fn word(self) -> &'static str {
        match self {
            Class::Project => "project",
            Class::Home => "home",
            Class::Caches => "caches",
            Class::System => "system",
            Class::Credentials => "credentials",
        }
    }
}

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// A wall saw something.
    Seen(Seen),
    /// A mount of the view: asked for, and made.
    Mount {
        /// Where it stands inside.
        target: PathBuf,
        /// `overlay`, `bind`, `tmpfs`, `hidden`, …
        kind: String,
        /// What it shows of the host.
        source: Option<PathBuf>,
        /// Nothing can be written through it.
        read_only: bool,
    },
    /// Something was refused.
    Refused {
        /// By which wall.
        wall: Wall,
        /// A path that it was about.
        path: Option<Vec<u8>>,
        /// A host that it was about.
        host: Option<String>,
        /// The rule that said so, in words.
        rule: String,
        /// What the wall knows besides: plain fields.
        more: Value,
    },
    /// A host was reached, or a connection to one ended.
    Host {
        /// Its name, or its address where it has none.
        host: String,
        /// The rule that allowed it, in words.
        rule: String,
        /// Port, address, bytes: plain fields.
        more: Value,
    },
    /// A secret was handed in (`mounted`) or taken back (`revoked`).
    Secret {
        /// Its name.
        name: String,
        /// `mounted`, `revoked` or `brokered`.
        what: &'static str,
        /// Where it stands inside, or for which host it is used.
        at: String,
    },
    /// A file was handed out.
    Artifact {
        /// Where it lies on the host.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// BLAKE3 of its content, in hexadecimal.
        digest: String,
    },
    /// What the lane holds of a class after the run.
    Writes {
        /// The class.
        class: Class,
        /// Entries.
        entries: u64,
        /// Some of their paths.
        some: Vec<PathBuf>,
    },
    /// A limit was hit.
    Limit {
        /// Which, such as `time` or `memory`.
        name: String,
        /// Its value, in words.
        value: String,
    },
    /// A file of rules that held, with the digest of its bytes.
    Policy {
        /// `user` or `project`.
        scope: &'static str,
        /// The file.
        path: PathBuf,
        /// BLAKE3 of its bytes in hexadecimal; `None` where there is no such file.
        digest: Option<String>,
    },
    /// Something was allowed to a lane while it ran.
    Grant {
        /// What, such as `net:example.com`.
        what: String,
        /// The host, where it is one.
        host: Option<String>,
    },
}

fn bytes(path: &Path) -> Vec<u8> {
    crate::describe::bytes(path)
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Happening {
    /// As the ledger keeps it.
    fn into_record(self, at: i64) -> Happened {
        let record = |kind: &str, path, host, data| Happened { at, kind: kind.to_owned(), path, host, data };
        match self {
            Happening::Seen(Seen::Exec { pid, parent, path, argv, cut }) => {
                let argv: Vec<String> = argv.iter().map(|arg| shown(arg)).collect();
                let data = json!({ "pid": pid, "parent": parent, "argv": argv, "cut": cut });
                record(kind::EXEC, Some(path), None, data)
            }
            Happening::Seen(Seen::Refused { pid, program, call, class, target }) => {
                let data = json!({
                    "wall": Wall::Syscall.word(), "rule": class, "call": call, "pid": pid, "program": shown(&program),
                });
                record(kind::REFUSED, target, None, data)
            }
            Happening::Seen(Seen::Opened { pid, path, write, errno: 0, .. }) => {
                record(kind::OPEN, Some(path), None, json!({ "pid": pid, "write": write }))
            }
            Happening::Seen(Seen::Opened { pid, path, write, errno, .. }) => {
                let data = json!({
                    "wall": Wall::Path.word(), "rule": "view", "errno": errno, "pid": pid, "write": write,
                });
                record(kind::REFUSED, Some(path), None, data)
            }
            Happening::Mount { target, kind: word, source, read_only } => {
                let source = source.map(|source| shown(&bytes(&source)));
                let data = json!({ "mount": word, "source": source, "read_only": read_only });
                record(kind::MOUNT, Some(bytes(&target)), None, data)
            }
            Happening::Refused { wall, path, host, rule, more } => {
                let data = with(json!({ "wall": wall.word(), "rule": rule }), more);
                record(kind::REFUSED, path, host, data)
            }
            Happening::Host { host, rule, more } => {
                record(kind::HOST, None, Some(host), with(json!({ "rule": rule }), more))
            }
            Happening::Secret { name, what, at } => {
                record(kind::SECRET, None, None, json!({ "name": name, "what": what, "at": at }))
            }
            Happening::Artifact { path, bytes: size, digest } => {
                record(kind::ARTIFACT, Some(bytes(&path)), None, json!({ "bytes": size, "blake3": digest }))
            }
            Happening::Writes { class, entries, some } => {
                let some: Vec<String> = some.iter().map(|path| shown(&bytes(path))).collect();
                let data = json!({ "class": class.word(), "entries": entries, "some": some });
                record(kind::WRITES, None, None, data)
            }
            Happening::Limit { name, value } => {
                record(kind::LIMIT, None, None, json!({ "limit": name, "value": value }))
            }
            Happening::Policy { scope, path, digest } => {
                record(kind::POLICY, Some(bytes(&path)), None, json!({ "scope": scope, "blake3": digest }))
            }
            Happening::Grant { what, host } => record(kind::GRANT, None, host, json!({ "what": what })),
        }
    }
}

/// The fields of both; the first ones win.
fn with(mut own: Value, more: Value) -> Value {
    if let (Some(own), Value::Object(more)) = (own.as_object_mut(), more) {
        for (name, value) in more {
            own.entry(name).or_insert(value);
        }
    }
    own
}

/// Which run a sink writes for: known by lane, process and start before the ledger has a number for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfRun {
    /// Id of the lane.
    pub lane: String,
    /// [`NewRun::pid`].
    pub pid: u32,
    /// [`NewRun::started_at`].
    pub started_at: i64,
}

impl OfRun {
    /// The run that is about to be recorded so.
    pub fn new(run: &NewRun) -> OfRun {
        OfRun { lane: run.lane.clone(), pid: run.pid.unwrap_or_default(), started_at: run.started_at }
    }
}

/// Takes down what happens in one run.
#[derive(Debug)]
pub struct Sink<'e> {
    engine: &'e Engine,
    run: OfRun,
    waiting: Vec<Happened>,
    /// Where each of them stands, by what it says.
    known: HashMap<String, usize>,
    /// Since when the first of them waits.
    since: Option<Instant>,
    /// The second that is counted, and what came in it.
    second: (Option<Instant>, usize),
    left_out: u64,
    /// What was refused in this run so far, each once, for its closing lines.
    refused: Vec<Happened>,
    reads: Option<Reads>,
    /// Values that no record may hold.
    kept_out: Option<Needles>,
}

/// Which of the files that are opened are worth a record, and what looking at them all cost.
#[derive(Debug)]
struct Reads {
    roots: Vec<PathBuf>,
    hidden: Vec<(PathBuf, String)>,
    /// Those that are recorded, for reading or for writing.
    known: HashSet<(Vec<u8>, bool)>,
    sum: ReadsView,
}

/// What tracing the files that were opened amounted to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadsView {
    /// Calls of the open family that were looked at.
    pub calls: u64,
    /// Files of the project that were opened, those for reading and for writing counted apart.
    pub files: u64,
    /// How long the callers waited for it in all, in microseconds, without the switches to us and back.
    pub waited_us: u64,
}

impl Reads {
    /// What is to be recorded of it; `None` where nothing is.
    fn look(&mut self, seen: Seen) -> Option<Happening> {
        let Seen::Opened { pid, path, write, errno, waited } = seen else {
            return Some(Happening::Seen(seen));
        };
        self.sum.calls += 1;
        self.sum.waited_us += u64::from(waited);
        let at = crate::describe::path(&path);
        let hidden =
            self.hidden.iter().find(|(hidden, _)| at.starts_with(hidden)).map(|(_, why)| why.clone());
        let in_project = self.roots.iter().any(|root| at.starts_with(root));
        let is_absent = errno == kernel::Errno::NOENT.raw_os_error();
        let is_refused = match &hidden {
            Some(_) => errno != 0,
            // What simply is not there was not refused.
            None => errno != 0 && !is_absent && write,
        };
        let is_told = is_refused || (in_project && errno == 0);
        if !is_told || !self.known.insert((path.clone(), write)) {
            return None;
        }
        if is_refused {
            let more = json!({ "pid": pid, "errno": errno, "write": write, "why": hidden });
            let rule = "view".to_owned();
            return Some(Happening::Refused { wall: Wall::Path, path: Some(path), host: None, rule, more });
        }
        self.sum.files += 1;
        Some(Happening::Seen(Seen::Opened { pid, path, write, errno, waited }))
    }
}

/// Refusals of a run that are held for its closing lines.
const REMEMBERED: usize = 50;

impl<'e> Sink<'e> {
    /// A sink for a run.
    pub fn new(engine: &'e Engine, run: OfRun) -> Sink<'e> {
        let (waiting, known, refused) = (Vec::new(), HashMap::new(), Vec::new());
        Sink {
            engine,
            run,
            waiting,
            known,
            since: None,
            second: (None, 0),
            left_out: 0,
            refused,
            reads: None,
            kept_out: None,
        }
    }

    /// From now on no record holds one of these values.
    pub fn keep_out(&mut self, needles: Option<Needles>) {
        self.kept_out = needles;
    }

    /// From now on files that are opened are recorded: those below `roots`, and attempts on what is hidden.
    pub fn watch_reads(&mut self, roots: Vec<PathBuf>, hidden: Vec<(PathBuf, String)>) {
        let (known, sum) = (HashSet::new(), ReadsView::default());
        self.reads = Some(Reads { roots, hidden, known, sum });
    }

    /// What tracing the files that were opened amounted to, where they were traced.
    pub fn reads(&self) -> Option<ReadsView> {
        self.reads.as_ref().map(|reads| reads.sum)
    }

    /// Takes something down.
    pub fn take(&mut self, happening: Happening) {
        self.take_times(happening, 1);
    }

    /// Takes something down that happened several times.
    pub fn take_times(&mut self, happening: Happening, times: u64) {
        let now = Instant::now();
        if self.second.0.is_none_or(|began| now.duration_since(began) >= Duration::from_secs(1)) {
            self.second = (Some(now), 0);
        }
        let mut record = happening.into_record(clock::now_ms());
        if let Some(needles) = &self.kept_out {
            clean(&mut record, needles);
        }
        let says = says(&record);
        if let Some(first) = self.known.get(&says).and_then(|at| self.waiting.get_mut(*at)) {
            let times = first.data["times"].as_u64().unwrap_or(1) + times;
            first.data["times"] = times.into();
            return;
        }
        self.second.1 += 1;
        if self.second.1 > MOST {
            self.left_out += 1;
            self.since.get_or_insert(now);
            return;
        }
        if times > 1 {
            record.data["times"] = times.into();
        }
        let is_refusal = record.kind == kind::REFUSED || record.kind == kind::LIMIT;
        let is_news = |known: &Happened| self::says(known) != says;
        if is_refusal && self.refused.len() < REMEMBERED && self.refused.iter().all(is_news) {
            self.refused.push(record.clone());
        }
        self.known.insert(says, self.waiting.len());
        self.waiting.push(record);
        self.since.get_or_insert(now);
        if self.waiting.len() >= FULL {
            self.write_down();
        }
    }

    /// Writes down what waits. What cannot be written (a full disk) waits for the next time.
    pub fn write_down(&mut self) {
        if self.left_out > 0 {
            let data = json!({ "count": self.left_out });
            let kind = kind::LEFT_OUT.to_owned();
            self.waiting.push(Happened { at: clock::now_ms(), kind, path: None, host: None, data });
            self.left_out = 0;
        }
        self.since = None;
        self.known.clear();
        if self.waiting.is_empty() {
            return;
        }
        let OfRun { lane, pid, started_at } = self.run.clone();
        let slip = Slip::Happened { lane, pid, started_at, events: std::mem::take(&mut self.waiting) };
        if self.engine.note(&slip).is_err()
            && let Slip::Happened { events, .. } = slip
        {
            self.left_out = events.len() as u64;
        }
    }

    /// What was refused, each once.
    pub fn refused(&self) -> &[Happened] {
        &self.refused
    }
}

impl Witness for Sink<'_> {
    fn saw(&mut self, seen: Seen) {
        let told = match &mut self.reads {
            Some(reads) => reads.look(seen),
            None => Some(Happening::Seen(seen)),
        };
        if let Some(told) = told {
            self.take(told);
        }
    }

    fn heard(&mut self, told: &[u8]) {
        if let Some((happening, times)) = crate::network::happening(told) {
            self.take_times(happening, times);
        }
    }

    fn rest(&mut self) -> Option<Duration> {
        let waited = self.since?.elapsed();
        if waited < PATIENCE {
            return Some(PATIENCE - waited);
        }
        self.write_down();
        None
    }
}

impl Drop for Sink<'_> {
    fn drop(&mut self) {
        self.write_down();
    }
}

/// Takes values of secrets out of a record: the whole text that holds one.
fn clean(record: &mut Happened, needles: &Needles) {
    fn value(data: &mut Value, needles: &Needles) {
        match data {
            Value::String(text) => {
                if let Some(name) = needles.in_bytes(text.as_bytes()) {
                    *text = format!("[secret {name}]");
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|one| value(one, needles)),
            Value::Object(fields) => fields.values_mut().for_each(|one| value(one, needles)),
            _ => {}
        }
    }
    value(&mut record.data, needles);
    if let Some(name) = record.path.as_deref().and_then(|path| needles.in_bytes(path)) {
        record.path = Some(format!("[secret {name}]").into_bytes());
    }
}

/// What a record says but for who, when and how often.
fn says(record: &Happened) -> String {
    let mut data = record.data.clone();
    if let Some(fields) = data.as_object_mut() {
        if record.kind != kind::EXEC {
            fields.remove("pid");
        }
        fields.remove("times");
    }
    format!("{}\0{:?}\0{:?}\0{data}", record.kind, record.path, record.host)
}

#[cfg(test)]
mod tests {
    use sandbox::seen::{Seen, Witness as _};

    use super::{Happening, MOST, OfRun, Sink, Wall, kind};
    use crate::engine::{Engine, EngineOptions};

    fn refusal(pid: u32, call: &str) -> Happening {
        Happening::Seen(Seen::Refused {
            pid,
            program: b"sh".to_vec(),
            call: call.to_owned(),
            class: "mounts".to_owned(),
            target: Some(b"/mnt\xff".to_vec()),
        })
    }

    fn world() -> (tempfile::TempDir, Engine, OfRun, i64) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let engine = Engine::open(&EngineOptions { state: Some(dir.path().join("state")) }).expect("opens");
        let run = OfRun { lane: "l1".into(), pid: 7, started_at: 5 };
        let lane = ledger::Lane {
            id: "l1".into(),
            name: "n".into(),
            origin: b"/p".to_vec(),
            project: b"/p".to_vec(),
            strategy: "overlay".into(),
            why: String::new(),
            created_at: 1,
            base_sec: 1,
            base_nsec: 0,
            boot_id: String::new(),
            git_head: None,
            state: ledger::LaneState::Idle,
            layers: Vec::new(),
            roots: serde_json::json!([]),
            options: serde_json::json!({}),
            cost_ms: 0.0,
            cost_bytes: 0,
            discarded_at: None,
        };
        let row = ledger::NewRun {
            lane: "l1".into(),
            argv: vec![],
            cwd: vec![],
            started_at: 5,
            pid: Some(7),
            pid_start: None,
            walls: serde_json::json!([]),
            transcript: None,
            detached: false,
        };
        let book = engine.ledger().expect("a ledger");
        book.insert_lane(&lane).expect("recorded");
        let id = book.insert_run(&row).expect("recorded");
        (dir, engine, run, id)
    }

    #[test]
    fn what_repeats_itself_is_one_record_with_a_number_and_comes_before_a_second_is_over() {
        let (_dir, engine, run, id) = world();
        let mut sink = Sink::new(&engine, run);
        for pid in 0..5 {
            sink.take(refusal(pid, "mount"));
        }
        sink.take(refusal(9, "setns"));
        assert!(sink.rest().is_some_and(|wait| wait.as_millis() < 1000), "it asks to be woken");
        sink.write_down();
        assert_eq!(sink.rest(), None);
        let state = engine.state().path().to_owned();
        let other = Engine::open(&EngineOptions { state: Some(state) }).expect("opens");
        let events = other.ledger().expect("opens").events(id).expect("reads");
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].what.data["times"], 5);
        assert_eq!(events[0].what.path.as_deref(), Some(&b"/mnt\xff"[..]));
        assert_eq!(events[1].what.data["call"], "setns");
        assert_eq!(events[1].what.data["wall"], Wall::Syscall.word());
        assert_eq!(sink.refused().len(), 2);
    }

    #[test]
    fn a_flood_is_cut_and_the_cut_is_told() {
        let (_dir, engine, run, id) = world();
        let mut sink = Sink::new(&engine, run);
        for n in 0..MOST + 10 {
            sink.take(refusal(1, &format!("call{n}")));
        }
        drop(sink);
        let state = engine.state().path().to_owned();
        let other = Engine::open(&EngineOptions { state: Some(state) }).expect("opens");
        let events = other.ledger().expect("opens").events(id).expect("reads");
        let told = events.iter().filter(|event| event.what.kind != kind::LEFT_OUT).count();
        let left_out: u64 = events.iter().filter_map(|event| event.what.data["count"].as_u64()).sum();
        // A slow machine may count in a second one.
        assert_eq!(told as u64 + left_out, MOST as u64 + 10);
        assert!(told >= MOST);
    }
}
