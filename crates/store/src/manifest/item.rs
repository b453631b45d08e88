//! [`Item`]: one entry of a layer, as a manifest says it.
//!
//! Invariant: an item has one encoding, and equal items of a layer on disk are equal here: what the kernel keeps for
//! itself (origin marks, times and owners of whiteouts) is not in it.

use tree::layer::Redirect;
use tree::{Kind, Time, TreePath};

use crate::content::Content;
use crate::encode::{Decoded, Malformed, Put, Take};

/// What stands under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Type, and what goes with it.
    pub kind: ItemKind,
    /// Permission bits, set-id and sticky included (`07777`). Of a symbolic link: zero.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Content modification time.
    pub mtime: Time,
    /// The attributes that a user sees, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// For a file with several names in the layer: the first of them. It stands at that one too.
    pub group: Option<TreePath>,
}

/// The type of an [`Item`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemKind {
    /// A regular file.
    File(Content),
    /// A directory.
    Dir {
        /// Nothing of the layers below shows through.
        opaque: bool,
        /// The directory of the layers below that stands for this one.
        redirect: Option<Redirect>,
    },
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// The name is gone from the layers below.
    Whiteout,
}

const FILE: u8 = 0;
const DIR: u8 = 1;
const SYMLINK: u8 = 2;
const FIFO: u8 = 3;
const WHITEOUT: u8 = 4;

const XATTRS: u8 = 1;
const GROUP: u8 = 2;
const OPAQUE: u8 = 4;
const REDIRECT_NAME: u8 = 8;
const REDIRECT_PATH: u8 = 16;

impl Item {
    /// The item of every whiteout.
    pub fn whiteout() -> Item {
        Item {
            kind: ItemKind::Whiteout,
            mode: 0,
            uid: 0,
            gid: 0,
            mtime: Time::default(),
            xattrs: Vec::new(),
            group: None,
        }
    }

    /// The type as trees have it; `None` for a whiteout.
    pub fn tree_kind(&self) -> Option<Kind> {
        match self.kind {
            ItemKind::File(_) => Some(Kind::File),
            ItemKind::Dir { .. } => Some(Kind::Dir),
            ItemKind::Symlink(_) => Some(Kind::Symlink),
            ItemKind::Fifo => Some(Kind::Fifo),
            ItemKind::Whiteout => None,
        }
    }

    /// True for a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.kind, ItemKind::Dir { .. })
    }

    /// Bytes of content.
    pub fn size(&self) -> u64 {
        match &self.kind {
            ItemKind::File(content) => content.size(),
            ItemKind::Symlink(target) => target.len() as u64,
            _ => 0,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let kind = match &self.kind {
            ItemKind::File(_) => FILE,
            ItemKind::Dir { .. } => DIR,
            ItemKind::Symlink(_) => SYMLINK,
            ItemKind::Fifo => FIFO,
            ItemKind::Whiteout => WHITEOUT,
        };
        out.byte(kind);
        if kind == WHITEOUT {
            return;
        }
        let mut flags = 0;
        flags |= if self.xattrs.is_empty() { 0 } else { XATTRS };
        flags |= if self.group.is_some() { GROUP } else { 0 };
        if let ItemKind::Dir { opaque, redirect } = &self.kind {
            flags |= if *opaque { OPAQUE } else { 0 };
            flags |= match redirect {
                None => 0,
                Some(Redirect::Name(_)) => REDIRECT_NAME,
                Some(Redirect::Path(_)) => REDIRECT_PATH,
            };
        }
        out.byte(flags);
        out.number(self.mode.into());
        out.number(self.uid.into());
        out.number(self.gid.into());
        out.signed(self.mtime.sec);
        out.number(self.mtime.nsec.into());
        match &self.kind {
            ItemKind::File(content) => content.put(out),
            ItemKind::Symlink(target) => out.bytes(target),
            ItemKind::Dir { redirect: Some(Redirect::Name(name)), .. } => out.bytes(name),
            ItemKind::Dir { redirect: Some(Redirect::Path(path)), .. } => out.path(path),
            ItemKind::Dir { redirect: None, .. } | ItemKind::Fifo | ItemKind::Whiteout => {}
        }
        if !self.xattrs.is_empty() {
            out.number(self.xattrs.len() as u64);
            for (name, value) in &self.xattrs {
                out.bytes(name);
                out.bytes(value);
            }
        }
        if let Some(first) = &self.group {
            out.path(first);
        }
    }

    pub(crate) fn take(from: &mut Take<'_>) -> Decoded<Item> {
        let kind = from.byte()?;
        if kind == WHITEOUT {
            return Ok(Item::whiteout());
        }
        let flags = from.byte()?;
        let for_dirs = OPAQUE | REDIRECT_NAME | REDIRECT_PATH;
        let allowed = XATTRS | if kind == DIR { for_dirs } else { GROUP };
        if flags & !allowed != 0 || flags & (REDIRECT_NAME | REDIRECT_PATH) == REDIRECT_NAME | REDIRECT_PATH {
            return Err(Malformed("an entry with flags that it cannot have"));
        }
        let (mode, uid, gid) = (from.small()?, from.small()?, from.small()?);
        let mtime = Time { sec: from.signed()?, nsec: from.small()? };
        if mode & !0o7777 != 0 || mtime.nsec >= 1_000_000_000 {
            return Err(Malformed("a mode or time that cannot be"));
        }
        let kind = match kind {
            FILE => ItemKind::File(Content::take(from)?),
            DIR => {
                let redirect = if flags & REDIRECT_NAME != 0 {
                    Some(Redirect::Name(name(from.bytes()?)?))
                } else if flags & REDIRECT_PATH != 0 {
                    Some(Redirect::Path(from.path()?))
                } else {
                    None
                };
                ItemKind::Dir { opaque: flags & OPAQUE != 0, redirect }
            }
            SYMLINK => {
                let target = from.bytes()?;
                if target.is_empty() || target.contains(&0) {
                    return Err(Malformed("a link to nothing"));
                }
                ItemKind::Symlink(target.to_vec())
            }
            FIFO => ItemKind::Fifo,
            _ => return Err(Malformed("an entry of an unknown kind")),
        };
        let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        if flags & XATTRS != 0 {
            for _ in 0..from.count()? {
                let (name, value) = (from.bytes()?, from.bytes()?);
                if name.is_empty() || name.contains(&0) {
                    return Err(Malformed("an attribute without a name"));
                }
                if xattrs.last().is_some_and(|(last, _)| last.as_slice() >= name) {
                    return Err(Malformed("attributes out of order"));
                }
                xattrs.push((name.to_vec(), value.to_vec()));
            }
            if xattrs.is_empty() {
                return Err(Malformed("attributes that are none"));
            }
        }
        let group = if flags & GROUP != 0 { Some(from.path()?) } else { None };
        Ok(Item { kind, mode, uid, gid, mtime, xattrs, group })
    }
}

fn name(bytes: &[u8]) -> Decoded<Vec<u8>> {
    let path = crate::encode::tree_path(bytes)?;
    if path.is_root() || bytes.contains(&b'/') {
        return Err(Malformed("a redirect to no name"));
    }
    Ok(bytes.to_vec())
}
