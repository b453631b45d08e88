//! Going back in a lane that stands on layers which others stand on too: its own layer is made to show, with them, what a
//! snapshot says, so that nothing of them need be copied.

use std::os::fd::AsFd as _;

use store::restore::{Plan, above, plan};
use store::{Capture, Pass, Record, SnapshotKind};

use crate::error::Result;
use crate::history::LaneHistory;
use crate::lane::OpenRoot;

impl LaneHistory {
    /// What is to be done in the own layer of a root that it may show what a record says; `None` where the root stands on no
    /// other layer, or where its own alone cannot show that.
    pub(crate) fn plan_above(&self, root: &OpenRoot, to: &Record, number: usize) -> Result<Option<Plan>> {
        let (Some(former), Some(then)) = (root.workspace.former()?, to.roots.get(number)) else {
            return Ok(None);
        };
        if to.gaps.iter().any(|gap| gap.root as usize == number) {
            return Ok(None);
        }
        let layer = root.workspace.layer()?;
        let (index, boot) = (u32::try_from(number).unwrap_or(u32::MAX), workspace::base::boot_id()?);
        let mut writer = self.writer(SnapshotKind::Rescue)?;
        let mut own = Capture::begin(&self.store, &self.key, index, &boot);
        own.pass(&mut writer, layer.fd.as_fd(), &Pass::at_rest(layer.format))?;
        let own = own.finish(&mut writer)?;
        let mut below = Capture::begin(&self.store, &self.key, index, &boot);
        let pass = Pass { open_closed: false, ..Pass::at_rest(layer.format) };
        below.pass_over(&mut writer, &former, &*root.workspace.base_tree()?, &pass)?;
        let below = below.finish(&mut writer)?;
        writer.finish_pack()?;
        if !own.gaps.is_empty() || !below.gaps.is_empty() {
            return Ok(None);
        }
        let (below, target) = (self.store.manifest(below.manifest), self.store.manifest(then.top));
        let Some(entries) = above(&below, &target)? else { return Ok(None) };
        let mut writer = self.writer(SnapshotKind::Rescue)?;
        let wanted = writer.manifest(entries)?;
        writer.finish_pack()?;
        Ok(Some(plan(&self.store.manifest(own.manifest), &self.store.manifest(wanted), &[])?))
    }
}
