//! The check itself: files first, then everything that snapshots lead to.
//!
//! Invariant: what is sound is looked into once, however many snapshots share it; what is not is looked into for each of
//! them, so that everybody who needs it is told.

use std::collections::{HashMap, HashSet};

use kernel::bytes;
use tree::TreePath;

use super::{Checked, Finding, Need};
use crate::content::{Content, PARTS_LEVELS, Part, decode_list};
use crate::error::{Damage, Error, Result, Stepping as _};
use crate::gc::large_files;
use crate::history::LaneKey;
use crate::id::{ManifestId, ObjectId, ObjectKind, SnapshotId};
use crate::manifest::item::ItemKind;
use crate::manifest::node::{Child, Node};
use crate::manifest::read::{load, load_child};
use crate::pack::{HEAD, head_fits};
use crate::store::{Store, read_placed};

/// Needs that are listed of one damaged object.
const LISTED: usize = 64;

/// Checks everything. `progress` hears the bytes read so far.
pub fn check(store: &Store, progress: &mut dyn FnMut(u64)) -> Result<Checked> {
    let _held = store.hold()?;
    let mut check = Check {
        store,
        progress,
        checked: Checked::default(),
        whole: HashSet::new(),
        bad: HashMap::new(),
        sound: HashSet::new(),
        shared: HashMap::new(),
    };
    check.packs()?;
    check.large()?;
    check.histories()?;
    check.finish()
}

struct Bad {
    damage: Damage,
    needed_by: Vec<Need>,
    needs: u64,
}

struct Check<'s, 'p> {
    store: &'s Store,
    progress: &'p mut dyn FnMut(u64),
    checked: Checked,
    /// Objects that a pack holds as they should be.
    whole: HashSet<ObjectId>,
    bad: HashMap<ObjectId, Bad>,
    /// Nodes and lists below which nothing is wrong.
    sound: HashSet<ObjectId>,
    /// For each large file the parts that are not as its list says.
    shared: HashMap<ObjectId, HashSet<u64>>,
}

/// Where the walk of a snapshot is.
#[derive(Clone, Copy)]
struct At<'a> {
    lane: &'a LaneKey,
    snapshot: SnapshotId,
    root: u32,
}

impl Check<'_, '_> {
    fn packs(&mut self) -> Result<()> {
        let index = self.store.refresh()?;
        for table in self.store.tables(&index)?.iter() {
            let Some(fd) = self.store.pack(table.pack)? else { continue };
            let name = table.pack.file_name();
            self.checked.packs += 1;
            if let Some(why) = table.broken {
                self.checked.findings.push(Finding::Pack { pack: table.pack, why });
            }
            for placed in table.iter() {
                self.checked.objects += 1;
                self.checked.bytes += u64::from(placed.len);
                let mut head = [0; HEAD];
                let at = placed.offset.saturating_sub(HEAD as u64);
                let got = bytes::read_full_at(&*fd, &mut head, at).stepping("read", &name)?;
                let why = match read_placed(&*fd, placed.kind, &placed).stepping("read", &name)? {
                    Err(why) => Some(why),
                    Ok(_) if got < HEAD || !head_fits(&head, &placed) => {
                        // Readers go by the index; but without it this object would not be found.
                        self.whole.insert(placed.id);
                        Some("its head is damaged")
                    }
                    Ok(_) => {
                        self.whole.insert(placed.id);
                        None
                    }
                };
                if let Some(why) = why {
                    let place = Some((name.clone(), placed.offset));
                    self.note(Damage { id: placed.id, kind: placed.kind, place, why });
                }
            }
            (self.progress)(self.checked.bytes);
        }
        for name in index.damaged_segments().stepping("read", b"index")? {
            self.checked.findings.push(Finding::Index { name });
        }
        Ok(())
    }

    fn large(&mut self) -> Result<()> {
        for (name, id, _) in large_files(self.store)? {
            let Some(fd) = self.store.large_file(id)? else { continue };
            self.checked.large += 1;
            let size = kernel::meta::stat_fd(&fd).stepping("stat", &name)?.size;
            let mut wrong = HashSet::new();
            let mut bytes = 0;
            let walked = self.store.each_part(id, size, &mut |at, part| {
                if let Part::Data(len, part) = part {
                    bytes += len;
                    let mut content =
                        vec![0; usize::try_from(len).unwrap_or(0).min(crate::pack::MAX_OBJECT as usize)];
                    let got = bytes::read_full_at(&fd, &mut content, at).unwrap_or(0);
                    if got as u64 != len || ObjectId::of(ObjectKind::Blob, &content) != part {
                        wrong.insert(at);
                    }
                }
                Ok(())
            });
            self.checked.bytes += bytes;
            (self.progress)(self.checked.bytes);
            let why = match walked {
                Ok(()) if wrong.is_empty() => None,
                Ok(()) => Some("a part of it has another hash"),
                Err(Error::Malformed { .. }) => Some("it has another length than its list"),
                // What is wrong with the list is told where the list is.
                Err(Error::Damaged(_)) => None,
                Err(error) => return Err(error),
            };
            if let Some(why) = why {
                let offset = wrong.iter().min().copied().unwrap_or(0);
                let place = Some((format!("large/{name}"), offset));
                self.note(Damage { id, kind: ObjectKind::Parts, place, why });
            }
            self.shared.insert(id, wrong);
        }
        Ok(())
    }

    fn histories(&mut self) -> Result<()> {
        let mut histories = Vec::new();
        for lane in self.store.lanes()? {
            let history = self.store.history(&lane)?;
            histories.push((lane, history));
        }
        let layers = histories.iter().flat_map(|(_, history)| history.layers().clone()).collect();
        for (lane, history) in &histories {
            for stray in &history.strays {
                self.checked.findings.push(Finding::History { lane: lane.clone(), stray: *stray });
            }
            for (snapshot, record) in history.snapshots() {
                self.checked.snapshots += 1;
                for (root, manifest) in record.manifests(&layers) {
                    self.manifest(At { lane, snapshot, root }, manifest)?;
                }
            }
        }
        Ok(())
    }

    fn manifest(&mut self, at: At<'_>, id: ManifestId) -> Result<bool> {
        if self.sound.contains(&id.object()) {
            return Ok(true);
        }
        let node = load(self.store, id.object());
        self.node(at, id.object(), &TreePath::root(), node)
    }

    /// Follows a node; true where nothing is wrong with it and all that is below it.
    fn node(&mut self, at: At<'_>, id: ObjectId, first: &TreePath, node: Result<Node>) -> Result<bool> {
        let sound = match node {
            Err(error) => {
                self.need(at, id, ObjectKind::Node, first, error)?;
                false
            }
            Ok(Node::Leaf(items)) => {
                let mut sound = true;
                for (path, item) in items {
                    if let ItemKind::File(content) = &item.kind {
                        sound &= self.content(at, &path, content)?;
                    }
                }
                sound
            }
            Ok(Node::Inner(level, children)) => {
                let mut sound = true;
                for child in children {
                    sound &= self.child(at, level, &child)?;
                }
                sound
            }
        };
        if sound {
            self.sound.insert(id);
        }
        Ok(sound)
    }

    fn child(&mut self, at: At<'_>, level: u8, child: &Child) -> Result<bool> {
        if self.sound.contains(&child.node) {
            return Ok(true);
        }
        let node = load_child(self.store, level, child);
        self.node(at, child.node, &child.first, node)
    }

    fn content(&mut self, at: At<'_>, path: &TreePath, content: &Content) -> Result<bool> {
        match content {
            Content::Inline(_) => Ok(true),
            Content::Blob { id, .. } => self.blob(at, path, *id),
            Content::Parts { id, size } => {
                if self.sound.contains(id) {
                    return Ok(true);
                }
                let mut offset = 0;
                let shared = self.shared.get(id).cloned();
                let sound = self.parts(at, path, *id, None, shared, &mut offset)?;
                if sound && offset != *size {
                    let error = Error::malformed("parts list", "its parts do not add up to the file");
                    self.need(at, *id, ObjectKind::Parts, path, error)?;
                    return Ok(false);
                }
                if sound {
                    self.sound.insert(*id);
                }
                Ok(sound)
            }
        }
    }

    /// Follows a list of parts. `shared` are the wrong parts of the large file that holds the whole, if there is one.
    fn parts(
        &mut self,
        at: At<'_>,
        path: &TreePath,
        id: ObjectId,
        above: Option<u8>,
        shared: Option<HashSet<u64>>,
        offset: &mut u64,
    ) -> Result<bool> {
        let list = self.store.object(ObjectKind::Parts, id).and_then(|bytes| match decode_list(&bytes) {
            Ok((level, _)) if level > PARTS_LEVELS || above.is_some_and(|above| level + 1 != above) => {
                Err(Error::malformed("parts list", "a list at the wrong level"))
            }
            list => list.map_err(|problem| Error::malformed("parts list", problem.0)),
        });
        let (level, parts) = match list {
            Ok(list) => list,
            Err(error) => {
                self.need(at, id, ObjectKind::Parts, path, error)?;
                return Ok(false);
            }
        };
        let mut sound = true;
        for part in parts {
            match part {
                Part::Hole(len) => *offset = offset.saturating_add(len),
                Part::Data(_, below) if level > 0 => {
                    sound &= self.parts(at, path, below, Some(level), shared.clone(), offset)?;
                }
                Part::Data(len, below) => {
                    let held = shared.as_ref().is_some_and(|wrong| !wrong.contains(offset));
                    sound &= held || self.blob(at, path, below)?;
                    *offset = offset.saturating_add(len);
                }
            }
        }
        Ok(sound)
    }

    fn blob(&mut self, at: At<'_>, path: &TreePath, id: ObjectId) -> Result<bool> {
        if self.whole.contains(&id) {
            return Ok(true);
        }
        // Asking for it tells where it should be.
        let error = match self.store.object(ObjectKind::Blob, id) {
            Ok(_) => return Ok(true),
            Err(error) => error,
        };
        self.need(at, id, ObjectKind::Blob, path, error)?;
        Ok(false)
    }

    /// Notes that a snapshot misses an object.
    fn need(
        &mut self,
        at: At<'_>,
        id: ObjectId,
        kind: ObjectKind,
        path: &TreePath,
        error: Error,
    ) -> Result<()> {
        let damage = match error {
            Error::Damaged(damage) => *damage,
            Error::Malformed { why, .. } => Damage { id, kind, place: None, why },
            error => return Err(error),
        };
        let index = self.store.index()?;
        let bad = self.bad.entry(damage.id).or_insert_with(|| {
            let mut damage = damage;
            if damage.place.is_none() {
                let found = index.find(&damage.id).ok().flatten();
                damage.place = found.map(|(pack, placed)| (pack.file_name(), placed.offset));
            }
            Bad { damage, needed_by: Vec::new(), needs: 0 }
        });
        bad.needs += 1;
        if bad.needed_by.len() < LISTED {
            let (lane, snapshot, root) = (at.lane.clone(), at.snapshot, at.root);
            bad.needed_by.push(Need { lane, snapshot, root, path: path.clone() });
        }
        Ok(())
    }

    /// Notes damage that was met while files were read.
    fn note(&mut self, damage: Damage) {
        self.bad.entry(damage.id).or_insert(Bad { damage, needed_by: Vec::new(), needs: 0 });
    }

    fn finish(mut self) -> Result<Checked> {
        let mut bad: Vec<Bad> = self.bad.into_values().collect();
        bad.sort_by(|a, b| (&a.damage.place, a.damage.id).cmp(&(&b.damage.place, b.damage.id)));
        self.checked.findings.extend(bad.into_iter().map(|bad| Finding::Object {
            spare: self.whole.contains(&bad.damage.id),
            damage: bad.damage,
            needed_by: bad.needed_by,
            needs: bad.needs,
        }));
        Ok(self.checked)
    }
}
