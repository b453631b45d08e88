//! Review over real files: every test makes an origin and a lane as two plain directories, compares
//! them with the real comparer, and puts the result into the origin.

mod composed;
mod digests;
mod exports;
mod faults;
mod guards;
mod keeps;
mod many;
mod merges;
mod nth;
mod parts;
mod patches;
mod random;
mod rooms;
mod undo_faults;
mod undoes;
mod world;
