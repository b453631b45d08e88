//! What /proc says about processes and mounts. Read only: nothing here signals or unmounts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A process that belongs to a test's world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its number.
    pub pid: u32,
    /// Its command line, for messages.
    pub command: String,
}

/// The mount points at or below `top` in this process's mount namespace.
pub fn mounts_below(top: &Path) -> Vec<String> {
    let table = fs::read("/proc/self/mountinfo").unwrap_or_default();
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescape)
        .filter(|place| {
            let place = Path::new(OsStr::from_bytes(place));
            place != top && place.starts_with(top)
        })
        .map(|place| place.escape_ascii().to_string())
        .collect()
}

/// Processes (other than this one) whose program, working directory, root, arguments or mounts lie
/// below `top`. A mount counts only in a namespace other than ours.
pub fn processes_of(top: &Path) -> Vec<Found> {
    let ours = fs::read_link("/proc/self/ns/mnt").ok();
    let own = std::process::id();
    let needle = top.as_os_str().as_bytes();
    let mut found = Vec::new();
    for pid in numbers("/proc") {
        let base = format!("/proc/{pid}");
        let arguments = fs::read(format!("{base}/cmdline")).unwrap_or_default();
        if pid == own || is_zombie(&base) {
            continue;
        }
        let below = |link: &str| fs::read_link(format!("{base}/{link}")).is_ok_and(|to| to.starts_with(top));
        let other = fs::read_link(format!("{base}/ns/mnt")).ok() != ours;
        let mounted = other && has(&fs::read(format!("{base}/mountinfo")).unwrap_or_default(), needle);
        if below("exe") || below("cwd") || below("root") || has(&arguments, needle) || mounted {
            let command = String::from_utf8_lossy(&arguments).replace('\0', " ").trim().to_owned();
            found.push(Found { pid, command });
        }
    }
    found
}

/// All living descendants of `pid`, parents first.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        for task in numbers(&format!("/proc/{}/task", all[next])) {
            let path = format!("/proc/{}/task/{task}/children", all[next]);
            let children = fs::read_to_string(path).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    all.remove(0);
    all
}

/// True where the process exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    let base = format!("/proc/{pid}");
    Path::new(&base).exists() && !is_zombie(&base)
}

/// A field of /proc/PID/status, such as `CapEff` or `NoNewPrivs`.
pub fn status(pid: u32, field: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn is_zombie(base: &str) -> bool {
    let stat = fs::read(format!("{base}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the state follows the last one.
    let after = stat.iter().rposition(|byte| *byte == b')').map(|at| &stat[at + 1..]);
    after.is_none_or(|rest| matches!(rest.get(1), Some(b'Z' | b'X')))
}

fn numbers(dir: &str) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn has(text: &[u8], needle: &[u8]) -> bool {
    text.windows(needle.len()).any(|window| window == needle)
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3)).flatten();
        let value = code.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(byte) => {
                plain.push(byte);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{descendants, is_alive, status, unescape};

    #[test]
    fn octal_escapes_of_mountinfo_are_undone() {
        assert_eq!(unescape(br"/a\040b\134c\012"), b"/a b\\c\n");
        assert_eq!(unescape(br"/a\9"), br"/a\9");
    }

    #[test]
    fn a_child_is_found_below_its_parent_until_it_ends() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("started");
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert!(is_alive(child.id()));
        assert_eq!(status(child.id(), "PPid"), Some(std::process::id().to_string()));
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(!is_alive(child.id()));
    }
}
