//! Secrets of one run: from a word of the command line to a value in the supervisor's memory, and to the name that the command
//! finds its file by.
//!
//! Invariant: a value is in the memory of the supervisor and of pid 1, in the file inside, and nowhere else; what is written
//! down of it are digests under a key of the lane's ([`crate::leaks`]).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use sandbox::secret::{self, Secret};

use crate::error::{EngineError, Result};

/// Where the value of a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// A file of the host.
    File(PathBuf),
    /// A variable of the caller.
    Env(OsString),
    /// What a command of the host prints.
    Cmd(OsString),
}

/// A secret that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Its name: letters, digits and `_`, as a variable.
    pub name: String,
    /// Where its value comes from.
    pub from: From,
}

impl Wish {
    /// `NAME=file:PATH`, `NAME=env:VAR` or `NAME=cmd:COMMAND`; what is wrong with the word else.
    pub fn parse(word: &OsStr) -> std::result::Result<Wish, String> {
        let form = || "write NAME=file:PATH, NAME=env:VAR or NAME=cmd:COMMAND".to_owned();
        let bytes = word.as_bytes();
        let cut = bytes.iter().position(|byte| *byte == b'=').ok_or_else(form)?;
        let (name, rest) = (&bytes[..cut], &bytes[cut + 1..]);
        let is_name = |bytes: &[u8]| {
            bytes.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
                && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        if !is_name(name) || name.len() > 64 {
            return Err("a secret's name is made of letters, digits and _, as a variable's".to_owned());
        }
        let name = String::from_utf8_lossy(name).into_owned();
        let colon = rest.iter().position(|byte| *byte == b':').ok_or_else(form)?;
        let value = OsString::from_vec(rest[colon + 1..].to_vec());
        if value.is_empty() {
            return Err(form());
        }
        let from = match &rest[..colon] {
            b"file" => From::File(PathBuf::from(value)),
            b"env" => From::Env(value),
            b"cmd" => From::Cmd(value),
            _ => return Err(form()),
        };
        Ok(Wish { name, from })
    }

    /// Where it comes from, in words.
    pub fn source(&self) -> String {
        match &self.from {
            From::File(path) => format!("file:{}", path.display()),
            From::Env(name) => format!("env:{}", name.display()),
            From::Cmd(line) => format!("cmd:{}", line.display()),
        }
    }

    fn value(&self, dir: &Path) -> Result<Vec<u8>> {
        let failed = |why: Box<dyn std::error::Error + Send + Sync>| {
            Err(EngineError::NoSecret { name: self.name.clone(), from: self.source(), why })
        };
        let value = match &self.from {
            From::File(path) => match read(&dir.join(path)) {
                Ok(value) => value,
                Err(error) => return failed(error.into()),
            },
            From::Env(name) => match std::env::var_os(name) {
                Some(value) => value.into_vec(),
                None => return failed("there is no such variable".into()),
            },
            From::Cmd(line) => match secret::output_of(line) {
                Ok(value) => value,
                Err(error) => return failed(error.into()),
            },
        };
        if value.is_empty() {
            return failed("it is empty".into());
        }
        if value.len() > secret::LIMIT {
            return failed(format!("it is longer than {} bytes", secret::LIMIT).into());
        }
        Ok(value)
    }
}

/// A file up to the limit and one byte more, so that what is too long shows.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut value = Vec::new();
    std::fs::File::open(path)?.take(secret::LIMIT as u64 + 1).read_to_end(&mut value)?;
    Ok(value)
}

/// Gets the values. Nothing has begun yet: who cannot be had stops the run.
pub(crate) fn collect(wishes: &[Wish], dir: &Path) -> Result<Vec<Secret>> {
    wishes.iter().map(|wish| Ok(Secret { name: wish.name.clone(), value: wish.value(dir)? })).collect()
}

/// Where a secret stands inside.
pub(crate) fn at(name: &str) -> PathBuf {
    Path::new(secret::AT).join(name)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{From, Wish};

    #[test]
    fn a_word_names_a_secret_and_where_it_comes_from() {
        let parse = |word: &str| Wish::parse(OsStr::new(word));
        let file = parse("KEY=file:/a/b=c:d").expect("valid");
        assert_eq!((file.name.as_str(), file.from), ("KEY", From::File("/a/b=c:d".into())));
        assert_eq!(parse("_k2=env:HOME").expect("valid").from, From::Env("HOME".into()));
        assert_eq!(parse("K=cmd:pass show x").expect("valid").from, From::Cmd("pass show x".into()));
        for bad in [
            "KEY",
            "KEY=",
            "KEY=x",
            "KEY=file:",
            "KEY=http:x",
            "=file:x",
            "1K=file:x",
            "A/B=file:x",
            "..=env:X",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
