//! Toolchains that live in a place which a lane does not show: another home, a temporary directory. What
//! `PATH` and the well-known variables name stays usable inside.
//!
//! Pure but for looking at the paths. Invariant: never a whole home, only a directory in it; what the
//! credential list names below that home stays absent.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// Variables that name the home of a toolchain.
const VARIABLES: [&str; 21] = [
    "CARGO_HOME",
    "RUSTUP_HOME",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "FNM_DIR",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_INSTALL",
    "GOROOT",
    "GOPATH",
    "JAVA_HOME",
    "SDKMAN_DIR",
    "RBENV_ROOT",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "UV_PYTHON_INSTALL_DIR",
    "RUSTUP_TOOLCHAIN_DIR",
];

/// A directory to show, and the home that it lies in, where it lies in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolDir {
    /// The directory.
    pub at: PathBuf,
    /// The home above it.
    pub home: Option<PathBuf>,
}

/// The directories that have to be shown beside the system. `seen` are trees that a lane shows anyway (its
/// home and its roots).
pub fn find(variables: impl Iterator<Item = (OsString, OsString)>, seen: &[PathBuf]) -> Vec<ToolDir> {
    let mut named: Vec<PathBuf> = Vec::new();
    for (name, value) in variables {
        if name == "PATH" {
            named.extend(std::env::split_paths(&value));
        } else if VARIABLES.iter().any(|known| name == *known) {
            named.push(PathBuf::from(value));
        }
    }
    let mut found: Vec<ToolDir> = Vec::new();
    for path in named {
        if !path.is_absolute() || is_shown(&path) {
            continue;
        }
        let Ok(real) = std::fs::canonicalize(&path) else { continue };
        if is_shown(&real) || seen.iter().any(|tree| real.starts_with(tree) || tree.starts_with(&real)) {
            continue;
        }
        if let Some(dir) = tool_dir(&real)
            && !seen.iter().any(|tree| tree.starts_with(&dir.at))
            && !found.contains(&dir)
        {
            found.push(dir);
        }
    }
    // A directory inside another one that is shown needs no mount of its own.
    let all = found.clone();
    found.retain(|dir| !all.iter().any(|other| other != dir && dir.at.starts_with(&other.at)));
    found.sort_by(|a, b| a.at.cmp(&b.at));
    found
}

/// Files that hold the publish token of cargo where its home is not `~/.cargo`.
pub fn cargo_logins() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").filter(|home| Path::new(home).is_absolute());
    let Some(home) = home.and_then(|home| std::fs::canonicalize(home).ok()) else { return Vec::new() };
    ["credentials", "credentials.toml"].iter().map(|name| home.join(name)).collect()
}

/// True where a lane shows the path as the host has it.
pub fn is_shown(path: &Path) -> bool {
    !["/home", "/root", "/tmp", "/var/tmp", "/run"].iter().any(|hidden| path.starts_with(hidden))
}

/// What to show for a path: in a home, the directory right below it (`~/.pyenv` for `~/.pyenv/shims`) but for
/// `~/.local`, of which only the named part; elsewhere the path itself.
fn tool_dir(real: &Path) -> Option<ToolDir> {
    let parts: Vec<Component<'_>> = real.components().collect();
    let depth = if real.starts_with("/root") {
        2
    } else if real.starts_with("/home") {
        3
    } else {
        return Some(ToolDir { at: real.to_path_buf(), home: None });
    };
    // The home itself, or `/home`, is never shown.
    let top = parts.get(depth)?;
    let home: PathBuf = parts[..depth].iter().collect();
    let is_local = top.as_os_str().as_bytes() == b".local";
    let at = if is_local { real.to_path_buf() } else { home.join(top) };
    (!is_local || parts.len() > depth + 1).then_some(ToolDir { at, home: Some(home) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_home_only_the_tool_s_own_directory_is_shown() {
        let at = |path: &str| tool_dir(Path::new(path)).map(|dir| dir.at.display().to_string());
        assert_eq!(at("/root/.cargo/bin").as_deref(), Some("/root/.cargo"));
        assert_eq!(at("/home/a/.pyenv/shims").as_deref(), Some("/home/a/.pyenv"));
        assert_eq!(at("/home/a/.local/bin").as_deref(), Some("/home/a/.local/bin"));
        assert_eq!(at("/home/a/.local"), None);
        assert_eq!(at("/home/a"), None);
        assert_eq!(at("/home"), None);
        assert_eq!(at("/root"), None);
        assert_eq!(at("/tmp/venv/bin").as_deref(), Some("/tmp/venv/bin"));
    }

    #[test]
    fn what_a_lane_shows_anyway_is_not_named() {
        let dir = std::env::temp_dir().join(format!("lane-tools-{}", crate::clock::new_id()));
        let bin = dir.join("kit/bin");
        std::fs::create_dir_all(&bin).expect("made");
        let path = OsString::from(format!("/usr/bin:relative:{}:/nowhere/at/all", bin.display()));
        let variables =
            || [(OsString::from("PATH"), path.clone()), ("CARGO_HOME".into(), dir.join("kit").into())];
        let dir = std::fs::canonicalize(&dir).expect("real");
        let found = find(variables().into_iter(), &[]);
        assert_eq!(found, [ToolDir { at: dir.join("kit"), home: None }]);
        assert_eq!(find(variables().into_iter(), std::slice::from_ref(&dir)), []);
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
