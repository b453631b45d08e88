//! `diff`: to come.
