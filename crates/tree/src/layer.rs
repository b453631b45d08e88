//! The format of an overlayfs layer: what in an upper directory is content and what is a mark.
//!
//! Invariant: only what the kernel itself would read as a mark is one. A program in a lane cannot make
//! character device 0:0, and an attribute of our namespace that it sets is stored escaped
//! (`user.overlay.overlay.*`), so neither names nor values that it chooses are ever taken for marks.
//! Rests on Documentation/filesystems/overlayfs.rst.

use std::os::fd::AsFd;

use kernel::{Result, xattr};

/// The namespace in which a mount keeps its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `user.overlay.*` (mount option `userxattr`); directories are never redirected.
    User,
    /// `trusted.overlay.*`, with redirected directories.
    Root,
}

const USER: &[u8] = b"user.overlay.";
const ROOT: &[u8] = b"trusted.overlay.";
const ESCAPE: &[u8] = b"overlay.";

impl Format {
    /// The full name of a mark.
    pub fn mark(self, name: &[u8]) -> Vec<u8> {
        let mut full = match self {
            Format::User => USER.to_vec(),
            Format::Root => ROOT.to_vec(),
        };
        full.extend_from_slice(name);
        full
    }
}

/// The marks of one directory of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirMarks {
    /// Nothing of the layers below shows through.
    pub opaque: bool,
    /// Files below may be whiteouts by attribute (in a lower layer only).
    pub xattr_whiteouts: bool,
    /// The directory of the layers below that stands for this one.
    pub redirect: Option<Redirect>,
}

/// Where a directory stood before it was renamed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// Another name in the same lower directory.
    Name(Vec<u8>),
    /// A path from the root of the layers.
    Path(crate::path::TreePath),
}

/// Reads the marks of the directory `name` in `dir` (the empty name: of `dir` itself).
pub fn dir_marks(dir: impl AsFd, name: &[u8], format: Format) -> Result<DirMarks> {
    let dir = dir.as_fd();
    let mut marks = DirMarks::default();
    let names = xattr::list_at(dir, name)?;
    if names.is_empty() {
        return Ok(marks);
    }
    let has = |mark: &[u8]| names.binary_search_by(|n| n.as_slice().cmp(mark)).is_ok();
    let opaque = format.mark(b"opaque");
    if has(&opaque) {
        match xattr::get_at(dir, name, &opaque)?.as_deref() {
            Some(b"y") => marks.opaque = true,
            Some(b"x") => marks.xattr_whiteouts = true,
            _ => {}
        }
    }
    let redirect = format.mark(b"redirect");
    if format == Format::Root && has(&redirect) {
        marks.redirect = xattr::get_at(dir, name, &redirect)?.and_then(|value| parse_redirect(&value));
    }
    Ok(marks)
}

fn parse_redirect(value: &[u8]) -> Option<Redirect> {
    if let Some(path) = value.strip_prefix(b"/") {
        return crate::path::TreePath::new(path).ok().filter(|path| !path.is_root()).map(Redirect::Path);
    }
    let name = crate::path::TreePath::new(value).ok()?;
    (!name.is_root() && !value.contains(&b'/')).then(|| Redirect::Name(value.to_vec()))
}

/// True where `file` in `dir` is a whiteout by attribute. Asked only for empty regular files of a lower
/// layer whose directory is marked for it.
pub fn is_xattr_whiteout(dir: impl AsFd, file: &[u8], format: Format) -> Result<bool> {
    Ok(xattr::get_at(dir, file, &format.mark(b"whiteout"))?.is_some())
}

/// True where `file` in `dir` holds no content of its own, but that of a lower layer (`metacopy=on`).
pub fn is_metadata_only(dir: impl AsFd, file: &[u8], format: Format) -> Result<bool> {
    Ok(xattr::get_at(dir, file, &format.mark(b"metacopy"))?.is_some())
}

/// True for an attribute name that belongs to the layer format (either namespace), escaped ones too. Never written to an origin.
pub fn private_xattr(name: &[u8]) -> bool {
    name.starts_with(USER) || name.starts_with(ROOT)
}

/// True for what follows the namespace of a mark where it is no mark: a lane had set it, and the kernel escaped it.
pub(crate) fn is_escaped(mark: &[u8]) -> bool {
    mark.starts_with(ESCAPE)
}

/// The value of the mark of a directory that stands for the directory at `path` of the layers below.
pub(crate) fn redirect_to(path: &crate::path::TreePath) -> Vec<u8> {
    [b"/", path.as_bytes()].concat()
}

/// The name under which an attribute that is stored in a layer is shown: `None` for the format's own and for
/// those that are none of the user's, the unescaped name for one that was escaped.
pub fn shown_xattr(stored: &[u8]) -> Option<Vec<u8>> {
    for prefix in [USER, ROOT] {
        if let Some(rest) = stored.strip_prefix(prefix) {
            let meant = rest.strip_prefix(ESCAPE)?;
            let mut name = prefix.to_vec();
            name.extend_from_slice(meant);
            return name.starts_with(b"user.").then_some(name);
        }
    }
    is_users(stored).then(|| stored.to_vec())
}

/// The name under which an attribute is stored in a layer so that it is shown as `shown`: the inverse of
/// [`shown_xattr`].
pub fn stored_xattr(shown: &[u8]) -> Vec<u8> {
    match shown.strip_prefix(USER) {
        Some(rest) => [USER, ESCAPE, rest].concat(),
        None => shown.to_vec(),
    }
}

/// True for attributes that are content in the eyes of a user: `user.*` and ACLs. Labels of security
/// modules and the like belong to the machine.
pub fn is_users(name: &[u8]) -> bool {
    name.starts_with(b"user.") || name == b"system.posix_acl_access" || name == b"system.posix_acl_default"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::TreePath;

    #[test]
    fn marks_are_read_in_their_own_namespace_only() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = kernel::open::root_dir(dir.path()).expect("open");
        assert_eq!(dir_marks(&fd, b"", Format::User).expect("marks"), DirMarks::default());
        xattr::set(&fd, b"user.overlay.opaque", b"y").expect("set");
        xattr::set(&fd, b"user.overlay.redirect", b"/a").expect("set");
        let marks = dir_marks(&fd, b"", Format::User).expect("marks");
        assert!(marks.opaque);
        assert_eq!(marks.redirect, None);
        assert_eq!(dir_marks(&fd, b"", Format::Root).expect("marks"), DirMarks::default());
    }

    #[test]
    fn an_escaped_mark_is_content() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let fd = kernel::open::root_dir(dir.path()).expect("open");
        xattr::set(&fd, b"user.overlay.overlay.opaque", b"y").expect("set");
        assert_eq!(dir_marks(&fd, b"", Format::User).expect("marks"), DirMarks::default());
        assert_eq!(shown_xattr(b"user.overlay.overlay.opaque"), Some(b"user.overlay.opaque".to_vec()));
        for shown in [
            b"user.overlay.opaque" as &[u8],
            b"user.overlay.overlay.x",
            b"user.a",
            b"system.posix_acl_access",
        ] {
            assert_eq!(shown_xattr(&stored_xattr(shown)), Some(shown.to_vec()));
        }
        assert_eq!(shown_xattr(b"user.overlay.origin"), None);
        assert_eq!(shown_xattr(b"trusted.overlay.overlay.opaque"), None);
        assert_eq!(shown_xattr(b"security.selinux"), None);
        assert!(private_xattr(b"user.overlay.overlay.opaque"));
        assert!(!private_xattr(b"user.overlayed"));
    }

    #[test]
    fn a_redirect_is_a_name_or_a_path_from_the_root_and_nothing_else() {
        assert_eq!(parse_redirect(b"old"), Some(Redirect::Name(b"old".to_vec())));
        assert_eq!(parse_redirect(b"/a/b"), Some(Redirect::Path(TreePath::new("a/b").expect("valid"))));
        for bad in [b"" as &[u8], b"/", b"a/b", b"..", b"/a/../b", b"//a"] {
            assert_eq!(parse_redirect(bad), None, "{}", bad.escape_ascii());
        }
    }
}
