//! The page of `lane web`: the built program, real lanes, raw requests at its door, and a real browser in front of it.

mod door;
mod history;
mod hostile;
mod lanes;
mod layout;
mod live;
mod review;
mod site;
