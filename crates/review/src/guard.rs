//! What runs by itself later, and is therefore never covered by a blanket yes. It owns the data file
//! `data/guarded.toml` (paths with a reason each) and the rules that need content: package scripts,
//! new executable bits, links that leave the project.
//!
//! Invariant: content of a lane is only ever read here as bytes or JSON, never executed, and a file
//! that cannot be judged is guarded.

use std::sync::OnceLock;

use serde::Deserialize;
use tree::{Change, ChangeKind, Entry, Kind, Source, TreePath};

use crate::error::{Error, Result};
use crate::flat::Pair;
use crate::read;

/// Files that are judged by their content are read up to this size.
const JUDGED_LIMIT: u64 = 4 << 20;

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
    quiet_executables: Vec<String>,
    package_json_keys: Vec<String>,
    package_json_reason: String,
    executable_reason: String,
    link_outside_reason: String,
    link_git_reason: String,
    hooks_path_reason: String,
    rule: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    path: String,
    #[serde(default)]
    anywhere: bool,
    reason: String,
}

/// The rules, with what the origin's own repository adds to them.
#[derive(Debug)]
pub struct Guard {
    data: &'static Data,
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
        Ok(Guard { data: data()?, hooks_path: hooks_path(base) })
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
        if let Some(dir) = self.hooks_path.as_ref().filter(|dir| path.starts_with(dir)) {
            return Some(Reason { text: self.data.hooks_path_reason.clone(), dir: Some(dir.clone()) });
        }
        let names: Vec<&[u8]> = path.components().collect();
        let dependency = holds(&names, &self.data.dependencies);
        self.data.rule.iter().filter(|rule| !(rule.anywhere && dependency)).find_map(|rule| {
            let length = rule.matches(&names)?;
            let dir = rule
                .is_dir()
                .then(|| names[..length].iter().fold(TreePath::root(), |dir, name| dir.join(name)));
            Some(Reason { text: rule.reason.clone(), dir })
        })
    }

    /// As [`Guard::check`], for a pair of sides.
    pub(crate) fn check_pair(
        &self,
        pair: &Pair,
        lane: &dyn Source,
        base: &dyn Source,
    ) -> Result<Option<Reason>> {
        let paths = [pair.new.as_ref(), pair.old.as_ref()].into_iter().flatten();
        if let Some(reason) = paths.map(|side| &side.0).find_map(|path| self.path(path)) {
            return Ok(Some(reason));
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
        }
        if new.is_file() {
            let was = old.is_some_and(|old| old.is_file() && old.mode & 0o111 != 0);
            let names: Vec<&[u8]> = path.components().collect();
            if new.mode & 0o111 != 0 && !was && !holds(&names, &self.data.quiet_executables) {
                return plain(&self.data.executable_reason);
            }
            if pair.content_differs
                && path.name().eq_ignore_ascii_case(b"package.json")
                && !holds(&names, &self.data.dependencies)
                && self.scripts_differ(pair, lane, base)?
            {
                return plain(&self.data.package_json_reason);
            }
        }
        Ok(None)
    }

    fn scripts_differ(&self, pair: &Pair, lane: &dyn Source, base: &dyn Source) -> Result<bool> {
        let parse = |source, side, at: &Option<(TreePath, Entry)>| -> Result<Option<serde_json::Value>> {
            let Some((path, entry)) = at else { return Ok(Some(serde_json::Value::Null)) };
            if !entry.is_file() {
                return Ok(Some(serde_json::Value::Null));
            }
            let bytes = read::content(source, side, path, entry, JUDGED_LIMIT)?;
            Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
        };
        let (old, new) = (parse(base, "base", &pair.old)?, parse(lane, "lane", &pair.new)?);
        let Some(new) = new else { return Ok(true) };
        // A base that cannot be parsed cannot vouch for anything that the lane has now.
        let old = old.unwrap_or(serde_json::Value::Null);
        Ok(self.data.package_json_keys.iter().any(|key| old.get(key) != new.get(key)))
    }
}

impl Rule {
    fn is_dir(&self) -> bool {
        self.path.ends_with("/**")
    }

    /// The number of leading components that the rule covers, where it covers the path.
    fn matches(&self, names: &[&[u8]]) -> Option<usize> {
        let pattern = self.path.strip_suffix("/**").unwrap_or(&self.path);
        let parts: Vec<&[u8]> = pattern.split('/').map(str::as_bytes).collect();
        let starts = if self.anywhere { names.len() } else { 1 };
        (0..starts).map(|start| (start, names.get(start..start + parts.len()))).find_map(|(start, window)| {
            let window = window?;
            let end = start + parts.len();
            let reaches = self.is_dir() || end == names.len();
            let equal = parts.iter().zip(window).all(|(part, name)| component_matches(part, name));
            (reaches && equal).then_some(end)
        })
    }
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
