-- The ledger's schema as numbered steps. Append only: a step that was released is never edited.
-- A step runs once, in one transaction with the rise of `user_version` to its number.
-- Paths and arguments are BLOBs (bytes, not text). Times are milliseconds since 1970 in `*_at`.

-- step 1
CREATE TABLE lanes (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT NOT NULL,
    origin       BLOB NOT NULL,
    project      BLOB NOT NULL,
    strategy     TEXT NOT NULL,
    why          TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    base_sec     INTEGER NOT NULL,
    base_nsec    INTEGER NOT NULL,
    boot_id      TEXT NOT NULL,
    git_head     TEXT,
    state        TEXT NOT NULL CHECK (state IN ('new', 'idle', 'live', 'discarded')),
    layers       BLOB NOT NULL,
    roots        TEXT NOT NULL,
    options      TEXT NOT NULL,
    cost_ms      REAL NOT NULL,
    cost_bytes   INTEGER NOT NULL,
    discarded_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX lanes_by_name ON lanes (origin, name) WHERE state <> 'discarded';

CREATE TABLE runs (
    id         INTEGER PRIMARY KEY,
    lane       TEXT NOT NULL,
    argv       BLOB NOT NULL,
    cwd        BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    exit_kind  TEXT CHECK (exit_kind IN ('code', 'signal', 'lost')),
    exit_value INTEGER,
    pid        INTEGER,
    pid_start  INTEGER,
    walls      TEXT NOT NULL,
    transcript BLOB,
    detached   INTEGER NOT NULL CHECK (detached IN (0, 1))
) STRICT;
CREATE INDEX runs_by_lane ON runs (lane, id);

CREATE TABLE operations (
    id      INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    verb    TEXT NOT NULL,
    lane    TEXT,
    plan    TEXT NOT NULL,
    outcome TEXT NOT NULL,
    undo    TEXT,
    chain   BLOB
) STRICT;

CREATE TABLE events (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_run ON events (run, id);

-- step 2
CREATE TABLE verdicts (
    id         INTEGER PRIMARY KEY,
    lane       TEXT NOT NULL,
    argv       BLOB NOT NULL,
    verdict    TEXT NOT NULL CHECK (verdict IN ('pass', 'fail', 'timeout')),
    exit_kind  TEXT CHECK (exit_kind IN ('code', 'signal', 'lost')),
    exit_value INTEGER,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    state      TEXT,
    snapshot   TEXT,
    transcript BLOB
) STRICT;
CREATE INDEX verdicts_by_lane ON verdicts (lane, id);

-- step 3
ALTER TABLE events ADD COLUMN lane TEXT NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN path BLOB;
ALTER TABLE events ADD COLUMN host TEXT;
UPDATE events SET lane = coalesce((SELECT runs.lane FROM runs WHERE runs.id = events.run), '');
CREATE INDEX events_by_at ON events (at);
CREATE INDEX events_by_kind ON events (kind, at);
CREATE INDEX events_by_lane ON events (lane, at);
CREATE INDEX events_by_lane_kind ON events (lane, kind, at);
CREATE INDEX events_by_path ON events (path) WHERE path IS NOT NULL;
CREATE INDEX events_by_host ON events (host) WHERE host IS NOT NULL;
CREATE INDEX operations_by_lane ON operations (lane, at);
CREATE INDEX operations_by_at ON operations (at);
CREATE INDEX runs_by_start ON runs (started_at);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE links (
    id     INTEGER PRIMARY KEY,
    what   TEXT NOT NULL CHECK (what IN ('lane', 'gone', 'run', 'operation', 'verdict', 'events')),
    lane   TEXT,
    first  INTEGER NOT NULL,
    last   INTEGER NOT NULL,
    body   BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX links_by_row ON links (what, first, lane);
CREATE TABLE taken (
    one    INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    length INTEGER NOT NULL,
    digest BLOB NOT NULL
) STRICT, WITHOUT ROWID;
