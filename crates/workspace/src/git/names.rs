//! Names as git writes and reads them: branches, and paths in a stream for `git fast-import`. Pure.

/// Why a name cannot be a branch's; `None` where it can. The rules of git-check-ref-format(1), and none that leads
/// out of `refs/heads`.
pub fn bad_branch(name: &[u8]) -> Option<&'static str> {
    let holds = |bytes: &[u8]| name.windows(bytes.len()).any(|window| window == bytes);
    if name.is_empty() || name == b"HEAD" || name == b"@" {
        return Some("it means something else");
    }
    if name.starts_with(b"-") {
        return Some("it begins with a dash");
    }
    if name.iter().any(|b| *b < 0x20 || *b == 0x7f || b" ~^:?*[\\".contains(b))
        || holds(b"..")
        || holds(b"@{")
    {
        return Some("it holds what git does not take in a name");
    }
    let is_bad = |part: &[u8]| part.is_empty() || part.starts_with(b".") || part.ends_with(b".lock");
    if name.split(|b| *b == b'/').any(is_bad) || name.ends_with(b".") {
        return Some("a part of it is empty, hidden or a lock's");
    }
    None
}

/// A path in a stream for `git fast-import`: C-style in quotes, whatever its bytes are.
pub(crate) fn quoted(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len() + 2);
    out.push(b'"');
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            0x20..0x7f => out.push(*byte),
            byte => out.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    out.push(b'"');
    out
}

/// A line of an alternates file: a path that its reader would misread is quoted.
pub(crate) fn alternate(path: &[u8]) -> Vec<u8> {
    let is_plain = |b: &u8| *b >= 0x20 && *b != b'"' && *b != b'\\' && *b != 0x7f;
    let mut line =
        if path.iter().all(is_plain) && !path.starts_with(b"#") { path.to_vec() } else { quoted(path) };
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::{alternate, bad_branch, quoted};

    #[test]
    fn branches_are_named_as_git_allows_and_never_lead_out_of_their_directory() {
        for good in ["main", "feature/x", "a.b", "caf\u{e9}", "x-y_z"] {
            assert_eq!(bad_branch(good.as_bytes()), None, "{good}");
        }
        for bad in [
            "", "HEAD", "@", "-x", "a b", "a..b", "../x", "a/../b", ".x", "a/.b", "x.lock", "a.lock/b",
            "a//b", "/a", "a/", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{1}", "a\nb", "a\x7f", "a.",
        ] {
            assert!(bad_branch(bad.as_bytes()).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn paths_are_quoted_so_that_no_byte_ends_them() {
        assert_eq!(quoted(b"a b"), b"\"a b\"");
        assert_eq!(quoted(b"a\n\"\\\xff"), b"\"a\\012\\\"\\\\\\377\"");
        assert_eq!(alternate(b"/p/objects"), b"/p/objects\n");
        assert_eq!(alternate(b"/p\n/objects"), b"\"/p\\012/objects\"\n");
        assert_eq!(alternate(b"#p"), b"\"#p\"\n");
    }
}
