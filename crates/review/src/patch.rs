//! [`write_patch`]: a change set as a patch that `git apply --binary` takes, made without git.
//!
//! Invariant: the output depends on the two trees alone. What git's format cannot carry (empty
//! directories, pipes, modes other than 644 and 755, attributes) is listed, never silently lost.
//! The form is that of git's `diff.c`: `a/` and `b/`, C-style quoted names, full blob names, binary
//! content as base 85 of zlib in both directions.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use tree::{ChangeSet, Entry, Kind, Source, TreePath};

use crate::base85;
use crate::diff::{self, FileDiff, LineKind};
use crate::error::{Error, Reading as _, Result};
use crate::flat::{self, Side};
use crate::guard::git_internal;
use crate::read::{self, TEXT_LIMIT};
use crate::sha1::{Sha1, hex};

const NO_BLOB: &str = "0000000000000000000000000000000000000000";

/// What a patch leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchReport {
    /// Each with what is lost.
    pub cannot_carry: Vec<Lost>,
    /// Entries in the patch.
    pub entries: usize,
}

/// Something for which git's formats have no words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lost {
    /// Where.
    pub path: TreePath,
    /// What.
    pub what: String,
    /// The whole entry, and not only a detail of it (bits of its mode, an attribute).
    pub is_whole: bool,
}

/// What git's formats cannot say of these pairs.
pub fn cannot_carry(pairs: &[flat::Pair], lane: &dyn Source) -> Result<Vec<Lost>> {
    let mut writer = Writer::new(pairs, lane, lane);
    for pair in pairs {
        writer.account(pair)?;
    }
    writer.emptied(pairs)?;
    Ok(writer.report.sorted().cannot_carry)
}

/// Writes the patch that turns the base into the lane.
pub fn write_patch(
    set: &ChangeSet,
    base: &dyn Source,
    lane: &dyn Source,
    out: &mut dyn Write,
) -> Result<PatchReport> {
    let pairs = flat::flatten(set, base, lane, &BTreeSet::new())?;
    write_pairs(&pairs, &set.gaps, base, lane, out)
}

/// Writes the patch that these pairs are; `gaps` is what could not be compared.
pub fn write_pairs(
    pairs: &[flat::Pair],
    gaps: &[(TreePath, String)],
    base: &dyn Source,
    lane: &dyn Source,
    out: &mut dyn Write,
) -> Result<PatchReport> {
    // Base 85 comes in short lines, and the caller's writer may pass each on at once.
    let mut buffered = BufWriter::new(out);
    let mut writer = Writer { out: Some(&mut buffered), ..Writer::new(pairs, base, lane) };
    for (path, why) in gaps {
        writer.lost_whole(path, why.clone());
    }
    for pair in pairs {
        writer.pair(pair)?;
    }
    writer.emptied(pairs)?;
    let report = writer.report.sorted();
    buffered.flush().map_err(|error| Error::Output(error.to_string()))?;
    Ok(report)
}

/// One side of a patch entry: a blob as git sees it.
struct Blob<'a> {
    path: &'a TreePath,
    entry: &'a Entry,
    mode: &'static str,
    name: String,
    /// `None` where it is too large to be text.
    bytes: Option<Vec<u8>>,
}

struct Writer<'a> {
    base: &'a dyn Source,
    lane: &'a dyn Source,
    /// Where the patch goes; nowhere where only its losses are asked for.
    out: Option<&'a mut dyn Write>,
    report: PatchReport,
    /// Directories above changed files and links, in the base and in the lane.
    filled: (BTreeSet<TreePath>, BTreeSet<TreePath>),
}

/// True for what git knows.
fn is_blob(side: &Side) -> bool {
    matches!(side.1.kind, Kind::File | Kind::Symlink)
}

impl PatchReport {
    fn sorted(mut self) -> PatchReport {
        self.cannot_carry.sort();
        self.cannot_carry.dedup();
        self
    }
}

/// The directories above the files and links on one side of the pairs.
fn holders(pairs: &[flat::Pair], side: fn(&flat::Pair) -> Option<&Side>) -> BTreeSet<TreePath> {
    let mut dirs = BTreeSet::new();
    for (path, _) in pairs.iter().filter_map(side).filter(|side| is_blob(side)) {
        let mut above = path.parent();
        while let Some(dir) = above.filter(|dir| !dirs.contains(dir)) {
            above = dir.parent();
            dirs.insert(dir);
        }
    }
    dirs
}

impl<'a> Writer<'a> {
    fn new(pairs: &[flat::Pair], base: &'a dyn Source, lane: &'a dyn Source) -> Writer<'a> {
        let filled = (holders(pairs, |pair| pair.old.as_ref()), holders(pairs, |pair| pair.new.as_ref()));
        Writer { base, lane, out: None, report: PatchReport::default(), filled }
    }
}

impl Writer<'_> {
    fn lost(&mut self, path: &TreePath, what: impl Into<String>) {
        self.report.cannot_carry.push(Lost { path: path.clone(), what: what.into(), is_whole: false });
    }

    fn lost_whole(&mut self, path: &TreePath, what: impl Into<String>) {
        self.report.cannot_carry.push(Lost { path: path.clone(), what: what.into(), is_whole: true });
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        out.write_all(bytes).map_err(|error| Error::Output(error.to_string()))
    }

    fn pair(&mut self, pair: &flat::Pair) -> Result<()> {
        let sides = [pair.old.as_ref(), pair.new.as_ref()];
        if let Some(side) = sides.iter().flatten().find(|side| git_internal(&side.0)) {
            self.lost_whole(&side.0, "git's own files");
            return Ok(());
        }
        self.account(pair)?;
        let blob = |side: &&Side| is_blob(side);
        let (old, new) = (pair.old.as_ref().filter(blob), pair.new.as_ref().filter(blob));
        match (old, new) {
            // CASE(file and link exchange types): git tells it as a deletion and an addition.
            (Some(old), Some(new)) if old.1.kind != new.1.kind => {
                self.entry(Some(old), None, true)?;
                self.entry(None, Some(new), true)
            }
            (None, None) => Ok(()),
            (old, new) => self.entry(old, new, pair.content_differs),
        }
    }

    /// Lists what the format has no words for.
    fn account(&mut self, pair: &flat::Pair) -> Result<()> {
        let dir_at =
            |side: &Option<Side>| side.as_ref().filter(|side| side.1.is_dir()).map(|side| side.0.clone());
        let (from, to) = (dir_at(&pair.old), dir_at(&pair.new));
        if let Some(path) =
            from.as_ref().filter(|path| to.as_ref() != Some(path) && !self.filled.0.contains(path))
        {
            self.lost_whole(path, "removal of a directory without files");
        }
        if let Some(path) =
            to.as_ref().filter(|path| from.as_ref() != Some(path) && !self.filled.1.contains(path))
        {
            self.lost_whole(path, "a directory without files");
        }
        let old = pair.old.as_ref().map(|side| &side.1);
        let Some((path, new)) = &pair.new else {
            let kind = old.map(|old| old.kind);
            if matches!(kind, Some(Kind::Fifo | Kind::Socket | Kind::CharDevice | Kind::BlockDevice)) {
                self.lost_whole(pair.path(), "removal of a pipe, socket or device");
            }
            return Ok(());
        };
        match new.kind {
            Kind::File => {
                if !matches!(new.mode, 0o644 | 0o755 | 0o664 | 0o775) {
                    self.lost(path, format!("mode {:04o}", new.mode));
                }
            }
            Kind::Dir => {
                if old.is_some_and(|old| old.is_dir() && old.mode != new.mode)
                    || !matches!(new.mode, 0o755 | 0o775)
                {
                    self.lost(path, format!("mode {:04o} of a directory", new.mode));
                }
            }
            Kind::Fifo => self.lost_whole(path, "a pipe"),
            Kind::Socket => self.lost_whole(path, "a socket"),
            Kind::CharDevice | Kind::BlockDevice => self.lost_whole(path, "a device"),
            Kind::Symlink => {}
        }
        for (name, _) in self.lane.xattrs(path).reading("lane", path)? {
            self.lost(path, format!("attribute {}", name.escape_ascii()));
        }
        Ok(())
    }

    /// Directories that stay though nothing is left in them: git would remove them.
    fn emptied(&mut self, pairs: &[flat::Pair]) -> Result<()> {
        let parents: BTreeSet<TreePath> = pairs
            .iter()
            .filter(|pair| pair.new.is_none() || pair.is_rename())
            .filter_map(|pair| pair.old.as_ref()?.0.parent())
            .filter(|path| !path.is_root())
            .collect();
        for path in parents {
            let stays = self.lane.entry(&path).reading("lane", &path)?.is_some_and(|entry| entry.is_dir());
            if stays && self.lane.list(&path).reading("lane", &path)?.is_empty() {
                self.lost_whole(&path, "a directory without files");
            }
        }
        Ok(())
    }

    fn entry(&mut self, old: Option<&Side>, new: Option<&Side>, differs: bool) -> Result<()> {
        let (base, lane) = (self.base, self.lane);
        let old = old.map(|side| Blob::read(base, "base", side)).transpose()?;
        let new = new.map(|side| Blob::read(lane, "lane", side)).transpose()?;
        let renamed = matches!((&old, &new), (Some(old), Some(new)) if old.path != new.path);
        let same = matches!((&old, &new), (Some(old), Some(new)) if old.name == new.name);
        let same_mode = matches!((&old, &new), (Some(old), Some(new)) if old.mode == new.mode);
        debug_assert!(differs || same || old.is_none() || new.is_none());
        if same && same_mode && !renamed {
            return Ok(());
        }
        self.report.entries += 1;
        let Some(path) = old.as_ref().or(new.as_ref()).map(|blob| blob.path) else { return Ok(()) };
        let a = quote("a/", old.as_ref().map_or(path, |blob| blob.path));
        let b = quote("b/", new.as_ref().map_or(path, |blob| blob.path));
        let mut head = [b"diff --git ".as_slice(), &a, b" ", &b, b"\n"].concat();
        let text = diff_of(old.as_ref(), new.as_ref());
        match (&old, &new) {
            (None, Some(new)) => head.extend(format!("new file mode {}\n", new.mode).bytes()),
            (Some(old), None) => head.extend(format!("deleted file mode {}\n", old.mode).bytes()),
            (Some(old), Some(new)) => {
                if !same_mode {
                    head.extend(format!("old mode {}\nnew mode {}\n", old.mode, new.mode).bytes());
                }
                if renamed {
                    let alike = if same { 100 } else { likeness(&text, old, new) };
                    head.extend(format!("similarity index {alike}%\nrename from ").bytes());
                    head.extend(quote("", old.path));
                    head.extend(b"\nrename to ");
                    head.extend(quote("", new.path));
                    head.push(b'\n');
                }
            }
            (None, None) => {}
        }
        if !same {
            let name =
                |blob: &Option<Blob<'_>>| blob.as_ref().map_or(NO_BLOB.to_owned(), |blob| blob.name.clone());
            head.extend(format!("index {}..{}", name(&old), name(&new)).bytes());
            if let (Some(old), true) = (&old, same_mode) {
                head.extend(format!(" {}", old.mode).bytes());
            }
            head.push(b'\n');
        }
        self.put(&head)?;
        if same {
            return Ok(());
        }
        if text.binary {
            self.put(b"GIT binary patch\n")?;
            self.literal(lane, "lane", new.as_ref())?;
            return self.literal(base, "base", old.as_ref());
        }
        self.hunks(&text, old.as_ref().map(|blob| blob.path), new.as_ref().map(|blob| blob.path))
    }

    fn hunks(&mut self, text: &FileDiff, old: Option<&TreePath>, new: Option<&TreePath>) -> Result<()> {
        if text.hunks.is_empty() {
            return Ok(());
        }
        let label = |prefix, path: Option<&TreePath>| match path {
            None => b"/dev/null".to_vec(),
            Some(path) => {
                let mut name = quote(prefix, path);
                // A name with a space would end at it; a tab says where it ends.
                if name.first() != Some(&b'"') && name.contains(&b' ') {
                    name.push(b'\t');
                }
                name
            }
        };
        let mut body = [b"--- ".as_slice(), &label("a/", old), b"\n+++ ", &label("b/", new), b"\n"].concat();
        for hunk in &text.hunks {
            let range =
                |start: u32, len: u32| if len == 1 { format!("{start}") } else { format!("{start},{len}") };
            body.extend(
                format!(
                    "@@ -{} +{} @@\n",
                    range(hunk.old_start, hunk.old_len),
                    range(hunk.new_start, hunk.new_len)
                )
                .bytes(),
            );
            for line in &hunk.lines {
                body.push(match line.kind {
                    LineKind::Context => b' ',
                    LineKind::Removed => b'-',
                    LineKind::Added => b'+',
                });
                body.extend_from_slice(&line.bytes);
                if line.lacks_newline() {
                    body.extend_from_slice(b"\n\\ No newline at end of file\n");
                }
            }
            if body.len() > 1 << 16 {
                self.put(&body)?;
                body.clear();
            }
        }
        self.put(&body)
    }

    /// One direction of a binary patch: the whole content that results.
    fn literal(&mut self, source: &dyn Source, side: &'static str, blob: Option<&Blob<'_>>) -> Result<()> {
        let failed = |error: std::io::Error| Error::Output(error.to_string());
        let size =
            blob.map_or(0, |blob| blob.bytes.as_ref().map_or(blob.entry.size, |bytes| bytes.len() as u64));
        self.put(format!("literal {size}\n").as_bytes())?;
        let Some(out) = &mut self.out else { return Ok(()) };
        let mut packed = ZlibEncoder::new(base85::Lines::new(&mut **out), Compression::default());
        match blob.map(|blob| (blob, &blob.bytes)) {
            None => {}
            Some((_, Some(bytes))) => packed.write_all(bytes).map_err(failed)?,
            Some((blob, None)) => {
                read::stream(source, side, blob.path, &mut |piece| packed.write_all(piece).map_err(failed))?;
            }
        }
        let lines = packed.finish().map_err(failed)?;
        lines.finish().map_err(failed)?;
        self.put(b"\n")
    }
}

impl<'a> Blob<'a> {
    fn read(source: &dyn Source, side: &'static str, (path, entry): &'a Side) -> Result<Blob<'a>> {
        let bytes = read::content(source, side, path, entry, TEXT_LIMIT)?;
        let name = match &bytes {
            Some(bytes) => {
                let mut sha = Sha1::blob(bytes.len() as u64);
                sha.update(bytes);
                sha.finish()
            }
            None => {
                let mut sha = Sha1::blob(entry.size);
                read::stream(source, side, path, &mut |piece| {
                    sha.update(piece);
                    Ok(())
                })?;
                sha.finish()
            }
        };
        let mode = match entry.kind {
            Kind::Symlink => "120000",
            _ if entry.mode & 0o100 != 0 => "100755",
            _ => "100644",
        };
        Ok(Blob { path, entry, mode, name: hex(&name), bytes })
    }
}

fn diff_of(old: Option<&Blob<'_>>, new: Option<&Blob<'_>>) -> FileDiff {
    let large = |blob: Option<&Blob<'_>>| blob.is_some_and(|blob| blob.bytes.is_none());
    if large(old) || large(new) {
        return FileDiff { binary: true, ..FileDiff::default() };
    }
    let bytes = |blob: Option<&'_ Blob<'_>>| blob.and_then(|blob| blob.bytes.clone());
    let (old, new) = (bytes(old), bytes(new));
    diff::file_diff(old.as_deref(), new.as_deref())
}

/// How much of the old content is in the new one, in per cent; git shows it and takes any number.
fn likeness(text: &FileDiff, old: &Blob<'_>, new: &Blob<'_>) -> u64 {
    if text.binary {
        return 50;
    }
    let removed: u64 = text
        .hunks
        .iter()
        .flat_map(|hunk| &hunk.lines)
        .filter(|line| line.kind == LineKind::Removed)
        .map(|line| line.bytes.len() as u64)
        .sum();
    let size = old.entry.size.max(new.entry.size).max(1);
    (old.entry.size.saturating_sub(removed) * 100 / size).min(99)
}

/// A name as git writes it: bare, or C-style in quotes where a byte needs it.
fn quote(prefix: &str, path: &TreePath) -> Vec<u8> {
    let bytes = path.as_bytes();
    let plain = |byte: &u8| (0x20..0x7f).contains(byte) && *byte != b'"' && *byte != b'\\';
    if bytes.iter().all(plain) {
        return [prefix.as_bytes(), bytes].concat();
    }
    let mut quoted = [b"\"".as_slice(), prefix.as_bytes()].concat();
    for byte in bytes {
        match byte {
            b'\x07' => quoted.extend(b"\\a"),
            b'\x08' => quoted.extend(b"\\b"),
            b'\t' => quoted.extend(b"\\t"),
            b'\n' => quoted.extend(b"\\n"),
            b'\x0b' => quoted.extend(b"\\v"),
            b'\x0c' => quoted.extend(b"\\f"),
            b'\r' => quoted.extend(b"\\r"),
            b'"' => quoted.extend(b"\\\""),
            b'\\' => quoted.extend(b"\\\\"),
            byte if plain(byte) => quoted.push(*byte),
            byte => quoted.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    quoted.push(b'"');
    quoted
}
