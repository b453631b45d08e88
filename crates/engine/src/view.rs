//! Plain data that every face shows alike: lanes, runs, changes, drift, plans. No behaviour beyond
//! small sums; nothing here holds a descriptor or a lock.

use std::path::PathBuf;

use tree::{Change, TreePath};

/// Which network a run sees.
pub use crate::network::Net;
/// How a lane's view is made.
pub use workspace::Strategy;

/// What a lane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneState {
    /// Made, nothing has run in it.
    New,
    /// Nothing runs in it.
    Idle,
    /// Processes run in it.
    Live,
    /// In the trash, until the retention time.
    Discarded,
}

impl LaneState {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            LaneState::New => "new",
            LaneState::Idle => "idle",
            LaneState::Live => "live",
            LaneState::Discarded => "discarded",
        }
    }
}

/// What the walls of a run add up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Level {
    /// Namespaces, Landlock and the filter.
    #[default]
    Namespaces,
    /// Landlock and the filter, for machines that refuse namespaces.
    LandlockOnly,
}

impl Level {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Level::Namespaces => "namespaces",
            Level::LandlockOnly => "landlock-only",
        }
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Stopped by us after `--timeout`.
    TimedOut,
    /// Still running: the lane was left live (`run -d`).
    Detached,
    /// Nobody saw the end: the supervisor was killed, or the machine went down.
    Lost,
}

/// What making a lane cost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Wall time in milliseconds.
    pub millis: f64,
    /// Bytes of disk allocated.
    pub allocated: u64,
    /// Files copied (0 for overlay).
    pub files: u64,
}

/// The base that a lane started from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BaseView {
    /// Seconds of the base time (ctime of the base stamp).
    pub sec: i64,
    /// Nanoseconds of the base time.
    pub nsec: u32,
    /// Boot in which it was recorded.
    pub boot_id: String,
    /// HEAD of the origin then, where it is a git project.
    pub git_head: Option<String>,
    /// True where the machine was restarted since the lane last ran: its upper may be unsynced.
    pub other_boot: bool,
}

/// One root of a lane: the origin (0) or a directory given with `--also`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootView {
    /// The directory on the host, which is also its place inside.
    pub path: PathBuf,
    /// How its view is made.
    pub strategy: Strategy,
    /// A repository elsewhere that the `.git` of another root points to: all its changes are git's own.
    pub git: bool,
}

/// A lane, as `ls` and `show` tell of it.
#[derive(Debug, Clone, PartialEq)]
pub struct LaneView {
    /// Eight characters.
    pub id: String,
    /// Its name, unique among the lanes of one origin that are not discarded.
    pub name: String,
    /// The origin.
    pub origin: PathBuf,
    /// How the view is made.
    pub strategy: Strategy,
    /// Why that strategy.
    pub why: String,
    /// What it is doing.
    pub state: LaneState,
    /// Milliseconds since the epoch.
    pub created_at: i64,
    /// The base.
    pub base: BaseView,
    /// All roots, the origin first.
    pub roots: Vec<RootView>,
    /// Name of the lane that it was forked from, as it was then.
    pub forked_from: Option<String>,
    /// What it cost to make.
    pub cost: Cost,
    /// The directory of the lane in the state directory.
    pub dir: PathBuf,
    /// When it was discarded, in milliseconds since the epoch.
    pub discarded_at: Option<i64>,
    /// The newest run.
    pub last_run: Option<RunView>,
}

/// One command that ran in a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunView {
    /// Number of the run in the ledger.
    pub id: i64,
    /// What ran; bytes.
    pub argv: Vec<Vec<u8>>,
    /// Where, inside.
    pub cwd: PathBuf,
    /// Milliseconds since the epoch.
    pub started_at: i64,
    /// Milliseconds since the epoch; `None` while it runs, and where the end was not seen.
    pub ended_at: Option<i64>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// The supervisor's process.
    pub pid: Option<i32>,
    /// The walls that were enforced.
    pub walls: Vec<WallView>,
    /// The recording of what it printed.
    pub transcript: Option<PathBuf>,
}

/// What a check said of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictView {
    /// Number in the ledger.
    pub id: i64,
    /// `pass`, `fail` or `timeout`.
    pub word: &'static str,
    /// The lane still is what was checked.
    pub fresh: bool,
    /// The command; bytes.
    pub argv: Vec<Vec<u8>>,
    /// How it ended.
    pub exit: Option<Exit>,
    /// Milliseconds since the epoch.
    pub started_at: i64,
    /// Milliseconds since the epoch.
    pub ended_at: i64,
    /// The snapshot that was checked, of a lane at work.
    pub snapshot: Option<String>,
    /// The recording of what it printed.
    pub transcript: Option<PathBuf>,
}

impl VerdictView {
    /// The command ended with 0, on what the lane still is.
    pub fn holds(&self) -> bool {
        self.fresh && self.word == "pass"
    }

    /// The word for a list: `stale` where the lane has changed since.
    pub fn now(&self) -> &'static str {
        if self.fresh { self.word } else { "stale" }
    }
}

/// One wall, with what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WallView {
    /// Which, e.g. `pid namespace`.
    pub name: String,
    /// `full`, `partial`, `none`, `watched`.
    pub status: String,
    /// Details; may be empty.
    pub detail: String,
}

/// Sums over changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// New paths.
    pub added: u64,
    /// Changed content.
    pub modified: u64,
    /// Gone paths.
    pub deleted: u64,
    /// Renamed paths.
    pub renamed: u64,
    /// Changed permission bits.
    pub mode: u64,
    /// Changed types.
    pub retyped: u64,
    /// Changes below `.git`, which are in none of the sums above.
    pub git_internal: u64,
    /// Entries that could not be compared.
    pub gaps: u64,
}

impl Counts {
    /// Everything that a reviewer looks at.
    pub fn total(&self) -> u64 {
        self.added + self.modified + self.deleted + self.renamed + self.mode + self.retyped
    }

    /// Takes other sums in.
    pub fn add(&mut self, other: &Counts) {
        self.added += other.added;
        self.modified += other.modified;
        self.deleted += other.deleted;
        self.renamed += other.renamed;
        self.mode += other.mode;
        self.retyped += other.retyped;
        self.git_internal += other.git_internal;
        self.gaps += other.gaps;
    }

    /// Takes one change in.
    pub fn count(&mut self, change: &Change) {
        use tree::ChangeKind as K;
        match change.kind {
            K::Add => self.added += 1,
            K::Modify => self.modified += 1,
            K::Delete => self.deleted += 1,
            K::Mode => self.mode += 1,
            K::Retype => self.retyped += 1,
            K::Rename { .. } => self.renamed += 1,
        }
    }
}

/// The sums for one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootChanges {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// The sums.
    pub counts: Counts,
}

/// What happened to a path of the origin since the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftKind {
    /// Its content or mode changed.
    Modified,
    /// It is gone.
    Deleted,
    /// It is new.
    Created,
    /// Another object stands there.
    Replaced,
    /// Its base cannot be known any more.
    BaseUnknown,
}

impl DriftKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            DriftKind::Modified => "modified",
            DriftKind::Deleted => "deleted",
            DriftKind::Created => "created",
            DriftKind::Replaced => "replaced",
            DriftKind::BaseUnknown => "base-unknown",
        }
    }
}

/// A path of the origin that is not what it was at the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftView {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where in it.
    pub path: TreePath,
    /// What.
    pub kind: DriftKind,
}

/// One mount of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountView {
    /// Where inside.
    pub target: PathBuf,
    /// `overlay`, `bind`, `tmpfs`, `proc`, `devpts`, …
    pub kind: String,
    /// What it shows; `None` for a filesystem without a source.
    pub source: Option<PathBuf>,
    /// Read-only.
    pub read_only: bool,
    /// Why it is there; may be empty.
    pub why: String,
}

/// What a run would do (`--show-plan`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlanView {
    /// The lane's name, where it is known before it is made.
    pub lane: Option<String>,
    /// The strategy with its reason, as words.
    pub strategy: String,
    /// Why that strategy.
    pub why: String,
    /// The strategies that were ruled out, each with the reason.
    pub rejected: Vec<(String, String)>,
    /// The mounts in their order.
    pub mounts: Vec<MountView>,
    /// Paths that are absent inside, each with the reason.
    pub hidden: Vec<(PathBuf, String)>,
    /// The walls.
    pub walls: Vec<WallView>,
    /// The environment inside, as `NAME=value` bytes.
    pub env: Vec<Vec<u8>>,
    /// The command.
    pub argv: Vec<Vec<u8>>,
    /// The network.
    pub net: Net,
}

/// A command that makes sense now. The face words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Look at the changes.
    Diff(String),
    /// Bring them into the origin.
    Keep(String),
    /// Drop the lane.
    Discard(String),
    /// Look at the lane.
    Show(String),
    /// Run something in it.
    Exec(String),
    /// End its processes.
    Stop(String),
    /// Take it out of the trash.
    Recover(String),
}
