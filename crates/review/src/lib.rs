//! Floor 2: see what a lane changed, choose from it, and put the choice into the origin. The only
//! road into the user's tree.
//!
//! Promises: looking never executes anything (no git, no filter, no configuration of a lane is ever
//! consulted); what is kept is the object itself (content, mode, link target, attributes), never a
//! text patch of it; a keep is whole or did not happen, also after `kill -9`; nothing that runs by
//! itself later is covered by a blanket yes.
//!
//! Reading order: [`flat`] (changes as pairs of old and new) → [`diff`] → [`words`] → [`stat`] → [`patch`] →
//! [`guard`] → [`select`] → [`plan`] → [`outcome`] → [`apply`] → [`export`]; for parts of files [`choice`] → [`splice`] → [`composed`] → [`chosen`] → [`held`];
//! where the origin has changed [`merge`] → [`table`] → [`threeway`]; several lanes at once: [`after`].

pub mod after;
pub mod apply;
pub mod blob;
pub mod choice;
pub mod chosen;
pub mod composed;
pub mod diff;
pub mod digest;
pub mod error;
pub mod export;
pub mod flat;
pub mod guard;
pub mod held;
pub mod leak;
pub mod merge;
pub mod outcome;
pub mod overlap;
pub mod patch;
pub mod plan;
pub mod select;
pub mod splice;
pub mod stat;
pub mod table;
pub mod threeway;
pub mod words;

mod base85;
mod read;
mod sha1;

pub use error::{Error, Result};
