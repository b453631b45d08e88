//! [`LaneHistory`]: the snapshots of one lane, and the taking of them.
//!
//! The store stands where the lane's layers stand, so that large files can share their blocks with it: in the state
//! directory, or beside the layers on the project's filesystem.
//!
//! Invariants: one capture or restore of a lane goes on at a time (the lock `history` in its directory, held for
//! moments); a snapshot's id is given out only when it is durable; a restore that was interrupted is finished before
//! anything else is done with the lane.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kernel::lock::Lock;
use ledger::Lane;
use sandbox::credentials::looks_like_one;
use sandbox::freeze::{Freezer, Mapped};
use store::{
    Capture, Captured, Gap, History, LaneKey, ManifestId, NewSnapshot, Pass, Quiescence, Record, Share,
    Snapshot, SnapshotId, SnapshotKind, Store,
};
use tree::TreePath;
use tree::layer::Format;

use crate::bases::{StillBase, put_aside, still_base};
use crate::beginning;
use crate::clock;
use crate::describe;
use crate::engine::Engine;
use crate::error::{Doing as _, EngineError, Result};
use crate::lane::{OpenLane, OpenRoot};
use crate::passes::{Layered, look, note_mapped, pass, while_at_work};
use crate::room;
use crate::stores::{self, StoreAt};

/// Who works on the history.
const LOCK: &[u8] = b"history";
/// So many packs are put together before another automatic snapshot is taken.
const MANY_PACKS: u64 = 2048;
/// How long after room was made for automatic snapshots it is not tried again.
const AGAIN: Duration = Duration::from_secs(600);
/// How long another capture may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A lane's part of a store.
#[derive(Debug)]
pub struct LaneHistory {
    /// The store.
    pub store: Store,
    /// The lane in it.
    pub key: LaneKey,
    name: String,
    state: PathBuf,
    /// When room was last made for automatic snapshots.
    tended: Cell<Option<Instant>>,
}

/// Why and how a snapshot is taken.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Why.
    pub kind: SnapshotKind,
    /// Its name or text.
    pub message: Vec<u8>,
    /// Nothing is recorded where nothing has changed since the last one.
    pub only_if_changed: bool,
}

impl Wish {
    /// One that a program takes by itself.
    pub fn automatic(kind: SnapshotKind) -> Wish {
        Wish { kind, message: Vec::new(), only_if_changed: true }
    }
}

/// What was captured of a lane.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) roots: Vec<store::Root>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) credentials: Vec<(u32, TreePath)>,
    pub(crate) captured: Vec<Captured>,
}

/// Who else may write while a snapshot is taken.
#[derive(Debug)]
enum How<'f> {
    /// Nobody: the caller holds the lane's lock.
    Held,
    /// Somebody may begin to.
    After,
    /// The lane's processes, which can be made to stand still.
    Live(Option<&'f mut Freezer>),
    /// The lane's processes, which stand still all the while.
    Still(&'f Mapped),
}

impl LaneHistory {
    /// The history of a lane that is about to be written to, with its store made where there is none.
    pub fn open(engine: &Engine, lane: &OpenLane) -> Result<LaneHistory> {
        let at = StoreAt::of(engine.state().path(), &lane.home)?;
        let store = at.enter(&LaneKey::new(&lane.row.id)?)?;
        LaneHistory::over(engine, lane, store)
    }

    /// The history of a lane to be read; `None` where there is no store yet.
    pub fn find(engine: &Engine, lane: &OpenLane) -> Result<Option<LaneHistory>> {
        let at = StoreAt::of(engine.state().path(), &lane.home)?;
        at.open()?.map(|store| LaneHistory::over(engine, lane, store)).transpose()
    }

    fn over(engine: &Engine, lane: &OpenLane, store: Store) -> Result<LaneHistory> {
        Ok(LaneHistory {
            store,
            key: LaneKey::new(&lane.row.id)?,
            name: lane.row.name.clone(),
            state: engine.state().path().to_owned(),
            tended: Cell::new(None),
        })
    }

    /// What was taken so far.
    pub fn read(&self) -> Result<History> {
        Ok(self.store.history(&self.key)?)
    }

    /// What each snapshot of the store takes, that of other lanes being told apart.
    pub fn usage(&self) -> Result<HashMap<SnapshotId, Share>> {
        let lanes = self.store.lanes()?;
        let histories = lanes.into_iter().map(|key| Ok((key.clone(), self.store.history(&key)?)));
        let histories = histories.collect::<Result<Vec<_>>>()?;
        Ok(self.store.usage(&histories)?.snapshots)
    }

    /// The one snapshot that a reference means.
    pub fn resolve(&self, history: &History, reference: &str) -> Result<SnapshotId> {
        let is_start = |record: &Record| record.kind == SnapshotKind::Start;
        if reference == "base"
            && let Some((id, _)) = history.snapshots().find(|(_, record)| is_start(record))
        {
            return Ok(id);
        }
        match history.candidates(reference)[..] {
            [id] => Ok(id),
            [] => {
                Err(EngineError::NoSuchSnapshot { lane: self.name.clone(), reference: reference.to_owned() })
            }
            ref several => Err(EngineError::WhichSnapshot {
                reference: reference.to_owned(),
                ids: several.iter().map(|id| short(*id)).collect(),
            }),
        }
    }

    /// The record of a snapshot that is known to be there.
    pub fn record<'h>(&self, history: &'h History, id: SnapshotId) -> Result<&'h Record> {
        history
            .get(id)
            .ok_or_else(|| EngineError::NoSuchSnapshot { lane: self.name.clone(), reference: short(id) })
    }

    /// Takes a snapshot of a lane at rest, whose lock the caller holds. `None` where nothing has changed and that
    /// was to be left out.
    pub fn take_at_rest(&self, lane: &OpenLane, wish: &Wish) -> Result<Option<Snapshot>> {
        let _alone = only_one(lane)?;
        self.settle(lane)?;
        self.capture(lane, wish, How::Held)
    }

    /// Takes a snapshot of a lane whose processes have just ended, and which others may start again meanwhile.
    pub fn take_after(&self, lane: &OpenLane, wish: &Wish) -> Result<Option<Snapshot>> {
        let _alone = only_one(lane)?;
        // A directory that is half renamed is the next command's to put right, and it needs the lane for that.
        if sandbox::notify::has_journal(&lane.home.dir().fd) {
            return Ok(None);
        }
        self.capture(lane, wish, How::After)
    }

    /// Takes a snapshot of a lane in which processes write. They stand still for the last part of it, where they can be
    /// made to.
    pub fn take_live(
        &self,
        lane: &OpenLane,
        wish: &Wish,
        freezer: Option<&mut Freezer>,
    ) -> Result<Option<Snapshot>> {
        let _alone = only_one(lane)?;
        self.capture(lane, wish, How::Live(freezer))
    }

    /// Takes a snapshot of a lane whose processes stand still. The caller holds [`only_one`].
    pub(crate) fn take_still(
        &self,
        lane: &OpenLane,
        wish: &Wish,
        mapped: &Mapped,
    ) -> Result<Option<Snapshot>> {
        self.capture(lane, wish, How::Still(mapped))
    }

    /// Takes a snapshot of a lane whose lock the caller holds, and [`only_one`].
    pub(crate) fn take_held(&self, lane: &OpenLane, wish: &Wish) -> Result<Option<Snapshot>> {
        self.capture(lane, wish, How::Held)
    }

    fn capture(&self, lane: &OpenLane, wish: &Wish, how: How<'_>) -> Result<Option<Snapshot>> {
        let mut history = self.read()?;
        if history.position().is_none() {
            if wish.only_if_changed && !beginning::is_worth(lane)? {
                if wish.kind == SnapshotKind::Exit {
                    put_aside(lane)?;
                }
                return Ok(None);
            }
            self.begin(lane)?;
            history = self.read()?;
        }
        crate::leaks::check_all(lane)?;
        let last = history.position().and_then(|id| history.get(id));
        self.make_room(wish.kind)?;
        let mut writer = self.writer(wish.kind)?;
        let mut layers = Vec::with_capacity(lane.roots.len());
        for (number, root) in (0u32..).zip(&lane.roots) {
            let capture = Capture::begin(&self.store, &self.key, number, &workspace::base::boot_id()?);
            layers.push(Layered::new(number, root, capture));
        }
        // As long as nobody else may write in it.
        let mut _held = None;
        let quiescence = match how {
            How::Held => {
                pass(&mut writer, &mut layers, true, None)?;
                Quiescence::AtRest
            }
            How::After => {
                // What takes long is read before the lane is kept from others.
                pass(&mut writer, &mut layers, false, None)?;
                let lock = lane.lock().ok();
                if sandbox::notify::has_journal(&lane.home.dir().fd) {
                    return Ok(None);
                }
                pass(&mut writer, &mut layers, lock.is_some(), None)?;
                let is_ours = lock.is_some();
                _held = lock;
                if is_ours { Quiescence::AtRest } else { Quiescence::Running }
            }
            How::Live(freezer) => {
                // Somebody has asked for the others, and waits.
                let (tries, last) = if wish.only_if_changed { (1, last) } else { (3, None) };
                while_at_work(&self.store, &mut writer, &mut layers, freezer, tries, last)?
            }
            How::Still(mapped) => {
                note_mapped(&mut layers, mapped);
                pass(&mut writer, &mut layers, false, None)?;
                if mapped.is_whole() { Quiescence::Frozen } else { Quiescence::Running }
            }
        };
        let captures = layers.into_iter().map(|layered| (layered.number, layered.root, layered.capture));
        let Taken { roots, gaps, credentials, captured } =
            self.taken(lane, &mut writer, captures.collect(), last)?;
        if quiescence == Quiescence::AtRest {
            // A fork need not look for them.
            let _ = lane.home.note_links(captured.iter().any(|done| done.linked));
        }
        let same = |record: &Record| {
            record.gaps == gaps
                && record.roots.len() == roots.len()
                && record.roots.iter().zip(&roots).all(|(a, b)| a.top == b.top && a.layers == b.layers)
        };
        if wish.only_if_changed && last.is_some_and(same) {
            if writer.added().objects > 0 {
                // The store had lost something of it.
                writer.finish_pack()?;
            }
            return Ok(None);
        }
        let snapshot = writer.finish_after(
            &self.key,
            NewSnapshot {
                parent: None,
                time_ms: clock::now_ms(),
                kind: wish.kind,
                quiescence,
                message: wish.message.clone(),
                roots,
                gaps,
                credentials,
            },
            &history,
        )?;
        self.remember(&captured);
        Ok(Some(snapshot))
    }

    /// Leaves what is known to the next capture.
    pub(crate) fn remember(&self, captured: &[Captured]) {
        for done in captured {
            // Losing it costs the next capture time.
            let _ = done.remember(&self.store);
        }
    }

    /// Captures of all roots as what a record says of them; `before` is the last record of the lane.
    pub(crate) fn taken(
        &self,
        lane: &OpenLane,
        writer: &mut store::Writer<'_>,
        captures: Vec<(u32, &OpenRoot, Capture)>,
        before: Option<&Record>,
    ) -> Result<Taken> {
        let mut taken = Taken::default();
        for (number, root, capture) in captures {
            let credentials = capture.credentials(&|path| looks_like_one(path.as_bytes()));
            taken.credentials.extend(credentials.into_iter().map(|path| (number, path)));
            let done = capture.finish(writer)?;
            taken.gaps.extend(done.gaps.iter().map(|(path, reason)| Gap {
                root: number,
                path: path.clone(),
                reason: reason.clone(),
            }));
            let before = before.and_then(|record| record.roots.get(number as usize));
            let base_contents = self.base_contents(writer, lane, root, before, &done)?;
            taken.roots.push(store::Root {
                origin: describe::bytes(&root.view.path),
                base: base_of(&lane.row),
                layers: Vec::new(),
                top: done.manifest,
                base_contents,
                entries: done.entries,
                bytes: done.bytes,
            });
            taken.captured.push(done);
        }
        Ok(taken)
    }

    /// Stores everything that a lane at rest holds once more, because what is stored of it is damaged. No snapshot comes of it;
    /// those that need the same are whole again. The caller holds the lane's lock.
    pub fn store_again(&self, lane: &OpenLane) -> Result<()> {
        let _alone = only_one(lane)?;
        let mut writer = self.writer(SnapshotKind::Rescue)?;
        writer.anew();
        for (number, root) in (0u32..).zip(&lane.roots) {
            // Of no boot: what is known of it is not believed.
            let mut capture = Capture::begin(&self.store, &self.key, number, "");
            look(&mut capture, &mut writer, root, &Pass::at_rest(Format::User))?;
            capture.finish(&mut writer)?;
        }
        Ok(writer.finish_pack()?)
    }

    /// A writer that leaves room to others.
    pub(crate) fn writer(&self, kind: SnapshotKind) -> Result<store::Writer<'_>> {
        let mut writer = self.store.begin()?;
        writer.entered();
        writer.leave_free(room::floor(room::of(&self.store)?, kind));
        Ok(writer)
    }

    /// Holds the store to its budget, before an automatic snapshot is written: others are thinned out, and where that is
    /// not enough this one is not taken.
    fn make_room(&self, kind: SnapshotKind) -> Result<()> {
        if !kind.is_automatic() || kind == SnapshotKind::Rescue {
            return Ok(());
        }
        let budget = room::budget(room::of(&self.store)?);
        let is_over = |size: store::Size| size.bytes > budget;
        let size = self.store.size()?;
        if !is_over(size) && size.packs <= MANY_PACKS {
            return Ok(());
        }
        if self.tended.get().is_none_or(|at| at.elapsed() > AGAIN) {
            self.tended.set(Some(Instant::now()));
            stores::thin(&self.state, &self.store, budget / 4 * 3)?;
        }
        let size = self.store.size()?;
        match is_over(size) {
            true => Err(EngineError::OverBudget { bytes: size.bytes, budget }),
            false => Ok(()),
        }
    }

    /// What the origin holds, now, under the paths that the lane has changed since the last snapshot: later the user
    /// may have changed it too. Where that has happened already, it is not the base any more.
    fn base_contents(
        &self,
        writer: &mut store::Writer<'_>,
        lane: &OpenLane,
        root: &OpenRoot,
        before: Option<&store::Root>,
        done: &Captured,
    ) -> Result<Option<ManifestId>> {
        if before.is_some_and(|before| before.top == done.manifest) {
            return Ok(before.and_then(|before| before.base_contents));
        }
        let all = || -> Result<BTreeSet<TreePath>> {
            let touched = root.workspace.touched()?;
            let had_content = |change: &&tree::Change| change.old.as_ref().is_some_and(|old| !old.is_dir());
            Ok(touched.changes.iter().filter(had_content).map(|change| change.old_path().clone()).collect())
        };
        // Since the last snapshot, where that can be told from the two alone: a walk less.
        let since_then = done
            .fresh
            .as_ref()
            .filter(|fresh| !fresh.hides && before.is_some_and(|before| before.top == fresh.since));
        let paths = match since_then {
            Some(fresh) => {
                let base = root.workspace.base_tree()?;
                let doing = || format!("look at {}", root.view.path.display());
                let mut paths = BTreeSet::new();
                for path in &fresh.paths {
                    if base.entry(path).doing(doing)?.is_some_and(|old| !old.is_dir()) {
                        paths.insert(path.clone());
                    }
                }
                paths
            }
            None => all()?,
        };
        let previous = before.and_then(|before| before.base_contents);
        let stored = previous.map(|previous| self.store.manifest(previous));
        if paths.is_empty() {
            return Ok(previous);
        }
        let StillBase { still, stale, origin } = still_base(lane, root, paths, stored)?;
        if still.is_empty() {
            return Ok(previous);
        }
        let contents = match writer.base_contents(&origin, previous, still, &stale) {
            // What the base held before is lost; what it holds now is not.
            Err(error) if error.is_damage() => {
                let all = still_base(lane, root, all()?, None)?;
                writer.base_contents(&all.origin, None, all.still, &BTreeSet::new())?
            }
            other => other?,
        };
        Ok(Some(contents.manifest))
    }
}

/// The history of a lane for this process alone.
pub fn only_one(lane: &OpenLane) -> Result<Lock> {
    kernel::lock::exclusive_blocking(&lane.home.dir().fd, LOCK, PATIENCE)
        .doing(|| format!("wait for another snapshot of {}", lane.row.name))
}

/// [`only_one`], where nobody has it.
pub(crate) fn try_only_one(lane: &OpenLane) -> Result<Option<Lock>> {
    kernel::lock::try_exclusive(&lane.home.dir().fd, LOCK)
        .doing(|| format!("look for another snapshot of {}", lane.row.name))
}

/// What identifies the base of a lane.
pub(crate) fn base_of(row: &Lane) -> Vec<u8> {
    let head = row.git_head.as_deref().unwrap_or("-");
    format!("live {}.{:09} {} {head}", row.base_sec, row.base_nsec, row.boot_id).into_bytes()
}

/// An id as people are shown it.
pub fn short(id: SnapshotId) -> String {
    format!("{id:.12}")
}
