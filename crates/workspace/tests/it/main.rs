//! Every strategy behind the one contract, on real mounts: the same edits, the same answers.

mod contract;
mod fork;
mod host_edits;
mod lane;
mod places;
