//! `keep`: to come.
