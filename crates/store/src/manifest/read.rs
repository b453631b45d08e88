//! [`Manifest`]: a stored manifest, looked up, listed and walked.
//!
//! Invariant: a lookup reads as many nodes as the tree is high, and a range reads what it gives. What is read is not
//! taken at its word: a node must lie where its parent says, so that no damage or forgery leads in a circle.

use std::sync::Arc;

use tree::TreePath;

use super::diff::Diff;
use super::item::Item;
use super::node::{Child, LEVELS, Node, decode};
use crate::encode::Malformed;
use crate::error::{Error, Result};
use crate::id::{ManifestId, ObjectId, ObjectKind};
use crate::store::Store;

/// Where nodes come from.
pub(crate) trait Nodes {
    /// The bytes of a node.
    fn node(&self, id: ObjectId) -> Result<Arc<[u8]>>;
}

impl Nodes for Store {
    fn node(&self, id: ObjectId) -> Result<Arc<[u8]>> {
        Ok(self.object(ObjectKind::Node, id)?.into())
    }
}

pub(crate) fn load<N: Nodes + ?Sized>(nodes: &N, id: ObjectId) -> Result<Node> {
    decode(&nodes.node(id)?).map_err(|Malformed(why)| Error::malformed(format!("manifest node {id}"), why))
}

/// A node below another one: its level and first path are those that the other names.
pub(crate) fn load_child<N: Nodes + ?Sized>(nodes: &N, above: u8, child: &Child) -> Result<Node> {
    let node = load(nodes, child.node)?;
    let (level, first) = match &node {
        Node::Leaf(items) => (0, items.first().map(|(path, _)| path)),
        Node::Inner(level, children) => (*level, children.first().map(|child| &child.first)),
    };
    if level + 1 != above || first != Some(&child.first) {
        return Err(Error::malformed(
            format!("manifest node {}", child.node),
            "is not what leads to it says",
        ));
    }
    Ok(node)
}

/// The entry at `path` of a manifest.
pub(crate) fn get<N: Nodes + ?Sized>(nodes: &N, id: ManifestId, path: &TreePath) -> Result<Option<Item>> {
    let mut node = load(nodes, id.object())?;
    loop {
        match node {
            Node::Leaf(items) => {
                let found = items.binary_search_by(|(known, _)| known.cmp(path));
                return Ok(found.ok().and_then(|at| items.into_iter().nth(at)).map(|(_, item)| item));
            }
            Node::Inner(level, children) => {
                let after = children.partition_point(|child| child.first <= *path);
                let Some(at) = after.checked_sub(1) else { return Ok(None) };
                node = load_child(nodes, level, &children[at])?;
            }
        }
    }
}

/// A stored manifest.
#[derive(Debug, Clone, Copy)]
pub struct Manifest<'s> {
    pub(crate) store: &'s Store,
    id: ManifestId,
}

impl Store {
    /// The manifest of this id. Nothing is read yet.
    pub fn manifest(&self, id: ManifestId) -> Manifest<'_> {
        Manifest { store: self, id }
    }
}

impl<'s> Manifest<'s> {
    /// Its id.
    pub fn id(&self) -> ManifestId {
        self.id
    }

    /// Number of entries.
    pub fn count(&self) -> Result<u64> {
        Ok(match load(self.store, self.id.object())? {
            Node::Leaf(items) => items.len() as u64,
            Node::Inner(_, children) => {
                children.iter().map(|child| child.entries).fold(0, u64::saturating_add)
            }
        })
    }

    /// The entry at `path`.
    pub fn get(&self, path: &TreePath) -> Result<Option<Item>> {
        get(self.store, self.id, path)
    }

    /// All entries in their order.
    pub fn iter(&self) -> Result<Entries<'s>> {
        self.from(&TreePath::root())
    }

    /// The entries from `path` on (there or not), in their order.
    pub fn from(&self, path: &TreePath) -> Result<Entries<'s>> {
        let mut entries =
            Entries { store: self.store, stack: Vec::new(), leaf: Vec::new().into_iter(), below: None };
        let mut node = load(self.store, self.id.object())?;
        loop {
            match node {
                Node::Leaf(mut items) => {
                    let skip = items.partition_point(|(known, _)| known < path);
                    items.drain(..skip);
                    entries.leaf = items.into_iter();
                    return Ok(entries);
                }
                Node::Inner(level, mut children) => {
                    let at = children.partition_point(|child| child.first <= *path).saturating_sub(1);
                    let first = children.remove(at);
                    children.drain(..at);
                    children.reverse();
                    entries.stack.push((level, children));
                    node = load_child(self.store, level, &first)?;
                }
            }
        }
    }

    /// The directory at `path` and everything below it.
    pub fn below(&self, path: &TreePath) -> Result<Entries<'s>> {
        let mut entries = self.from(path)?;
        entries.below = Some(path.clone());
        Ok(entries)
    }

    /// What differs from `other`, in order: path, the entry here, the entry there. Equal parts are not read.
    pub fn diff(&self, other: &Manifest<'s>) -> Result<Diff<'s>> {
        Diff::new(self.store, self.id, other.id)
    }
}

/// Entries of a manifest. Ends at the first error.
#[derive(Debug)]
pub struct Entries<'s> {
    store: &'s Store,
    /// Nodes that are still to come, each level in reverse.
    stack: Vec<(u8, Vec<Child>)>,
    leaf: std::vec::IntoIter<(TreePath, Item)>,
    below: Option<TreePath>,
}

impl Entries<'_> {
    /// Goes on at `path`, which lies ahead, without reading what is between.
    pub(crate) fn skip_to(&mut self, path: &TreePath) -> Result<()> {
        let ahead = self.leaf.as_slice();
        let skip = ahead.partition_point(|(known, _)| known < path);
        if skip < ahead.len() {
            self.leaf.by_ref().take(skip).for_each(drop);
            return Ok(());
        }
        self.leaf = Vec::new().into_iter();
        while let Some((_, children)) = self.stack.last_mut() {
            // Children stand in reverse: this is the last one that begins at the path or before it.
            let at = children.partition_point(|child| child.first > *path);
            if at < children.len() {
                children.truncate(at + 1);
            } else if !children.is_empty() {
                return Ok(());
            }
            let after = self.stack.iter().rev().skip(1).find_map(|(_, children)| children.last());
            let Some((level, children)) = self.stack.last() else { return Ok(()) };
            if children.is_empty() || at == 0 && after.is_some_and(|after| after.first <= *path) {
                self.stack.pop();
                continue;
            }
            let level = *level;
            let Some(child) = self.stack.last_mut().and_then(|(_, children)| children.pop()) else {
                continue;
            };
            match load_child(self.store, level, &child)? {
                Node::Leaf(mut items) => {
                    let skip = items.partition_point(|(known, _)| known < path);
                    items.drain(..skip);
                    self.leaf = items.into_iter();
                    return Ok(());
                }
                Node::Inner(level, mut children) => {
                    children.reverse();
                    self.stack.push((level, children));
                }
            }
        }
        Ok(())
    }

    fn refill(&mut self) -> Result<bool> {
        while let Some((level, children)) = self.stack.last_mut() {
            let level = *level;
            let Some(child) = children.pop() else {
                self.stack.pop();
                continue;
            };
            if self.stack.len() > usize::from(LEVELS) {
                return Err(Error::malformed(format!("manifest node {}", child.node), "is too deep"));
            }
            match load_child(self.store, level, &child)? {
                Node::Leaf(items) => {
                    self.leaf = items.into_iter();
                    return Ok(true);
                }
                Node::Inner(level, mut children) => {
                    children.reverse();
                    self.stack.push((level, children));
                }
            }
        }
        Ok(false)
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<(TreePath, Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.leaf.next() {
                if self.below.as_ref().is_some_and(|below| !entry.0.starts_with(below)) {
                    self.stack.clear();
                    self.leaf = Vec::new().into_iter();
                    return None;
                }
                return Some(Ok(entry));
            }
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.stack.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
