//! The watch over a lane at work: a process outside it that takes snapshots when writing goes quiet, when it never does,
//! when somebody asks, and when the lane ends.
//!
//! Nobody inside reaches it but through a socket that takes text and does nothing but add a snapshot, and that at a rate.
//! It watches by two looks a second at the kernel's write counters: no event, no watch on a directory, nothing that the
//! lane's processes pay for.
//!
//! Invariants: it holds neither the lane's lock nor a stream of the run, and nothing that keeps its mounts; it ends with
//! the lane, after a last snapshot. Whoever wants a snapshot of a live lane asks it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use kernel::process::{self, Child, Forked};
use rustix::event::{PollFd, PollFlags, Timespec};
use sandbox::channel::{Asked, Channel};
use sandbox::freeze::Freezer;
use store::SnapshotKind;
use workspace::LaneHome;

use crate::activity::{self, Activity};
use crate::engine::{Engine, EngineOptions};
use crate::error::{Doing as _, Result};
use crate::history::{LaneHistory, Wish};
use crate::lane::{self, OpenLane};
use crate::missed;

/// When snapshots are taken without being asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checkpoints {
    /// When writing goes quiet, when it never does, when a command ends.
    #[default]
    All,
    /// When writing goes quiet, and when a command ends.
    Quiet,
    /// When a command ends.
    Exit,
    /// Never.
    None,
}

impl Checkpoints {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Checkpoints::All => "all",
            Checkpoints::Quiet => "quiet",
            Checkpoints::Exit => "exit",
            Checkpoints::None => "none",
        }
    }
}

/// How a lane is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watching {
    /// When.
    pub when: Checkpoints,
    /// The longest time of writing without a snapshot.
    pub interval: Duration,
}

impl Default for Watching {
    fn default() -> Watching {
        Watching { when: Checkpoints::All, interval: Duration::from_secs(60) }
    }
}

/// A look at the counters this often.
const TICK: Duration = Duration::from_millis(500);
/// The same where nothing but the lane's own standing is looked at.
const SLOW: Duration = Duration::from_secs(2);
/// So long nothing was written where writing has gone quiet.
const QUIET: Duration = Duration::from_millis(1500);
/// Snapshots that the inside may ask for at once, and how long it takes until it may ask for one more.
const BURST: u32 = 8;
const REFILL: Duration = Duration::from_secs(2);

/// The answer where nothing has changed since the last snapshot, and that was to be left out.
pub(crate) const UNCHANGED: &[u8] = b"=";

/// A watch that stands.
#[derive(Debug)]
pub struct Watch {
    child: Child,
    /// Its end says that the lane has ended.
    line: OwnedFd,
}

/// What the watch needs of the lane.
#[derive(Debug)]
pub struct Over {
    /// The lane's pid namespace.
    pub pids: OwnedFd,
    /// The socket of the host.
    pub outside: OwnedFd,
    /// The socket that the view shows.
    pub inside: OwnedFd,
}

/// Starts the watch over a lane whose view stands.
pub fn start(state: &Path, lane: &OpenLane, watching: Watching, over: Over) -> Result<Watch> {
    let doing = || "start the watch over the lane".to_owned();
    let (ours, theirs) = kernel::fdpass::pair().doing(doing)?;
    match process::fork().doing(doing)? {
        Forked::Parent(child) => Ok(Watch { child, line: ours }),
        Forked::Child => {
            process::go_alone();
            let _ = rustix::thread::set_name(c"lane-watch");
            let keep = [theirs.as_fd(), over.pids.as_fd(), over.outside.as_fd(), over.inside.as_fd()];
            if process::close_others(&keep).is_ok() {
                let _ = watch(state, &lane.row, watching, over, &theirs);
            }
            process::exit_now(0)
        }
    }
}

impl Watch {
    /// Reads as ended once the watch is gone.
    pub fn line(&self) -> BorrowedFd<'_> {
        self.line.as_fd()
    }

    /// Says that the lane has ended.
    pub fn ended(&self) {
        let _ = rustix::net::shutdown(&self.line, rustix::net::Shutdown::Write);
    }

    /// Waits for the last snapshot, but not longer than `patience`: it goes on by itself.
    pub fn leave(self, patience: Duration) {
        self.ended();
        let timeout =
            Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: i64::from(patience.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.child.pidfd, PollFlags::IN)];
        let _ = rustix::event::poll(&mut fds, Some(&timeout));
        let _ = process::wait(process::Which::Pidfd(self.child.pidfd.as_fd()), false, false);
    }
}

/// Waits for the last snapshot of a lane that has just come to rest; returns at once where none is being taken.
pub fn await_last(home: &LaneHome) {
    const PATIENCE: Duration = Duration::from_secs(30);
    // The watch itself holds the lane for the last part of it, when nobody answers for the lane any more.
    let is_over = || !sandbox::control::is_there(home.dir().fd.as_fd());
    if home.try_lock().is_ok_and(|lock| lock.is_some()) || is_over() {
        let dir = home.dir().fd.as_fd();
        let _ = sandbox::channel::ask(dir, sandbox::channel::OUTSIDE, b"wait", PATIENCE);
    }
}

/// The watch's own state.
struct Post {
    lane: OpenLane,
    history: LaneHistory,
    watching: Watching,
    namespace: u64,
    freezer: Option<Freezer>,
    /// The counters at the last look.
    last: Activity,
    /// When they last moved.
    moved: Instant,
    /// When something was first written that no snapshot has.
    dirty: Option<Instant>,
    /// Snapshots that the inside may still ask for.
    tokens: u32,
    refilled: Instant,
}

fn watch(state: &Path, row: &ledger::Lane, watching: Watching, over: Over, line: &OwnedFd) -> Result<()> {
    // Nothing that was opened before the fork counts any more; the ledger's library least of all, which must not be used
    // in a process that was forked from one in which it was.
    let engine = Engine::open(&EngineOptions { state: Some(state.to_path_buf()) })?;
    let lane = lane::open(&engine, row.clone())?;
    let history = LaneHistory::open(&engine, &lane)?;
    drop(engine);
    let Over { pids, outside, inside } = over;
    let namespace = kernel::meta::stat_fd(&pids).map_or(0, |stat| stat.identity().1);
    let dir = lane.home.dir().fd.try_clone();
    let freezer = dir.ok().map(|dir| Freezer::new(dir, pids));
    let (mut outside, mut inside) = (Channel::new(outside), Channel::new(inside));
    let now = Instant::now();
    let mut post = Post {
        lane,
        history,
        watching,
        namespace,
        freezer,
        last: activity::look(namespace),
        moved: now,
        dirty: Some(now),
        tokens: BURST,
        refilled: now,
    };
    loop {
        match wait(line, &outside, &inside, post.timeout()) {
            Said::Ended => break,
            Said::Nothing => {}
        }
        for asked in outside.hear() {
            post.asked_outside(asked);
        }
        for asked in inside.hear() {
            post.asked_inside(asked);
        }
        post.tick();
    }
    drop(inside);
    drop(post.freezer.take());
    if post.watching.when == Checkpoints::None {
        return Ok(());
    }
    // Nobody is inside any more. What goes on now gives way to what the user does next.
    let _ = kernel::priority::idle_priority();
    let taken = post.history.take_after(&post.lane, &Wish::automatic(SnapshotKind::Exit));
    tell(&post.lane, &taken);
    // Whoever waits for this snapshot hears the end of its connection.
    drop(outside);
    taken.map(drop)
}

/// Leaves word of an automatic snapshot that could not be taken.
fn tell<T>(lane: &OpenLane, taken: &Result<Option<T>>) {
    match taken {
        Ok(Some(_)) => missed::clear(&lane.home),
        Ok(None) => {}
        Err(error) => missed::note(&lane.home, error),
    }
}

enum Said {
    Nothing,
    Ended,
}

fn wait(line: &OwnedFd, outside: &Channel, inside: &Channel, timeout: Duration) -> Said {
    let fds: Vec<BorrowedFd<'_>> =
        std::iter::once(line.as_fd()).chain(outside.fds()).chain(inside.fds()).collect();
    let mut polled: Vec<PollFd<'_>> =
        fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    let _ = rustix::event::poll(&mut polled, Some(&timeout));
    if polled[0].revents().is_empty() {
        return Said::Nothing;
    }
    Said::Ended
}

impl Post {
    /// Looks are taken where they can lead to something.
    fn is_looking(&self) -> bool {
        matches!(self.watching.when, Checkpoints::All | Checkpoints::Quiet)
    }

    fn timeout(&self) -> Duration {
        if self.is_looking() { TICK } else { SLOW }
    }

    fn tick(&mut self) {
        // Who made the lane stand for a restore may have been killed, and its guard with it.
        sandbox::freeze::lift(&self.lane.home.dir().fd, Duration::ZERO);
        if !self.is_looking() {
            return;
        }
        let now = Instant::now();
        let look = activity::look(self.namespace);
        if look != self.last {
            self.last = look;
            self.moved = now;
            self.dirty = self.dirty.or(Some(now));
        }
        let Some(since) = self.dirty else { return };
        if now.duration_since(self.moved) >= QUIET {
            self.checkpoint(SnapshotKind::Quiet);
        } else if self.watching.when == Checkpoints::All
            && now.duration_since(since) >= self.watching.interval
        {
            self.checkpoint(SnapshotKind::Ceiling);
        }
    }

    fn checkpoint(&mut self, kind: SnapshotKind) {
        // What goes wrong here (a full disk) is told, and tried again when something more was written.
        let taken = self.take(&Wish::automatic(kind));
        tell(&self.lane, &taken);
    }

    fn take(&mut self, wish: &Wish) -> Result<Option<store::Snapshot>> {
        // What is written while it is taken shows at the next look.
        let seen = activity::look(self.namespace);
        if let Some(freezer) = &mut self.freezer {
            // Whatever keeps it from starting is found out again when it is needed, and then told.
            let _ = freezer.prepare();
        }
        let taken = self.history.take_live(&self.lane, wish, self.freezer.as_mut());
        self.last = seen;
        self.dirty = None;
        taken
    }

    /// `snap` of the host: the kind's word, a line end, the message.
    fn asked_outside(&mut self, asked: Asked) {
        let mut parts = asked.text.splitn(2, |byte| *byte == b'\n');
        let kind = parts.next().and_then(|word| SnapshotKind::from_word(std::str::from_utf8(word).ok()?));
        let message = parts.next().unwrap_or_default().to_vec();
        let Some(kind) = kind else { return asked.answer(b"-what is that") };
        if kind == SnapshotKind::Exit {
            // A command that had joined the lane has ended, and does not wait.
            if self.watching.when != Checkpoints::None {
                self.checkpoint(kind);
            }
            return;
        }
        let wish = Wish { kind, message, only_if_changed: kind == SnapshotKind::Rescue };
        match self.take(&wish) {
            Ok(Some(snapshot)) => asked.answer(format!("+{}", snapshot.id).as_bytes()),
            Ok(None) => asked.answer(UNCHANGED),
            Err(error) => {
                let mut why = error.with_causes();
                why.truncate(sandbox::channel::LONGEST - 1);
                asked.answer(format!("-{why}").as_bytes());
            }
        }
    }

    /// Somebody inside says what he has done. Whatever he says, a snapshot is all that comes of it.
    fn asked_inside(&mut self, asked: Asked) {
        let earned = self.refilled.elapsed().as_millis() / REFILL.as_millis();
        if earned > 0 {
            self.tokens = BURST.min(self.tokens.saturating_add(u32::try_from(earned).unwrap_or(BURST)));
            self.refilled = Instant::now();
        }
        if self.tokens == 0 {
            return asked.answer(b"busy");
        }
        self.tokens -= 1;
        let wish = Wish { kind: SnapshotKind::Asked, message: asked.text.clone(), only_if_changed: false };
        match self.take(&wish) {
            Ok(Some(snapshot)) => asked.answer(format!("ok {:.12}", snapshot.id).as_bytes()),
            Ok(None) => asked.answer(b"ok"),
            Err(_) => asked.answer(b"failed"),
        }
    }
}
