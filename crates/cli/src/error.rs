//! Where errors become prose: what is wrong with which thing, the causes below it, and the command
//! to type next. Nothing below this crate words advice.

use std::io;

use engine::error::Moved;
use engine::policy::{Broken, Said};
use engine::{EngineError, ErrorKind};

use crate::escape::{self, Kind};
use crate::exit_code;
use crate::style::Role;
use crate::ui::Ui;
use crate::wire;

/// Result of a command.
pub(crate) type Result<T> = std::result::Result<T, CliError>;

/// Why a command did not do what it was asked for.
#[derive(Debug)]
pub(crate) enum CliError {
    /// The engine said so.
    Engine(EngineError),
    /// Our own output failed.
    Output(io::Error),
    /// A file that the user named to us.
    File(std::path::PathBuf, io::Error),
    /// A file of ours that cannot be read.
    Unreadable(std::path::PathBuf, io::Error),
    /// What was asked for is not there.
    Missing(String),
    /// The port that a page was to be served on.
    Listen(u16, io::Error),
    /// The arguments contradict themselves.
    Usage(String),
    /// A question had to be asked and nobody was there.
    NeedsYes(&'static str),
    /// The answer to a question was no.
    Declined,
    /// A terminal is needed, and there is none: what needs it.
    NeedsTerminal(&'static str),
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> CliError {
        CliError::Engine(error)
    }
}

impl From<io::Error> for CliError {
    fn from(error: io::Error) -> CliError {
        CliError::Output(error)
    }
}

impl CliError {
    /// Says it, and gives the exit code.
    pub(crate) fn report(&self, ui: &mut Ui, runs_a_command: bool) -> u8 {
        let said = self.words();
        ui.tell(&format!("{} {}", ui.paint_err(Role::Bad, "error:"), clean(&said.what)));
        for cause in &said.causes {
            ui.tell(&format!("  cause: {}", clean(cause)));
        }
        if let Some(hint) = &said.hint {
            ui.tell(&format!("{} {}", ui.paint_err(Role::Good, "hint:"), clean(hint)));
        }
        if ui.json && !matches!(self, CliError::Output(_)) {
            // Where even this cannot be written, stderr has it.
            let _ =
                ui.document(&wire::Failure::new(said.kind, &said.what, &said.causes, said.hint.as_deref()));
            let _ = ui.finish();
        }
        match self {
            CliError::Usage(_) => exit_code::USAGE,
            _ if runs_a_command => exit_code::TOOL_FAILED,
            _ => exit_code::NOT_DONE,
        }
    }

    /// What to say, line by line, for a face that shows it itself.
    pub(crate) fn lines(&self) -> Vec<String> {
        let said = self.words();
        let hint = said.hint.iter().map(|hint| format!("hint: {}", clean(hint)));
        let causes = said.causes.iter().map(|cause| clean(cause));
        std::iter::once(clean(&said.what)).chain(causes).chain(hint).collect()
    }

    /// The same in words, as they are: not escaped yet.
    pub(crate) fn words(&self) -> Words {
        match self {
            CliError::Engine(error) => {
                let mut causes = Vec::new();
                if let EngineError::MovedOn { moved, .. } = error {
                    let at = |moved: &Moved| moved.root.join(moved.path.as_path()).display().to_string();
                    causes.extend(moved.iter().map(|moved| format!("{}: {}", at(moved), moved.how.word())));
                }
                let mut below = std::error::Error::source(error);
                while let Some(cause) = below {
                    causes.push(cause.to_string());
                    below = cause.source();
                }
                Words { kind: kind_word(error.kind()), what: error.to_string(), causes, hint: hint(error) }
            }
            CliError::Output(error) => {
                Words::plain("environment", "the answer could not be written").because(error.to_string())
            }
            CliError::File(path, error) => {
                Words::plain("environment", &format!("{} could not be written", path.display()))
                    .because(error.to_string())
            }
            CliError::Unreadable(path, error) => {
                Words::plain("environment", &format!("{} could not be read", path.display()))
                    .because(error.to_string())
            }
            CliError::Listen(port, error) => {
                Words::plain("environment", &format!("port {port} of 127.0.0.1 cannot be listened on"))
                    .because(error.to_string())
                    .with_hint("leave `--port` away to take a free one.")
            }
            CliError::Missing(what) => Words::plain("user", what),
            CliError::Usage(what) => Words::plain("usage", what),
            CliError::NeedsYes(what) => Words::plain(
                "user",
                &format!("{what} has to be confirmed, and there is no terminal to ask on"),
            )
            .with_hint("add `--yes` to answer the question."),
            CliError::Declined => Words::plain("user", "nothing was done"),
            CliError::NeedsTerminal(what) => Words::plain("user", what)
                .with_hint("`lane diff` shows the same as text, `lane keep` keeps it."),
        }
    }
}

/// An error in words.
pub(crate) struct Words {
    pub(crate) kind: &'static str,
    pub(crate) what: String,
    pub(crate) causes: Vec<String>,
    pub(crate) hint: Option<String>,
}

impl Words {
    fn plain(kind: &'static str, what: &str) -> Words {
        Words { kind, what: what.to_owned(), causes: Vec::new(), hint: None }
    }

    fn because(mut self, cause: String) -> Words {
        self.causes.push(cause);
        self
    }

    fn with_hint(mut self, hint: &str) -> Words {
        self.hint = Some(hint.to_owned());
        self
    }
}

fn clean(text: &str) -> String {
    // Paths in errors may come from a lane. Their escapes are ours already, so a backslash stays.
    escape::escape(text.as_bytes(), Kind::Content).text
}

fn kind_word(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::User => "user",
        ErrorKind::Environment => "environment",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Internal => "internal",
    }
}

/// What to do about it, with the command to type.
fn hint(error: &EngineError) -> Option<String> {
    use EngineError as E;
    Some(match error {
        E::NoSuchLane { have, .. } if have.is_empty() => {
            "`lane new` makes a lane, `lane ls --all` lists those of other projects.".into()
        }
        E::NoSuchLane { name, have, .. } => match nearest(name, have) {
            Some(near) => format!("did you mean `{near}`? `lane ls` lists the lanes of this project."),
            None => {
                "`lane ls` lists the lanes of this project, `lane ls --discarded` those in the trash.".into()
            }
        },
        E::NoLane { .. } => {
            "`lane run -- CMD` makes one; `lane ls --all` lists those of other projects.".into()
        }
        E::WhichLane { names } => format!("name one of: {}.", names.join(", ")),
        E::NotInTrash { have, .. } if !have.is_empty() => format!("in the trash are: {}.", have.join(", ")),
        E::NotInTrash { .. } | E::TrashEmpty { .. } => {
            "`lane ls --all --discarded` lists what is in the trash.".into()
        }
        E::NameTaken { name } => {
            format!(
                "`lane exec {name} -- CMD` runs something in it, `lane discard {name}` drops it; or take another name."
            )
        }
        E::BadName { .. } => "a name such as `fix-auth` is fine.".into(),
        E::NoSuchSnapshot { lane, .. } => format!("`lane log {lane} --all` lists them."),
        E::WhichSnapshot { ids, .. } => format!("name more of one: {}.", ids.join(", ")),
        E::BadReference { .. } => "take another name: `base`, `now` and `origin` are taken.".into(),
        E::NothingBack { name } => format!("`lane log {name} --all` shows the history; `lane snap {name}` adds to it."),
        E::NothingForth { name } => format!("`lane log {name} --all` shows every state, `lane restore {name} ID` goes to one."),
        E::RemovesMuch { .. } => "add `--yes` to go back all the same; what is removed stays in the history.".into(),
        E::NotInside => "outside a lane it is `lane snap LANE`; a lane that goes with its run (`--rm`) has no history.".into(),
        E::NoRoom { .. } => "free some room; `lane gc --keep-free SIZE` thins automatic snapshots out.".into(),
        E::OverBudget { .. } => {
            "`lane gc` shows what it takes; `lane discard LANE` drops lanes, LANE_HISTORY_BUDGET sets another budget.".into()
        }
        E::Store(error) if error.is_full() => {
            "free some room; `lane gc --keep-free SIZE` thins automatic snapshots out.".into()
        }
        E::Store(_) => "`lane fsck` checks every snapshot and names what is damaged.".into(),
        E::Live { name, .. } => format!("`lane stop {name}` ends them."),
        E::NotStill { name } => format!("Nothing was touched. Try again, or `lane stop {name}` first."),
        E::Busy { name, .. } => format!("wait for it, or look with `lane show {name}`."),
        E::Damaged { name, .. } => {
            format!("`lane discard {name} --now` removes what is left; `lane doctor` looks for more.")
        }
        E::BadOrigin { .. } => "`lane -C DIR …` names another project.".into(),
        E::OriginGone { name, .. } => format!("bring the directory back, or `lane discard {name}`."),
        E::PathOutside { .. } => "paths are relative to the working directory (or to `-C DIR`).".into(),
        E::NothingThere { .. } => "`lane diff --name-only` lists what was changed.".into(),
        E::GitInternal { .. } => {
            "hooks and configuration of the lane run in the lane alone; `lane diff` shows the files.".into()
        }
        E::NoRepository { .. } => "`lane keep` without `--as` keeps the files; `git init` makes a repository.".into(),
        E::HalfDone { what, .. } => {
            format!("end it first (`git {what} --continue` or `--abort`), or `lane keep --as branch NAME`.")
        }
        E::IndexLocked { .. } => {
            "wait for the git that runs there; where none does, remove .git/index.lock.".into()
        }
        E::Detached { .. } => "`git switch BRANCH` first, or `lane keep --as branch NAME`.".into(),
        E::BadBranch { .. } => "a name such as `fix-auth` is fine.".into(),
        E::NoSuchBranch { name, .. } => format!("`git branch` lists them; `lane keep --as branch {name}` makes one."),
        E::BranchTaken { name } => {
            format!("take another name, or add to it: `lane keep --as commit --to {name}`.")
        }
        E::CheckedOut { .. } => "keep from there: `lane -C DIR keep --as commit`, or switch it to another branch.".into(),
        E::BranchMoved { .. } => "nothing was committed; run the same again.".into(),
        E::GuardedCommits { lane, branch, paths } => {
            let names: Vec<String> =
                paths.iter().map(|path| escape::name(path.as_bytes())).collect();
            format!("look at them, then name them: `lane keep {lane} --as branch {branch} {}`.", names.join(" "))
        }
        E::HookRefused { .. } => "nothing was kept; what it said stands above. Without `--hooks` none runs.".into(),
        E::LaneIsMade { name, .. } => format!("leave the option away, or take another name than `{name}`."),
        E::LaneIsLive { name, .. } => format!("`lane stop {name}` first, or leave the option away."),
        E::NoSuchHunk { .. } => "`lane diff` shows the hunks with their ids; what was kept already has none.".into(),
        E::HunkTwice { .. } => "name the file, or take its hunks with `-i`.".into(),
        E::BadSelection { .. } => "`lane keep LANE … --dry-run --save-selection FILE` makes one.".into(),
        E::NotSelectable { .. } => "`lane diff` shows what there is; name the path to keep all of it.".into(),
        E::MovedOn { name, .. } => format!("look again with `lane diff {name}`, and select anew."),
        E::NoKeep { .. } => "what is kept from now on can be undone for 14 days.".into(),
        E::NoSuchKeep { .. } => "`lane undo --keep --list` lists them.".into(),
        E::KeepUndone { .. } => {
            "`lane undo --keep --list` lists earlier ones; `lane keep` keeps the same again.".into()
        }
        E::EditedSinceKeep { .. } => {
            "nothing was changed; put those files aside, then undo.".into()
        }
        E::RestsOnMoved { name } => format!("`lane stop {name}` first, then keep."),
        E::HiddenMoved { .. } => {
            "see where it is with `lane diff`, and name that place with `--hide` instead; a new lane has it in its old one.".into()
        }
        E::NotGranted { lane, .. } => format!("`lane why {lane}` tells what would allow what was refused."),
        E::NoSecret { .. } => "nothing was run. Write --secret NAME=file:PATH, NAME=env:VAR or NAME=cmd:COMMAND.".into(),
        E::Leaks { lane, .. } => format!(
            "take the value out of the file (`lane exec {lane}`) and try again; nothing was recorded or written."
        ),
        E::PolicyFile { .. } => "put it right; nothing is kept until then. `lane policy show` prints what holds.".into(),
        E::PolicyRefuses(refusal) => {
            let lane = &refusal.lane;
            match &refusal.broken {
                Broken::Only { .. } | Broken::Deny { .. } => format!(
                    "name what the rule allows: `lane keep {lane} PATH…`; or change it where it stands, in the original."
                ),
                Broken::Files { .. } | Broken::Bytes { .. } => format!(
                    "keep it in parts: `lane keep {lane} PATH…`; or change the rule where it stands, in the original."
                ),
                Broken::Check { said: Said::NotRun, .. } => format!("`lane verify {lane}` runs it; then keep again."),
                Broken::Check { said: Said::Stale, .. } => {
                    format!("`lane verify {lane}` checks it again; `lane stop {lane}` first, where it is live.")
                }
                Broken::Check { .. } => format!(
                    "`lane show {lane} --transcript=verdict` prints what it said; change the lane, or the rule where it stands."
                ),
            }
        }
        E::NoCheck { name } => format!("`lane verify {name} -- CMD` names one; so does `keep.verify` of a policy."),
        E::NoVerdict { name, .. } => format!("nothing was recorded; `lane verify {name} -- CMD` tries again."),
        E::NoSuchPreset { have, .. } | E::NoSuchKind { have, .. } => format!("there are: {}.", have.join(", ")),
        E::PortTaken { port, .. } => {
            format!("`--publish PORT:HOST` takes another port of this machine; `ss -ltnp sport = {port}` tells who has it.")
        }
        E::NoSuchDoor { have, .. } => format!("there are: {}.", have.join(", ")),
        E::DoorLeadsNowhere { .. } => {
            "start the service or set its variable, then run again; without `--door` the lane runs without it.".into()
        }
        E::NoLimit { what, .. } => format!("leave {} out, or run where it can be held; `lane doctor` says what there is.", what.flag()),
        E::LimitAbove { flag, .. } => format!("a smaller {flag}, or none, is within the rule; `lane policy show` prints what holds."),
        E::Level { .. } => "leave one of the two out; `--level namespaces` (the default) can do it where `lane doctor` finds namespaces.".into(),
        E::NestAsRoot => "run it as an ordinary user; programs that refuse root anyway (Chromium) have a flag to go without.".into(),
        E::NoSuchPath { .. } => "paths are relative to the working directory (or to `-C DIR`).".into(),
        E::Sandbox(_) => {
            "`lane doctor` tries every wall and names the remedies; nothing runs without them.".into()
        }
        E::Ledger(_) => "`lane doctor` checks the record; `lane --state DIR …` begins another.".into(),
        E::TargetExists { .. } => {
            "name another directory: `lane export LANE DIR`; an export never overwrites.".into()
        }
        E::TargetInside { .. } => "name a directory beside it: `lane export LANE DIR`.".into(),
        E::Refused { .. } => {
            "a new lane can be a copy (`--strategy copy`, or leave the option away); `lane doctor` tries the rest.".into()
        }
        E::StateDir { .. } => "`lane --state DIR …` (or LANE_STATE) keeps lanes elsewhere.".into(),
        E::NoStateDir => "set HOME, or name a directory with `--state DIR`.".into(),
        _ => return None,
    })
}

/// The name that was most likely meant.
fn nearest<'n>(asked: &str, have: &'n [String]) -> Option<&'n str> {
    have.iter()
        .map(|name| (distance(asked.as_bytes(), name.as_bytes()), name))
        .filter(|(distance, name)| *distance * 3 <= name.len())
        .min()
        .map(|(_, name)| name.as_str())
}

/// Edit distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let swap = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = swap.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_mistyped_name_finds_its_neighbour_and_a_strange_one_none() {
        let have = ["fix-auth".to_owned(), "quiet-otter".to_owned()];
        assert_eq!(nearest("fix-auht", &have), Some("fix-auth"));
        assert_eq!(nearest("quiet-oter", &have), Some("quiet-otter"));
        assert_eq!(nearest("zebra", &have), None);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}
