//! Answers as text for people. Pure: values in, lines out; colours are asked for by role.

pub(crate) mod collect;
pub(crate) mod diff;
pub(crate) mod history;
pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod table;
pub(crate) mod transcript;
