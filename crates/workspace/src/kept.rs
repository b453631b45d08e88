//! [`Kept`]: what keeps have brought from a lane into its original. Where the original does not hold it as it is in the
//! lane (merged with edits of a person, or under another name), the lane's own content is the base of what is done in
//! it from then on.
//!
//! It is written before the keep, so that a keep that was interrupted is told from one that was not by what stands in the
//! original.
//!
//! Invariant: a note that was cut short or damaged is no note; without one the lane's path is treated as never kept,
//! which may stop an entry and never overwrites anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tree::{Entry, Kind, Time, TreePath};

use crate::error::{Doing as _, Result};
use crate::home::{HomeDir, read_file};

const FIRST_LINE: &str = "lane kept 1";
const LAST_LINE: &str = "end";

/// What was kept of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptState {
    /// The lane's file when it was kept: inode, size, times and mode count.
    pub lane: Entry,
    /// What stood in the original before, as inode, size, modification time and mode: where it still does, or does again, there
    /// was no keep. `None`: nothing.
    pub before: Option<(u64, u64, Time, u32)>,
    /// The original holds something else there: the lane's file merged, or under another name.
    pub is_joined: bool,
    /// The lane's content where the original does not have it, or what was taken of it in part; unless it is too large.
    pub content: Option<Vec<u8>>,
    /// Where the original has it, where that is another path.
    pub at: Option<TreePath>,
}

impl Default for KeptState {
    fn default() -> KeptState {
        let time = Time::default();
        let lane = Entry {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: time,
            ctime: time,
            ino: 0,
            dev: 0,
            nlink: 1,
            allocated: 0,
            rdev: 0,
            target: Vec::new(),
        };
        KeptState { lane, before: None, is_joined: false, content: None, at: None }
    }
}

/// The notes of one root, by the lane's path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    paths: BTreeMap<TreePath, KeptState>,
}

impl Kept {
    /// The notes of root `index` of a lane.
    pub fn load(home: &HomeDir, index: usize) -> Result<Kept> {
        Ok(load(home, &file_name(index))?.unwrap_or_default())
    }

    /// The notes as they were before the keep `id`; `None` where they were not set aside.
    pub fn aside(home: &HomeDir, id: &str, index: usize) -> Result<Option<Kept>> {
        load(home, &aside_name(id, index))
    }

    /// Sets the notes aside as they are before the keep `id`.
    pub fn set_aside(&self, home: &HomeDir, id: &str, index: usize) -> Result<()> {
        save(home, &aside_name(id, index), self)
    }

    /// Says of what lies at and below some paths of the original what `before` says: the keep that brought it is undone.
    pub fn retreat(&mut self, before: &Kept, paths: &[TreePath]) {
        let paths: BTreeSet<&TreePath> = paths.iter().collect();
        let above = |path: &TreePath| std::iter::successors(Some(path.clone()), TreePath::parent);
        let is_there = |path: &TreePath| above(path).any(|at| paths.contains(&at));
        let is_its =
            |path: &TreePath, state: &KeptState| is_there(path) || state.at.as_ref().is_some_and(is_there);
        self.paths.retain(|path, state| !is_its(path, state));
        let back = before.paths.iter().filter(|(path, state)| is_its(path, state));
        self.paths.extend(back.map(|(path, state)| (path.clone(), state.clone())));
    }

    /// What was noted of a path of the lane.
    pub fn get(&self, path: &TreePath) -> Option<&KeptState> {
        self.paths.get(path)
    }

    /// Everything that was noted.
    pub fn iter(&self) -> impl Iterator<Item = (&TreePath, &KeptState)> {
        self.paths.iter()
    }

    /// Notes what was kept of `path`; `None` where nothing needs to be known of it.
    pub fn note(&mut self, path: &TreePath, state: Option<KeptState>) {
        match state {
            Some(state) => self.paths.insert(path.clone(), state),
            None => self.paths.remove(path),
        };
    }

    /// Paths of the original at which it holds something else than the lane.
    pub fn joined(&self) -> Vec<TreePath> {
        let joined = self.paths.iter().filter(|(_, state)| state.is_joined);
        joined.map(|(path, state)| state.at.as_ref().unwrap_or(path).clone()).collect()
    }

    /// Writes the notes down: all of them or none.
    pub fn save(&self, home: &HomeDir, index: usize) -> Result<()> {
        save(home, &file_name(index), self)
    }
}

fn load(home: &HomeDir, name: &str) -> Result<Option<Kept>> {
    let text = read_file(&home.fd, name.as_bytes()).doing("read what was kept", home.path.join(name))?;
    Ok(text.and_then(|text| decode(std::str::from_utf8(&text).ok()?)))
}

fn save(home: &HomeDir, name: &str, kept: &Kept) -> Result<()> {
    let path = home.path.join(name);
    let text = encode(&kept.paths);
    kernel::publish::write_file(&home.fd, name.as_bytes(), text.as_bytes(), 0o600)
        .doing("write what was kept", path)
}

/// Name of the notes of root `index` in a lane's directory.
fn file_name(index: usize) -> String {
    format!("noted.{index}")
}

/// Name of what they were before the keep `id`.
fn aside_name(id: &str, index: usize) -> String {
    format!("noted.{id}.{index}")
}

fn encode(paths: &BTreeMap<TreePath, KeptState>) -> String {
    let mut out = format!("{FIRST_LINE}\n");
    for (path, state) in paths {
        let Entry { mode, size, mtime, ctime, ino, .. } = &state.lane;
        let (ino_before, size_before, time_before, mode_before) = state.before.unwrap_or_default();
        let _infallible = writeln!(
            out,
            "{} {mode:o} {size} {} {} {} {} {ino} {} {ino_before} {size_before} {} {} {mode_before:o} {} {}",
            hex(path.as_bytes()),
            mtime.sec,
            mtime.nsec,
            ctime.sec,
            ctime.nsec,
            u8::from(state.before.is_some()),
            time_before.sec,
            time_before.nsec,
            match (state.is_joined, &state.content) {
                (false, None) => "-".to_owned(),
                (false, Some(content)) => format!("={}", hex(content)),
                (true, None) => "*".to_owned(),
                (true, Some(content)) => format!("+{}", hex(content)),
            },
            state.at.as_ref().map_or_else(|| "-".to_owned(), |at| hex(at.as_bytes())),
        );
    }
    out.push_str(LAST_LINE);
    out.push('\n');
    out
}

fn decode(text: &str) -> Option<Kept> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next() != Some(FIRST_LINE) || lines.next_back() != Some(LAST_LINE) {
        return None;
    }
    let paths = lines.map(decode_line).collect::<Option<BTreeMap<_, _>>>()?;
    Some(Kept { paths })
}

fn decode_line(line: &str) -> Option<(TreePath, KeptState)> {
    let mut words = line.split(' ');
    let path = TreePath::new(unhex(words.next()?)?).ok()?;
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let size = words.next()?.parse().ok()?;
    let mut time = || Some(Time { sec: words.next()?.parse().ok()?, nsec: words.next()?.parse().ok()? });
    let (mtime, ctime) = (time()?, time()?);
    let ino = words.next()?.parse().ok()?;
    let has_before = words.next()? == "1";
    let (ino_before, size_before) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let time_before = Time { sec: words.next()?.parse().ok()?, nsec: words.next()?.parse().ok()? };
    let mode_before = u32::from_str_radix(words.next()?, 8).ok()?;
    let said = words.next()?;
    let content = match said.strip_prefix(['+', '=']) {
        Some(content) => Some(unhex(content)?),
        None => None,
    };
    let is_joined = said.starts_with(['+', '*']);
    let at = match words.next()? {
        "-" => None,
        at => Some(TreePath::new(unhex(at)?).ok()?),
    };
    let lane = Entry { mode, size, mtime, ctime, ino, allocated: size, ..KeptState::default().lane };
    let before = has_before.then_some((ino_before, size_before, time_before, mode_before));
    Some((path, KeptState { lane, before, is_joined, content, at }))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    if !pairs.remainder().is_empty() {
        return None;
    }
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_undone_is_noted_as_before_and_everything_else_as_it_is() {
        let path = |text: &str| TreePath::new(text).expect("a path");
        let state = |size: u64, at: Option<&str>| {
            let lane = Entry { size, ..KeptState::default().lane };
            Some(KeptState { lane, at: at.map(path), ..KeptState::default() })
        };
        let (mut kept, mut before) = (Kept::default(), Kept::default());
        for (at, place) in [("a", None), ("b", Some("d/b")), ("c", None), ("e", None)] {
            kept.note(&path(at), state(2, place));
        }
        before.note(&path("a"), state(1, None));
        before.note(&path("c"), state(1, None));
        kept.retreat(&before, &[path("a"), path("d"), path("e")]);
        let now: Vec<(TreePath, u64)> =
            kept.iter().map(|(at, state)| (at.clone(), state.lane.size)).collect();
        assert_eq!(now, [(path("a"), 1), (path("c"), 2)]);
    }

    #[test]
    fn notes_are_read_as_they_were_written_and_cut_short_they_are_none() {
        let path = |bytes: &[u8]| TreePath::new(bytes).expect("a path");
        let line = "61ff20 644 3 -5 7 8 9 11 1 12 4 5 6 640 +0a00ff -";
        let other = "62 755 0 1 2 3 4 5 0 0 0 0 0 0 - 63";
        let part = "64 644 1 2 3 4 5 6 0 0 0 0 0 0 =0a -";
        let text = format!("{FIRST_LINE}\n{line}\n{other}\n{part}\n{LAST_LINE}\n");
        let kept = decode(&text).expect("notes");
        let first = kept.get(&path(b"a\xff ")).expect("noted");
        assert_eq!(first.content.as_deref(), Some(b"\n\0\xff".as_slice()));
        assert_eq!(first.before, Some((12, 4, Time { sec: 5, nsec: 6 }, 0o640)));
        assert_eq!((first.lane.mode, first.lane.size, first.lane.ino), (0o644, 3, 11));
        assert_eq!(kept.get(&path(b"b")).expect("noted").at, Some(path(b"c")));
        let part = kept.get(&path(b"d")).expect("noted");
        assert_eq!(
            (part.content.as_deref(), part.is_joined, first.is_joined),
            (Some(b"\n".as_slice()), false, true)
        );
        assert_eq!(encode(&kept.paths), text);
        for cut in 0..text.len() {
            assert_eq!(decode(&text[..cut]), None, "{cut}");
        }
        assert_eq!(decode(&text.replace(" 644 ", " 9 ")), None);
    }
}
