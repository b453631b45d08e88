//! Questions for names, from the lane's programs and from its proxies, on their way to the host's own servers and back.
//!
//! Invariant: a question leaves only for a name that may be reached; each goes out of a socket of its own under a number
//! by chance, and only an answer to it counts.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kernel::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::dns::{self, Question, Wanted};
use crate::event::Event;
use crate::policy::Way;
use crate::proxy::Wish;
use crate::serve::{Server, Source, accept};

/// Who asked.
#[derive(Debug)]
pub(crate) enum Asker {
    /// Somebody by datagram.
    Datagram(SocketAddr),
    /// Somebody by connection, under this key.
    Stream(u64),
    /// A proxy, for a client that waits.
    Proxy(Box<Wish>),
}

/// A question on its way.
#[derive(Debug)]
pub(crate) struct Lookup {
    question: Question,
    asker: Asker,
    id: u16,
    servers: Vec<SocketAddr>,
    /// How many were asked, each server as often as resolv.conf(5) has it.
    asked: usize,
    socket: OwnedFd,
    /// Over a connection: what was heard so far.
    stream: Option<Vec<u8>>,
    sent: bool,
    pub(crate) deadline: Instant,
}

/// How long a server may take, and how often each is asked.
const PATIENCE: Duration = Duration::from_secs(3);
const ROUNDS: usize = 2;
/// Questions that wait at a time; one more is not answered, and asked again by its client.
const MOST: usize = 4096;

impl Server {
    pub(crate) fn asked_by_datagram(&mut self) {
        let mut buffer = [0u8; 4096];
        for _ in 0..64 {
            let heard = rustix::net::recvfrom(&self.doors.names, &mut buffer, RecvFlags::DONTWAIT);
            let Ok((n, _, Some(peer))) = heard else { return };
            let Ok(peer) = SocketAddr::try_from(peer) else { continue };
            if let Some(question) = Question::read(&buffer[..n], false) {
                self.ask(question, Asker::Datagram(peer));
            }
        }
    }

    pub(crate) fn accept_asker(&mut self) {
        let Some(socket) = accept(&self.doors.names_tcp) else { return };
        if let Some(key) = self.wait_for(&socket) {
            self.sources.insert(key, Source::Asker { socket, bytes: Vec::new() });
        }
    }

    pub(crate) fn asked_by_stream(
        &mut self,
        key: u64,
        socket: OwnedFd,
        mut bytes: Vec<u8>,
    ) -> Option<Source> {
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::net::recv(&socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return None,
                Ok((n, _)) => bytes.extend_from_slice(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return None,
            }
        }
        let mut questions = Vec::new();
        while let Some(length) = bytes.get(..2).map(|two| usize::from(two[0]) << 8 | usize::from(two[1])) {
            let Some(message) = bytes.get(2..2 + length) else { break };
            questions.push(Question::read(message, true)?);
            bytes.drain(..2 + length);
        }
        self.sources.insert(key, Source::Asker { socket, bytes });
        for question in questions {
            self.ask(question, Asker::Stream(key));
        }
        // It stands under its key already, unless its answer could not be sent.
        None
    }

    /// Judges a question, and asks it where it may be asked.
    pub(crate) fn ask(&mut self, question: Question, asker: Asker) {
        let Some(name) = question.name.clone() else {
            return self.reply_with(asker, &question, question.no_such_name(), &[]);
        };
        let known = if name.is_localhost() { Some(dns::LOCALHOST.to_vec()) } else { None };
        if let Some(addresses) = known {
            let answer = question.answer(&addresses);
            return self.reply_with(asker, &question, answer, &addresses);
        }
        let verdict = self.policy.judge_name(&name);
        self.book.tell(Event::of(&verdict, Way::Lookup, None, 0));
        if !verdict.allowed {
            return self.reply_with(asker, &question, question.no_such_name(), &[]);
        }
        if question.wanted() == Wanted::Service {
            return self.reply_with(asker, &question, question.answer(&[]), &[]);
        }
        if let Some(addresses) = self.hosts.get(&name).cloned() {
            for address in &addresses {
                self.memory.learn(&name, *address);
            }
            let answer = question.answer(&addresses);
            return self.reply_with(asker, &question, answer, &addresses);
        }
        let lookups = self.sources.values().filter(|source| matches!(source, Source::Lookup(_)));
        if lookups.count() >= MOST {
            return;
        }
        // Read anew, as the host's own programs do: a machine that moves has other servers.
        let servers = dns::servers(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
        self.ask_server(question, asker, servers, 0, false);
    }

    fn ask_server(
        &mut self,
        question: Question,
        asker: Asker,
        servers: Vec<SocketAddr>,
        asked: usize,
        by_stream: bool,
    ) {
        if asked >= servers.len() * ROUNDS {
            let answer = question.no_answer();
            return self.reply_with(asker, &question, answer, &[]);
        }
        let at = servers[asked % servers.len()];
        let id = chance();
        let kind = if by_stream { SocketType::STREAM } else { SocketType::DGRAM };
        let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let begun =
            rustix::net::socket_with(family, kind, flags, None).and_then(
                |socket| match rustix::net::connect(&socket, &at) {
                    Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
                    Err(errno) => Err(errno),
                },
            );
        let lookup = begun.ok().and_then(|socket| {
            let key = self.wait_for(&socket)?;
            Some((key, socket))
        });
        let Some((key, socket)) = lookup else {
            return self.ask_server(question, asker, servers, asked + 1, by_stream);
        };
        let stream = by_stream.then(Vec::new);
        let deadline = Instant::now() + PATIENCE;
        let mut lookup =
            Lookup { question, asker, id, servers, asked, socket, stream, sent: false, deadline };
        if !by_stream {
            let _ = lookup.send();
        }
        self.sources.insert(key, Source::Lookup(Box::new(lookup)));
    }

    /// The server of a question has something to say.
    pub(crate) fn looked_up(&mut self, mut lookup: Lookup) -> Option<Lookup> {
        let heard = match lookup.hear() {
            Ok(None) => return Some(lookup),
            Ok(Some(bytes)) => lookup.question.hear(lookup.id, &bytes),
            Err(_) => {
                self.unanswered(lookup);
                return None;
            }
        };
        // Something else that came to this socket: the answer may still come.
        let Some(heard) = heard else { return Some(lookup) };
        let Lookup { question, asker, servers, asked, stream, .. } = lookup;
        if heard.is_cut && stream.is_none() {
            self.ask_server(question, asker, servers, asked, true);
        } else if heard.is_no_help() && asked + 1 < servers.len() {
            self.ask_server(question, asker, servers, asked + 1, false);
        } else {
            let addresses: Vec<IpAddr> = heard.addresses().filter(|address| !has_no_way(*address)).collect();
            if let Some(name) = &question.name {
                for address in &addresses {
                    self.memory.learn(name, *address);
                }
            }
            let answer = question.pass_on(&heard, &has_no_way);
            self.reply_with(asker, &question, answer, &addresses);
        }
        None
    }

    /// A server did not answer, or could not.
    pub(crate) fn unanswered(&mut self, lookup: Lookup) {
        let Lookup { question, asker, servers, asked, .. } = lookup;
        self.ask_server(question, asker, servers, asked + 1, false);
    }

    fn reply_with(&mut self, asker: Asker, question: &Question, answer: Vec<u8>, addresses: &[IpAddr]) {
        match asker {
            Asker::Datagram(peer) => {
                let _ = rustix::net::sendto(&self.doors.names, &answer, SendFlags::DONTWAIT, &peer);
            }
            Asker::Stream(key) => {
                let mut framed = (answer.len() as u16).to_be_bytes().to_vec();
                framed.extend_from_slice(&answer);
                if let Some(Source::Asker { socket, .. }) = self.sources.get(&key) {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    if rustix::net::send(socket, &framed, flags) != Ok(framed.len()) {
                        self.sources.remove(&key);
                    }
                }
            }
            Asker::Proxy(wish) => self.resolved(*wish, question.wanted(), addresses),
        }
    }
}

impl Lookup {
    fn send(&mut self) -> Result<(), Errno> {
        let message = self.question.ask(self.id);
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let bytes = match self.stream {
            Some(_) => [&(message.len() as u16).to_be_bytes()[..], &message].concat(),
            None => message,
        };
        rustix::net::send(&self.socket, &bytes, flags)?;
        self.sent = true;
        Ok(())
    }

    /// The next message, where there is a whole one.
    fn hear(&mut self) -> Result<Option<Vec<u8>>, Errno> {
        rustix::net::sockopt::socket_error(&self.socket)??;
        if !self.sent {
            match self.send() {
                Err(Errno::AGAIN | Errno::NOTCONN) => return Ok(None),
                other => other?,
            }
        }
        let mut buffer = [0u8; 8192];
        loop {
            let n = match rustix::net::recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((n, _)) => n,
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            let Some(stream) = &mut self.stream else { return Ok(Some(buffer[..n].to_vec())) };
            if n == 0 {
                return Err(Errno::CONNRESET);
            }
            stream.extend_from_slice(&buffer[..n]);
            let length = stream.get(..2).map(|two| usize::from(two[0]) << 8 | usize::from(two[1]));
            if let Some(message) = length.and_then(|length| stream.get(2..2 + length)) {
                return Ok(Some(message.to_vec()));
            }
        }
    }
}

/// True for an IPv6 address to which this machine has no way at all: a lane that was told of it would try it first.
fn has_no_way(address: IpAddr) -> bool {
    let IpAddr::V6(six) = address else { return false };
    let flags = SocketFlags::CLOEXEC;
    let Ok(socket) = rustix::net::socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None) else {
        return true;
    };
    // Nothing is sent: the kernel only looks for the way.
    let at = SocketAddr::new(six.into(), 53);
    matches!(
        rustix::net::connect(&socket, &at),
        Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::ADDRNOTAVAIL)
    )
}

fn chance() -> u16 {
    let mut bytes = [0u8; 2];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u16::from_ne_bytes(bytes)
}
