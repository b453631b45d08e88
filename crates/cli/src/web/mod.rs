//! `lane web`: a page on loopback for one project and one person.
//!
//! Two processes. The one that the user started holds the listening socket and everything asynchronous; it serves the
//! page's own files, guards the door, and passes requests on as bytes. The other one, the desk, was forked from it
//! while it had one thread; it has each request answered by a child of its own, through the engine, as a verb on the
//! command line would. So nothing that runs beside other threads ever forks.
//!
//! Invariants: nothing but loopback is listened on. A request without cookie, key, host and origin that all fit reaches
//! nothing of a project. What came from a lane goes out as data, escaped ([`text`]), and the page makes text nodes of
//! it: it is never markup, style or script.
//!
//! Reading order: [`server`] → [`guard`] → [`pass`] → [`assets`] → [`ask`] → [`request`] → [`answer`] → [`text`].

mod answer;
mod ask;
mod assets;
mod guard;
mod pass;
pub(crate) mod request;
pub(crate) mod server;
mod text;

pub(crate) use answer::{Ground, answer};
