//! Rules on the wire.

use engine::ops::policy::{Checked, Compared};
use engine::policy::{Keep, Policy, PolicyFile, Rule, Scope};
use serde::Serialize;

use super::path;

/// The answer of `policy show`.
#[derive(Debug, Serialize)]
pub(crate) struct Rules {
    files: Vec<File>,
}

#[derive(Debug, Serialize)]
struct File {
    path: String,
    scope: &'static str,
    there: bool,
    only: Option<List>,
    deny: Option<List>,
    verify: Option<Command>,
    max_files: Option<Most>,
    max_bytes: Option<Most>,
    limits: Vec<Limit>,
}

#[derive(Debug, Serialize)]
struct Limit {
    key: String,
    value: u64,
    is_most: bool,
    line: usize,
}

#[derive(Debug, Serialize)]
struct List {
    patterns: Vec<String>,
    line: usize,
}

#[derive(Debug, Serialize)]
struct Command {
    command: String,
    argv: Vec<String>,
    line: usize,
}

#[derive(Debug, Serialize)]
struct Most {
    most: u64,
    line: usize,
}

impl Rules {
    pub(crate) fn new(policy: &Policy) -> Rules {
        Rules { files: policy.files.iter().map(File::new).collect() }
    }
}

impl File {
    fn new(file: &PolicyFile) -> File {
        let none = Keep::default();
        let keep = file.keep.as_ref().unwrap_or(&none);
        let list = |rule: &Rule<engine::policy::Patterns>| List {
            patterns: rule.value.written().to_vec(),
            line: rule.line,
        };
        let most = |rule: &Rule<u64>| Most { most: rule.value, line: rule.line };
        File {
            path: path(&file.path).0,
            scope: match file.scope {
                Scope::User => "user",
                Scope::Project(_) => "project",
            },
            there: file.keep.is_some(),
            only: keep.only.as_ref().map(list),
            deny: keep.deny.as_ref().map(list),
            verify: keep.verify.as_ref().map(|rule| Command {
                command: rule.value.text(),
                argv: rule.value.argv(),
                line: rule.line,
            }),
            max_files: keep.max_files.as_ref().map(most),
            max_bytes: keep.max_bytes.as_ref().map(most),
            limits: file
                .limits
                .iter()
                .map(|rule| Limit {
                    key: rule.key.clone(),
                    value: rule.value,
                    is_most: rule.is_most,
                    line: rule.line,
                })
                .collect(),
        }
    }
}

/// The answer of `policy check`.
#[derive(Debug, Serialize)]
pub(crate) struct RulesChecked {
    clean: bool,
    files: Vec<CheckedFile>,
}

#[derive(Debug, Serialize)]
struct CheckedFile {
    path: String,
    there: bool,
    blake3: Option<String>,
    line: Option<usize>,
    problem: Option<String>,
}

impl RulesChecked {
    pub(crate) fn new(checked: &[Checked]) -> RulesChecked {
        let file = |file: &Checked| {
            let (line, problem) = match &file.says {
                Some(Err((line, why))) => (*line, Some(why.clone())),
                _ => (None, None),
            };
            let (there, blake3) = (file.says.is_some(), file.digest.clone());
            CheckedFile { path: path(&file.path).0, there, blake3, line, problem }
        };
        let clean = !checked.iter().any(Checked::is_bad);
        RulesChecked { clean, files: checked.iter().map(file).collect() }
    }
}

/// The answer of `policy diff`.
#[derive(Debug, Serialize)]
pub(crate) struct RulesCompared {
    rules: Vec<ComparedRule>,
}

#[derive(Debug, Serialize)]
struct ComparedRule {
    rule: &'static str,
    user: Option<String>,
    project: Option<String>,
}

impl RulesCompared {
    pub(crate) fn new(compared: &[Compared]) -> RulesCompared {
        let rule = |rule: &Compared| ComparedRule {
            rule: rule.rule,
            user: rule.user.clone(),
            project: rule.project.clone(),
        };
        RulesCompared { rules: compared.iter().map(rule).collect() }
    }
}
