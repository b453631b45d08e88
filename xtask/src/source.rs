//! The repository's files as the checks see them: every file that git knows or would take, with its text.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What a check answers: nothing, or one line for each thing to mend.
pub type Outcome = Result<(), Vec<String>>;

/// One text file of the repository.
#[derive(Debug)]
pub struct Source {
    /// Path from the top of the repository, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// True for Rust source.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// True for a file that holds tests and nothing else.
    pub fn is_test(&self) -> bool {
        self.path.contains("/tests/") || self.path.ends_with("/tests.rs") || self.path.contains("/benches/")
    }

    /// The lines outside comments and inline test modules, each with its number.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.inline_tests().unwrap_or(usize::MAX);
        self.text
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line))
            .take_while(move |(number, _)| *number < end)
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Lines that are not tests.
    pub fn length(&self) -> usize {
        self.inline_tests().map_or(self.text.lines().count(), |line| line - 1)
    }

    /// The line at which the inline test module begins, which by custom stands last.
    fn inline_tests(&self) -> Option<usize> {
        let lines: Vec<&str> = self.text.lines().collect();
        let at = lines.windows(2).position(|pair| {
            pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
        });
        at.map(|index| index + 1)
    }
}

/// The top of the repository.
pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// All text files, sorted by path.
pub fn all() -> Result<Vec<Source>, Vec<String>> {
    let listed = Command::new("git")
        // The checkout may belong to somebody else than who runs the check (root in CI); listing is harmless.
        .args(["-c", "safe.directory=*", "ls-files", "-z"])
        .args(["--cached", "--others", "--exclude-standard", "--deduplicate"])
        .current_dir(top())
        .output()
        .map_err(|error| vec![format!("git ls-files: {error}")])?;
    if !listed.status.success() {
        return Err(vec![format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr))]);
    }
    let mut files: Vec<Source> = listed
        .stdout
        .split(|byte| *byte == 0)
        .filter_map(|name| String::from_utf8(name.to_vec()).ok())
        .filter_map(|path| {
            // A file that is not text, or that was removed and not yet committed, is nobody's concern here.
            let text = std::fs::read_to_string(top().join(&path)).ok()?;
            Some(Source { path, text })
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::Source;

    #[test]
    fn comments_and_inline_tests_are_not_code() {
        let text = "//! Head.\nlet a;\n// no\n#[cfg(test)]\nmod tests {\nlet b;\n}\n".to_owned();
        let file = Source { path: "x.rs".to_owned(), text };
        assert_eq!(file.code().collect::<Vec<_>>(), [(2, "let a;")]);
        assert_eq!(file.length(), 3);
    }
}
