//! [`Store`]: one directory of packs, large files, histories and what is derived from them; and the reading of objects.
//!
//! Invariant: an object that is handed out has the hash that it was asked for by. Nothing here writes but the making of
//! a new store. A store stays readable while others write to it and collect: what is not where it was is looked
//! for once more before it counts as missing.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kernel::lock::{self, Lock};
use kernel::{Errno, bytes, dir, meta, node, open, publish};

use crate::error::{Error, FormatProblem, Result, Stepping as _};
use crate::format::{self, Permitted};
use crate::id::{ObjectId, ObjectKind};
use crate::index::Index;
use crate::pack::read::Table;
use crate::pack::{MAX_OBJECT, PLAIN, PackId, Placed};
use crate::steps::{StepHook, Steps};

pub(crate) const LOCK: &[u8] = b"lock";
pub(crate) const DIRS: [&[u8]; 5] = [b"packs", b"large", b"index", b"history", b"stamps"];

/// How long a writer waits for a collection to end. It removes files only, so this is ample.
const WAIT: Duration = Duration::from_secs(60);
/// Packs that are held open.
const OPEN_PACKS: usize = 64;

/// An open store.
#[derive(Debug)]
pub struct Store {
    pub(crate) dir: OwnedFd,
    pub(crate) packs: OwnedFd,
    pub(crate) large: OwnedFd,
    pub(crate) index_dir: OwnedFd,
    pub(crate) history: OwnedFd,
    pub(crate) stamps: OwnedFd,
    pub(crate) steps: Steps,
    /// Filesystems that have refused to share blocks with this one.
    no_clones: Mutex<HashSet<u64>>,
    permitted: Permitted,
    /// As it was last read; `None` until somebody asks.
    index: Mutex<Option<Arc<Index>>>,
    open_packs: Mutex<HashMap<PackId, Arc<OwnedFd>>>,
    /// The own indexes of all packs, once something was missed.
    tables: Mutex<Arc<Vec<Table>>>,
}

/// The store's lock, held in common: while it lives, a collection removes nothing.
#[derive(Debug)]
pub struct Held {
    _lock: Lock,
}

impl Store {
    /// Makes a store in an empty directory (mode 0700 is the caller's to give), or opens the one that is there.
    pub fn create(dir: impl AsFd) -> Result<Store> {
        let dir = dir.as_fd();
        if meta::stat_at_if_there(dir, format::NAME).stepping("stat", format::NAME)?.is_some()
            && let Ok(store) = Store::open(dir)
        {
            return Ok(store);
        }
        // Where a store ended while this one was begun, the format may stand without its directories.
        for name in DIRS {
            match node::mkdir_at(dir, name, 0o700) {
                Err(error) if error.errno == Errno::EXIST => {}
                answer => answer.stepping("make directory", name)?,
            }
        }
        // The format comes last: a directory without it is no store yet.
        match publish::write_new_file(dir, format::NAME, format::text().as_bytes(), 0o600) {
            Err(error) if error.errno == Errno::EXIST => {}
            answer => answer.stepping("write", format::NAME)?,
        }
        Store::open(dir)
    }

    /// Opens the store in a directory.
    pub fn open(dir: impl AsFd) -> Result<Store> {
        let dir = open::dir_beneath(dir, b"").stepping("open", b"store")?;
        let text = match open::file_beneath(&dir, format::NAME) {
            Ok(fd) => bytes::read_all(&fd).stepping("read", format::NAME)?,
            Err(error) if error.is_not_found() => return Err(FormatProblem::Missing.into()),
            Err(error) => return Err(error).stepping("open", format::NAME),
        };
        let permitted = format::parse(&text)?;
        let below = |name: &[u8]| open::dir_beneath(&dir, name).stepping("open", name);
        let [packs, large, index_dir, history, stamps] =
            [below(DIRS[0])?, below(DIRS[1])?, below(DIRS[2])?, below(DIRS[3])?, below(DIRS[4])?];
        Ok(Store {
            dir,
            packs,
            large,
            index_dir,
            history,
            stamps,
            steps: Steps::default(),
            no_clones: Mutex::default(),
            permitted,
            index: Mutex::default(),
            open_packs: Mutex::new(HashMap::new()),
            tables: Mutex::default(),
        })
    }

    /// Asks `hook` before every step that writes: for tests that kill, fill and fail.
    #[must_use]
    pub fn with_steps(mut self, hook: StepHook) -> Store {
        self.steps = Steps::new(hook);
        self
    }

    /// Keeps what is stored now from being collected, for as long as the answer lives: for those who read more than one
    /// object and could not go on if the rest were removed meanwhile.
    pub fn hold(&self) -> Result<Held> {
        match lock::shared_blocking(&self.dir, LOCK, WAIT) {
            Ok(lock) => Ok(Held { _lock: lock }),
            Err(error) if error.errno == Errno::TIMEDOUT => Err(Error::Busy),
            Err(error) => Err(error).stepping("lock", LOCK),
        }
    }

    /// Alone with the store, or [`Error::Busy`] after `wait`.
    pub(crate) fn hold_alone(&self, wait: Duration) -> Result<Held> {
        match lock::exclusive_blocking(&self.dir, LOCK, wait) {
            Ok(lock) => Ok(Held { _lock: lock }),
            Err(error) if error.errno == Errno::TIMEDOUT => Err(Error::Busy),
            Err(error) => Err(error).stepping("lock", LOCK),
        }
    }

    /// An error where nothing may be written.
    pub(crate) fn require_writable(&self) -> Result<()> {
        self.permitted.read_only.clone().map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// The index as it was last read.
    pub(crate) fn index(&self) -> Result<Arc<Index>> {
        match self.read_index() {
            Some(index) => Ok(index),
            None => self.refresh(),
        }
    }

    fn read_index(&self) -> Option<Arc<Index>> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the index anew.
    pub(crate) fn refresh(&self) -> Result<Arc<Index>> {
        let old = self.read_index().unwrap_or_default();
        let new = Index::load(self.packs.as_fd(), self.index_dir.as_fd(), &old).stepping("read", b"index")?;
        let new = Arc::new(new);
        *self.index.lock().unwrap_or_else(PoisonError::into_inner) = Some(new.clone());
        Ok(new)
    }

    /// The bytes of an object, which have its hash.
    pub fn object(&self, kind: ObjectKind, id: ObjectId) -> Result<Vec<u8>> {
        let found = self.try_places(kind, id, self.index()?.find_all(&id).stepping("read", b"index")?)?;
        if let Ok(bytes) = found {
            return Ok(bytes);
        }
        // Written, merged or collected since the index was read.
        let index = self.refresh()?;
        let mut why = match self.try_places(kind, id, index.find_all(&id).stepping("read", b"index")?)? {
            Ok(bytes) => return Ok(bytes),
            Err(why) => why,
        };
        // A damaged segment may have lost it: the packs themselves know.
        for table in self.tables(&index)?.iter() {
            let Some(placed) = table.find(&id) else { continue };
            match self.try_places(kind, id, vec![(table.pack, placed)])? {
                Ok(bytes) => return Ok(bytes),
                Err(worse) => why = worse,
            }
        }
        Err(why)
    }

    /// The own index of every pack, read once for each set of packs.
    pub(crate) fn tables(&self, index: &Index) -> Result<Arc<Vec<Table>>> {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if !tables.iter().map(|table| table.pack).eq(index.packs.iter().copied()) {
            let mut read = Vec::with_capacity(index.packs.len());
            for pack in &index.packs {
                let Some(fd) = self.pack(*pack)? else { continue };
                read.push(Table::load(*pack, &*fd).stepping("read", pack.file_name())?);
            }
            *tables = Arc::new(read);
        }
        Ok(tables.clone())
    }

    /// The first place that gives the object whole; else the damage at the last.
    fn try_places(
        &self,
        kind: ObjectKind,
        id: ObjectId,
        places: Vec<(PackId, Placed)>,
    ) -> Result<Result<Vec<u8>>> {
        let mut why = Error::damaged(id, kind, None, "no pack holds it");
        for (pack, placed) in places {
            let Some(fd) = self.pack(pack)? else { continue };
            match read_placed(&fd, kind, &placed).stepping("read", pack.file_name())? {
                Ok(bytes) => return Ok(Ok(bytes)),
                Err(reason) => {
                    why = Error::damaged(id, kind, Some((pack.file_name(), placed.offset)), reason)
                }
            }
        }
        Ok(Err(why))
    }

    /// An open pack; `None` where it is not there any more.
    pub(crate) fn pack(&self, id: PackId) -> Result<Option<Arc<OwnedFd>>> {
        let mut open_packs = self.open_packs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fd) = open_packs.get(&id) {
            return Ok(Some(fd.clone()));
        }
        let fd = match open::name_in(&self.packs, id.file_name().as_bytes()) {
            Ok(fd) => Arc::new(fd),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error).stepping("open", id.file_name()),
        };
        if open_packs.len() >= OPEN_PACKS {
            open_packs.clear();
        }
        open_packs.insert(id, fd.clone());
        Ok(Some(fd))
    }

    /// Removes what killed writers left under temporary names, where nobody writes now.
    pub(crate) fn sweep(&self) -> Result<()> {
        let Some(_alone) = lock::try_exclusive(&self.dir, LOCK).stepping("lock", LOCK)? else {
            return Ok(());
        };
        for dir in [&self.packs, &self.large, &self.index_dir, &self.stamps, &self.history] {
            for item in dir::entries(dir).stepping("list", b"store")? {
                if item.name.starts_with(publish::TEMP_PREFIX) {
                    crate::index::forget(dir.as_fd(), &item.name).stepping("remove", &item.name)?;
                }
            }
        }
        Ok(())
    }
}

impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Reads and checks one object; the reason where its bytes are not the right ones.
pub(crate) fn read_placed(
    fd: impl AsFd,
    kind: ObjectKind,
    placed: &Placed,
) -> kernel::Result<Result<Vec<u8>, &'static str>> {
    if u64::from(placed.len) > MAX_OBJECT || placed.encoding != PLAIN {
        return Ok(Err("the index is damaged, or of a later version"));
    }
    let mut bytes = vec![0; placed.len as usize];
    match bytes::read_full_at(fd, &mut bytes, placed.offset) {
        Ok(got) if got == bytes.len() => {}
        Ok(_) => return Ok(Err("the pack is cut off")),
        Err(error) if error.errno == Errno::IO => return Ok(Err("the disk cannot read it")),
        Err(error) => return Err(error),
    }
    if ObjectId::of(kind, &bytes) != placed.id {
        return Ok(Err("its bytes have another hash"));
    }
    Ok(Ok(bytes))
}

impl Store {
    /// True where files on this device have not refused to share blocks with files of the store.
    pub(crate) fn may_clone(&self, dev: u64) -> bool {
        !self.no_clones.lock().unwrap_or_else(PoisonError::into_inner).contains(&dev)
    }

    pub(crate) fn cannot_clone(&self, dev: u64) {
        self.no_clones.lock().unwrap_or_else(PoisonError::into_inner).insert(dev);
    }
}
