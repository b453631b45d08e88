//! The walks over a lane's layers for one snapshot: of a lane at rest, and of one at work, which stands still for the last of
//! them.
//!
//! Invariant: a snapshot says of a lane that it stood only where everybody stood from before the last walk until after
//! it, and where every file that is written to by storing was known.

use std::collections::HashSet;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use sandbox::freeze::{self, Freezer, Mapped};
use store::{Capture, Pass, Quiescence, Record, Store};
use tree::layer::Format;

use crate::describe;
use crate::error::Result;
use crate::lane::OpenRoot;

/// So often a lane at work is walked before it has to stand still, as long as a walk takes longer than this.
const MOST_PASSES: usize = 3;
const QUICK: Duration = Duration::from_millis(50);

/// A root with what is being captured of it.
pub(crate) struct Layered<'l> {
    pub(crate) number: u32,
    pub(crate) root: &'l OpenRoot,
    pub(crate) capture: Capture,
    /// Files of it that are written to by storing.
    mapped: HashSet<(u64, u64)>,
}

impl<'l> Layered<'l> {
    /// Nothing is known to be mapped.
    pub(crate) fn new(number: u32, root: &'l OpenRoot, capture: Capture) -> Layered<'l> {
        Layered { number, root, capture, mapped: HashSet::new() }
    }
}

/// Reads a lane that is at work, like a live migration: what takes long while it runs, and what was written meanwhile
/// while it stands still, which is tried so often. Where the first walk finds what `unless_as` says, that is the end of it.
pub(crate) fn while_at_work(
    store: &Store,
    writer: &mut store::Writer<'_>,
    layers: &mut [Layered<'_>],
    freezer: Option<&mut Freezer>,
    tries: usize,
    unless_as: Option<&Record>,
) -> Result<Quiescence> {
    let Some(freezer) = freezer else {
        pass(writer, layers, false, None)?;
        // What was written while it was read is read again.
        pass(writer, layers, false, None)?;
        return Ok(Quiescence::Running);
    };
    for _ in 0..MOST_PASSES {
        let begun = Instant::now();
        // A store through a mapping that is made from here on has a date that is not before this one.
        let now = store.now()?;
        let mapped = freezer.mapped();
        let is_whole = mapped.as_ref().is_ok_and(Mapped::is_whole);
        note_mapped(layers, &mapped.unwrap_or_default());
        pass(writer, layers, false, Some(now))?;
        if is_whole && unless_as.is_some_and(|record| are_as(layers, record)) {
            // Nobody has to stand for what is not recorded.
            return Ok(Quiescence::Running);
        }
        if begun.elapsed() < QUICK {
            break;
        }
    }
    for _ in 0..tries {
        let Ok(Some(frozen)) = freezer.freeze(freeze::LIMIT, freeze::HOLD) else {
            pass(writer, layers, false, None)?;
            continue;
        };
        note_mapped(layers, frozen.mapped());
        pass(writer, layers, false, None)?;
        let is_whole = frozen.mapped().is_whole();
        return Ok(if frozen.thaw() && is_whole { Quiescence::Frozen } else { Quiescence::Running });
    }
    Ok(Quiescence::Running)
}

/// True where the last walk has found nothing that a record does not say.
fn are_as(layers: &[Layered<'_>], record: &Record) -> bool {
    layers.iter().all(|layered| {
        let root = record.roots.get(layered.number as usize);
        layered.mapped.is_empty() && root.is_some_and(|root| layered.capture.is_as(root.top))
    })
}

/// Walks every layer. `is_ours`: nobody else is in the lane. What was touched after `trusted_before` is read again by
/// the next pass; `None` is the beginning of this one.
pub(crate) fn pass(
    writer: &mut store::Writer<'_>,
    layers: &mut [Layered<'_>],
    is_ours: bool,
    trusted_before: Option<tree::Time>,
) -> Result<()> {
    for Layered { root, capture, mapped, .. } in layers {
        let pass =
            Pass { open_closed: is_ours, reread: mapped, trusted_before, ..Pass::at_rest(Format::User) };
        look(capture, writer, root, &pass)?;
    }
    Ok(())
}

/// Finds the files of the layers that are mapped.
pub(crate) fn note_mapped(layers: &mut [Layered<'_>], mapped: &Mapped) {
    for Layered { root, mapped: noted, .. } in layers {
        let Ok(layer) = root.workspace.layer() else { continue };
        let below = mapped.paths().filter_map(|path| path.strip_prefix(&root.view.path).ok());
        // What is not in the layer has lost its name.
        let files = below.filter_map(|path| {
            let file = kernel::open::path_beneath(&layer.fd, &describe::bytes(path)).ok()?;
            Some(kernel::meta::stat_fd(&file).ok()?.identity())
        });
        *noted = files.collect();
    }
}

/// One look at everything that a lane has written in one root, in however many layers it lies. The layers are opened for
/// it: somebody may have sealed some since.
pub(crate) fn look(
    capture: &mut Capture,
    writer: &mut store::Writer<'_>,
    root: &OpenRoot,
    pass: &Pass<'_>,
) -> Result<()> {
    let layer = root.workspace.layer()?;
    let pass = Pass { format: layer.format, ..*pass };
    match root.workspace.stacked()? {
        Some(stack) => capture.pass_over(writer, &stack, &*root.workspace.base_tree()?, &pass)?,
        None => capture.pass(writer, layer.fd.as_fd(), &pass)?,
    }
    Ok(())
}
