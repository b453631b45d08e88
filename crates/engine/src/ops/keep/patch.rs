//! `keep --as patch`: the plan as a patch that `git apply` takes, in place of writing the origin.

use std::io::Write;

use review::patch::Lost;
use tree::Source;

use super::PreparedKeep;
use super::several::RootPlan;
use crate::error::Result;

impl PreparedKeep {
    /// Writes the patch; what it cannot carry is the answer. Nothing is kept by it, so that the lane's changes stay
    /// changes.
    pub fn write_patch(&self, out: &mut dyn Write) -> Result<Vec<Lost>> {
        let mut lost = Vec::new();
        for (index, planned) in self.roots.iter().enumerate() {
            if planned.plan.steps.is_empty() {
                continue;
            }
            if index > 0 {
                // Text before a `diff --git` line is skipped by whoever applies the patch.
                let path = planned.path.display().to_string();
                writeln!(out, "Root: {}", path.escape_default())
                    .map_err(|error| review::Error::Output(error.to_string()))?;
            }
            let base = self.base_of(planned)?;
            let pairs = review::outcome::pairs(&planned.plan, &*base)?;
            lost.extend(review::patch::write_pairs(&pairs, &[], &*base, &*planned.inside, out)?.cannot_carry);
        }
        Ok(lost)
    }

    /// What the steps in a root are made for.
    pub(super) fn base_of(&self, planned: &RootPlan) -> Result<Box<dyn Source>> {
        if let Some(base) = &planned.base {
            return Ok(Box::new(std::rc::Rc::clone(base)));
        }
        match planned.shares.as_slice() {
            [only] => Ok(self.root_of(only).1.workspace.base_tree()?),
            _ => Ok(Box::new(crate::merging::origin_at(&planned.path)?)),
        }
    }
}
