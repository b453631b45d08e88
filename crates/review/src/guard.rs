//! What runs by itself later, and is therefore never covered by a blanket yes. It owns the data file
//! `data/guarded.toml` (paths with a reason each) and the rules that need more than a path: keys of
//! manifests, new executable bits and first lines, links that leave the project or stand in for programs.
//!
//! Invariant: content of a lane is only ever read here as bytes, JSON or TOML, never executed, and a file
//! that cannot be judged is guarded.

mod index;

use std::sync::OnceLock;

use kernel::Errno;
use serde::Deserialize;
use tree::{Change, ChangeKind, Entry, Kind, Source, TreePath};

use crate::error::{Error, Reading as _, Result};
use crate::flat::Pair;
use crate::read;
use index::Index;

/// Files that are judged by their content are read up to this size.
const JUDGED_LIMIT: u64 = 4 << 20;
/// The kernel reads no more of a first line.
const SHEBANG_LIMIT: u64 = 256;

/// Why a change needs its path named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// For a person.
    pub text: String,
    /// The guarded directory that the path lies in; naming it (or a directory in it) is enough.
    pub dir: Option<TreePath>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    dependencies: Vec<String>,
    installed: Vec<String>,
    quiet_executables: Vec<String>,
    program_dirs: Vec<String>,
    interpreters: Vec<String>,
    executable_reason: String,
    shebang_reason: String,
    link_outside_reason: String,
    link_git_reason: String,
    link_interpreter_reason: String,
    link_program_reason: String,
    link_replaces_reason: String,
    hooks_path_reason: String,
    repository_reason: String,
    manifest: Vec<Manifest>,
    group: Vec<Group>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    title: String,
    #[serde(default)]
    built: bool,
    rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    paths: Vec<String>,
    #[serde(default)]
    anywhere: bool,
    reason: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    file: String,
    format: Format,
    keys: Vec<String>,
    reason: String,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Toml,
}

/// The rules, with what the origin's own repository adds to them.
#[derive(Debug)]
pub struct Guard {
    data: &'static Data,
    index: &'static Index,
    hooks_path: Option<TreePath>,
}

fn data() -> Result<&'static Data> {
    static DATA: OnceLock<std::result::Result<Data, String>> = OnceLock::new();
    DATA.get_or_init(|| {
        toml::from_str(include_str!("../data/guarded.toml")).map_err(|error| error.to_string())
    })
    .as_ref()
    .map_err(|text| Error::GuardData(text.clone()))
}

/// The rules as a page for people: a table for each group.
pub fn page() -> Result<String> {
    use std::fmt::Write as _;
    let data = data()?;
    let mut page = String::new();
    let quoted =
        |words: &[String]| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(" ");
    for group in &data.group {
        let _ = write!(page, "\n### {}\n\n| path | where | why |\n|---|---|---|\n", group.title);
        for rule in &group.rule {
            let place = if rule.anywhere { "anywhere" } else { "top" };
            let _ = writeln!(page, "| {} | {place} | {} |", quoted(&rule.paths), rule.reason);
        }
    }
    let _ = write!(page, "\n### Manifests\n\n| file | keys | why |\n|---|---|---|\n");
    for manifest in &data.manifest {
        let _ = writeln!(page, "| `{}` | {} | {} |", manifest.file, quoted(&manifest.keys), manifest.reason);
    }
    let _ = write!(page, "\n### By what it is\n\n| what | why |\n|---|---|\n");
    for (what, why) in [
        ("a file that gets an executable bit", &data.executable_reason),
        (
            "a file whose first line begins with `#!` and did not, or names another program",
            &data.shebang_reason,
        ),
        ("a link that leads out of the project", &data.link_outside_reason),
        ("a link that leads into `.git`", &data.link_git_reason),
        ("a link with the name of an interpreter or tool", &data.link_interpreter_reason),
        ("a link where an executable file was", &data.link_replaces_reason),
        ("a link in a directory of programs", &data.link_program_reason),
        ("what is in the directory that `core.hooksPath` of the repository names", &data.hooks_path_reason),
        ("`config`, `HEAD` and `hooks` beside `refs` and `objects`", &data.repository_reason),
    ] {
        let _ = writeln!(page, "| {what} | {why} |");
    }
    let _ = write!(page, "\nNames of interpreters and tools: {}.\n", quoted(&data.interpreters));
    let _ = write!(page, "\nDirectories of programs: {}.\n", quoted(&data.program_dirs));
    Ok(page)
}

/// True for the innards of a git repository, here or in any directory: outside of what can be kept.
pub fn git_internal(path: &TreePath) -> bool {
    path.components().any(|name| name.eq_ignore_ascii_case(b".git"))
}

/// Judges one change, as [`Guard::check`] does; for a single question.
pub fn guarded(change: &Change, lane: &dyn Source, base: &dyn Source) -> Result<Option<Reason>> {
    Guard::new(base)?.check(change, lane, base)
}

impl Guard {
    /// The rules for a tree. Reads `core.hooksPath` out of the base's `.git/config` as text.
    pub fn new(base: &dyn Source) -> Result<Guard> {
        static INDEX: OnceLock<Index> = OnceLock::new();
        let data = data()?;
        Ok(Guard { data, index: INDEX.get_or_init(|| Index::of(data)), hooks_path: hooks_path(base) })
    }

    /// The reason why `change` needs its path named, if it does.
    pub fn check(&self, change: &Change, lane: &dyn Source, base: &dyn Source) -> Result<Option<Reason>> {
        let side = |path: &TreePath, entry: &Option<Entry>| entry.clone().map(|entry| (path.clone(), entry));
        self.check_pair(
            &Pair {
                old: side(change.old_path(), &change.old),
                new: side(&change.path, &change.new),
                content_differs: !matches!(
                    change.kind,
                    ChangeKind::Mode | ChangeKind::Rename { modified: false, .. }
                ),
            },
            lane,
            base,
        )
    }

    /// The reason of a path alone.
    pub fn path(&self, path: &TreePath) -> Option<Reason> {
        self.by_path(path, false)
    }

    /// [`Guard::path`]; a rule that names files means no directory of that name.
    fn by_path(&self, path: &TreePath, is_dir: bool) -> Option<Reason> {
        if let Some(dir) = self.hooks_path.as_ref().filter(|dir| path.starts_with(dir)) {
            return Some(Reason { text: self.data.hooks_path_reason.clone(), dir: Some(dir.clone()) });
        }
        let names: Vec<&[u8]> = path.components().collect();
        let dependency = holds(&names, &self.data.dependencies);
        let installed = holds(&names, &self.data.installed);
        let exempt = |group: &Group, rule: &Rule| rule.anywhere && dependency || group.built && installed;
        let (at, length) = self.index.find(&names, |pattern| {
            let group = &self.data.group[pattern.group];
            (!is_dir || pattern.below) && !exempt(group, &group.rule[pattern.rule])
        })?;
        let dir = at.below.then(|| names[..length].iter().fold(TreePath::root(), |dir, name| dir.join(name)));
        Some(Reason { text: self.data.group[at.group].rule[at.rule].reason.clone(), dir })
    }

    /// As [`Guard::check`], for a pair of sides.
    pub(crate) fn check_pair(
        &self,
        pair: &Pair,
        lane: &dyn Source,
        base: &dyn Source,
    ) -> Result<Option<Reason>> {
        let sides = || [pair.new.as_ref(), pair.old.as_ref()].into_iter().flatten();
        if let Some(reason) = sides().find_map(|(path, entry)| self.by_path(path, entry.is_dir())) {
            return Ok(Some(reason));
        }
        for (path, _) in sides().filter(|(_, entry)| !entry.is_dir()) {
            if is_of_a_repository(path, lane)? {
                return Ok(Some(Reason { text: self.data.repository_reason.clone(), dir: None }));
            }
        }
        let plain = |text: &str| Ok(Some(Reason { text: text.to_owned(), dir: None }));
        let Some((path, new)) = &pair.new else { return Ok(None) };
        let old = pair.old.as_ref().map(|side| &side.1);
        if new.kind == Kind::Symlink && (pair.is_rename() || old.is_none_or(|old| old.target != new.target)) {
            match link_leads(path, &new.target) {
                Leads::Outside => return plain(&self.data.link_outside_reason),
                Leads::IntoGit => return plain(&self.data.link_git_reason),
                Leads::Inside => {}
            }
            if let Some(text) = self.stands_in(path, old) {
                return plain(text);
            }
        }
        if new.is_file() {
            let was = old.is_some_and(|old| old.is_file() && old.mode & 0o111 != 0);
            let names: Vec<&[u8]> = path.components().collect();
            if new.mode & 0o111 != 0 && !was && !holds(&names, &self.data.quiet_executables) {
                return plain(&self.data.executable_reason);
            }
            if !pair.content_differs {
                return Ok(None);
            }
            let is_named = |manifest: &&Manifest| manifest.file.as_bytes().eq_ignore_ascii_case(path.name());
            if !holds(&names, &self.data.dependencies)
                && let Some(manifest) = self.data.manifest.iter().find(is_named)
                && manifest.differs(pair, lane, base)?
            {
                return plain(&manifest.reason);
            }
            if !holds(&names, &self.data.quiet_executables) {
                let now = interpreter(lane, "lane", path, new)?;
                let was = match &pair.old {
                    Some((path, old)) if now.is_some() => interpreter(base, "base", path, old)?,
                    _ => None,
                };
                if now.is_some() && now != was {
                    return plain(&self.data.shebang_reason);
                }
            }
        }
        Ok(None)
    }

    /// Why a link, new or with a new target, counts as a program.
    fn stands_in(&self, path: &TreePath, old: Option<&Entry>) -> Option<&'static str> {
        let names: Vec<&[u8]> = path.components().collect();
        let (name, above) = names.split_last()?;
        if self.data.interpreters.iter().any(|known| component_matches(known.as_bytes(), name)) {
            return Some(&self.data.link_interpreter_reason);
        }
        if old.is_some_and(|old| old.is_file() && old.mode & 0o111 != 0) {
            return Some(&self.data.link_replaces_reason);
        }
        let is_program_dir = |dir: &&[u8]| {
            self.data.program_dirs.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(dir))
        };
        let quiet = holds(&names, &self.data.quiet_executables);
        (!quiet && above.last().is_some_and(is_program_dir)).then_some(&self.data.link_program_reason)
    }
}

impl Manifest {
    /// True where a key that names commands has another value, and where that cannot be told.
    fn differs(&self, pair: &Pair, lane: &dyn Source, base: &dyn Source) -> Result<bool> {
        let read = |bytes: &[u8]| -> Option<serde_json::Value> {
            match self.format {
                Format::Json => serde_json::from_slice(bytes).ok(),
                Format::Toml => toml::from_str(std::str::from_utf8(bytes).ok()?).ok(),
            }
        };
        let parse = |source, side, at: &Option<(TreePath, Entry)>| -> Result<Option<serde_json::Value>> {
            let Some((path, entry)) = at else { return Ok(Some(serde_json::Value::Null)) };
            if !entry.is_file() {
                return Ok(Some(serde_json::Value::Null));
            }
            let bytes = read::content(source, side, path, entry, JUDGED_LIMIT)?;
            Ok(bytes.and_then(|bytes| read(&bytes)))
        };
        let (old, new) = (parse(base, "base", &pair.old)?, parse(lane, "lane", &pair.new)?);
        let Some(new) = new else { return Ok(true) };
        // A base that cannot be parsed cannot vouch for anything that the lane has now.
        let old = old.unwrap_or(serde_json::Value::Null);
        let value = |of: &serde_json::Value, key: &str| {
            key.split('.').try_fold(of.clone(), |table, name| table.get(name).cloned())
        };
        Ok(self.keys.iter().any(|key| value(&old, key) != value(&new, key)))
    }
}

/// The first line of a file that names a program to run it with.
fn interpreter(
    source: &dyn Source,
    side: &'static str,
    path: &TreePath,
    entry: &Entry,
) -> Result<Option<Vec<u8>>> {
    if !entry.is_file() || entry.size < 2 {
        return Ok(None);
    }
    let start = match read::start(source, side, path, SHEBANG_LIMIT) {
        // What may not be read is not kept either; and where only a part of a change is kept, a directory may stay
        // where the lane has a file.
        Err(Error::Read { source, .. }) if matches!(source.errno, Errno::ACCESS | Errno::ISDIR) => {
            return Ok(None);
        }
        other => other?,
    };
    let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
    Ok(line.starts_with(b"#!").then(|| line.to_vec()))
}

/// True for the files of a directory that git takes for a repository without being told so.
fn is_of_a_repository(path: &TreePath, lane: &dyn Source) -> Result<bool> {
    let is = |name: &[u8], known: &[u8]| name.eq_ignore_ascii_case(known);
    let above = path.parent();
    let top = match &above {
        Some(dir)
            if is(path.name(), b"config") || is(path.name(), b"HEAD") || is(path.name(), b"commondir") =>
        {
            dir.clone()
        }
        Some(hooks) if is(hooks.name(), b"hooks") => match hooks.parent() {
            Some(dir) => dir,
            None => return Ok(false),
        },
        _ => return Ok(false),
    };
    let has = |name: &[u8], dir: bool| -> Result<bool> {
        let at = top.join(name);
        Ok(lane.entry(&at).reading("lane", &at)?.is_some_and(|entry| entry.is_dir() == dir))
    };
    Ok(has(b"HEAD", false)? && has(b"refs", true)? && has(b"objects", true)?)
}

/// `*` stands for any bytes inside one component.
fn component_matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.iter().position(|b| *b == b'*') {
        None => pattern.eq_ignore_ascii_case(name),
        Some(star) => {
            name.len() >= star
                && pattern[..star].eq_ignore_ascii_case(&name[..star])
                && (star..=name.len()).any(|skip| component_matches(&pattern[star + 1..], &name[skip..]))
        }
    }
}

fn holds(names: &[&[u8]], dirs: &[String]) -> bool {
    names
        .split_last()
        .is_some_and(|(_, above)| above.iter().any(|name| dirs.iter().any(|dir| dir.as_bytes() == *name)))
}

enum Leads {
    Inside,
    Outside,
    IntoGit,
}

/// Where a link at `path` leads by its letters alone; nothing is looked up.
fn link_leads(path: &TreePath, target: &[u8]) -> Leads {
    if target.first() == Some(&b'/') {
        return Leads::Outside;
    }
    let mut at: Vec<&[u8]> = path.components().collect();
    at.pop();
    for name in target.split(|b| *b == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                if at.pop().is_none() {
                    return Leads::Outside;
                }
            }
            name => at.push(name),
        }
    }
    if at.iter().any(|name| name.eq_ignore_ascii_case(b".git")) { Leads::IntoGit } else { Leads::Inside }
}

/// `core.hooksPath` of the base's own repository, where it is a directory inside the project.
/// The file is read as text: asking git would run what is configured in it.
fn hooks_path(base: &dyn Source) -> Option<TreePath> {
    let config = TreePath::new(".git/config").ok()?;
    let entry = base.entry(&config).ok()??;
    let bytes = entry.is_file().then(|| read::content(base, "base", &config, &entry, 1 << 20).ok())???;
    let mut core = false;
    let mut found = None;
    for line in bytes.split(|b| *b == b'\n') {
        let line = line.trim_ascii();
        if line.first() == Some(&b'[') {
            core = line.get(..6).is_some_and(|head| head.eq_ignore_ascii_case(b"[core]"));
        } else if core && let Some(equals) = line.iter().position(|b| *b == b'=') {
            let (key, value) = (line[..equals].trim_ascii(), line[equals + 1..].trim_ascii());
            if key.eq_ignore_ascii_case(b"hookspath") {
                let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
                let value = value.strip_prefix(b"./").unwrap_or(value);
                found = TreePath::new(value.strip_suffix(b"/").unwrap_or(value)).ok();
            }
        }
    }
    found.filter(|path| !path.is_root() && !git_internal(path))
}
