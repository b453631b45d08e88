//! The walk over several layers that are taken as one: what a lane holds that stands on former uppers.
//!
//! Invariant: the manifest is the one that the same tree in one layer would have, so that nobody who reads it has to know
//! in how many layers it lay. Directories that refuse their owner are gaps: former uppers are not changed for a look.

use kernel::Errno;
use tree::layer::DirMarks;
use tree::union::merges_with;
use tree::upper::LayerName;
use tree::{Entry, Layer, Source, TreePath};

use super::{TOO_LONG, Walk};
use crate::encode::MAX_PATH;
use crate::error::{Error, Result, Stepping as _};

/// A directory on the way.
struct Level {
    path: TreePath,
    /// What of the base merges with it, by the marks alone.
    through: Option<TreePath>,
    /// Whether that is there; asked where a whiteout needs it.
    is_there: Option<bool>,
    names: std::vec::IntoIter<LayerName>,
}

impl Walk<'_, '_, '_> {
    pub(super) fn run_over(&mut self, layer: &dyn Layer, lower: &dyn Source) -> Result<()> {
        self.reader.open_dirs = false;
        let root = TreePath::root();
        let Some(entry) = layer.entry(&root).stepping("read", b"layer")? else { return Ok(()) };
        self.found.dev = entry.dev;
        self.visit_over(layer, &root, &entry, Some(&DirMarks::default()))?;
        let mut levels = Vec::new();
        levels.extend(self.level(layer, root.clone(), Some(root)));
        while let Some(level) = levels.last_mut() {
            let Some((name, entry)) = level.names.next() else {
                levels.pop();
                continue;
            };
            let path = level.path.join(&name);
            if self.pass.skip.contains(&path) {
                continue;
            }
            if path.as_bytes().len() > MAX_PATH {
                self.gaps.push((path, TOO_LONG.to_owned()));
                continue;
            }
            let Some(entry) = entry else { continue };
            if entry.is_whiteout() && !level.hides(lower) {
                continue;
            }
            if !entry.is_dir() {
                self.visit_over(layer, &path, &entry, None)?;
                continue;
            }
            let marks = match layer.marks(&path) {
                Ok(marks) => marks,
                Err(error) => {
                    self.gap(path, &error);
                    continue;
                }
            };
            let through = merges_with(&marks, level.through.as_ref(), &name);
            self.visit_over(layer, &path, &entry, Some(&marks))?;
            levels.extend(self.level(layer, path, through));
        }
        self.settle_gaps();
        Ok(())
    }

    fn level(&mut self, layer: &dyn Layer, path: TreePath, through: Option<TreePath>) -> Option<Level> {
        match layer.names(&path, true) {
            Ok(names) => Some(Level { path, through, is_there: None, names: names.into_iter() }),
            Err(error) => {
                self.gap(path, &error);
                None
            }
        }
    }

    fn visit_over(
        &mut self,
        layer: &dyn Layer,
        path: &TreePath,
        entry: &Entry,
        marks: Option<&DirMarks>,
    ) -> Result<()> {
        if let Some(item) = self.known_item(path, entry, marks) {
            self.take(path, super::Stamp { ino: entry.ino, ctime: entry.ctime }, item, entry);
            return Ok(());
        }
        match layer.on_disk(path) {
            Ok(Some((dir, name))) => self.visit((std::os::fd::AsFd::as_fd(&*dir), &name), path, entry, marks),
            Ok(None) => Err(Error::malformed("layer", "it is no directory on disk")),
            Err(error) => {
                self.gap(path.clone(), &error);
                Ok(())
            }
        }
    }

    /// What is gone since it was listed is none.
    fn gap(&mut self, path: TreePath, error: &kernel::Error) {
        if !matches!(error.errno, Errno::NOENT | Errno::NOTDIR) {
            self.gaps.push((path, error.to_string()));
        }
    }
}

impl Level {
    /// False where nothing of the base is there for a whiteout to hide. The kernel leaves whiteouts out of a listing only
    /// where directories merge, so that in one layer it would be seen.
    fn hides(&mut self, lower: &dyn Source) -> bool {
        let through = self.through.as_ref();
        *self.is_there.get_or_insert_with(|| {
            // Where it cannot be told, the whiteout is taken along.
            through.is_some_and(|path| {
                lower.entry(path).map_or(true, |entry| entry.is_some_and(|at| at.is_dir()))
            })
        })
    }
}
