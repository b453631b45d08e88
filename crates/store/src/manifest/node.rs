//! The nodes that a manifest is made of, and where one ends and the next begins.
//!
//! ```text
//! leaf   version (u8) = 1, level (u8) = 0, count; each: bytes shared with the path before, rest of the path, item
//! inner  version (u8) = 1, level (u8) > 0, count; each: first path below (as above), hash of the node, entries below
//! ```
//!
//! Invariant: a node ends after an entry whose path says so, or when it is full; neither depends on what stands before
//! the node. So a list of entries makes the same nodes however it came to be, and a changed entry changes its own leaf
//! and the nodes above it alone.

use tree::TreePath;

use super::item::Item;
use crate::encode::{Decoded, MAX_PATH, Malformed, Put, Take, tree_path};
use crate::id::ObjectId;

const VERSION: u8 = 1;
/// One path in this many ends a leaf, or an inner node.
const LEAF: u32 = 32;
const INNER: u32 = 32;
/// A node that is this long ends in any case.
const FULL: usize = 16 * 1024;
/// More levels than any manifest has.
pub(crate) const LEVELS: u8 = 32;

/// A node below an inner one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) first: TreePath,
    pub(crate) node: ObjectId,
    /// Entries of all leaves below.
    pub(crate) entries: u64,
}

/// A decoded node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Leaf(Vec<(TreePath, Item)>),
    Inner(u8, Vec<Child>),
}

/// A node in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    level: u8,
    count: u64,
    body: Vec<u8>,
    pub(crate) first: Option<TreePath>,
    last: Vec<u8>,
    pub(crate) entries: u64,
    child: Option<ObjectId>,
}

impl Draft {
    pub(crate) fn new(level: u8) -> Draft {
        Draft { level, count: 0, body: Vec::new(), first: None, last: Vec::new(), entries: 0, child: None }
    }

    /// The one node below, where there is exactly one.
    pub(crate) fn only(&self) -> Option<ObjectId> {
        self.child.filter(|_| self.count == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds an entry of a leaf; true where the node ends here.
    pub(crate) fn item(&mut self, path: &TreePath, item: &Item) -> bool {
        self.path(path);
        item.put(&mut self.body);
        self.entries += 1;
        self.ends(path)
    }

    /// Adds a node below an inner one; true where the node ends here.
    pub(crate) fn child(&mut self, child: &Child) -> bool {
        self.path(&child.first);
        self.body.raw(&child.node.0);
        self.body.number(child.entries);
        self.entries += child.entries;
        self.child = Some(child.node);
        self.ends(&child.first)
    }

    fn path(&mut self, path: &TreePath) {
        let bytes = path.as_bytes();
        let shared = self.last.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        self.body.number(shared as u64);
        self.body.bytes(&bytes[shared..]);
        self.first.get_or_insert_with(|| path.clone());
        self.last.clear();
        self.last.extend_from_slice(bytes);
        self.count += 1;
    }

    fn ends(&self, path: &TreePath) -> bool {
        // An inner node with one child would not make the tree narrower, however long the paths are.
        let narrows = self.level == 0 || self.count > 1;
        narrows && (self.body.len() >= FULL || is_edge(self.level, path))
    }

    /// The node's bytes, and a draft of the next.
    pub(crate) fn close(&mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 8);
        out.byte(VERSION);
        out.byte(self.level);
        out.number(self.count);
        out.raw(&self.body);
        *self = Draft::new(self.level);
        out
    }
}

/// True where a path ends the node of this level that it stands in. Levels ask different questions, so that the path
/// that begins a leaf is no likelier to end an inner node.
fn is_edge(level: u8, path: &TreePath) -> bool {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[level]).update(path.as_bytes());
    let mut front = [0; 4];
    front.copy_from_slice(&hasher.finalize().as_bytes()[..4]);
    let one_in = if level == 0 { LEAF } else { INNER };
    u32::from_le_bytes(front) < u32::MAX / one_in
}

pub(crate) fn decode(bytes: &[u8]) -> Decoded<Node> {
    let mut take = Take(bytes);
    if take.byte()? != VERSION {
        return Err(Malformed("a node of an unknown version"));
    }
    let level = take.byte()?;
    if level > LEVELS {
        return Err(Malformed("a node of an impossible level"));
    }
    let count = take.count()?;
    let mut last = TreePath::root();
    let mut path = |take: &mut Take<'_>, number: usize| -> Decoded<TreePath> {
        let shared = take.number()?;
        let rest = take.bytes()?;
        let front = usize::try_from(shared).ok().and_then(|shared| last.as_bytes().get(..shared));
        let mut whole = front.ok_or(Malformed("a path shares more than there is"))?.to_vec();
        // One encoding: what could be shared is.
        if last.as_bytes().get(whole.len()).is_some_and(|next| rest.first() == Some(next)) {
            return Err(Malformed("a path shares less than it could"));
        }
        if whole.len() + rest.len() > MAX_PATH {
            return Err(Malformed("a path is too long"));
        }
        whole.extend_from_slice(rest);
        let path = tree_path(&whole)?;
        if number > 0 && path <= last {
            return Err(Malformed("entries out of order"));
        }
        last = path.clone();
        Ok(path)
    };
    let node = if level == 0 {
        let mut items = Vec::with_capacity(count.min(1024));
        for number in 0..count {
            items.push((path(&mut take, number)?, Item::take(&mut take)?));
        }
        Node::Leaf(items)
    } else {
        let mut children = Vec::with_capacity(count.min(1024));
        for number in 0..count {
            let first = path(&mut take, number)?;
            children.push(Child { first, node: ObjectId(take.hash()?), entries: take.number()? });
        }
        if children.is_empty() {
            return Err(Malformed("an inner node with nothing below"));
        }
        Node::Inner(level, children)
    };
    take.end()?;
    Ok(node)
}
