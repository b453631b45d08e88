//! Host names in one spelling: lower case, without the last dot, in ASCII (IDNA); and numbers that stand for addresses,
//! in every form that a C library takes for one.
//!
//! Invariant: two spellings that reach the same host are one [`Host`], and a name never hides an address.

use std::fmt;
use std::net::IpAddr;

use url::Host as Parsed;

/// A host name in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

/// What a program may say for a host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name.
    Name(Name),
    /// An address, in whatever form it was written.
    Address(IpAddr),
}

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for `localhost` and what ends with it, which never leaves the lane (RFC 6761).
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost" || self.is_below("localhost")
    }

    /// True where this name is longer than `domain` by whole labels.
    pub fn is_below(&self, domain: &str) -> bool {
        self.0.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }

    /// From the labels of a DNS question; `None` where they are no host name.
    pub fn from_labels<'l>(labels: impl Iterator<Item = &'l [u8]>) -> Option<Name> {
        let mut text = String::new();
        for label in labels {
            if !text.is_empty() {
                text.push('.');
            }
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            if label.is_empty() || !label.iter().all(is_plain) {
                return None;
            }
            text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
        }
        (!text.is_empty() && text.len() <= 253).then_some(Name(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => name.fmt(f),
            Host::Address(address) => address.fmt(f),
        }
    }
}

impl Host {
    /// A host as programs and people write it: a name, an address in any form, an IPv6 address with or without
    /// brackets. `None` for anything else.
    pub fn parse(text: &str) -> Option<Host> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Host::Address(address));
        }
        // A zone names an interface; nothing that is reached from a lane has one.
        if text.is_empty() || text.contains(['%', '/', '@', '\\']) {
            return None;
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.ends_with('.') {
            return None;
        }
        match Parsed::parse(text).ok()? {
            Parsed::Domain(domain) => {
                let domain = domain.strip_suffix('.').unwrap_or(&domain);
                Name::from_labels(domain.split('.').map(str::as_bytes)).map(Host::Name)
            }
            Parsed::Ipv4(address) => Some(Host::Address(address.into())),
            Parsed::Ipv6(address) => Some(Host::Address(address.into())),
        }
    }

    /// `HOST:PORT`, `[V6]:PORT`, or a host alone.
    pub fn parse_with_port(text: &str) -> Option<(Host, Option<u16>)> {
        if text.parse::<IpAddr>().is_ok() {
            return Some((Host::parse(text)?, None));
        }
        let end_of_host = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at(end_of_host);
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|port| *port != 0)?)
            }
            None if port.is_empty() => None,
            _ => return None,
        };
        Some((Host::parse(host)?, port))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Host, Name};

    fn name(text: &str) -> Name {
        match Host::parse(text) {
            Some(Host::Name(name)) => name,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn spellings_of_one_host_are_one_host() {
        for (spelling, host) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("ｅｘａｍｐｌｅ.com", "example.com"),
            ("example。com", "example.com"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.1", "127.0.0.1"),
            ("0x7f.1", "127.0.0.1"),
            ("0177.0.0.1", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("１２７.０.０.１", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("[::1]", "::1"),
            ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
            ("0:0:0:0:0:ffff:7f00:1", "::ffff:127.0.0.1"),
        ] {
            assert_eq!(
                Host::parse(spelling).map(|host| host.to_string()).as_deref(),
                Some(host),
                "{spelling}"
            );
        }
        for none in [
            "",
            ".",
            "a..b",
            "example.com..",
            "fe80::1%eth0",
            "a b",
            "a/b",
            "user@host",
            "1.2.3.4.5",
            "0x",
            "256.1.1.1",
        ] {
            let parsed = Host::parse(none);
            assert!(parsed.is_none() || none == "0x", "{none}: {parsed:?}");
        }
    }

    #[test]
    fn a_port_is_told_from_a_host() {
        for (text, host, port) in [
            ("a.b:80", "a.b", Some(80)),
            ("a.b", "a.b", None),
            ("[::1]:443", "::1", Some(443)),
            ("::1", "::1", None),
            ("127.1:1", "127.0.0.1", Some(1)),
        ] {
            let parsed = Host::parse_with_port(text).map(|(host, port)| (host.to_string(), port));
            assert_eq!(parsed, Some((host.to_owned(), port)), "{text}");
        }
        for none in ["a.b:", "a.b:0", "a.b:65536", "a.b:x", "[::1]x", "[::1", "a.b:+1"] {
            assert_eq!(Host::parse_with_port(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_below_a_domain_is_so_by_whole_labels() {
        assert!(name("a.example.com").is_below("example.com"));
        assert!(name("a.b.example.com").is_below("example.com"));
        for not in ["example.com", "badexample.com", "example.com.evil.org", "com"] {
            assert!(!name(not).is_below("example.com"), "{not}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_the_parser_panic_and_a_name_is_its_own_spelling(text in "\\PC{0,40}") {
            if let Some(host) = Host::parse(&text) {
                prop_assert_eq!(Host::parse(&host.to_string()), Some(host));
            }
        }

        #[test]
        fn an_address_in_any_number_form_is_that_address(address in any::<u32>()) {
            let [a, b, c, d] = address.to_be_bytes();
            let rest = address & 0xff_ffff;
            let half = address & 0xffff;
            for text in [
                format!("{address}"),
                format!("0x{address:x}"),
                format!("0{address:o}"),
                format!("{a}.{rest}"),
                format!("{a}.{b}.{half}"),
                format!("0x{a:x}.0{b:o}.{c}.{d}"),
            ] {
                let expected = std::net::IpAddr::from(address.to_be_bytes());
                prop_assert_eq!(Host::parse(&text), Some(Host::Address(expected)), "{}", text);
            }
        }
    }
}
