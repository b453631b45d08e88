//! Table `verdicts`: what checks said of lanes. Rows are added and never changed; whether one still speaks of its lane is
//! told by the state that it names.

use rusqlite::{OptionalExtension as _, Row, params};

use crate::chain::What;
use crate::db::{Act, Ledger};
use crate::error::Result;
use crate::run::{Exit, exit_columns, read_exit};
use crate::value;

/// What a check said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// The command ended with 0.
    Pass,
    /// It ended otherwise.
    Fail,
    /// It was ended by its time limit.
    Timeout,
}

impl Word {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Word::Pass => "pass",
            Word::Fail => "fail",
            Word::Timeout => "timeout",
        }
    }

    fn from_word(word: &str) -> Option<Word> {
        [Word::Pass, Word::Fail, Word::Timeout].into_iter().find(|known| known.word() == word)
    }
}

/// A verdict to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewVerdict {
    /// Id of the lane that it is about.
    pub lane: String,
    /// The command and its arguments, as bytes.
    pub argv: Vec<Vec<u8>>,
    /// What it said.
    pub word: Word,
    /// How the command ended; `None` where the time limit ended it.
    pub exit: Option<Exit>,
    /// Milliseconds since 1970.
    pub started_at: i64,
    /// Milliseconds since 1970.
    pub ended_at: i64,
    /// The state of the lane that was checked; `None` where the lane had moved on before it could be told.
    pub state: Option<String>,
    /// The snapshot that was checked, of a lane at work.
    pub snapshot: Option<String>,
    /// Path of the recording of what the command printed.
    pub transcript: Option<Vec<u8>>,
}

/// A recorded verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its number, given by the ledger; rises with time.
    pub id: i64,
    /// What was said.
    pub what: NewVerdict,
}

impl Ledger {
    /// The newest verdict on a lane.
    pub fn last_verdict(&self, lane: &str) -> Result<Option<Verdict>> {
        let sql = "SELECT * FROM verdicts WHERE lane = ?1 ORDER BY id DESC LIMIT 1";
        let found = self.db().query_row(sql, params![lane], read).optional();
        found.map_err(|error| self.wrong("read a verdict", &error))
    }

    /// The newest verdict of one command on a lane.
    pub fn last_verdict_of(&self, lane: &str, argv: &[Vec<u8>]) -> Result<Option<Verdict>> {
        let sql = "SELECT * FROM verdicts WHERE lane = ?1 AND argv = ?2 ORDER BY id DESC LIMIT 1";
        let found = self.db().query_row(sql, params![lane, value::pack_argv(argv)], read).optional();
        found.map_err(|error| self.wrong("read a verdict", &error))
    }

    /// The verdicts on a lane, newest first.
    pub fn verdicts(&self, lane: &str) -> Result<Vec<Verdict>> {
        let rows = || -> rusqlite::Result<Vec<Verdict>> {
            let mut query = self.db().prepare("SELECT * FROM verdicts WHERE lane = ?1 ORDER BY id DESC")?;
            query.query_map(params![lane], read)?.collect()
        };
        rows().map_err(|error| self.wrong("list verdicts", &error))
    }
}

impl Act<'_> {
    /// Records a verdict and gives its number.
    pub fn insert_verdict(&self, verdict: &NewVerdict) -> Result<i64> {
        let (kind, number) = verdict.exit.map_or((None, None), |exit| {
            let (kind, number) = exit_columns(exit);
            (Some(kind), number)
        });
        self.db()
            .execute(
                "INSERT INTO verdicts (lane, argv, verdict, exit_kind, exit_value, started_at, ended_at, state, snapshot, transcript)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                params![
                    verdict.lane,
                    value::pack_argv(&verdict.argv),
                    verdict.word.word(),
                    kind,
                    number,
                    verdict.started_at,
                    verdict.ended_at,
                    verdict.state,
                    verdict.snapshot,
                    verdict.transcript,
                ],
            )
            .map_err(|error| self.wrong("record a verdict", &error))?;
        let id = self.db().last_insert_rowid();
        self.link(What::Verdict, Some(&verdict.lane), id, id)?;
        Ok(id)
    }
}

pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Verdict> {
    let what = NewVerdict {
        lane: row.get("lane")?,
        argv: value::unpack_argv(&row.get::<_, Vec<u8>>("argv")?),
        word: value::word(row, "verdict", Word::from_word)?,
        exit: read_exit(row)?,
        started_at: row.get("started_at")?,
        ended_at: row.get("ended_at")?,
        state: row.get("state")?,
        snapshot: row.get("snapshot")?,
        transcript: row.get("transcript")?,
    };
    Ok(Verdict { id: row.get("id")?, what })
}

#[cfg(test)]
mod tests {
    use super::{NewVerdict, Word};
    use crate::{Exit, Ledger};

    #[test]
    fn a_verdict_comes_back_as_it_was_told_and_the_newest_of_a_command_first() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let ledger = Ledger::open(&dir.path().join("lane.db")).expect("opens");
        let fail = NewVerdict {
            lane: "aa".into(),
            argv: vec![b"sh".to_vec(), b"\xff\n".to_vec()],
            word: Word::Fail,
            exit: Some(Exit::Signal(9)),
            started_at: 1,
            ended_at: 2,
            state: Some("s".into()),
            snapshot: None,
            transcript: Some(b"/t\xff".to_vec()),
        };
        let late = NewVerdict { word: Word::Timeout, exit: None, state: None, ..fail.clone() };
        let other = NewVerdict {
            argv: vec![b"x".to_vec()],
            word: Word::Pass,
            exit: Some(Exit::Code(0)),
            ..fail.clone()
        };
        for verdict in [&fail, &late, &other] {
            ledger.act(|act| act.insert_verdict(verdict)).expect("recorded");
        }
        let all: Vec<_> = ledger.verdicts("aa").expect("reads").into_iter().map(|row| row.what).collect();
        assert_eq!(all, [other.clone(), late.clone(), fail.clone()]);
        assert_eq!(ledger.last_verdict("aa").expect("reads").expect("is there").what, other);
        let of = ledger.last_verdict_of("aa", &fail.argv).expect("reads").expect("is there");
        assert_eq!(of.what, late);
        assert_eq!(ledger.last_verdict("bb").expect("reads"), None);
    }
}
