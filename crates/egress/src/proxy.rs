//! For clients that were told to use a proxy: HTTP, CONNECT and SOCKS5 on one port of the lane's loopback.
//!
//! Invariant: the host of a request is judged by name, and each of its addresses as any other; what follows is carried as
//! any other connection.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use kernel::Errno;
use rustix::net::RecvFlags;

use crate::dns::{Question, Wanted};
use crate::event::{Event, What};
use crate::inspect::authority;
use crate::name::Host;
use crate::names::Asker;
use crate::policy::Way;
use crate::serve::{Link, Server, Source, Then, accept, last_words};

/// A client that has not said yet where it wants to go.
#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    bytes: Vec<u8>,
    /// SOCKS: the greeting was answered.
    greeted: bool,
    pub(crate) deadline: Instant,
}

/// Where a client wants to go.
#[derive(Debug)]
pub(crate) struct Wish {
    socket: OwnedFd,
    host: Host,
    port: u16,
    language: Language,
    /// Said to the other side first.
    out: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Http,
    Connect,
    Socks,
}

/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST: usize = 64 << 10;

/// What a client's first bytes are.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Part,
    /// This is said to it, and it says more; so many bytes are done with.
    Reply(Vec<u8>, usize),
    Go {
        host: Host,
        port: u16,
        language: Language,
        out: Vec<u8>,
    },
    Wrong(Vec<u8>),
}

impl Server {
    pub(crate) fn accept_client(&mut self) {
        let Some(socket) = accept(&self.doors.proxy) else { return };
        if let Some(key) = self.wait_for(&socket) {
            let deadline = Instant::now() + PATIENCE;
            let client = Client { socket, bytes: Vec::new(), greeted: false, deadline };
            self.sources.insert(key, Source::Client(Box::new(client)));
        }
    }

    pub(crate) fn client_said(&mut self, mut client: Client) -> Option<Client> {
        let mut buffer = [0u8; 4096];
        loop {
            match rustix::net::recv(&client.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return None,
                Ok((n, _)) => client.bytes.extend_from_slice(&buffer[..n]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return None,
            }
        }
        loop {
            match read(&client.bytes, client.greeted) {
                Said::Part if client.bytes.len() < LONGEST => return Some(client),
                Said::Part => return None,
                Said::Reply(reply, used) => {
                    let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
                    rustix::net::send(&client.socket, &reply, flags).ok()?;
                    client.bytes.drain(..used);
                    client.greeted = true;
                }
                Said::Wrong(words) => {
                    last_words(&client.socket, &words);
                    return None;
                }
                Said::Go { host, port, language, out } => {
                    self.reactor.forget(&client.socket);
                    self.go(Wish { socket: client.socket, host, port, language, out });
                    return None;
                }
            }
        }
    }

    fn go(&mut self, wish: Wish) {
        match wish.host.clone() {
            Host::Address(address) => self.go_to(wish, &[address]),
            Host::Name(name) => match Question::of(&name, Wanted::V4) {
                Some(question) => self.ask(question, Asker::Proxy(Box::new(wish))),
                None => last_words(&wish.socket, &sorry(wish.language, "no such host")),
            },
        }
    }

    /// The addresses of a client's host are known.
    pub(crate) fn resolved(&mut self, wish: Wish, wanted: Wanted, addresses: &[IpAddr]) {
        let Host::Name(name) = wish.host.clone() else { return };
        if addresses.is_empty()
            && wanted == Wanted::V4
            && self.policy.judge_name(&name).allowed
            && let Some(question) = Question::of(&name, Wanted::V6)
        {
            return self.ask(question, Asker::Proxy(Box::new(wish)));
        }
        if addresses.is_empty() {
            let verdict = self.policy.judge_name(&name);
            let why = match verdict.wish {
                Some(option) => {
                    format!("refused by the lane: {name} ({})\nto allow it: {option}", verdict.rule)
                }
                None => format!("{name}: no such host"),
            };
            return last_words(&wish.socket, &sorry(wish.language, &why));
        }
        self.go_to(wish, addresses);
    }

    fn go_to(&mut self, wish: Wish, addresses: &[IpAddr]) {
        let Wish { socket, host, port, language, out } = wish;
        let names = match &host {
            Host::Name(name) => vec![name.clone()],
            Host::Address(address) => self.memory.names(*address).to_vec(),
        };
        let mut allowed = Vec::new();
        let mut first: Option<Event> = None;
        let mut looks = false;
        for address in addresses {
            let address = crate::address::canonical(*address);
            let verdict = self.policy.judge(Way::Tcp, &names, address, port);
            let event = Event::of(&verdict, Way::Tcp, Some(address), port);
            if verdict.allowed {
                looks |= self.policy.looks_inside(address, port);
                allowed.push(SocketAddr::new(address, port));
            }
            let better = first.as_ref().is_none_or(|first| first.what == What::Refused && verdict.allowed);
            if better {
                first = Some(event);
            }
        }
        let Some(event) = first else { return };
        self.book.tell(event.clone());
        if allowed.is_empty() {
            let option = event.wish.as_ref().map_or(String::new(), |wish| format!("\nto allow it: {wish}"));
            let why = format!("refused by the lane: {} ({}){option}", event.target(), event.rule);
            return last_words(&socket, &sorry(language, &why));
        }
        let back = match language {
            Language::Http => Vec::new(),
            Language::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec(),
            Language::Socks => vec![5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        };
        let link = Link { event, looks, out, back };
        let sorry = sorry(language, "the host does not answer");
        self.dial(allowed, link, Then::Serve { inside: socket, sorry });
    }
}

/// What a client is told where nothing comes about.
fn sorry(language: Language, why: &str) -> Vec<u8> {
    match language {
        // Connection not allowed by ruleset (RFC 1928), or no way to the host.
        Language::Socks if why.starts_with("refused") => vec![5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        Language::Socks => vec![5, 4, 0, 1, 0, 0, 0, 0, 0, 0],
        _ => {
            let status = if why.starts_with("refused") { "403 Forbidden" } else { "502 Bad Gateway" };
            http(status, why)
        }
    }
}

fn http(status: &str, why: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
        why.len() + 1
    )
    .into_bytes()
}

fn read(bytes: &[u8], greeted: bool) -> Said {
    match bytes.first() {
        None => Said::Part,
        Some(5) if greeted => socks_request(bytes),
        Some(5) => match bytes.get(1).and_then(|n| bytes.get(2..2 + usize::from(*n))) {
            None => Said::Part,
            // Nobody has to say who he is: whoever is in the lane is.
            Some(ways) if ways.contains(&0) => Said::Reply(vec![5, 0], 2 + ways.len()),
            Some(_) => Said::Wrong(vec![5, 0xff]),
        },
        Some(_) => http_request(bytes),
    }
}

fn socks_request(bytes: &[u8]) -> Said {
    let wrong = |code| Said::Wrong(vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
    let Some(head) = bytes.get(..4) else { return Said::Part };
    let (host, used) = match head[3] {
        1 => match bytes.get(4..8).and_then(|four| <[u8; 4]>::try_from(four).ok()) {
            Some(four) => (Some(Host::Address(IpAddr::from(four))), 8),
            None => return Said::Part,
        },
        4 => match bytes.get(4..20).and_then(|six| <[u8; 16]>::try_from(six).ok()) {
            Some(six) => (Some(Host::Address(IpAddr::from(six))), 20),
            None => return Said::Part,
        },
        3 => match bytes.get(4).and_then(|n| bytes.get(5..5 + usize::from(*n))) {
            Some(name) => (std::str::from_utf8(name).ok().and_then(Host::parse), 5 + name.len()),
            None => return Said::Part,
        },
        _ => return wrong(8),
    };
    let Some(port) = bytes.get(used..used + 2).map(|two| u16::from(two[0]) << 8 | u16::from(two[1])) else {
        return Said::Part;
    };
    match host {
        _ if head[1] != 1 => wrong(7),
        Some(host) if port != 0 => {
            Said::Go { host, port, language: Language::Socks, out: bytes[used + 2..].to_vec() }
        }
        _ => wrong(4),
    }
}

/// Headers that are between a client and its proxy.
const OWN: &[&str] = &["connection", "proxy-connection", "proxy-authorization", "keep-alive", "host"];

fn http_request(bytes: &[u8]) -> Said {
    let wrong = || Said::Wrong(http("400 Bad Request", "not a request to a proxy"));
    let mut headers = [httparse::EMPTY_HEADER; 128];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) => return Said::Part,
        Err(_) => return wrong(),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else { return wrong() };
    if method == "CONNECT" {
        return match Host::parse_with_port(target) {
            Some((host, Some(port))) => {
                Said::Go { host, port, language: Language::Connect, out: bytes[used..].to_vec() }
            }
            _ => wrong(),
        };
    }
    let Some((name, port, path)) = authority(target) else { return wrong() };
    let Some(host) = Host::parse(name) else { return wrong() };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let path = path.split('#').next().unwrap_or("/");
    let shown = port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"));
    // One request to a connection: the next one may be for another host.
    let mut out = format!("{method} {path} HTTP/1.1\r\nHost: {shown}\r\nConnection: close\r\n").into_bytes();
    for header in
        request.headers.iter().filter(|header| !OWN.iter().any(|own| header.name.eq_ignore_ascii_case(own)))
    {
        out.extend_from_slice(header.name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(header.value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(&bytes[used..]);
    Said::Go { host, port: port.unwrap_or(80), language: Language::Http, out }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Language, Said, read};

    fn go(bytes: &[u8], greeted: bool) -> (String, u16, Language, Vec<u8>) {
        match read(bytes, greeted) {
            Said::Go { host, port, language, out } => (host.to_string(), port, language, out),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_language_says_where_to_go() {
        assert_eq!(
            go(b"CONNECT Example.com:443 HTTP/1.1\r\nHost: x\r\n\r\nhello", false),
            ("example.com".into(), 443, Language::Connect, b"hello".to_vec())
        );
        let (host, port, language, out) = go(
            b"GET http://example.com:8080/a?b#c HTTP/1.1\r\nHost: evil.org\r\nProxy-Connection: keep-alive\r\nX: y\r\n\r\nbody",
            false,
        );
        assert_eq!((host.as_str(), port, language), ("example.com", 8080, Language::Http));
        let text = "GET /a?b HTTP/1.1\r\nHost: example.com:8080\r\nConnection: close\r\nX: y\r\n\r\nbody";
        assert_eq!(String::from_utf8_lossy(&out), text);
        assert_eq!(go(b"GET http://example.com HTTP/1.1\r\n\r\n", false).0, "example.com");
        assert_eq!(read(&[5, 1, 0], false), Said::Reply(vec![5, 0], 3));
        assert_eq!(read(&[5, 1, 2], false), Said::Wrong(vec![5, 0xff]));
        let mut named = vec![5, 1, 0, 3, 11];
        named.extend_from_slice(b"example.com\x01\xbbrest");
        assert_eq!(go(&named, true), ("example.com".into(), 443, Language::Socks, b"rest".to_vec()));
        assert_eq!(go(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80], true).0, "10.0.0.1");
        assert_eq!(go(&[&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat(), true).0, "::1");
        assert_eq!(
            read(&[5, 3, 0, 1, 10, 0, 0, 1, 0, 80], true),
            Said::Wrong(vec![5, 7, 0, 1, 0, 0, 0, 0, 0, 0])
        );
        for wrong in
            ["GET / HTTP/1.1\r\n\r\n", "GET https://a.b/ HTTP/1.1\r\n\r\n", "CONNECT a.b HTTP/1.1\r\n\r\n"]
        {
            assert!(matches!(read(wrong.as_bytes(), false), Said::Wrong(_)), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), greeted in any::<bool>()) {
            let _ = read(&bytes, greeted);
            let _ = read(&[&[5, 1, 0][..], &bytes].concat(), true);
        }
    }
}
