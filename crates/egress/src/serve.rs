//! The process beside a lane that answers for its network: one loop, one thread that waits.
//!
//! It stands in the host's network. Invariants: everything it connects to outside was judged with that very address; it
//! never waits for a peer; when nobody is left who could call, it tells what is left to tell and ends.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use kernel::line::{self, Said};
use kernel::{Errno, Error, Result};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::CapabilitySet;

use crate::address::Net;
use crate::book::Book;
use crate::call::Waiting;
use crate::dns::{self, Memory};
use crate::event::{Event, What};
use crate::inside::{Inside, Places, address_of};
use crate::inspect::{self, Inspector, Step};
use crate::name::Name;
use crate::names::Lookup;
use crate::policy::{Policy, Way};
use crate::proxy::Client;
use crate::reactor::Reactor;
use crate::relay::{Pipes, Relay, Stand};

/// Sockets of the lane's own network, which its first process opened.
#[derive(Debug)]
pub struct Doors {
    /// Questions by datagram; port 53.
    pub names: OwnedFd,
    /// Questions by connection; port 53.
    pub names_tcp: OwnedFd,
    /// For clients that were told to use a proxy.
    pub proxy: OwnedFd,
    /// For ports of this machine's loopback, each with its number.
    pub host_ports: Vec<(u16, OwnedFd)>,
}

/// What the process works with.
#[derive(Debug)]
pub struct Given {
    /// What may be reached.
    pub policy: Policy,
    /// The lane's own sockets.
    pub doors: Doors,
    /// Sockets of this machine's loopback, each with the port in the lane that it stands for.
    pub published: Vec<(OwnedFd, u16)>,
    /// The lane's own network.
    pub network: OwnedFd,
    /// On which calls come.
    pub calls: OwnedFd,
    /// On which events go.
    pub report: OwnedFd,
}

/// A connection that is to come about, as far as it is known.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) event: Event,
    /// The client has to show a name that may be reached.
    pub(crate) looks: bool,
    /// Sent to the outside first, and to the client first.
    pub(crate) out: Vec<u8>,
    pub(crate) back: Vec<u8>,
}

/// What happens once a connection to the outside stands.
#[derive(Debug)]
pub(crate) enum Then {
    /// A call is answered.
    Call { waiting: Waiting, socket: OwnedFd, open_at: SocketAddr },
    /// A socket that waits is met.
    Meet { deaf_at: SocketAddr, peer: SocketAddr, socket: OwnedFd },
    /// A client inside is served; it hears these bytes where nothing comes about.
    Serve { inside: OwnedFd, sorry: Vec<u8> },
    /// Somebody outside is served, by a socket of the lane.
    Publish { outside: OwnedFd },
}

/// A connection on its way.
#[derive(Debug)]
pub(crate) struct Dial {
    socket: OwnedFd,
    at: SocketAddr,
    rest: Vec<SocketAddr>,
    deadline: Option<Instant>,
    link: Link,
    then: Then,
}

/// What stands behind a key.
#[derive(Debug)]
pub(crate) enum Source {
    Calls,
    Names,
    NamesTcp,
    Asker { socket: OwnedFd, bytes: Vec<u8> },
    Lookup(Box<Lookup>),
    Proxy,
    Client(Box<Client>),
    HostPort(usize),
    Published(usize),
    Dial(Box<Dial>),
    Relay(u64),
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) policy: Policy,
    pub(crate) doors: Doors,
    published: Vec<(OwnedFd, u16)>,
    calls: OwnedFd,
    pub(crate) proc: OwnedFd,
    pub(crate) listeners: HashMap<u32, OwnedFd>,
    pub(crate) inside: Inside,
    pub(crate) four: Places,
    pub(crate) six: Option<Places>,
    pub(crate) reactor: Reactor,
    pub(crate) sources: HashMap<u64, Source>,
    relays: HashMap<u64, Relay>,
    pipes: Pipes,
    again: Vec<u64>,
    pub(crate) memory: Memory,
    pub(crate) hosts: HashMap<Name, Vec<std::net::IpAddr>>,
    pub(crate) book: Book,
    is_over: bool,
}

/// How often is looked at what does not tell by itself.
const SWEEP: Duration = Duration::from_millis(250);
/// How long one of several addresses is tried.
const TRY: Duration = Duration::from_secs(10);

/// Answers for a lane until nobody is left in it. The caller is a process of its own, with one thread.
pub fn serve(given: Given) -> Result<()> {
    let Given { policy, doors, published, network, calls, report } = given;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let _ = rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit { current: limit.maximum, ..limit },
    );
    let (inside, four, six) = Inside::enter(network)?;
    kernel::privilege::keep_only(CapabilitySet::empty())?;
    kernel::privilege::no_new_privs()?;
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    let mut server = Server {
        policy: policy.among(neighbours(&text("/proc/self/net/route"))),
        doors,
        published,
        calls,
        proc: kernel::open::root_dir(std::path::Path::new("/proc"))?,
        listeners: HashMap::new(),
        inside,
        four,
        six,
        reactor: Reactor::new()?,
        sources: HashMap::new(),
        relays: HashMap::new(),
        pipes: Pipes::default(),
        again: Vec::new(),
        memory: Memory::default(),
        hosts: dns::hosts(&text("/etc/hosts")),
        book: Book::new(report),
        is_over: false,
    };
    server.begin()?;
    server.run()
}

/// The networks on which this machine stands, from /proc/net/route (proc_pid_net(5)): `Iface Destination Gateway Flags
/// RefCnt Use Metric Mask …`, numbers as the machine has them in memory.
fn neighbours(routes: &str) -> Vec<Net> {
    let number = |word: &str| u32::from_str_radix(word, 16).ok().map(u32::from_be);
    let networks = routes.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (base, gateway, mask) = (number(words.get(1)?)?, number(words.get(2)?)?, number(words.get(7)?)?);
        (gateway == 0 && mask != 0)
            .then(|| Net { base: std::net::Ipv4Addr::from(base).into(), bits: mask.leading_ones() as u8 })
    });
    networks.collect()
}

impl Server {
    fn begin(&mut self) -> Result<()> {
        let mut sources = vec![
            (Source::Calls, self.calls.as_fd()),
            (Source::Names, self.doors.names.as_fd()),
            (Source::NamesTcp, self.doors.names_tcp.as_fd()),
            (Source::Proxy, self.doors.proxy.as_fd()),
        ];
        sources.extend(
            self.doors.host_ports.iter().enumerate().map(|(n, (_, fd))| (Source::HostPort(n), fd.as_fd())),
        );
        sources
            .extend(self.published.iter().enumerate().map(|(n, (fd, _))| (Source::Published(n), fd.as_fd())));
        let mut keyed = Vec::new();
        for (source, fd) in sources {
            let key = self.reactor.key();
            self.reactor.watch_level(key, fd)?;
            if !matches!(source, Source::Calls) {
                let flags =
                    rustix::fs::fcntl_getfl(fd).map_err(|errno| Error::new("fcntl", "F_GETFL", errno))?;
                rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)
                    .map_err(|errno| Error::new("fcntl", "F_SETFL", errno))?;
            }
            keyed.push((key, source));
        }
        self.sources.extend(keyed);
        Ok(())
    }

    fn run(&mut self) -> Result<()> {
        let mut swept = Instant::now();
        while !self.is_over {
            let patience = if !self.again.is_empty() {
                Some(Duration::ZERO)
            } else if self.book.is_behind() {
                Some(Duration::from_millis(5))
            } else {
                let ticks = self.book.has_more() || self.has_deadlines();
                ticks.then_some(SWEEP)
            };
            for key in self.reactor.wait(patience)? {
                self.woken(key);
            }
            for id in std::mem::take(&mut self.again) {
                self.turn(id);
            }
            if swept.elapsed() >= SWEEP {
                swept = Instant::now();
                self.sweep(swept);
            }
            if self.book.is_behind() {
                self.book.flush();
            }
        }
        self.end();
        Ok(())
    }

    fn has_deadlines(&self) -> bool {
        // What is not a listener may have one.
        self.sources.len() > 4 + self.doors.host_ports.len() + self.published.len() + 2 * self.relays.len()
    }

    fn woken(&mut self, key: u64) {
        let Some(source) = self.sources.remove(&key) else { return };
        let stays = match source {
            Source::Calls => {
                self.hear_call();
                Some(Source::Calls)
            }
            Source::Names => {
                self.asked_by_datagram();
                Some(Source::Names)
            }
            Source::NamesTcp => {
                self.accept_asker();
                Some(Source::NamesTcp)
            }
            Source::Asker { socket, bytes } => self.asked_by_stream(key, socket, bytes),
            Source::Lookup(lookup) => self.looked_up(*lookup).map(|lookup| Source::Lookup(Box::new(lookup))),
            Source::Proxy => {
                self.accept_client();
                Some(Source::Proxy)
            }
            Source::Client(client) => {
                self.client_said(*client).map(|client| Source::Client(Box::new(client)))
            }
            Source::HostPort(n) => {
                self.accept_for_host(n);
                Some(Source::HostPort(n))
            }
            Source::Published(n) => {
                self.accept_published(n);
                Some(Source::Published(n))
            }
            Source::Dial(dial) => self.dialled(key, *dial).map(|dial| Source::Dial(Box::new(dial))),
            Source::Relay(id) => {
                self.sources.insert(key, Source::Relay(id));
                self.turn(id);
                None
            }
        };
        if let Some(source) = stays {
            self.sources.insert(key, source);
        }
    }

    fn hear_call(&mut self) {
        match line::hear(&self.calls) {
            Ok(Some(Said::Listener { slot, fd })) => {
                self.listeners.insert(slot, fd);
            }
            Ok(Some(Said::Call { slot, call })) => self.call(slot, &call),
            Ok(None) => self.is_over = true,
            Err(error) => self.is_over |= error.errno != Errno::BADMSG,
        }
    }

    /// Puts something behind a new key.
    pub(crate) fn wait_for(&mut self, fd: &OwnedFd) -> Option<u64> {
        let key = self.reactor.key();
        self.reactor.watch(key, fd).ok().map(|()| key)
    }

    /// Begins a connection to the first of these addresses, each of which was judged.
    pub(crate) fn dial(&mut self, mut addresses: Vec<SocketAddr>, link: Link, then: Then) {
        addresses.reverse();
        self.dial_next(addresses, link, then, Errno::HOSTUNREACH);
    }

    fn dial_next(&mut self, mut rest: Vec<SocketAddr>, link: Link, then: Then, mut errno: Errno) {
        while let Some(at) = rest.pop() {
            let made = match &then {
                Then::Publish { .. } => self.inside.socket(at.is_ipv6()),
                _ => socket(at),
            };
            let begun = made.and_then(|socket| match rustix::net::connect(&socket, &at) {
                Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                Err(errno) => Err(errno),
            });
            let key = begun.and_then(|socket| {
                let key = self.reactor.key();
                self.reactor.watch(key, &socket).map_err(|error| error.errno)?;
                Ok((key, socket))
            });
            match key {
                Ok((key, socket)) => {
                    let now = Instant::now();
                    let patience = match &then {
                        Then::Call { socket, .. } => {
                            sockopt::socket_timeout(socket, sockopt::Timeout::Send).ok().flatten()
                        }
                        _ => (!rest.is_empty()).then_some(TRY),
                    };
                    let deadline = patience.map(|patience| now + patience);
                    let dial = Dial { socket, at, rest, deadline, link, then };
                    self.sources.insert(key, Source::Dial(Box::new(dial)));
                    return;
                }
                Err(failed) => errno = failed,
            }
        }
        self.failed(link, then, errno);
    }

    /// A connection on its way has changed.
    fn dialled(&mut self, key: u64, dial: Dial) -> Option<Dial> {
        match sockopt::socket_error(&dial.socket) {
            Ok(Ok(())) if rustix::net::getpeername(&dial.socket).is_ok() => {
                let Dial { socket, at, link, then, .. } = dial;
                self.stands(key, socket, at, link, then);
                None
            }
            // Not yet.
            Ok(Ok(())) => Some(dial),
            Ok(Err(errno)) | Err(errno) => {
                let Dial { rest, link, then, .. } = dial;
                self.dial_next(rest, link, then, errno);
                None
            }
        }
    }

    /// A connection to the outside stands, waited for under `key`.
    fn stands(&mut self, key: u64, socket: OwnedFd, at: SocketAddr, mut link: Link, then: Then) {
        link.event.addr = Some(crate::address::canonical(at.ip()));
        let inside = match then {
            Then::Call { waiting, socket: caller, open_at } => {
                if !self.waits(waiting) {
                    return;
                }
                match self.meet_waiting(&caller, open_at) {
                    Ok(inside) => {
                        drop(caller);
                        self.answer(waiting, kernel::seccomp::Reply::Done(0));
                        inside
                    }
                    Err(errno) => return self.answer(waiting, kernel::seccomp::Reply::Fail(errno)),
                }
            }
            Then::Meet { deaf_at, peer, socket: _caller } => match self.inside.meet(deaf_at, peer) {
                Ok(inside) => inside,
                Err(errno) => return self.note_failure(link.event, errno),
            },
            Then::Serve { inside, .. } => inside,
            Then::Publish { outside } => {
                let inspector = None;
                let relay = Relay::new(socket, outside, inspector, (link.out, link.back), link.event);
                return self.relay(key, true, relay);
            }
        };
        let inspector = link.looks.then(Inspector::default);
        let relay = Relay::new(inside, socket, inspector, (link.out, link.back), link.event);
        self.relay(key, false, relay);
    }

    /// Takes a relay in, one of whose sockets is waited for under `key`.
    fn relay(&mut self, key: u64, is_inside: bool, relay: Relay) {
        let id = key;
        let [inside, outside] = relay.sockets();
        let (known, new) = if is_inside { (inside, outside) } else { (outside, inside) };
        let other = self.reactor.key();
        // A client of the proxy was waited for under a key of its own.
        self.reactor.forget(new);
        if self.reactor.rekey(id, known).is_err() || self.reactor.watch(other, new).is_err() {
            return;
        }
        self.sources.insert(id, Source::Relay(id));
        self.sources.insert(other, Source::Relay(id));
        self.relays.insert(id, relay);
        self.again.push(id);
    }

    fn turn(&mut self, id: u64) {
        let Some(mut relay) = self.relays.remove(&id) else { return };
        let (policy, port) = (&self.policy, relay.event.port);
        let judge = |name: &Name| policy.may_be_named(name, port);
        match relay.turn(&mut self.pipes, &judge) {
            Stand::Waits => {
                self.relays.insert(id, relay);
                return;
            }
            Stand::Again => {
                self.relays.insert(id, relay);
                self.again.push(id);
                return;
            }
            Stand::Refused(step) => self.refuse(&mut relay, step),
            Stand::Ended => {}
        }
        self.sources.retain(|_, source| !matches!(source, Source::Relay(of) if *of == id));
        self.ended(&relay);
    }

    fn ended(&mut self, relay: &Relay) {
        let (sent, received) = relay.bytes();
        let mut event = relay.event.clone();
        (event.what, event.sent, event.received) = (What::Ended, Some(sent), Some(received));
        self.book.tell(event);
    }

    /// A client named a host that it may not reach.
    fn refuse(&mut self, relay: &mut Relay, step: Step) {
        let Step::Shut { host, why, answer } = step else { return };
        let mut event = Event { what: What::Refused, ..relay.event.clone() };
        event.wish = None;
        event.rule = match (&host, &relay.event.host) {
            (Some(_), Some(own)) => format!("named on a connection to {own}"),
            _ => why.to_owned(),
        };
        if let Some(host) = &host {
            event.host = Some(host.to_string());
            event.wish = Some(self.policy.wish_for(host, event.port));
        }
        let text = match &event.wish {
            Some(wish) => {
                format!("refused by the lane: {} ({})\nto allow it: {wish}", event.target(), event.rule)
            }
            None => format!("refused by the lane: {} ({})", event.target(), event.rule),
        };
        relay.end_with(&inspect::last_word(answer, &text));
        self.book.tell(event);
    }

    fn note_failure(&mut self, mut event: Event, errno: Errno) {
        event.what = What::Failed;
        event.rule = errno.to_string();
        event.wish = None;
        self.book.tell(event);
    }

    fn failed(&mut self, link: Link, then: Then, errno: Errno) {
        self.note_failure(link.event, errno);
        match then {
            Then::Call { waiting, .. } => self.answer(waiting, kernel::seccomp::Reply::Fail(errno)),
            Then::Meet { socket, .. } => {
                // Out of waiting, a socket that is dissolved has an error for whoever looks (tcp(7)).
                let _ = rustix::net::connect_unspec(&socket);
            }
            Then::Serve { inside, sorry } => last_words(&inside, &sorry),
            Then::Publish { outside } => {
                let _ = sockopt::set_socket_linger(&outside, Some(Duration::ZERO));
            }
        }
    }

    fn accept_for_host(&mut self, n: usize) {
        let Some((port, door)) = self.doors.host_ports.get(n) else { return };
        let port = *port;
        let Some(inside) = accept(door) else { return };
        let at = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), port);
        let six = SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), port);
        let event = own_event(at, format!("--host-port {port}"));
        self.book.tell(event.clone());
        let link = Link { event, looks: false, out: Vec::new(), back: Vec::new() };
        self.dial(vec![at, six], link, Then::Serve { inside, sorry: Vec::new() });
    }

    fn accept_published(&mut self, n: usize) {
        let Some((door, port)) = self.published.get(n) else { return };
        let port = *port;
        let Some(outside) = accept(door) else { return };
        let at = SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), port);
        let six = SocketAddr::new(std::net::Ipv6Addr::LOCALHOST.into(), port);
        let host = address_of(door).map_or(0, |at| at.port());
        let event = own_event(at, format!("--publish {port}:{host}"));
        self.book.tell(event.clone());
        let link = Link { event, looks: false, out: Vec::new(), back: Vec::new() };
        self.dial(vec![at, six], link, Then::Publish { outside });
    }

    /// Looks after what does not tell by itself.
    fn sweep(&mut self, now: Instant) {
        self.book.sum_up();
        let late = |source: &Source| match source {
            Source::Dial(dial) => {
                let gone = matches!(&dial.then, Then::Call { waiting, .. } if !self.waits(*waiting));
                gone || dial.deadline.is_some_and(|deadline| now >= deadline)
            }
            Source::Lookup(lookup) => now >= lookup.deadline,
            Source::Client(client) => now >= client.deadline,
            _ => false,
        };
        let late: Vec<u64> =
            self.sources.iter().filter(|(_, source)| late(source)).map(|(key, _)| *key).collect();
        for key in late {
            match self.sources.remove(&key) {
                Some(Source::Dial(dial)) => {
                    let Dial { rest, link, then, .. } = *dial;
                    match then {
                        Then::Call { waiting, .. } => {
                            self.answer(waiting, kernel::seccomp::Reply::Fail(Errno::INPROGRESS));
                        }
                        then => self.dial_next(rest, link, then, Errno::TIMEDOUT),
                    }
                }
                Some(Source::Lookup(lookup)) => self.unanswered(*lookup),
                _ => {}
            }
        }
    }

    /// Nobody is left: what was carried is told.
    fn end(&mut self) {
        for (_, mut relay) in std::mem::take(&mut self.relays) {
            // What is on its way to the outside gets there, as far as it is let.
            let (policy, port) = (&self.policy, relay.event.port);
            let _ = relay.turn(&mut self.pipes, &|name: &Name| policy.may_be_named(name, port));
            self.ended(&relay);
        }
        self.book.sum_up();
        let until = Instant::now() + Duration::from_secs(2);
        while self.book.is_behind() && Instant::now() < until {
            let mut fds = [rustix::event::PollFd::new(self.book.line(), rustix::event::PollFlags::OUT)];
            let soon = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            let _ = rustix::event::poll(&mut fds, Some(&soon));
            self.book.flush();
        }
    }
}

/// A connection that a person asked for by port.
fn own_event(at: SocketAddr, rule: String) -> Event {
    let verdict = crate::policy::Verdict { allowed: true, rule, wish: None, name: None };
    Event::of(&verdict, Way::Tcp, Some(at.ip()), at.port())
}

fn socket(at: SocketAddr) -> std::result::Result<OwnedFd, Errno> {
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// The next connection, if there is one.
pub(crate) fn accept(door: &OwnedFd) -> Option<OwnedFd> {
    rustix::net::accept_with(door, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok()
}

/// Says something and goes.
pub(crate) fn last_words(socket: &OwnedFd, words: &[u8]) {
    let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
    if words.is_empty() {
        let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
    } else {
        let _ = rustix::net::send(socket, words, flags);
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Write);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_machines_own_networks_are_those_without_a_gateway() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
            eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let shown: Vec<String> = super::neighbours(routes).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["192.0.2.0/24"]);
    }
}
