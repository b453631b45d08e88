//! The store on real directories and real filesystems: captured, restored, damaged, killed.

mod capture;
mod layer;
mod model;
mod restore;
mod world;
