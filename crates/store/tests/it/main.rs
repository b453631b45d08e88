//! The store on real directories and real filesystems: captured, restored, damaged, killed.

mod capture;
mod damage;
mod edit;
mod faults;
mod filesystems;
mod gc;
mod growth;
mod layer;
mod life;
mod model;
mod museum;
mod random;
mod restore;
mod user;
mod world;
