//! Presets of well-known agents: which of their own data a lane shows. Data from `data/presets.toml`.
//!
//! Invariant: a preset shares data, never settings: what an agent would execute later (hooks, commands, MCP
//! lists) is a private copy in the lane.

use std::ffi::OsStr;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// What one agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Program names that take it by themselves.
    pub commands: Vec<String>,
    /// Credential paths below $HOME that become visible.
    pub shows: Vec<String>,
    /// Variables that go in.
    pub passes: Vec<String>,
    /// Settings that the lane sees as a private copy.
    pub private: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    preset: Vec<Preset>,
}

/// All presets.
pub fn all() -> Result<Vec<Preset>> {
    let file = "presets.toml";
    toml::from_str::<File>(include_str!("../data/presets.toml"))
        .map(|file| file.preset)
        .map_err(|error| Error::Data { file, what: error.to_string() })
}

/// True where a program's name belongs to some preset: a cheap look before the data is parsed.
pub fn may_have(program: &OsStr) -> bool {
    let name = Path::new(program).file_name().unwrap_or(program);
    ["claude", "codex", "gemini", "opencode", "aider", "cursor-agent", "copilot"]
        .iter()
        .any(|known| name == *known)
}

/// The preset of a program, by its name.
pub fn of_program(program: &OsStr) -> Result<Option<Preset>> {
    if !may_have(program) {
        return Ok(None);
    }
    let name = Path::new(program).file_name().unwrap_or(program);
    Ok(all()?.into_iter().find(|preset| preset.commands.iter().any(|command| name == command.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;

    #[test]
    fn every_preset_is_found_by_its_commands_and_shows_only_listed_paths() {
        let listed = Credentials::built_in().expect("parses");
        for preset in all().expect("parses") {
            for command in &preset.commands {
                assert_eq!(of_program(OsStr::new(command)).expect("parses").as_ref(), Some(&preset));
                let path = format!("/usr/bin/{command}");
                assert_eq!(of_program(OsStr::new(&path)).expect("parses").as_ref(), Some(&preset));
            }
            for shown in &preset.shows {
                assert!(
                    listed.path.iter().any(|path| path.at == *shown),
                    "{shown} is not hidden to begin with"
                );
            }
        }
        assert_eq!(of_program(OsStr::new("cargo")).expect("parses"), None);
    }
}
