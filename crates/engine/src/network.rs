//! The network of a run: what was asked for, who answers for it, and what is told of it.
//!
//! Rests on `egress`, which decides, and on `sandbox::gate`, which runs it. Invariant: a wish that cannot be kept (a port
//! that is taken) stops the run before its command; what is refused is told with the one option that would allow it.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use egress::event::{Event, What};
use egress::policy::{Unclear, Way};
use egress::{Mode, Policy};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use sandbox::gate::{Doors, Gate, Gatekeeper};
use serde_json::json;

use crate::error::{EngineError, Result};
use crate::happened::{Happening, Wall};

/// Which network a run sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Net {
    policy: Policy,
    /// Ports of this machine's loopback that the lane reaches under the same number.
    pub host_ports: Vec<u16>,
    /// Ports of the lane that this machine's loopback reaches.
    pub publish: Vec<Publish>,
}

/// A port of the lane that is reached from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Publish {
    /// In the lane.
    pub inside: u16,
    /// On this machine's loopback.
    pub outside: u16,
}

/// Why a wish for a network cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetWish {
    /// It cannot be read.
    #[error(transparent)]
    Unclear(#[from] Unclear),
    /// Ports are handed through to nothing.
    #[error("ports with the network '{0}'")]
    NoPorts(&'static str),
}

impl Net {
    /// `none`, `loopback`, `allow:HOST,…`, `open`, `open:HOST,…` or `host`.
    pub fn parse(text: &str) -> std::result::Result<Net, NetWish> {
        Ok(Net { policy: Policy::parse(text)?, ..Net::default() })
    }

    /// No way out.
    pub fn none() -> Net {
        Net { policy: Policy::of(Mode::None), ..Net::default() }
    }

    /// With ports handed through.
    pub fn with_ports(
        self,
        host_ports: Vec<u16>,
        publish: Vec<Publish>,
    ) -> std::result::Result<Net, NetWish> {
        let asks = !(host_ports.is_empty() && publish.is_empty());
        match self.policy.mode {
            Mode::None | Mode::Host if asks => Err(NetWish::NoPorts(self.policy.mode.word())),
            _ => Ok(Net { host_ports, publish, ..self }),
        }
    }

    /// As it was written.
    pub fn text(&self) -> String {
        self.policy.text()
    }

    /// True where the lane has a network of its own.
    pub fn is_own(&self) -> bool {
        self.policy.mode != Mode::Host
    }

    /// What stands on the lane's own loopback.
    pub(crate) fn doors(&self) -> Option<Doors> {
        self.is_own().then(|| Doors { host_ports: self.host_ports.clone() })
    }

    /// What that means, in one line.
    pub fn meaning(&self) -> String {
        let mut meaning = match self.policy.mode {
            Mode::None => "the lane's own loopback and nothing else".to_owned(),
            Mode::Loopback => "the lane's own loopback, and the ports that were named".to_owned(),
            Mode::Allow => {
                format!("only the hosts of {}, which have to be named in TLS and HTTP", self.text())
            }
            Mode::Open => {
                let more = if self.policy.rules.is_empty() { "" } else { ", and the hosts that were named" };
                format!("any public address{more}; not this machine, its network or a cloud's metadata")
            }
            Mode::Host => return "the host's network, unfiltered".to_owned(),
        };
        for port in &self.host_ports {
            meaning.push_str(&format!("; port {port} of this machine"));
        }
        for publish in &self.publish {
            meaning.push_str(&format!("; its port {} is this machine's {}", publish.inside, publish.outside));
        }
        meaning
    }
}

/// Who answers for a lane's network.
#[derive(Debug)]
pub(crate) struct Keeper {
    policy: Policy,
    published: Vec<(OwnedFd, u16)>,
}

impl Keeper {
    /// Takes the ports that are published; `None` for a lane with the host's network.
    pub(crate) fn new(net: &Net) -> Result<Option<Keeper>> {
        if !net.is_own() {
            return Ok(None);
        }
        let mut published = Vec::new();
        for publish in &net.publish {
            let taken = |errno| EngineError::PortTaken { port: publish.outside, errno };
            published
                .push((listen(Ipv4Addr::LOCALHOST.into(), publish.outside).map_err(taken)?, publish.inside));
            // A machine without IPv6 publishes without it.
            if let Ok(socket) = listen(Ipv6Addr::LOCALHOST.into(), publish.outside) {
                published.push((socket, publish.inside));
            }
        }
        Ok(Some(Keeper { policy: net.policy.clone(), published }))
    }
}

fn listen(address: std::net::IpAddr, port: u16) -> std::result::Result<OwnedFd, kernel::Errno> {
    let at = SocketAddr::new(address, port);
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    // The port of a run before this one may still be cooling down.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &at)?;
    rustix::net::listen(&socket, 1024)?;
    Ok(socket)
}

impl Gatekeeper for Keeper {
    fn holds(&self) -> Vec<BorrowedFd<'_>> {
        self.published.iter().map(|(fd, _)| fd.as_fd()).collect()
    }

    fn serve(&self, gate: Gate) -> Option<String> {
        let Gate { doors, network, calls, report } = gate;
        let mut doors = doors.into_iter();
        let (Some((_, names)), Some((_, names_tcp)), Some((_, proxy))) =
            (doors.next(), doors.next(), doors.next())
        else {
            return Some("doors are missing".to_owned());
        };
        let published = self.published.iter().filter_map(|(fd, port)| Some((fd.try_clone().ok()?, *port)));
        let given = egress::serve::Given {
            policy: self.policy.clone(),
            doors: egress::serve::Doors { names, names_tcp, proxy, host_ports: doors.collect() },
            published: published.collect(),
            network,
            calls,
            report,
        };
        egress::serve::serve(given).err().map(|error| error.to_string())
    }
}

/// What the gate tells, as it is taken down, and how many of the same kind it stands for.
pub(crate) fn happening(told: &[u8]) -> Option<(Happening, u64)> {
    let event = Event::decode(told)?;
    let times = u64::from(event.many);
    let host = match event.way {
        Way::Udp => format!("{} (udp)", event.target()),
        Way::Tcp | Way::Lookup => event.target(),
    };
    let what = match event.what {
        What::Allowed => "allowed",
        What::Refused => "refused",
        What::Failed => "failed",
        What::Ended => "ended",
    };
    let way = match event.way {
        Way::Tcp => "tcp",
        Way::Udp => "udp",
        Way::Lookup => "lookup",
    };
    let mut more = json!({ "what": what, "way": way, "port": event.port });
    let fields = [
        ("address", event.addr.map(|addr| json!(addr.to_string()))),
        ("program", event.program.map(Into::into)),
        ("pid", (event.pid != 0).then(|| event.pid.into())),
        ("sent", event.sent.map(Into::into)),
        ("received", event.received.map(Into::into)),
        ("flag", event.wish.map(Into::into)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            more[name] = value;
        }
    }
    let rule = event.rule;
    let happening = match event.what {
        What::Refused => {
            if more.get("flag").is_none() {
                more["never"] = "no option reaches it".into();
            }
            Happening::Refused { wall: Wall::Host, path: None, host: Some(host), rule, more }
        }
        _ => Happening::Host { host, rule, more },
    };
    Some((happening, times))
}

/// In a lane's directory: the network that its commands have.
const KIND: &str = "net";

/// Notes which network a lane has, for those who join it.
pub(crate) fn note(lane: &Path, net: &Net) {
    // Whoever joins says less then.
    let _ = std::fs::write(lane.join(KIND), net.text());
}

/// The network of a lane that runs.
pub(crate) fn of_lane(lane: &Path) -> Net {
    let text = std::fs::read_to_string(lane.join(KIND)).unwrap_or_default();
    Net::parse(&text).unwrap_or_default()
}
