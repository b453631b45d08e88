//! What is told to the supervisor: the first of its kind at once, the rest summed up a few times a second.
//!
//! Invariant: nothing is lost while the supervisor lives; a lane that connects without end fills neither its memory nor
//! its queue.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use kernel::Errno;
use rustix::net::SendFlags;

use crate::event::{Event, What};
use crate::policy::Way;

type Key = (What, Way, Option<String>, Option<IpAddr>, u16, String, Option<String>);

/// What was told, and what is yet to be told.
#[derive(Debug)]
pub(crate) struct Book {
    line: OwnedFd,
    /// Since the last summing up: told, with what came after.
    recent: HashMap<Key, Option<Event>>,
    queue: VecDeque<Vec<u8>>,
}

impl Book {
    pub(crate) fn new(line: OwnedFd) -> Book {
        Book { line, recent: HashMap::new(), queue: VecDeque::new() }
    }

    pub(crate) fn line(&self) -> &OwnedFd {
        &self.line
    }

    /// Tells of something.
    pub(crate) fn tell(&mut self, event: Event) {
        let key = (
            event.what,
            event.way,
            event.host.clone(),
            event.addr,
            event.port,
            event.rule.clone(),
            event.program.clone(),
        );
        match self.recent.get_mut(&key) {
            Some(Some(sum)) => {
                let add =
                    |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one + other);
                sum.many += event.many;
                sum.sent = add(sum.sent, event.sent);
                sum.received = add(sum.received, event.received);
            }
            Some(none) => *none = Some(event),
            None => {
                self.queue.push_back(event.encode());
                self.recent.insert(key, None);
                self.flush();
            }
        }
    }

    /// Sums up.
    pub(crate) fn sum_up(&mut self) {
        let sums = self.recent.drain().filter_map(|(_, sum)| sum);
        self.queue.extend(sums.map(|sum| sum.encode()));
        self.flush();
    }

    /// True where there is something to sum up or to send.
    pub(crate) fn has_more(&self) -> bool {
        !self.recent.is_empty() || !self.queue.is_empty()
    }

    /// True where the supervisor has not taken everything.
    pub(crate) fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends what the supervisor takes now.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.queue.front() {
            match rustix::net::send(&self.line, first, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::AGAIN | Errno::INTR) => return,
                // Sent, or nobody hears.
                _ => self.queue.pop_front(),
            };
        }
    }
}
