//! Tests of whole trees, against real overlay mounts and on plain directories.

mod model;
mod mounted;
mod overlay;
mod trees;
