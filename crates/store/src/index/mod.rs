//! [`Index`]: which pack holds which object. A view of one moment: a set of packs, merged segments over most of
//! them, and the own indexes of those that are too new to be in one.
//!
//! Invariant: derived from the packs alone, and never the truth. A pack that is not there any more is never named.

mod segment;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use kernel::publish::TEMP_PREFIX;
use kernel::{Result, dir, node, open, publish};

use crate::id::{ObjectId, hex};
use crate::pack::read::Table;
use crate::pack::{PackId, Placed};
use crate::steps::{Step, Steps};
use segment::Segment;

/// New packs that are read one by one before they are merged into a segment.
const LOOSE: usize = 16;
const SUFFIX: &[u8] = b".idx";

/// Where objects are.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Every pack.
    pub(crate) packs: BTreeSet<PackId>,
    segments: Vec<Arc<Segment>>,
    loose: Vec<Arc<Table>>,
    /// Files under temporary names were seen: somebody writes, or was killed.
    pub(crate) remnants: bool,
}

impl Index {
    /// Reads what is there now, keeping what `old` has read already.
    pub(crate) fn load(packs_dir: BorrowedFd<'_>, index_dir: BorrowedFd<'_>, old: &Index) -> Result<Index> {
        for _ in 0..8 {
            match Index::try_load(packs_dir, index_dir, old) {
                // Merged or collected between listing and opening.
                Err(error) if error.is_not_found() => {}
                answer => return answer,
            }
        }
        Index::try_load(packs_dir, index_dir, old)
    }

    fn try_load(packs_dir: BorrowedFd<'_>, index_dir: BorrowedFd<'_>, old: &Index) -> Result<Index> {
        let mut index = Index::default();
        // Segments first: a pack that comes in between is loose, one that goes is not named.
        let mut covered = BTreeSet::new();
        for item in dir::entries(index_dir)? {
            index.remnants |= item.name.starts_with(TEMP_PREFIX);
            if !item.name.ends_with(SUFFIX) {
                continue;
            }
            let known = old.segments.iter().find(|segment| segment.name == item.name).cloned();
            let segment = match known {
                Some(segment) => Some(segment),
                None => Segment::open(index_dir, &item.name)?.map(Arc::new),
            };
            if let Some(segment) = segment {
                covered.extend(segment.packs.iter().copied());
                index.segments.push(segment);
            }
        }
        for item in dir::entries(packs_dir)? {
            index.remnants |= item.name.starts_with(TEMP_PREFIX);
            index.packs.extend(PackId::from_file_name(&item.name));
        }
        for pack in index.packs.iter().filter(|pack| !covered.contains(pack)) {
            let table = match old.loose.iter().find(|table| table.pack == *pack) {
                Some(table) => table.clone(),
                None => {
                    let fd = open::name_in(packs_dir, pack.file_name().as_bytes())?;
                    Arc::new(Table::load(*pack, fd)?)
                }
            };
            index.loose.push(table);
        }
        Ok(index)
    }

    /// Every place that holds an object of this id, the likeliest first.
    pub(crate) fn find_all(&self, id: &ObjectId) -> Result<Vec<(PackId, Placed)>> {
        let mut found: Vec<(PackId, Placed)> =
            self.loose.iter().filter_map(|table| Some((table.pack, table.find(id)?))).collect();
        for segment in &self.segments {
            found.extend(segment.find(id)?.filter(|(pack, _)| self.packs.contains(pack)));
        }
        Ok(found)
    }

    /// One place that holds an object of this id.
    pub(crate) fn find(&self, id: &ObjectId) -> Result<Option<(PackId, Placed)>> {
        for table in &self.loose {
            if let Some(placed) = table.find(id) {
                return Ok(Some((table.pack, placed)));
            }
        }
        for segment in &self.segments {
            if let Some(found) = segment.find(id)?.filter(|(pack, _)| self.packs.contains(pack)) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// True where one pack more makes enough that is loose.
    pub(crate) fn is_due(&self) -> bool {
        self.loose.len() + 1 >= LOOSE
    }

    /// Merges what is loose into a segment, and small segments into larger ones, where there is enough of either.
    /// What it costs is spread over the packs: each record is merged a few times in its life.
    pub(crate) fn merge(&self, index_dir: BorrowedFd<'_>, steps: &Steps) -> Result<bool> {
        if self.loose.len() < LOOSE {
            return Ok(false);
        }
        // A segment that is not much larger than what is merged into it goes along.
        let mut sorted: Vec<&Arc<Segment>> = self.segments.iter().collect();
        sorted.sort_unstable_by_key(|segment| segment.len());
        let mut records: u64 = self.loose.iter().map(|table| table.len() as u64).sum();
        let mut along = Vec::new();
        for segment in sorted {
            if segment.len() > records * 3 {
                break;
            }
            records += segment.len();
            along.push(segment);
        }
        self.write(index_dir, steps, &along)?;
        Ok(true)
    }

    /// Writes one segment over everything, which then is the only one.
    pub(crate) fn rebuild(&self, index_dir: BorrowedFd<'_>, steps: &Steps) -> Result<()> {
        let all: Vec<&Arc<Segment>> = self.segments.iter().collect();
        self.write(index_dir, steps, &all)
    }

    fn write(&self, index_dir: BorrowedFd<'_>, steps: &Steps, along: &[&Arc<Segment>]) -> Result<()> {
        let mut records = Vec::new();
        let mut packs = BTreeSet::new();
        let mut gone = Vec::new();
        for segment in along {
            // A damaged segment is dropped; its packs are loose again for the next who looks.
            if let Some(all) = segment.all()? {
                packs.extend(segment.packs.iter().copied().filter(|pack| self.packs.contains(pack)));
                records.extend(all.into_iter().filter(|(pack, _)| self.packs.contains(pack)));
            }
            gone.push(segment.name.clone());
        }
        // The index of a damaged pack is not made to last: reading it again tells of the damage again.
        for table in self.loose.iter().filter(|table| table.broken.is_none()) {
            packs.insert(table.pack);
            records.extend(table.iter().map(|placed| (table.pack, placed)));
        }
        records.sort_unstable_by_key(|(pack, placed)| (placed.id, *pack));
        let packs: Vec<PackId> = packs.into_iter().collect();
        let bytes = segment::encode(&packs, &records);
        let mut name = hex(&blake3::hash(&bytes).as_bytes()[..16]).into_bytes();
        name.extend_from_slice(SUFFIX);
        steps.at(Step::IndexWrite)?;
        publish::write_file(index_dir, &name, &bytes, 0o400)?;
        steps.at(Step::IndexRemove)?;
        for old in gone.iter().filter(|old| **old != name) {
            forget(index_dir, old)?;
        }
        Ok(())
    }

    /// Names of segments whose bytes are not what they were.
    pub(crate) fn damaged_segments(&self) -> Result<Vec<Vec<u8>>> {
        let mut damaged = Vec::new();
        for segment in &self.segments {
            if segment.all()?.is_none() {
                damaged.push(segment.name.clone());
            }
        }
        Ok(damaged)
    }
}

/// Removes a segment; one that somebody else has removed is gone as well.
pub(crate) fn forget(index_dir: BorrowedFd<'_>, name: &[u8]) -> Result<()> {
    match node::unlink_at(index_dir, name) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}
