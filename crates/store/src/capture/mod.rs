//! placeholder
pub(crate) mod stamps;
