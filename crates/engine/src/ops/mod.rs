//! One file per verb: a request type, an answer type, one function.

pub mod book;
pub mod checkpoint;
pub mod compare;
pub mod diff;
pub mod discard;
pub mod doctor;
pub mod exec;
pub mod export;
pub mod fork;
pub mod fsck;
pub mod gc;
pub mod keep;
pub mod list;
pub mod log;
pub mod new;
pub mod overlap;
pub mod policy;
pub mod recover_lane;
pub mod restore;
pub mod run;
pub mod show;
pub mod snap;
pub mod stop;
pub mod undo_keep;
pub mod verify;
