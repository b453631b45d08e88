//! `keep --as patch`: the plan as a patch that `git apply` takes, in place of writing the origin.

use std::io::Write;

use review::patch::Lost;

use super::PreparedKeep;
use crate::error::Result;

impl PreparedKeep {
    /// Writes the patch; what it cannot carry is the answer. Nothing is kept by it, so that the lane's changes stay
    /// changes.
    pub fn write_patch(&self, out: &mut dyn Write) -> Result<Vec<Lost>> {
        let mut lost = Vec::new();
        for (root, planned) in self.lane.roots.iter().zip(&self.roots) {
            if planned.plan.steps.is_empty() {
                continue;
            }
            if root.index > 0 {
                // Text before a `diff --git` line is skipped by whoever applies the patch.
                let path = root.view.path.display().to_string();
                writeln!(out, "Root: {}", path.escape_default())
                    .map_err(|error| review::Error::Output(error.to_string()))?;
            }
            let base = root.workspace.base_tree()?;
            let pairs = review::outcome::pairs(&planned.plan, &*base)?;
            lost.extend(review::patch::write_pairs(&pairs, &[], &*base, &planned.inside, out)?.cannot_carry);
        }
        Ok(lost)
    }
}
