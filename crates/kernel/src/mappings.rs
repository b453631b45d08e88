//! The files that a process has mapped so that it can write to them by storing: what such a store changes has no date of
//! its own.
//!
//! Rests on proc_pid_maps(5). Invariant: a mapping that cannot be made sense of is told and not dropped.

/// Paths of the files that are mapped shared and writable, by the text of /proc/PID/maps, as they are named in the mount
/// namespace where they were opened. `None` where the text is not what it should be. A file that has no name any more
/// is told with ` (deleted)` behind it, which another may truly be named.
pub fn written_by_storing(maps: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    for line in maps.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // address perms offset dev inode, then blanks, then the path, which may hold some.
        let mut rest = line;
        let mut word = || {
            let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
            let word = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            word
        };
        let (_, permissions, _, _, inode) = (word(), word(), word(), word(), word());
        let &[_, write, _, shared, ..] = permissions else { return None };
        if inode.is_empty() {
            return None;
        }
        if write != b'w' || shared != b's' || inode == b"0" {
            continue;
        }
        let path = rest.trim_ascii_start();
        if path.first() == Some(&b'/') {
            paths.push(unescaped(path));
        }
    }
    Some(paths)
}

/// A newline in a path is written as `\012`; nothing else is.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(*first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::written_by_storing;

    #[test]
    fn only_what_is_shared_and_writable_is_told() {
        let maps = b"\
7f0-7f1 rw-s 00000000 00:32 15                    /p/sub/m file\\012
7f1-7f2 rw-s 00000000 00:32 16                    /p/gone (deleted)
7f2-7f3 r--s 00000000 fe:00 17                    /p/read
7f3-7f4 rw-p 00000000 fe:00 18                    /p/private
7f4-7f5 rw-s 00000000 00:00 0                     /dev/zero
7f5-7f6 -w-s 00000000 00:32 19                    /p/w
7ff-800 rw-p 00000000 00:00 0                     [stack]
801-802 rw-p 00000000 00:00 0 
";
        let found = written_by_storing(maps).expect("understood");
        assert_eq!(found, [b"/p/sub/m file\n".to_vec(), b"/p/gone (deleted)".to_vec(), b"/p/w".to_vec()]);
        assert_eq!(written_by_storing(b""), Some(Vec::new()));
        assert_eq!(written_by_storing(b"7f0-7f1 rw\n"), None);
    }
}
