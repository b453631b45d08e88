//! [`Policy`]: what a project and its user lay down for keeps, and whether a planned keep holds to it.
//!
//! The rules stand in `lane.toml` or `.lane.toml` at the top of the origin, and in the user's own
//! `$XDG_CONFIG_HOME/lanekeeper/policy.toml`. All of them hold at once, so that each can only be stricter than the others. A
//! file in a further root of a lane rules that root.
//!
//! Invariant: a rule is read from the host and never from a lane, so that no lane loosens the rules of its own keep. A
//! file that cannot be read, or says something unknown, stops the keep.

mod file;
mod gate;
mod paths;
mod refusal;

use std::path::{Path, PathBuf};

use review::plan::KeepPlan;
use tree::Source;

pub use file::{Check, Keep, LimitRule, Limits, Patterns, Rule};
pub use gate::CheckView;
pub(crate) use gate::{Gate, is_written};
pub use refusal::{Broken, Refusal, Said};

use crate::error::{Doing as _, EngineError, Result};
use crate::happened::Happening;
use crate::lane::OpenLane;

/// Where the rules of a project stand in it.
pub const IN_PROJECT: [&str; 2] = ["lane.toml", ".lane.toml"];
/// Where the user's own rules stand below the configuration directory.
const OF_USER: &str = "lanekeeper/policy.toml";
/// No file of rules is longer.
const LIMIT: usize = 1 << 20;

/// Whom a file of rules rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every project of the user.
    User,
    /// What is below this directory.
    Project(PathBuf),
}

/// One place where rules may stand.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    /// Where.
    pub path: PathBuf,
    /// Whom it rules.
    pub scope: Scope,
    /// What it says of keeps; `None` where there is no such file.
    pub keep: Option<Keep>,
    /// What it says of what runs may use.
    pub limits: Limits,
}

/// Everything that holds for a keep.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Every place that was looked at.
    pub files: Vec<PolicyFile>,
}

/// What is planned for one root.
#[expect(missing_debug_implementations, reason = "a tree has none")]
pub struct Planned<'p> {
    /// The root's directory.
    pub root: &'p Path,
    /// Its plan.
    pub plan: &'p KeepPlan,
    /// What the origin holds, for what a moved directory takes along.
    pub origin: &'p dyn Source,
}

/// A check that a keep needs, with the rule that says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededCheck {
    /// The command.
    pub check: Check,
    /// Where the rule stands.
    pub file: PathBuf,
    /// In which line.
    pub line: usize,
}

impl Policy {
    /// The rules for lanes with these roots.
    pub fn load<'r>(roots: impl IntoIterator<Item = &'r Path>) -> Result<Policy> {
        let mut files = Vec::new();
        if let Some(path) = of_user() {
            let text = match std::fs::read(&path) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(bad(&path, None, error.to_string())),
            };
            files.push(read(path, Scope::User, text)?);
        }
        for root in roots {
            let dir = kernel::open::root_dir(root).doing(|| format!("open {}", root.display()))?;
            for name in IN_PROJECT {
                let path = root.join(name);
                let text = match kernel::open::file_beneath(&dir, name.as_bytes()) {
                    Ok(file) => {
                        let mut text = Vec::new();
                        use std::io::Read as _;
                        let read = std::fs::File::from(file).take(LIMIT as u64 + 1).read_to_end(&mut text);
                        read.map_err(|error| bad(&path, None, error.to_string()))?;
                        Some(text)
                    }
                    Err(error) if error.is_not_found() => None,
                    // A link, too: what it leads to is not the project's.
                    Err(error) => return Err(bad(&path, None, error.to_string())),
                };
                files.push(read(path, Scope::Project(root.to_owned()), text)?);
            }
        }
        Ok(Policy { files })
    }

    /// The rules for a lane.
    pub fn of_lane(lane: &OpenLane) -> Result<Policy> {
        Policy::load(lane.roots.iter().filter(|root| !root.view.git).map(|root| root.view.path.as_path()))
    }

    /// The places where rules may stand for a lane, each with the digest of what is there, for the ledger. What cannot be
    /// read has none: whoever needs it says so.
    pub(crate) fn digests(lane: &OpenLane) -> Vec<Happening> {
        let tops = lane.roots.iter().filter(|root| !root.view.git).map(|root| &root.view.path);
        let user = of_user().into_iter().map(|path| ("user", path));
        let project = tops.flat_map(|top| IN_PROJECT.map(|name| ("project", top.join(name))));
        let told = |(scope, path): (&'static str, PathBuf)| {
            let found = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() || scope == "user");
            let digest = found.then(|| std::fs::read(&path).ok()).flatten().map(|text| ledger::digest(&text));
            Happening::Policy { scope, path, digest }
        };
        // Of two names for one file the one that is not there says nothing.
        let is_told = |happening: &Happening| matches!(happening, Happening::Policy { digest: Some(_), .. });
        user.chain(project).map(told).filter(is_told).collect()
    }

    /// The files that are there and rule `root`, with what they say.
    fn ruling<'p>(&'p self, root: &'p Path) -> impl Iterator<Item = (&'p Path, &'p Keep)> {
        let rules = move |file: &&PolicyFile| match &file.scope {
            Scope::User => true,
            Scope::Project(top) => top == root,
        };
        self.files.iter().filter(rules).filter_map(|file| Some((file.path.as_path(), file.keep.as_ref()?)))
    }

    /// Refuses a plan that does not hold to the rules about paths and sizes, with the first rule that it breaks.
    pub fn check(&self, lane: &str, planned: &[Planned<'_>]) -> Result<()> {
        if self.files.iter().all(|file| file.keep.is_none()) {
            return Ok(());
        }
        let refuse = |file: &Path, line, broken| {
            let (lane, file) = (lane.to_owned(), file.to_owned());
            Err(EngineError::PolicyRefuses(Box::new(Refusal { lane, file, line, broken })))
        };
        let mut sums = Vec::with_capacity(planned.len());
        for planned in planned.iter().filter(|planned| !planned.plan.steps.is_empty()) {
            let touched = paths::touched(planned.plan, planned.origin)?;
            sums.push((planned.root, paths::count(&touched), paths::bytes(planned.plan)));
            for (file, keep) in self.ruling(planned.root) {
                if let Some(only) = &keep.only {
                    let outside = paths::outside(&touched, &only.value);
                    if !outside.is_empty() {
                        let (patterns, paths) = (only.value.words(), outside);
                        return refuse(file, only.line, Broken::Only { patterns, paths });
                    }
                }
                if let Some(deny) = &keep.deny {
                    let denied = paths::denied(&touched, &deny.value);
                    if !denied.is_empty() {
                        let (patterns, paths) = (deny.value.words(), denied);
                        return refuse(file, deny.line, Broken::Deny { patterns, paths });
                    }
                }
            }
        }
        for file in &self.files {
            let Some(keep) = &file.keep else { continue };
            let is_ruled = |root: &Path| match &file.scope {
                Scope::User => true,
                Scope::Project(top) => top == root,
            };
            let ruled = sums.iter().filter(|(root, ..)| is_ruled(root));
            let (files, bytes) = ruled.fold((0, 0), |sum, (_, files, bytes)| (sum.0 + files, sum.1 + bytes));
            if let Some(most) = keep.max_files.as_ref().filter(|most| files > most.value) {
                return refuse(&file.path, most.line, Broken::Files { has: files, most: most.value });
            }
            if let Some(most) = keep.max_bytes.as_ref().filter(|most| bytes > most.value) {
                return refuse(&file.path, most.line, Broken::Bytes { has: bytes, most: most.value });
            }
        }
        Ok(())
    }

    /// Every rule about what runs may use, with its file.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&Path, &LimitRule)> {
        self.files.iter().flat_map(|file| file.limits.iter().map(|rule| (file.path.as_path(), rule)))
    }

    /// The checks that have to pass before anything is kept, each once.
    pub fn checks(&self) -> Vec<NeededCheck> {
        let mut found: Vec<NeededCheck> = Vec::new();
        for file in &self.files {
            let Some(verify) = file.keep.as_ref().and_then(|keep| keep.verify.as_ref()) else { continue };
            if !found.iter().any(|known| known.check == verify.value) {
                let (file, line) = (file.path.clone(), verify.line);
                found.push(NeededCheck { check: verify.value.clone(), file, line });
            }
        }
        found
    }
}

/// The rules of a file; the line, where it is known, and the cause where it is refused.
pub(crate) fn parse(text: &[u8]) -> std::result::Result<(Keep, Limits), (Option<usize>, String)> {
    if text.len() > LIMIT { Err((None, "it is too long".to_owned())) } else { file::parse(text) }
}

fn read(path: PathBuf, scope: Scope, text: Option<Vec<u8>>) -> Result<PolicyFile> {
    let said = match text {
        Some(text) => Some(parse(&text).map_err(|(line, why)| bad(&path, line, why))?),
        None => None,
    };
    let (keep, limits) = said.map_or((None, Limits::new()), |(keep, limits)| (Some(keep), limits));
    Ok(PolicyFile { path, scope, keep, limits })
}

fn bad(path: &Path, line: Option<usize>, why: String) -> EngineError {
    EngineError::PolicyFile { path: path.to_owned(), line, why }
}

/// The user's own file; `None` where there is no home.
pub(crate) fn of_user() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = named("XDG_CONFIG_HOME").or_else(|| Some(named("HOME")?.join(".config")))?;
    Some(config.join(OF_USER))
}
