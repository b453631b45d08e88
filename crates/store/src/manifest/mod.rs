//! Manifests: a layer as a sorted list of entries, stored as a tree of nodes that are cut by content, so that equal
//! layers have equal ids, a changed entry rewrites a few nodes, and comparing skips what is equal.

pub(crate) mod build;
pub(crate) mod diff;
pub(crate) mod item;
pub(crate) mod node;
pub(crate) mod read;

#[cfg(test)]
mod tests;
