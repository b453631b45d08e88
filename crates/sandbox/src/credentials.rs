//! The list of credential paths and variables: data with a reason each, from `data/credentials.toml` by way of
//! the build script.
//!
//! Invariant: the list only ever takes away. What is granted is taken off the list by name.

use std::path::Path;

use crate::error::Result;

include!(concat!(env!("OUT_DIR"), "/credentials.rs"));

/// The whole list.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Paths.
    pub path: Vec<CredentialPath>,
    /// Variables.
    pub variables: Variables,
}

/// One path.
#[derive(Debug, Clone)]
pub struct CredentialPath {
    /// Below $HOME, or absolute.
    pub at: String,
    /// Why it is here.
    pub reason: String,
    /// Hidden only where the file holds one of these words; empty for always.
    pub only_with: Vec<String>,
}

/// Names of variables; `*` at one end stands for anything.
#[derive(Debug, Clone)]
pub struct Variables {
    /// Doors to services of the host.
    pub doors: Vec<String>,
    /// Secrets by their usual names.
    pub secrets: Vec<String>,
    /// Exceptions.
    pub harmless: Vec<String>,
}

/// Why a variable stays outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It names a service of the host.
    Door,
    /// It looks like a secret.
    Secret,
}

impl Credentials {
    /// The built-in list.
    pub fn built_in() -> Result<Credentials> {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let path = PATHS.iter().map(|(at, reason, only_with)| CredentialPath {
            at: (*at).to_owned(),
            reason: (*reason).to_owned(),
            only_with: words(only_with),
        });
        let variables = Variables { doors: words(DOORS), secrets: words(SECRETS), harmless: words(HARMLESS) };
        Ok(Credentials { path: path.collect(), variables })
    }

    /// Takes granted paths (as they stand in the list) off it.
    #[must_use]
    pub fn without(mut self, granted: &[String]) -> Credentials {
        self.path.retain(|path| !granted.contains(&path.at));
        self
    }

    /// Paths below $HOME.
    pub fn in_home(&self) -> impl Iterator<Item = &CredentialPath> {
        self.path.iter().filter(|path| !path.at.starts_with('/'))
    }

    /// Absolute paths.
    pub fn in_system(&self) -> impl Iterator<Item = &CredentialPath> {
        self.path.iter().filter(|path| path.at.starts_with('/'))
    }
}

impl CredentialPath {
    /// True where this path has to be hidden below `home`. A file that cannot be read is hidden.
    pub fn applies_in(&self, home: &Path) -> bool {
        if self.only_with.is_empty() {
            return true;
        }
        match read_some(&home.join(&self.at)) {
            Ok(Some(text)) => self.only_with.iter().any(|word| holds(&text, word.as_bytes())),
            Ok(None) => false,
            Err(_) => true,
        }
    }
}

/// True where a file of a project, by its path in it, looks like a credential: it has such a name, or stands where a home
/// keeps one.
pub fn looks_like_one(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let any = |list: &[&str]| list.iter().any(|pattern| matches(pattern.as_bytes(), name));
    if any(HARMLESS_FILES) {
        return false;
    }
    // `a/.aws/credentials` is below `.aws`, and `.ssh/id` is below `.ssh`.
    let ends = |rest: &[u8]| rest.first().is_none_or(|next| *next == b'/');
    let stands_there = |tail: &[u8]| {
        let mut places =
            PATHS.iter().filter(|(at, _, only_with)| only_with.is_empty() && !at.starts_with('/'));
        places.any(|(at, _, _)| tail.strip_prefix(at.as_bytes()).is_some_and(ends))
    };
    any(FILES) || tails(path).any(|tail| is_first(tail.first()) && stands_there(tail))
}

/// True where a path of the list begins so: most names are ruled out by their first letter.
fn is_first(letter: Option<&u8>) -> bool {
    static FIRST: std::sync::LazyLock<[bool; 256]> = std::sync::LazyLock::new(|| {
        let mut first = [false; 256];
        for letter in PATHS.iter().filter_map(|(at, _, _)| at.bytes().next()) {
            first[usize::from(letter)] = true;
        }
        first
    });
    letter.is_some_and(|letter| FIRST[usize::from(*letter)])
}

/// The path from each of its components on.
fn tails(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    std::iter::once(0).chain(slashes.map(|(at, _)| at + 1)).map(|from| &path[from..])
}

/// The first megabyte of a settings file; `None` where there is none. Never waits on a FIFO.
fn read_some(path: &Path) -> kernel::Result<Option<Vec<u8>>> {
    use rustix::fs::{Mode, OFlags};
    let asked = |errno| kernel::Error::new("open", kernel::error::path_bytes(path), errno);
    let file =
        match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()) {
            Ok(file) => file,
            Err(kernel::Errno::NOENT | kernel::Errno::NOTDIR) => return Ok(None),
            Err(errno) => return Err(asked(errno)),
        };
    let mut text = vec![0u8; 1 << 20];
    let n = rustix::io::read(&file, &mut text).map_err(asked)?;
    text.truncate(n);
    Ok(Some(text))
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

impl Variables {
    /// Why `name` stays outside; `None` where it may go in.
    pub fn keeps(&self, name: &[u8]) -> Option<Kept> {
        let any = |list: &[String]| list.iter().any(|pattern| matches(pattern.as_bytes(), name));
        if any(&self.harmless) {
            return None;
        }
        if any(&self.doors) {
            return Some(Kept::Door);
        }
        any(&self.secrets).then_some(Kept::Secret)
    }
}

/// Without regard to case: some programs take their secrets in small letters.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.strip_prefix(b"*"), pattern.strip_suffix(b"*")) {
        (Some(end), _) => {
            let at = name.len().checked_sub(end.len());
            at.is_some_and(|at| name[at..].eq_ignore_ascii_case(end))
        }
        (None, Some(start)) => name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start)),
        (None, None) => name.eq_ignore_ascii_case(pattern),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_list_parses_and_every_path_has_a_reason() {
        let list = Credentials::built_in().expect("parses");
        assert!(list.path.len() > 60);
        for path in &list.path {
            assert!(path.reason.len() > 5, "{}", path.at);
            assert!(!path.at.ends_with('/') && !path.at.contains(".."), "{}", path.at);
        }
    }

    #[test]
    fn a_file_of_a_project_looks_like_a_credential_by_its_name_or_its_place() {
        for path in [
            ".env",
            "a/.env.local",
            "deploy/id_rsa",
            "x/server.PEM",
            ".ssh/known_hosts",
            "home/.aws/credentials",
        ] {
            assert!(looks_like_one(path.as_bytes()), "{path}");
        }
        for path in ["src/main.rs", ".env.example", "docs/environment", "keys.rs", "a.awsx/b", "monkey"] {
            assert!(!looks_like_one(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn secrets_and_doors_stay_outside_and_ordinary_names_go_in() {
        let variables = Credentials::built_in().expect("parses").variables;
        for (name, want) in [
            ("GITHUB_TOKEN", Some(Kept::Secret)),
            ("AWS_SESSION_TOKEN", Some(Kept::Secret)),
            ("MY_API_KEY", Some(Kept::Secret)),
            ("SSH_AUTH_SOCK", Some(Kept::Door)),
            ("AWS_REGION", None),
            ("PATH", None),
            ("CARGO_HOME", None),
            ("TOKENIZERS_PARALLELISM", None),
            ("TOKEN", Some(Kept::Secret)),
            ("npm_config__authToken", Some(Kept::Secret)),
            ("my_password", Some(Kept::Secret)),
        ] {
            assert_eq!(variables.keeps(name.as_bytes()), want, "{name}");
        }
    }
}
