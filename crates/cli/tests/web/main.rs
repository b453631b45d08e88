//! The page of `lane web`: the built program, real lanes, raw requests at its door, and a real browser in front of it.

mod door;
mod foreign;
mod history;
mod hostile;
mod kinds;
mod lanes;
mod layout;
mod live;
mod other_project;
mod overlap;
mod review;
mod several;
mod shapes;
mod site;
mod verdict;
