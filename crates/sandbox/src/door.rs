//! Doors: services of the host that a lane can be let through to by name. Data from `data/doors.toml`.
//!
//! Invariant: a door that was asked for and leads nowhere is an error of whoever asked, never a lane without it.

use std::path::PathBuf;

use serde::Deserialize;

use crate::error::{Error, Result};

/// One service.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Door {
    /// Its name.
    pub name: String,
    /// What a command can do through it.
    pub what: String,
    /// Where its socket may be, best first, with words between braces.
    pub sockets: Vec<String>,
    /// Where clients inside look for it; its own path where that is not said.
    pub shown_at: Option<String>,
    /// Variables that go in.
    pub variables: Vec<String>,
    /// Credential paths below $HOME that become visible.
    #[serde(default)]
    pub shows: Vec<String>,
    /// Paths below those that stay hidden.
    #[serde(default)]
    pub hides: Vec<String>,
    /// Files that are shown where they are there.
    #[serde(default)]
    pub files: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    door: Vec<Door>,
}

/// All doors.
pub fn all() -> Result<Vec<Door>> {
    let file = "doors.toml";
    toml::from_str::<File>(include_str!("../data/doors.toml"))
        .map(|file| file.door)
        .map_err(|error| Error::Data { file, what: error.to_string() })
}

/// The path that a template means; `None` where a word of it has no value. `value` gives the values of words.
pub fn filled(template: &str, value: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let mut path = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (word, after) = after.split_once('}')?;
        path.push_str(before);
        path.push_str(&address(&value(word)?)?);
        rest = after;
    }
    path.push_str(rest);
    path.starts_with('/').then(|| PathBuf::from(path))
}

/// The path of an address; one of another kind (TCP, an abstract name) has none. What is no address is itself.
fn address(text: &str) -> Option<String> {
    if let Some(rest) = text.strip_prefix("unix://") {
        return Some(rest.to_owned());
    }
    if text.contains('=') {
        let first = text.split(';').next().unwrap_or(text);
        let path = first
            .strip_prefix("unix:")
            .and_then(|keys| keys.split(',').find_map(|key| key.strip_prefix("path=").map(str::to_owned)));
        return path;
    }
    (!text.contains("://")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{all, filled};

    #[test]
    fn every_door_says_what_it_gives_away_and_has_a_name_of_its_own() {
        let doors = all().expect("parses");
        assert!(doors.iter().all(|door| !door.what.is_empty() && !door.sockets.is_empty()));
        let mut names: Vec<&str> = doors.iter().map(|door| door.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), doors.len());
    }

    #[test]
    fn addresses_of_every_form_become_paths_or_nothing() {
        let value = |word: &str| {
            let value = match word {
                "BUS" => "unix:path=/run/user/1/bus,guid=abc;unix:path=/other",
                "ABSTRACT" => "unix:abstract=/tmp/dbus-x",
                "DOCKER" => "unix:///run/docker.sock",
                "TCP" => "tcp://host:2375",
                "PLAIN" => "/tmp/ssh-x/agent.1",
                "display" => "0",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let of = |template| filled(template, &value).map(|path| path.display().to_string());
        assert_eq!(of("{BUS}").as_deref(), Some("/run/user/1/bus"));
        assert_eq!(of("{DOCKER}").as_deref(), Some("/run/docker.sock"));
        assert_eq!(of("{PLAIN}").as_deref(), Some("/tmp/ssh-x/agent.1"));
        assert_eq!(of("/tmp/.X11-unix/X{display}").as_deref(), Some("/tmp/.X11-unix/X0"));
        for nothing in ["{ABSTRACT}", "{TCP}", "{MISSING}", "{MISSING}/x", "{display}"] {
            assert_eq!(of(nothing), None, "{nothing}");
        }
    }
}
