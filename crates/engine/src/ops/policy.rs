//! `policy check`, `policy diff` and `policy grant`: files of rules looked at, compared, and something allowed to a lane at work.

use std::path::{Path, PathBuf};

use crate::engine::Engine;
use crate::error::{EngineError, Result};
use crate::find;
use crate::policy::{self, Keep, Scope};

/// One file of rules, looked at.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Where.
    pub path: PathBuf,
    /// Whom it rules; `None` for a file that was named.
    pub scope: Option<Scope>,
    /// BLAKE3 of its bytes; `None` where there is no such file.
    pub digest: Option<String>,
    /// What it says; the line, where it is known, and the cause where it is refused. `None` where there is no such file.
    pub says: Option<std::result::Result<Keep, (Option<usize>, String)>>,
}

impl Checked {
    /// True where it is refused.
    pub fn is_bad(&self) -> bool {
        matches!(self.says, Some(Err(_)))
    }
}

/// Looks at the files that rule the project of a directory, or at those that are named.
pub fn check(engine: &Engine, dir: &Path, named: &[PathBuf]) -> Result<Vec<Checked>> {
    if !named.is_empty() {
        return Ok(named.iter().map(|path| look(dir.join(path), None)).collect());
    }
    let top = engine.project(dir)?.top;
    let user = policy::of_user().map(|path| look(path, Some(Scope::User)));
    let project = policy::IN_PROJECT.map(|name| look(top.join(name), Some(Scope::Project(top.clone()))));
    Ok(user.into_iter().chain(project).collect())
}

fn look(path: PathBuf, scope: Option<Scope>) -> Checked {
    let bad = |why: String| Some(Err((None, why)));
    // In a project, what a link leads to is not the project's.
    let is_link = path.symlink_metadata().is_ok_and(|meta| meta.is_symlink());
    let (digest, says) = match std::fs::read(&path) {
        _ if is_link && matches!(scope, Some(Scope::Project(_))) => (None, bad("it is a link".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && scope.is_some() => (None, None),
        Err(error) => (None, bad(error.to_string())),
        Ok(text) => (Some(ledger::digest(&text)), Some(policy::parse(&text).map(|(keep, _)| keep))),
    };
    Checked { path, scope, digest, says }
}

/// One rule as the user and the project have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    /// Its name, such as `keep.only`.
    pub rule: &'static str,
    /// As the user's file has it.
    pub user: Option<String>,
    /// As the project's file has it.
    pub project: Option<String>,
}

/// The rules of which the user's file and the project's differ. Both hold at once: where both say something, a keep has to hold
/// to both.
pub fn compare(engine: &Engine, dir: &Path) -> Result<Vec<Compared>> {
    let (mut user, mut project) = (Keep::default(), Keep::default());
    for file in check(engine, dir, &[])? {
        let keep = match file.says {
            None => continue,
            Some(Err((line, why))) => return Err(EngineError::PolicyFile { path: file.path, line, why }),
            Some(Ok(keep)) => keep,
        };
        match file.scope {
            Some(Scope::Project(_)) => project = keep,
            _ => user = keep,
        }
    }
    let (user, project) = (words(&user), words(&project));
    let both = user.into_iter().zip(project);
    Ok(both
        .map(|((rule, user), (_, project))| Compared { rule, user, project })
        .filter(|compared| compared.user != compared.project)
        .collect())
}

fn words(keep: &Keep) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("keep.only", keep.only.as_ref().map(|rule| rule.value.words())),
        ("keep.deny", keep.deny.as_ref().map(|rule| rule.value.words())),
        ("keep.verify", keep.verify.as_ref().map(|rule| rule.value.text())),
        ("keep.max_files", keep.max_files.as_ref().map(|rule| rule.value.to_string())),
        ("keep.max_bytes", keep.max_bytes.as_ref().map(|rule| rule.value.to_string())),
    ]
}

/// Allows something to a lane at work. This build has no wall that can be opened while a lane is at work, and says so.
pub fn grant(engine: &Engine, dir: &Path, lane: &str, what: &str) -> Result<()> {
    let host = what.strip_prefix("net:").filter(|host| !host.is_empty());
    let refused =
        |why: String| Err(EngineError::NotGranted { lane: lane.to_owned(), what: what.to_owned(), why });
    let Some(host) = host else {
        return refused("what can be granted is written net:HOST".to_owned());
    };
    let row = find::lane(engine, dir, Some(lane), |_| true)?;
    if row.state != ledger::LaneState::Live {
        return refused(format!(
            "it is not live; its next run takes its flags, such as `--net allow:{host}`"
        ));
    }
    refused("no wall of this build can be opened while a lane is at work".to_owned())
}
