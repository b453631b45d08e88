//! Slips: facts written down beside the database and taken into it by whoever opens it next. A run whose lane goes
//! with it would spend a third of its time in the database for two rows that nobody may ever read.
//!
//! A slip is one line of JSON, appended by one write to `<ledger>-slips`. Who appends holds the file shared, who
//! takes slips in holds it alone, and removes it under that lock; so an appender whose file has lost its name opens
//! it anew. Invariants: a slip that was appended is in the ledger that anybody opens afterwards; taking the same
//! slips in twice (after a kill between commit and removal) changes nothing. Durability is that of the ledger.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rusqlite::params;
use serde::{Deserialize, Serialize};

use crate::db::{Act, Ledger};
use crate::error::{Error, Result};
use crate::value;
use crate::{Exit, Happened, Lane, NewOperation, NewRun};

/// A fact on a slip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slip {
    /// A lane was made for this run, which begins.
    Began {
        /// The lane.
        lane: Box<Lane>,
        /// Its first run.
        run: Box<NewRun>,
    },
    /// That run ended, and the lane went with it.
    Ended {
        /// The lane's id.
        lane: String,
        /// When the run ended.
        at: i64,
        /// How.
        exit: Exit,
        /// The discarding of the lane.
        operation: NewOperation,
    },
    /// A command joined a live lane.
    Joined {
        /// Its run.
        run: Box<NewRun>,
    },
    /// That command ended. Its run is known by lane, process and start.
    Left {
        /// The lane's id.
        lane: String,
        /// [`NewRun::pid`].
        pid: u32,
        /// [`NewRun::started_at`].
        started_at: i64,
        /// When it ended.
        at: i64,
        /// How.
        exit: Exit,
    },
    /// Things happened in a run, which is known as above.
    Happened {
        /// The lane's id.
        lane: String,
        /// [`NewRun::pid`].
        pid: u32,
        /// [`NewRun::started_at`].
        started_at: i64,
        /// In order.
        events: Vec<Happened>,
    },
}

/// The file of slips beside a ledger.
fn path_of(ledger: &Path) -> PathBuf {
    let mut name = ledger.as_os_str().to_owned();
    name.push("-slips");
    PathBuf::from(name)
}

fn storage(path: &Path, doing: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::Storage { path: path.to_path_buf(), doing, detail: error.to_string() }
}

/// Bytes of slips from which on they should be taken in: reading them all at once is somebody's waiting time.
pub const MANY: u64 = 128 << 10;

/// Appends a slip for the ledger at `ledger`, which need not be there yet. Answers the size of the file before.
pub fn append(ledger: &Path, slip: &Slip) -> Result<u64> {
    let path = path_of(ledger);
    let wrong = storage(&path, "append a slip");
    let mut line = serde_json::to_vec(slip).map_err(|error| wrong(error.into()))?;
    line.push(b'\n');
    loop {
        let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&path);
        let mut file = opened.map_err(&wrong)?;
        file.lock_shared().map_err(&wrong)?;
        let meta = file.metadata().map_err(&wrong)?;
        if meta.nlink() > 0 {
            // A line that was cut short (a full disk) must not swallow the next one.
            let written = file.write(&line).map_err(&wrong)?;
            if written == line.len() {
                return Ok(meta.len());
            }
            let _ = file.write(b"\n");
            return Err(wrong(std::io::ErrorKind::StorageFull.into()));
        }
    }
}

impl Ledger {
    /// Takes in what slips say.
    pub(crate) fn take_slips(&self) -> Result<()> {
        let path = path_of(self.path());
        let wrong = storage(&path, "take slips in");
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            other => other.map_err(&wrong)?,
        };
        file.lock().map_err(&wrong)?;
        if file.metadata().map_err(&wrong)?.nlink() == 0 {
            return Ok(());
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(&wrong)?;
        let taken = self.act(|act| -> Result<()> {
            // Somebody may have been killed between taking the slips in and removing the file.
            let fresh = &text[act.taken_of(&text)?..];
            act.note_taken(&text)?;
            // What cannot be read was never whole: its writer was told so.
            let lines = fresh.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            for slip in lines.filter_map(|line| serde_json::from_slice::<Slip>(line).ok()) {
                act.take(slip)?;
            }
            Ok(())
        });
        match taken {
            // They wait on their slips. A full disk must not keep anybody from looking, nor from dropping what fills it.
            Err(Error::Full { .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => std::fs::remove_file(&path).map_err(&wrong),
        }
    }
}

impl Act<'_> {
    fn take(&self, slip: Slip) -> Result<()> {
        match slip {
            Slip::Began { mut lane, run } => {
                if self.has_lane(&lane.id)? {
                    return Ok(());
                }
                match self.insert_lane(&lane) {
                    // The name was drawn without a look at those that are taken.
                    Err(Error::NameTaken { .. }) => {
                        lane.name = format!("{}-{}", lane.name, lane.id);
                        self.insert_lane(&lane)?;
                    }
                    other => other?,
                }
                self.insert_run(&run).map(drop)
            }
            Slip::Ended { lane, at, exit, operation } => {
                let sql = "SELECT state = 'discarded' FROM lanes WHERE id = ?1";
                let gone: Option<bool> = self.one(sql, &lane)?;
                if gone != Some(false) {
                    return Ok(());
                }
                let sql = "SELECT min(id) FROM runs WHERE lane = ?1 HAVING count(*) > 0";
                if let Some(run) = self.one(sql, &lane)? {
                    self.end_run(run, at, exit)?;
                }
                self.discard_lane(&lane, operation.at)?;
                self.insert_op(&operation).map(drop)
            }
            Slip::Joined { run } => {
                let known = self.run_of(&run.lane, run.pid, run.started_at)?;
                if known.is_some() || !self.has_lane(&run.lane)? {
                    return Ok(());
                }
                self.insert_run(&run).map(drop)
            }
            Slip::Left { lane, pid, started_at, at, exit } => {
                match self.run_of(&lane, Some(pid), started_at)? {
                    Some(run) => self.end_run(run, at, exit),
                    None => Ok(()),
                }
            }
            Slip::Happened { lane, pid, started_at, events } => {
                let newest = "SELECT max(id) FROM runs WHERE lane = ?1 HAVING count(*) > 0";
                // A command that joined may do something before it is on record: then it counts as the lane's.
                let run = match self.run_of(&lane, Some(pid), started_at)? {
                    Some(run) => Some(run),
                    None => self.one(newest, &lane)?,
                };
                run.map_or(Ok(()), |run| self.insert_events(run, &events))
            }
        }
    }

    /// How much of these slips is in the ledger already.
    fn taken_of(&self, text: &[u8]) -> Result<usize> {
        use rusqlite::OptionalExtension as _;
        let sql = "SELECT length, digest FROM taken";
        let found =
            self.db().query_row(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, [u8; 32]>(1)?)));
        let found = found.optional().map_err(|error| self.wrong("take slips in", &error))?;
        Ok(match found.map(|(length, digest)| (usize::try_from(length).unwrap_or(usize::MAX), digest)) {
            Some((length, digest))
                if text.get(..length).is_some_and(|begin| *blake3::hash(begin).as_bytes() == digest) =>
            {
                length
            }
            _ => 0,
        })
    }

    fn note_taken(&self, text: &[u8]) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO taken (one, length, digest) VALUES (1, ?1, ?2)";
        let digest = *blake3::hash(text).as_bytes();
        let values = params![value::count(text.len() as u64), digest];
        self.db().execute(sql, values).map(drop).map_err(|error| self.wrong("take slips in", &error))
    }

    fn run_of(&self, lane: &str, pid: Option<u32>, started_at: i64) -> Result<Option<i64>> {
        use rusqlite::OptionalExtension as _;
        let sql = "SELECT id FROM runs WHERE lane = ?1 AND pid IS ?2 AND started_at = ?3";
        let found = self.db().query_row(sql, params![lane, pid, started_at], |row| row.get(0)).optional();
        found.map_err(|error| self.wrong("take slips in", &error))
    }

    fn has_lane(&self, id: &str) -> Result<bool> {
        Ok(self.one::<i64>("SELECT 1 FROM lanes WHERE id = ?1", id)?.is_some())
    }

    fn one<T: rusqlite::types::FromSql>(&self, sql: &str, id: &str) -> Result<Option<T>> {
        use rusqlite::OptionalExtension as _;
        let found = self.db().query_row(sql, params![id], |row| row.get(0)).optional();
        found.map_err(|error| self.wrong("take slips in", &error))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Slip, append, path_of};
    use crate::{Exit, Lane, LaneFilter, LaneState, Ledger, NewOperation, NewRun};

    fn lane(id: &str, name: &str) -> Lane {
        Lane {
            id: id.into(),
            name: name.into(),
            origin: b"/p\xff".to_vec(),
            project: b"/p\xff".to_vec(),
            strategy: "overlay".into(),
            why: String::new(),
            created_at: 1,
            base_sec: 2,
            base_nsec: 3,
            boot_id: "b".into(),
            git_head: None,
            state: LaneState::Live,
            layers: b"/s/lanes/x".to_vec(),
            roots: json!([]),
            options: json!({}),
            cost_ms: 0.5,
            cost_bytes: 0,
            discarded_at: None,
        }
    }

    fn began(id: &str, name: &str) -> Slip {
        let run = NewRun {
            lane: id.into(),
            argv: vec![b"true".to_vec(), b"\xfe\n".to_vec()],
            cwd: b"/p\xff".to_vec(),
            started_at: 4,
            pid: Some(5),
            pid_start: None,
            walls: json!({ "seccomp": "full" }),
            transcript: None,
            detached: false,
        };
        Slip::Began { lane: Box::new(lane(id, name)), run: Box::new(run) }
    }

    fn ended(id: &str) -> Slip {
        let operation = NewOperation {
            at: 9,
            verb: "discard".into(),
            lane: Some(id.into()),
            plan: json!({}),
            outcome: "done".into(),
            undo: None,
        };
        Slip::Ended { lane: id.into(), at: 8, exit: Exit::Code(3), operation }
    }

    #[test]
    fn what_joined_a_lane_and_left_it_is_one_run_however_often_it_is_told() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lane.db");
        append(&path, &began("aa", "swift-otter")).expect("appended");
        let Slip::Began { run, .. } = began("aa", "") else { unreachable!("a beginning") };
        let joined = Slip::Joined { run: Box::new(NewRun { pid: Some(7), started_at: 6, ..*run.clone() }) };
        let left = Slip::Left { lane: "aa".into(), pid: 7, started_at: 6, at: 8, exit: Exit::Signal(9) };
        for _ in 0..2 {
            append(&path, &joined).expect("appended");
            append(&path, &left).expect("appended");
            let ledger = Ledger::open(&path).expect("opens");
            let runs = ledger.runs("aa").expect("reads");
            assert_eq!(runs.len(), 2);
            assert_eq!((runs[1].ended_at, runs[1].exit), (Some(8), Some(Exit::Signal(9))));
        }
        // Of a lane that is gone for good, nothing is told.
        let foreign = Slip::Joined { run: Box::new(NewRun { lane: "bb".into(), ..*run }) };
        append(&path, &foreign).expect("appended");
        assert!(Ledger::open(&path).expect("opens").runs("bb").expect("reads").is_empty());
    }

    #[test]
    fn who_opens_the_ledger_finds_what_slips_said_before() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lane.db");
        append(&path, &began("aa", "swift-otter")).expect("appended");
        {
            let ledger = Ledger::open(&path).expect("opens");
            let found = ledger.lane("aa").expect("reads").expect("is there");
            assert_eq!(found, lane("aa", "swift-otter"));
            assert_eq!(ledger.open_runs().expect("reads").len(), 1);
        }
        append(&path, &ended("aa")).expect("appended");
        let ledger = Ledger::open(&path).expect("opens");
        assert!(ledger.lanes(LaneFilter::default()).expect("reads").is_empty());
        let run = ledger.last_run("aa").expect("reads").expect("is there");
        assert_eq!((run.ended_at, run.exit), (Some(8), Some(Exit::Code(3))));
        assert_eq!(run.start.argv, [b"true".to_vec(), b"\xfe\n".to_vec()]);
        assert_eq!(ledger.ops(Some("aa"), 10).expect("reads").len(), 1);
        assert!(!path_of(&path).exists());
    }

    #[test]
    fn slips_that_are_taken_in_twice_change_nothing_the_second_time() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lane.db");
        append(&path, &began("aa", "n")).expect("appended");
        append(&path, &ended("aa")).expect("appended");
        let text = std::fs::read(path_of(&path)).expect("reads");
        drop(Ledger::open(&path).expect("opens"));
        std::fs::write(path_of(&path), &text).expect("writes");
        let ledger = Ledger::open(&path).expect("opens");
        assert_eq!(ledger.runs("aa").expect("reads").len(), 1);
        assert_eq!(ledger.ops(None, 10).expect("reads").len(), 1);
    }

    #[test]
    fn a_line_that_was_cut_is_passed_over_and_a_taken_name_gets_a_longer_one() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lane.db");
        Ledger::open(&path).expect("opens").insert_lane(&lane("aa", "n")).expect("inserted");
        std::fs::write(path_of(&path), b"{\"began\":{\"lane\":\n").expect("writes");
        append(&path, &began("bb", "n")).expect("appended");
        let ledger = Ledger::open(&path).expect("opens");
        assert_eq!(ledger.lane("bb").expect("reads").expect("is there").name, "n-bb");
    }

    #[test]
    fn many_writers_and_readers_lose_no_slip() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lane.db");
        drop(Ledger::open(&path).expect("opens"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    for n in 0..25 {
                        let id = format!("{writer}-{n}");
                        append(path, &began(&id, &id)).expect("appended");
                        append(path, &ended(&id)).expect("appended");
                    }
                });
            }
            scope.spawn(|| {
                for _ in 0..20 {
                    drop(Ledger::open(&path).expect("opens"));
                }
            });
        });
        let ledger = Ledger::open(&path).expect("opens");
        let all = ledger.lanes(LaneFilter { discarded: true, ..LaneFilter::default() }).expect("reads");
        assert_eq!(all.len(), 100);
        assert!(all.iter().all(|lane| lane.state == LaneState::Discarded));
    }
}
