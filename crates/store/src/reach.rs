//! [`Reach`]: what can be reached from snapshots, each object once.
//!
//! Invariant: an object is counted before what lies below it, and nothing below an object that was counted is looked at
//! again; so the cost is that of what snapshots do not have in common. What cannot be read is told, not passed over.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use crate::content::{Content, Part, decode_list};
use crate::error::{Damage, Error, Result};
use crate::history::{History, LaneKey};
use crate::id::{ManifestId, ObjectId, ObjectKind};
use crate::manifest::item::ItemKind;
use crate::manifest::node::Node;
use crate::manifest::read::load;
use crate::record::Record;
use crate::store::Store;

/// Who reached an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    /// The first.
    pub(crate) first: usize,
    /// There are others.
    pub(crate) shared: bool,
}

/// Objects by the snapshots that need them.
#[derive(Debug)]
pub(crate) struct Owners<'s> {
    reach: Reach<'s>,
    pub(crate) owners: HashMap<ObjectId, Owner>,
}

impl Owners<'_> {
    /// Adds everything that a snapshot rests on. What another one was alone with is looked into once more, and then
    /// no more.
    pub(crate) fn snapshot(&mut self, number: usize, record: &Record) -> Result<()> {
        let Owners { reach, owners } = self;
        let manifests: Vec<ManifestId> = record.manifests(&reach.layers).map(|(_, id)| id).collect();
        let mut add = |id: ObjectId| match owners.entry(id) {
            Entry::Vacant(entry) => {
                entry.insert(Owner { first: number, shared: false });
                true
            }
            Entry::Occupied(mut entry) => {
                let owner = entry.get_mut();
                let news = !owner.shared && owner.first != number;
                owner.shared |= news;
                news
            }
        };
        manifests.into_iter().try_for_each(|id| reach.manifest(id, &mut add))
    }
}

/// Says of an object whether it is new, so that what lies below it is to be looked at.
type Add<'a> = &'a mut dyn FnMut(ObjectId) -> bool;

/// A set of objects that grows by whole snapshots.
#[derive(Debug)]
pub(crate) struct Reach<'s> {
    store: &'s Store,
    /// Everything that was reached.
    pub(crate) live: HashSet<ObjectId>,
    /// What could not be read on the way.
    pub(crate) damage: Vec<Damage>,
    /// What was reached since [`Reach::since`] was asked.
    fresh: Vec<ObjectId>,
    /// Sealed layers that records name by their id alone.
    layers: HashMap<Vec<u8>, ManifestId>,
}

impl<'s> Reach<'s> {
    pub(crate) fn new(store: &'s Store, histories: &[(LaneKey, History)]) -> Reach<'s> {
        Reach::beyond(store, histories, HashSet::new())
    }

    /// As [`Reach::new`], where `live` was reached before and is not looked into again.
    pub(crate) fn beyond(
        store: &'s Store,
        histories: &[(LaneKey, History)],
        live: HashSet<ObjectId>,
    ) -> Reach<'s> {
        // A fork's lane names layers that its parent's lane has sealed.
        let layers = histories.iter().flat_map(|(_, history)| history.layers().clone()).collect();
        Reach { store, live, damage: Vec::new(), fresh: Vec::new(), layers }
    }

    /// Adds everything that a snapshot rests on.
    pub(crate) fn snapshot(&mut self, record: &Record) -> Result<()> {
        let manifests: Vec<ManifestId> = record.manifests(&self.layers).map(|(_, id)| id).collect();
        let (mut live, mut fresh) = (std::mem::take(&mut self.live), std::mem::take(&mut self.fresh));
        let mut add = |id: ObjectId| {
            let new = live.insert(id);
            if new {
                fresh.push(id);
            }
            new
        };
        let done = manifests.into_iter().try_for_each(|id| self.manifest(id, &mut add));
        (self.live, self.fresh) = (live, fresh);
        done
    }

    /// The same walk, asking who needs what.
    pub(crate) fn owning(self) -> Owners<'s> {
        Owners { reach: self, owners: HashMap::new() }
    }

    /// What was added since the last time that this was asked.
    pub(crate) fn since(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.fresh)
    }

    /// Takes back what was added last.
    pub(crate) fn forget(&mut self, ids: &[ObjectId]) {
        ids.iter().for_each(|id| {
            self.live.remove(id);
        });
    }

    fn manifest(&mut self, id: ManifestId, add: Add<'_>) -> Result<()> {
        let mut nodes = vec![id.object()];
        while let Some(id) = nodes.pop() {
            if !add(id) {
                continue;
            }
            let loaded = load(self.store, id);
            match self.told(id, ObjectKind::Node, loaded)? {
                Some(Node::Inner(_, children)) => nodes.extend(children.into_iter().map(|child| child.node)),
                Some(Node::Leaf(items)) => {
                    for (_, item) in items {
                        if let ItemKind::File(content) = item.kind {
                            self.content(&content, add)?;
                        }
                    }
                }
                None => {}
            }
        }
        Ok(())
    }

    fn content(&mut self, content: &Content, add: Add<'_>) -> Result<()> {
        let mut lists = match content {
            Content::Inline(_) => return Ok(()),
            Content::Blob { id, .. } => {
                add(*id);
                return Ok(());
            }
            Content::Parts { id, .. } => vec![*id],
        };
        while let Some(id) = lists.pop() {
            if !add(id) {
                continue;
            }
            let bytes = self.store.object(ObjectKind::Parts, id);
            let Some(bytes) = self.told(id, ObjectKind::Parts, bytes)? else { continue };
            let decoded = decode_list(&bytes)
                .map_err(|problem| Error::malformed(format!("parts list {id}"), problem.0));
            let Some((level, parts)) = self.told(id, ObjectKind::Parts, decoded)? else { continue };
            for part in parts {
                match part {
                    Part::Data(_, below) if level > 0 => lists.push(below),
                    Part::Data(_, below) => {
                        add(below);
                    }
                    Part::Hole(_) => {}
                }
            }
        }
        Ok(())
    }

    fn told<T>(&mut self, id: ObjectId, kind: ObjectKind, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(Error::Damaged(damage)) => {
                self.damage.push(*damage);
                Ok(None)
            }
            Err(Error::Malformed { why, .. }) => {
                self.damage.push(Damage { id, kind, place: None, why });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
