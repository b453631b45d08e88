//! [`Diff`]: two manifests in lock step.
//!
//! Invariant: a node that both have is never read, so that the cost follows what differs. Both lists are in one
//! order, and nodes are cut by their content: after a difference they soon begin at the same entries again.

use tree::TreePath;

use super::item::Item;
use super::node::{Child, Node};
use super::read::{load, load_child};
use crate::error::Result;
use crate::id::ManifestId;
use crate::store::Store;

/// A path with what stands there on either side.
pub type Difference = (TreePath, Option<Item>, Option<Item>);

/// What differs between two manifests, in order. Ends at the first error.
#[derive(Debug)]
pub struct Diff<'s> {
    store: &'s Store,
    old: Vec<Piece>,
    new: Vec<Piece>,
}

/// What is still to come, the next at the end.
#[derive(Debug)]
enum Piece {
    /// A node below one of this level.
    Below(u8, Child),
    Item(TreePath, Box<Item>),
}

impl Piece {
    fn first(&self) -> &TreePath {
        match self {
            Piece::Below(_, child) => &child.first,
            Piece::Item(path, _) => path,
        }
    }
}

fn open(pieces: &mut Vec<Piece>, node: Node) {
    match node {
        Node::Leaf(items) => {
            pieces.extend(items.into_iter().rev().map(|(path, item)| Piece::Item(path, Box::new(item))));
        }
        Node::Inner(level, children) => {
            pieces.extend(children.into_iter().rev().map(|child| Piece::Below(level, child)));
        }
    }
}

/// What to do next.
enum Turn {
    End,
    SkipBoth,
    OpenOld,
    OpenNew,
    OpenBoth,
    OnlyOld,
    OnlyNew,
    Pair,
}

impl<'s> Diff<'s> {
    pub(crate) fn new(store: &'s Store, old: ManifestId, new: ManifestId) -> Result<Diff<'s>> {
        let mut diff = Diff { store, old: Vec::new(), new: Vec::new() };
        if old != new {
            open(&mut diff.old, load(store, old.object())?);
            open(&mut diff.new, load(store, new.object())?);
        }
        Ok(diff)
    }

    fn turn(&self) -> Turn {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match (self.old.last(), self.new.last()) {
            (None, None) => Turn::End,
            (Some(Piece::Item(..)), None) => Turn::OnlyOld,
            (None, Some(Piece::Item(..))) => Turn::OnlyNew,
            (Some(Piece::Below(..)), None) => Turn::OpenOld,
            (None, Some(Piece::Below(..))) => Turn::OpenNew,
            (Some(Piece::Below(a, one)), Some(Piece::Below(b, two))) => {
                if one.node == two.node {
                    return Turn::SkipBoth;
                }
                // The one that begins earlier cannot be in the other; of two that begin together the higher one
                // is opened until both are of one height.
                match one.first.cmp(&two.first).then(b.cmp(a)) {
                    Less => Turn::OpenOld,
                    Greater => Turn::OpenNew,
                    Equal => Turn::OpenBoth,
                }
            }
            (Some(old @ Piece::Item(..)), Some(new @ Piece::Below(..))) => {
                if old.first() < new.first() {
                    Turn::OnlyOld
                } else {
                    Turn::OpenNew
                }
            }
            (Some(old @ Piece::Below(..)), Some(new @ Piece::Item(..))) => {
                if new.first() < old.first() {
                    Turn::OnlyNew
                } else {
                    Turn::OpenOld
                }
            }
            (Some(old), Some(new)) => match old.first().cmp(new.first()) {
                Less => Turn::OnlyOld,
                Greater => Turn::OnlyNew,
                Equal => Turn::Pair,
            },
        }
    }

    fn open_top(&mut self, old: bool) -> Result<()> {
        let pieces = if old { &mut self.old } else { &mut self.new };
        if let Some(Piece::Below(level, child)) = pieces.pop() {
            open(pieces, load_child(self.store, level, &child)?);
        }
        Ok(())
    }

    fn take(pieces: &mut Vec<Piece>) -> Option<(TreePath, Item)> {
        match pieces.pop() {
            Some(Piece::Item(path, item)) => Some((path, *item)),
            _ => None,
        }
    }

    fn step(&mut self) -> Result<Option<Difference>> {
        loop {
            match self.turn() {
                Turn::End => return Ok(None),
                Turn::SkipBoth => {
                    self.old.pop();
                    self.new.pop();
                }
                Turn::OpenOld => self.open_top(true)?,
                Turn::OpenNew => self.open_top(false)?,
                Turn::OpenBoth => {
                    self.open_top(true)?;
                    self.open_top(false)?;
                }
                Turn::OnlyOld => {
                    return Ok(Self::take(&mut self.old).map(|(path, item)| (path, Some(item), None)));
                }
                Turn::OnlyNew => {
                    return Ok(Self::take(&mut self.new).map(|(path, item)| (path, None, Some(item))));
                }
                Turn::Pair => {
                    let (old, new) = (Self::take(&mut self.old), Self::take(&mut self.new));
                    if let (Some((path, old)), Some((_, new))) = (old, new)
                        && old != new
                    {
                        return Ok(Some((path, Some(old), Some(new))));
                    }
                }
            }
        }
    }
}

impl Iterator for Diff<'_> {
    type Item = Result<Difference>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.old.clear();
            self.new.clear();
        }
        step.transpose()
    }
}
