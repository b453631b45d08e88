//! From an empty or older file to the present schema, once, by the numbered steps of `schema.sql`.
//!
//! Invariant: a step and the rise of `user_version` are one transaction, so that a kill in between
//! leaves the file before the step. A file of a newer version, and a database that something else made,
//! are refused and not touched.

use rusqlite::{Connection, TransactionBehavior};

const SCHEMA: &str = include_str!("schema.sql");
const MARK: &str = "-- step ";

/// The number of the newest step.
pub(crate) const NEWEST: i64 = 3;
/// The step that brought the chain: what was recorded before gets its links with it.
const CHAIN: i64 = 3;

/// Reads the schema number that the file has now.
pub(crate) fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// True where the file has tables although no step of ours ever ran: it is somebody else's database.
pub(crate) fn is_foreign(db: &Connection) -> rusqlite::Result<bool> {
    // One snapshot for both reads: another process may migrate in between.
    let sql = "SELECT (SELECT user_version FROM pragma_user_version) = 0
                  AND EXISTS (SELECT 1 FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\')";
    db.query_row(sql, [], |row| row.get(0))
}

/// Runs the steps that are missing. The write lock is taken first and the number read again under it,
/// because another process may have done the work meanwhile.
pub(crate) fn raise(db: &mut Connection) -> rusqlite::Result<()> {
    let act = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let from = version(&act)?;
    for (number, sql) in steps() {
        if number > from {
            act.execute_batch(sql)?;
            if number == CHAIN {
                crate::chain::link_all(&act)?;
            }
            act.pragma_update(None, "user_version", number)?;
        }
    }
    act.commit()
}

/// The steps in order, each with its number.
fn steps() -> impl Iterator<Item = (i64, &'static str)> {
    SCHEMA.split(MARK).skip(1).filter_map(|part| {
        let (number, sql) = part.split_once('\n')?;
        Some((number.trim().parse().ok()?, sql))
    })
}

#[cfg(test)]
mod tests {
    use super::{MARK, NEWEST, SCHEMA, raise, steps, version};

    #[test]
    fn a_file_of_an_older_schema_is_raised_and_keeps_its_rows() {
        let mut db = rusqlite::Connection::open_in_memory().expect("opens");
        let (_, first) = steps().next().expect("a first step");
        db.execute_batch(first).expect("made");
        db.pragma_update(None, "user_version", 1).expect("numbered");
        let row = "INSERT INTO operations (at, verb, plan, outcome) VALUES (1, 'new', '{}', 'done')";
        db.execute_batch(row).expect("recorded");
        raise(&mut db).expect("raised");
        assert_eq!(version(&db).expect("reads"), NEWEST);
        let count = |table: &str| -> i64 {
            db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("reads")
        };
        assert_eq!((count("operations"), count("verdicts")), (1, 0));
    }

    #[test]
    fn steps_are_numbered_from_one_without_a_gap_up_to_the_newest() {
        let numbers: Vec<i64> = steps().map(|(number, _)| number).collect();
        assert_eq!(numbers, (1..=NEWEST).collect::<Vec<_>>());
        assert_eq!(numbers.len(), SCHEMA.matches(MARK).count(), "a step mark could not be read");
    }
}
