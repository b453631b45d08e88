//! `doctor`: to come.
