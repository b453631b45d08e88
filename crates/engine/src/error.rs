//! [`EngineError`]: what can go wrong with a verb, as structured facts. Owns no prose beyond naming
//! the thing and the cause; the face adds what to do next.

mod kind;

use std::path::PathBuf;

use tree::TreePath;

use crate::policy::Refusal;
use crate::view::Strategy;

/// Result of an engine call.
pub type Result<T> = std::result::Result<T, EngineError>;

/// Whose move it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request cannot be met as it was put.
    User,
    /// The machine, the filesystem or its permissions do not allow it.
    Environment,
    /// It would meet something that another hand did.
    Conflict,
    /// A fault of ours.
    Internal,
}

/// A change that is no longer what it was when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The root's directory on the host.
    pub root: PathBuf,
    /// Where.
    pub path: TreePath,
    /// How.
    pub how: MovedHow,
}

/// How a change moved on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MovedHow {
    /// It is another change now: the lane's side or the original's differs.
    Changed,
    /// Nothing differs there any more.
    Gone,
    /// Nothing differed there then.
    New,
}

impl MovedHow {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            MovedHow::Changed => "changed",
            MovedHow::Gone => "gone",
            MovedHow::New => "new",
        }
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// No lane has that name or id.
    #[error("there is no lane '{name}' for {}", .project.display())]
    NoSuchLane {
        /// As asked for.
        name: String,
        /// The project that was looked in.
        project: PathBuf,
        /// The names that exist.
        have: Vec<String>,
    },
    /// The project has no lane at all.
    #[error("there is no lane for {}", .project.display())]
    NoLane {
        /// The project.
        project: PathBuf,
    },
    /// No discarded lane of that name is in the trash.
    #[error("there is no lane '{name}' in the trash")]
    NotInTrash {
        /// As asked for.
        name: String,
        /// The names that lie there.
        have: Vec<String>,
    },
    /// The trash holds no lane of the project.
    #[error("the trash holds no lane for {}", .project.display())]
    TrashEmpty {
        /// The project.
        project: PathBuf,
    },
    /// No name was given and several lanes fit.
    #[error("several lanes fit")]
    WhichLane {
        /// Their names.
        names: Vec<String>,
    },
    /// Another lane of the project has the name.
    #[error("there is a lane '{name}' already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// The name cannot be used.
    #[error("'{name}' cannot be the name of a lane: {why}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No snapshot of the lane is meant by a reference.
    #[error("lane '{lane}' has no snapshot '{reference}'")]
    NoSuchSnapshot {
        /// The lane.
        lane: String,
        /// As asked for.
        reference: String,
    },
    /// A reference means several snapshots.
    #[error("'{reference}' means several snapshots")]
    WhichSnapshot {
        /// As asked for.
        reference: String,
        /// Their ids, as they are shown.
        ids: Vec<String>,
    },
    /// A snapshot cannot have this name.
    #[error("'{reference}' cannot be the name of a snapshot: it means something else")]
    BadReference {
        /// The name.
        reference: String,
    },
    /// There is no state before this one.
    #[error("lane '{name}' has no earlier snapshot to go back to")]
    NothingBack {
        /// The lane.
        name: String,
    },
    /// No step back was taken that could be taken forth again.
    #[error("no step back of lane '{name}' can be taken forth again")]
    NothingForth {
        /// The lane.
        name: String,
    },
    /// Nothing was kept into this project that could be undone.
    #[error("no keep into {} is recorded", .project.display())]
    NoKeep {
        /// The project.
        project: PathBuf,
    },
    /// No keep has this id, or several begin with it.
    #[error("no keep '{id}' into {} is recorded", .project.display())]
    NoSuchKeep {
        /// As asked for.
        id: String,
        /// The project.
        project: PathBuf,
    },
    /// The keep was undone already.
    #[error("keep {id} was undone already")]
    KeepUndone {
        /// Its id.
        id: String,
    },
    /// What a keep wrote was edited since.
    #[error("edited since keep {id}: {}{}", .path.display(), more(*.others))]
    EditedSinceKeep {
        /// Its id.
        id: String,
        /// The first such path.
        path: PathBuf,
        /// How many more.
        others: usize,
    },
    /// A restore would remove most of what a lane holds.
    #[error("going back to {to} removes {removes} of the {of} entries that lane '{name}' holds")]
    RemovesMuch {
        /// The lane.
        name: String,
        /// The snapshot, as it is shown.
        to: String,
        /// Entries that would go.
        removes: u64,
        /// Entries that there are.
        of: u64,
    },
    /// A live lane's snapshot was not taken.
    #[error("no snapshot of lane '{name}' was taken: {why}")]
    NotTaken {
        /// The lane.
        name: String,
        /// The reason, in the watch's words.
        why: String,
    },
    /// Nobody outside listens for what the inside says.
    #[error("no watch of a lane listens here")]
    NotInside,
    /// A snapshot would leave too little room to others.
    #[error("no snapshot is taken: {free} bytes are free, and {floor} are to stay free")]
    NoRoom {
        /// What is free.
        free: u64,
        /// What is to stay free.
        floor: u64,
    },
    /// Automatic snapshots are not taken while their store is above its budget.
    #[error("no automatic snapshot is taken: the store holds {bytes} bytes, and its budget is {budget}")]
    OverBudget {
        /// What the store takes.
        bytes: u64,
        /// What it may take.
        budget: u64,
    },
    /// The store of snapshots.
    #[error("the store of snapshots failed")]
    Store(#[source] store::Error),
    /// Processes run in the lane.
    #[error("processes run in lane '{name}'")]
    Live {
        /// The lane.
        name: String,
        /// Its supervisor.
        pid: Option<i32>,
    },
    /// Its processes could not be made to stand still.
    #[error("the processes of lane '{name}' could not be made to stand still")]
    NotStill {
        /// The lane.
        name: String,
    },
    /// Another command holds the lane.
    #[error("another command works on lane '{name}'")]
    Busy {
        /// The lane.
        name: String,
        /// Who holds its lock.
        pid: Option<i32>,
    },
    /// The lane's directory is damaged or gone.
    #[error("the directory of lane '{name}' is not whole: {}: {why}", .dir.display())]
    Damaged {
        /// The lane.
        name: String,
        /// Its directory.
        dir: PathBuf,
        /// What is missing.
        why: String,
    },
    /// Not a directory that a lane can stand on.
    #[error("{} cannot be the origin of a lane: {why}", .path.display())]
    BadOrigin {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The origin of a lane is gone.
    #[error("the origin of lane '{name}' is gone: {}", .path.display())]
    OriginGone {
        /// The lane.
        name: String,
        /// Where it was.
        path: PathBuf,
    },
    /// A path argument names nothing in any root of the lane.
    #[error("{} is not in the lane: its roots are {}", .path.display(), list(.roots))]
    PathOutside {
        /// The argument.
        path: PathBuf,
        /// The roots of the lane.
        roots: Vec<PathBuf>,
    },
    /// A path argument names no change.
    #[error("the lane changed nothing at {path:?}")]
    NothingThere {
        /// The argument, in the tree.
        path: TreePath,
    },
    /// A path argument of a keep lies in git's own files.
    #[error("{path:?} is git's own and is never kept")]
    GitInternal {
        /// The argument, in the tree.
        path: TreePath,
    },
    /// No hunk of the lane has this id.
    #[error("there is no hunk {id}")]
    NoSuchHunk {
        /// As asked for.
        id: String,
    },
    /// Several hunks have this id.
    #[error("hunk {id} is there twice")]
    HunkTwice {
        /// As asked for.
        id: String,
    },
    /// A lane is named twice where several are kept.
    #[error("lane '{name}' is named twice")]
    LaneTwice {
        /// The lane.
        name: String,
    },
    /// Lanes that are kept together are not of one project.
    #[error("lanes '{first}' and '{name}' are of two projects")]
    OtherProject {
        /// The one.
        name: String,
        /// The first one.
        first: String,
    },
    /// A selection cannot be read, or is not one of this lane.
    #[error("the selection cannot be used: {why}")]
    BadSelection {
        /// What is wrong with it.
        why: String,
    },
    /// Something was selected that cannot be taken like that.
    #[error("{why}")]
    NotSelectable {
        /// What, and why not.
        why: String,
    },
    /// The lane, or the original under it, is no longer what was looked at.
    #[error("lane '{name}' is no longer what was looked at")]
    MovedOn {
        /// The lane.
        name: String,
        /// What has moved; empty where only a digest is known, and not what it stood for.
        moved: Vec<Moved>,
    },
    /// The target of an export exists.
    #[error("{} exists already", .path.display())]
    TargetExists {
        /// The target.
        path: PathBuf,
    },
    /// The target of an export lies in the origin, or the other way round.
    #[error("{} lies in {}", .path.display(), .root.display())]
    TargetInside {
        /// The target.
        path: PathBuf,
        /// The tree that holds it.
        root: PathBuf,
    },
    /// There is no git repository to commit to.
    #[error("{} is no git repository", .path.display())]
    NoRepository {
        /// The project.
        path: PathBuf,
    },
    /// The repository is between two states.
    #[error("a {what} is half done in {}", .path.display())]
    HalfDone {
        /// The project.
        path: PathBuf,
        /// What: `merge`, `rebase`, …
        what: &'static str,
    },
    /// Somebody writes the index, or was killed at it.
    #[error("the index of {} is locked", .path.display())]
    IndexLocked {
        /// The project.
        path: PathBuf,
    },
    /// No branch is checked out.
    #[error("HEAD is detached in {}: there is no branch to commit to", .path.display())]
    Detached {
        /// The project.
        path: PathBuf,
    },
    /// The name cannot be a branch's.
    #[error("'{name}' cannot be the name of a branch: {why}")]
    BadBranch {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is no such branch.
    #[error("there is no branch '{name}' in {}", .path.display())]
    NoSuchBranch {
        /// The name.
        name: String,
        /// The project.
        path: PathBuf,
    },
    /// There is such a branch.
    #[error("there is a branch '{name}' already")]
    BranchTaken {
        /// The name.
        name: String,
    },
    /// The branch is checked out somewhere else.
    #[error("branch '{name}' is checked out in {}", .at.display())]
    CheckedOut {
        /// The name.
        name: String,
        /// Where.
        at: PathBuf,
    },
    /// The branch moved, or another one was checked out, while the commit was made.
    #[error("branch '{name}' moved meanwhile")]
    BranchMoved {
        /// The name.
        name: String,
    },
    /// Files that run by themselves later are changed in commits that can be taken only whole.
    #[error("the lane's commits change files that run by themselves: {}", tree_list(.paths))]
    GuardedCommits {
        /// The lane.
        lane: String,
        /// The branch that was to be made.
        branch: String,
        /// The files.
        paths: Vec<TreePath>,
    },
    /// A hook of the repository's own said no.
    #[error("the hook {hook} refused")]
    HookRefused {
        /// Which.
        hook: &'static str,
    },
    /// No strategy can make a lane here.
    #[error("{} cannot be a lane: {}", .path.display(), against(.reasons))]
    Refused {
        /// The origin.
        path: PathBuf,
        /// Each strategy with the reason against it.
        reasons: Vec<(Strategy, String)>,
    },
    /// The state directory cannot be used.
    #[error("the state directory {} cannot be used: {why}", .path.display())]
    StateDir {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Neither a flag nor the environment says where state goes.
    #[error("no place for state: neither XDG_STATE_HOME nor HOME is set")]
    NoStateDir,
    /// A step failed in the kernel.
    #[error("{doing}")]
    Kernel {
        /// What was being done.
        doing: String,
        /// The call.
        #[source]
        source: kernel::Error,
    },
    /// The ledger failed.
    #[error("the record of lanes failed")]
    Ledger(#[source] ledger::Error),
    /// A view of the project could not be made, read or removed.
    #[error("the view of the project failed")]
    Workspace(#[source] workspace::Error),
    /// Comparing, keeping or exporting failed.
    #[error("the review failed")]
    Review(#[source] review::Error),
    /// A wall could not be built, or the supervision of a run failed: nothing was executed, or the run was ended.
    #[error("the lane could not be run")]
    Sandbox(#[source] sandbox::Error),
    /// An option that shapes a new lane was given for one that is there.
    #[error("lane '{name}' is there already: {wish} is for new lanes")]
    LaneIsMade {
        /// The lane.
        name: String,
        /// The option.
        wish: &'static str,
    },
    /// An option that shapes a lane's start was given for one that is live.
    #[error("lane '{name}' is live: {wish} is for its start")]
    LaneIsLive {
        /// The lane.
        name: String,
        /// The option.
        wish: &'static str,
    },
    /// A directory that was renamed in a live lane still shows what lies at its old place, which would move.
    #[error("lane '{name}' is live, and a directory that was renamed in it rests on what would be changed")]
    RestsOnMoved {
        /// The lane.
        name: String,
    },
    /// The ledger has no records of that kind.
    #[error("the ledger has no records of the kind '{kind}'")]
    NoSuchKind {
        /// As asked for.
        kind: String,
        /// The kinds that there are.
        have: Vec<String>,
    },
    /// No preset has that name.
    #[error("there is no preset '{name}'")]
    NoSuchPreset {
        /// As asked for.
        name: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// A port of this machine that a lane was to have.
    #[error("port {port} of this machine cannot be published: {errno}")]
    PortTaken {
        /// The port.
        port: u16,
        /// The kernel's answer.
        errno: kernel::Errno,
    },
    /// No door has that name.
    #[error("there is no door '{name}'")]
    NoSuchDoor {
        /// As asked for.
        name: String,
        /// The names that exist.
        have: Vec<String>,
    },
    /// A door was asked for behind which nobody listens.
    #[error("the door '{name}' leads nowhere: no socket at {}", .looked.join(", "))]
    DoorLeadsNowhere {
        /// The door.
        name: String,
        /// Where it was looked, with the variables' names.
        looked: Vec<String>,
    },
    /// A limit was asked for that nothing can hold here.
    #[error("{} cannot be limited here: {why}", .what.word())]
    NoLimit {
        /// Which.
        what: sandbox::limits::What,
        /// Why not.
        why: &'static str,
    },
    /// A flag goes beyond what a rule allows.
    #[error("{flag} goes beyond {key}, line {line} of {}", .file.display())]
    LimitAbove {
        /// The flag.
        flag: &'static str,
        /// The rule.
        key: String,
        /// The file that holds it.
        file: PathBuf,
        /// In which line.
        line: usize,
    },
    /// A level was asked for that cannot do what else was asked for.
    #[error("level {level} cannot do {wish}: {why}")]
    Level {
        /// The level.
        level: &'static str,
        /// What else was asked for.
        wish: String,
        /// Why not.
        why: &'static str,
    },
    /// Nested sandboxes were asked for as root.
    #[error(
        "--nest does nothing for root: in a lane root holds no capability, and without one the kernel gives uid 0 no namespace of its own"
    )]
    NestAsRoot,
    /// A path of the command line is not there.
    #[error("{}: {why}", .path.display())]
    NoSuchPath {
        /// As asked for.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// What is to be hidden stands no longer where it stood when the lane was made.
    #[error("{} is to be hidden, but is not in its place in the lane: a directory above it was moved", .path.display())]
    HiddenMoved {
        /// Where it stands in the project.
        path: PathBuf,
    },
    /// A check without a command, and no policy names one.
    #[error("there is no command to check lane '{name}' with")]
    NoCheck {
        /// The lane.
        name: String,
    },
    /// A check that came to no verdict.
    #[error("the check of lane '{name}' came to no verdict: {why}")]
    NoVerdict {
        /// The lane.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A file of rules cannot be used: nothing is kept until it can.
    #[error("the policy {}{} cannot be used: {why}", .path.display(), line_of(.line))]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// The line, where it is known.
        line: Option<usize>,
        /// What is wrong.
        why: String,
    },
    /// What several lanes come to could not be put together to be checked.
    #[error("what {lanes} comes to cannot be checked: {why}")]
    NotChecked {
        /// The lanes.
        lanes: String,
        /// Why.
        why: String,
    },
    /// Something cannot be granted to a lane while it is at work.
    #[error("'{what}' cannot be granted to lane '{lane}': {why}")]
    NotGranted {
        /// Name of the lane.
        lane: String,
        /// What was to be granted.
        what: String,
        /// Why not.
        why: String,
    },
    /// A secret cannot be had.
    #[error("the secret {name} cannot be had from {from}")]
    NoSecret {
        /// Its name.
        name: String,
        /// Where it was to come from, without any value.
        from: String,
        /// Why not.
        #[source]
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The value of a secret stands in what would leave a lane.
    #[error("lane '{lane}' holds the value of the secret {secret} in {}{}", .path.display(), and_others(*.others))]
    Leaks {
        /// Name of the lane.
        lane: String,
        /// Name of the secret.
        secret: String,
        /// The first path that holds it.
        path: PathBuf,
        /// How many others do.
        others: usize,
    },
    /// A file could not be searched for values of secrets.
    #[error("{} could not be searched for values of secrets: {why}", .path.display())]
    Unsearched {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A rule does not allow a keep.
    #[error(transparent)]
    PolicyRefuses(Box<Refusal>),
    /// The verb is not there in this build.
    #[error("'{0}' is not built yet")]
    NotBuilt(&'static str),
}

impl From<ledger::Error> for EngineError {
    fn from(error: ledger::Error) -> EngineError {
        match error {
            ledger::Error::NameTaken { name, .. } => EngineError::NameTaken { name },
            other => EngineError::Ledger(other),
        }
    }
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" and {others} more") }
}

impl From<workspace::Error> for EngineError {
    fn from(error: workspace::Error) -> EngineError {
        EngineError::Workspace(error)
    }
}

impl From<store::Error> for EngineError {
    fn from(error: store::Error) -> EngineError {
        match error {
            store::Error::NoRoom { free, floor } => EngineError::NoRoom { free, floor },
            other => EngineError::Store(other),
        }
    }
}

impl From<review::Error> for EngineError {
    fn from(error: review::Error) -> EngineError {
        use review::Error as E;
        match error {
            E::NotAChange { .. } | E::NotInDiff { .. } | E::WholeOnly { .. } | E::PlaceTaken { .. } => {
                EngineError::NotSelectable { why: error.to_string() }
            }
            other => EngineError::Review(other),
        }
    }
}

/// How many other files, where there are.
fn and_others(others: usize) -> String {
    match others {
        0 => String::new(),
        1 => " and another file".to_owned(),
        others => format!(" and {others} other files"),
    }
}

impl EngineError {
    /// The error with its causes in one line.
    pub fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut below = std::error::Error::source(self);
        while let Some(cause) = below {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            below = cause.source();
        }
        text
    }
}

/// Says what was being done when the kernel refused.
pub trait Doing<T> {
    /// `what` was being done.
    fn doing(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Doing<T> for kernel::Result<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|source| EngineError::Kernel { doing: what(), source })
    }
}

/// Each strategy with what speaks against it.
fn against(reasons: &[(Strategy, String)]) -> String {
    reasons.iter().map(|(strategy, why)| format!("{}: {why}", strategy.word())).collect::<Vec<_>>().join("; ")
}

fn line_of(line: &Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!(" (line {line})"))
}

fn tree_list(paths: &[TreePath]) -> String {
    paths.iter().map(|p| p.as_path().display().to_string()).collect::<Vec<_>>().join(", ")
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
}
