//! The store on real directories and real filesystems: captured, restored, damaged, killed.

mod capture;
mod damage;
mod faults;
mod gc;
mod layer;
mod model;
mod restore;
mod world;
