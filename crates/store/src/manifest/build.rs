//! [`Builder`]: entries in order become nodes; and [`edit`]: a manifest with some entries changed, at a cost that follows
//! the changes.
//!
//! Invariant: the nodes are those that the whole list would make. A node of the old manifest is taken over only where
//! the new one begins a node at the same entry, and never when it is the last of its level, since only the end of
//! the list has ended that one.

use tree::TreePath;

use super::item::Item;
use super::node::{Child, Draft, Node, decode};
use super::read::{Nodes, get, load};
use crate::encode::MAX_PATH;
use crate::error::{Error, Result};
use crate::id::{ManifestId, ObjectKind};
use crate::writer::Writer;

/// Entries on their way into a manifest.
struct Builder<'w, 's> {
    writer: &'w mut Writer<'s>,
    /// The unfinished node of each level.
    levels: Vec<Draft>,
}

impl Builder<'_, '_> {
    fn item(&mut self, path: &TreePath, item: &Item) -> Result<()> {
        let (size, limit) = (path.as_bytes().len() as u64, MAX_PATH as u64);
        if size > limit {
            return Err(Error::TooLarge { what: "path", size, limit });
        }
        if self.level(0).item(path, item) {
            self.close(0)?;
        }
        Ok(())
    }

    fn child(&mut self, level: u8, child: &Child) -> Result<()> {
        if self.level(level).child(child) {
            self.close(level)?;
        }
        Ok(())
    }

    fn level(&mut self, level: u8) -> &mut Draft {
        while self.levels.len() <= usize::from(level) {
            self.levels.push(Draft::new(self.levels.len() as u8));
        }
        &mut self.levels[usize::from(level)]
    }

    /// True where a node of this level would begin with the next entry.
    fn is_edge(&self, level: u8) -> bool {
        self.levels.iter().take(usize::from(level) + 1).all(Draft::is_empty)
    }

    fn close(&mut self, level: u8) -> Result<()> {
        let child = self.store(level)?;
        self.child(level + 1, &child)
    }

    fn store(&mut self, level: u8) -> Result<Child> {
        let draft = self.level(level);
        let first = draft.first.clone().unwrap_or_default();
        let entries = draft.entries;
        let bytes = draft.close();
        debug_assert!(decode(&bytes).is_ok(), "a node that could not be read");
        let node = self.writer.put_object(ObjectKind::Node, &bytes)?;
        Ok(Child { first, node, entries })
    }

    /// Closes what is open. The root is the lowest node that holds everything.
    fn finish(mut self) -> Result<ManifestId> {
        let mut level = 0;
        loop {
            let above_is_empty = self.levels.iter().skip(usize::from(level) + 1).all(Draft::is_empty);
            if above_is_empty {
                // All of it is in this node, or in the one node that it holds.
                if level > 0
                    && let Some(only) = self.levels[usize::from(level)].only()
                {
                    return Ok(ManifestId(only.0));
                }
                return Ok(ManifestId(self.store(level)?.node.0));
            }
            if !self.level(level).is_empty() {
                let child = self.store(level)?;
                // At the end of the list it does not matter whether the node above is full.
                self.level(level + 1).child(&child);
            }
            level += 1;
        }
    }
}

/// Stores entries, which come in their order, as a manifest.
pub(crate) fn build(
    writer: &mut Writer<'_>,
    items: impl IntoIterator<Item = (TreePath, Item)>,
) -> Result<ManifestId> {
    let mut builder = Builder { writer, levels: Vec::new() };
    let mut last: Option<TreePath> = None;
    for (path, item) in items {
        in_order(&mut last, &path)?;
        builder.item(&path, &item)?;
    }
    builder.finish()
}

fn in_order(last: &mut Option<TreePath>, path: &TreePath) -> Result<()> {
    if last.as_ref().is_some_and(|last| last >= path) {
        return Err(Error::Unsorted(path.clone()));
    }
    *last = Some(path.clone());
    Ok(())
}

/// A piece of the old manifest that is still to come.
enum Piece {
    /// A node that is not looked into yet: its level, and whether it is the last one there.
    Below {
        level: u8,
        child: Child,
        last: bool,
    },
    Item(TreePath, Box<Item>),
}

impl Piece {
    fn first(&self) -> &TreePath {
        match self {
            Piece::Below { child, .. } => &child.first,
            Piece::Item(path, _) => path,
        }
    }
}

/// The manifest `old` with some entries set (`Some`) or taken out (`None`). Edits come in their order.
pub(crate) fn edit(
    writer: &mut Writer<'_>,
    old: ManifestId,
    edits: impl IntoIterator<Item = (TreePath, Option<Item>)>,
) -> Result<ManifestId> {
    let mut edits = edits.into_iter().peekable();
    if edits.peek().is_none() {
        return Ok(old);
    }
    let mut last_edit = None;
    // The pieces in reverse, the next one at the end.
    let mut pieces = Vec::new();
    open(&mut pieces, load(&*writer, old.object())?, true);
    let mut builder = Builder { writer, levels: Vec::new() };
    loop {
        let next = pieces.last().map(Piece::first);
        // Entries that come before everything that is left of the old manifest.
        if let Some((path, _)) = edits.peek()
            && next.is_none_or(|next| path < next)
        {
            let Some((path, item)) = edits.next() else { continue };
            in_order(&mut last_edit, &path)?;
            if let Some(item) = item {
                builder.item(&path, &item)?;
            }
            continue;
        }
        let Some(piece) = pieces.pop() else { break };
        match piece {
            Piece::Item(path, item) => match edits.next_if(|(edited, _)| *edited == path) {
                None => builder.item(&path, &item)?,
                Some((path, item)) => {
                    in_order(&mut last_edit, &path)?;
                    if let Some(item) = item {
                        builder.item(&path, &item)?;
                    }
                }
            },
            Piece::Below { level, child, last } => {
                let end = pieces.last().map(Piece::first);
                let touched = edits.peek().is_some_and(|(path, _)| end.is_none_or(|end| path < end));
                if !touched && !last && builder.is_edge(level) {
                    builder.child(level + 1, &child)?;
                } else {
                    let node = load(&*builder.writer, child.node)?;
                    open(&mut pieces, node, last);
                }
            }
        }
    }
    builder.finish()
}

/// Puts what a node holds before everything that is still to come.
fn open(pieces: &mut Vec<Piece>, node: Node, last: bool) {
    match node {
        Node::Leaf(items) => {
            pieces.extend(items.into_iter().rev().map(|(path, item)| Piece::Item(path, Box::new(item))));
        }
        Node::Inner(level, children) => {
            let count = children.len();
            pieces.extend(children.into_iter().enumerate().rev().map(|(number, child)| Piece::Below {
                level: level - 1,
                child,
                last: last && number + 1 == count,
            }));
        }
    }
}

impl Nodes for Writer<'_> {
    fn node(&self, id: crate::id::ObjectId) -> Result<std::sync::Arc<[u8]>> {
        self.object(ObjectKind::Node, id)
    }
}

impl Writer<'_> {
    /// Stores entries, which come in the order of their paths, as a manifest. Equal entries give equal ids.
    pub fn manifest(&mut self, items: impl IntoIterator<Item = (TreePath, Item)>) -> Result<ManifestId> {
        build(self, items)
    }

    /// The entry at `path` of a manifest, stored or about to be.
    pub(crate) fn manifest_item(&self, id: ManifestId, path: &TreePath) -> Result<Option<Item>> {
        get(self, id, path)
    }

    /// The manifest `old` with entries set or, with `None`, taken out, in the order of their paths. The answer is
    /// what [`Writer::manifest`] gives for the whole list; the cost follows the edits.
    pub fn edit(
        &mut self,
        old: ManifestId,
        edits: impl IntoIterator<Item = (TreePath, Option<Item>)>,
    ) -> Result<ManifestId> {
        edit(self, old, edits)
    }
}
