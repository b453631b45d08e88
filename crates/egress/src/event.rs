//! What is told of the network: one decision or one ended connection, as plain data.
//!
//! Invariant: an event holds no content, only who, where, how much, and by which rule. Whoever receives it has the clock.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::policy::{Verdict, Way};

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// It was let through.
    Allowed,
    /// A rule refused it.
    Refused,
    /// It was let through and did not come about: `rule` says why.
    Failed,
    /// A connection that we carried has ended; it has bytes.
    Ended,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// What became of it.
    pub what: What,
    /// How it was to be reached.
    pub way: Way,
    /// The host by name, where it has one.
    pub host: Option<String>,
    /// The address, where it came to one.
    pub addr: Option<IpAddr>,
    /// The port; 0 for a lookup.
    pub port: u16,
    /// The rule that decided, or what went wrong.
    pub rule: String,
    /// The option that would allow it.
    pub wish: Option<String>,
    /// The process, in the host's numbers; 0 where unknown.
    pub pid: u32,
    /// Its name.
    pub program: Option<String>,
    /// Bytes out of the lane, where we carried them.
    pub sent: Option<u64>,
    /// Bytes into the lane, where we carried them.
    pub received: Option<u64>,
    /// How many of the same kind this stands for.
    pub many: u32,
}

impl Event {
    /// A decision.
    pub fn of(verdict: &Verdict, way: Way, addr: Option<IpAddr>, port: u16) -> Event {
        Event {
            what: if verdict.allowed { What::Allowed } else { What::Refused },
            way,
            host: verdict.name.as_ref().map(ToString::to_string),
            addr,
            port,
            rule: verdict.rule.clone(),
            wish: verdict.wish.clone(),
            pid: 0,
            program: None,
            sent: None,
            received: None,
            many: 1,
        }
    }

    /// Host or address, with the port where there is one.
    pub fn target(&self) -> String {
        let host = match (&self.host, self.addr) {
            (Some(host), _) => host.clone(),
            (None, Some(IpAddr::V6(address))) if self.port != 0 => format!("[{address}]"),
            (None, Some(address)) => address.to_string(),
            (None, None) => "?".into(),
        };
        if self.port == 0 { host } else { format!("{host}:{}", self.port) }
    }

    /// As bytes, for a message.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// From bytes; `None` where they are something else.
    pub fn decode(bytes: &[u8]) -> Option<Event> {
        serde_json::from_slice(bytes).ok()
    }
}
