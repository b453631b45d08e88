//! What a lane may reach: the wish as a person wrote it, and the one decision that everything passes.
//!
//! Pure. Invariants: names are compared in their one spelling and by whole labels; an address is judged by what it truly
//! reaches; what is refused says by which rule, and which single option would allow it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address::{self, Net, Place};
use crate::name::{Host, Name};
use crate::preset;

/// The kind of network that a lane has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Its own loopback and nothing else; no port is handed through.
    None,
    /// Its own loopback, and the ports that are handed through by name.
    Loopback,
    /// The hosts that were named.
    Allow,
    /// Any public address, and the hosts that were named.
    #[default]
    Open,
    /// The host's own network, unfiltered.
    Host,
}

impl Mode {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::None => "none",
            Mode::Loopback => "loopback",
            Mode::Allow => "allow",
            Mode::Open => "open",
            Mode::Host => "host",
        }
    }
}

/// Whom a rule speaks of.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Whom {
    /// One name.
    Name(Name),
    /// Every name below this one.
    Below(String),
    /// Addresses.
    Net(Net),
}

/// One host, or several, that may be reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Whom it speaks of.
    pub whom: Whom,
    /// On this port only.
    pub port: Option<u16>,
    /// The preset that it came with.
    pub preset: Option<String>,
}

/// Why a wish for a network cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// No such mode.
    #[error("'{0}' is no kind of network")]
    Mode(String),
    /// No host, and no preset either.
    #[error("'{0}' is neither a host nor a preset")]
    Host(String),
    /// This machine's loopback is reached by port only.
    #[error("'{0}' is this machine's loopback, which is reached by port")]
    Loopback(String),
    /// `allow` without a host.
    #[error("no host is named")]
    Nobody,
}

/// What a lane may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The kind of network.
    pub mode: Mode,
    /// Who may be reached by name.
    pub rules: Vec<Rule>,
    /// The words that the rules came from, as they were written.
    words: Vec<String>,
    /// The machine's own networks: an address for examples that lies there is a neighbour.
    pub neighbours: Vec<Net>,
}

/// How something is to be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
    /// A question for the addresses of a name.
    Lookup,
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// It may be.
    pub allowed: bool,
    /// By which rule.
    pub rule: String,
    /// The option that would allow it, where one does.
    pub wish: Option<String>,
    /// The name that it was judged by.
    pub name: Option<Name>,
}

impl Policy {
    /// `none`, `loopback`, `allow:HOST,…`, `open`, `open:HOST,…` or `host`.
    pub fn parse(text: &str) -> Result<Policy, Unclear> {
        let (word, hosts) = match text.split_once(':') {
            Some((word, hosts)) => (word, Some(hosts)),
            None => (text, None),
        };
        let mode = match (word, hosts) {
            ("none", None) => Mode::None,
            ("loopback", None) => Mode::Loopback,
            ("host", None) => Mode::Host,
            ("open", _) => Mode::Open,
            ("allow", Some(_)) => Mode::Allow,
            ("allow", None) => return Err(Unclear::Nobody),
            _ => return Err(Unclear::Mode(text.to_owned())),
        };
        let mut policy = Policy { mode, ..Policy::default() };
        for word in hosts.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty()) {
            policy.rules.extend(rules(word)?);
            policy.words.push(word.to_owned());
        }
        if mode == Mode::Allow && policy.rules.is_empty() || hosts == Some("") {
            return Err(Unclear::Nobody);
        }
        Ok(policy)
    }

    /// This kind of network, and nobody named.
    pub fn of(mode: Mode) -> Policy {
        Policy { mode, ..Policy::default() }
    }

    /// The same on a machine that stands in these networks.
    #[must_use]
    pub fn among(self, neighbours: Vec<Net>) -> Policy {
        Policy { neighbours, ..self }
    }

    /// As it was written.
    pub fn text(&self) -> String {
        match self.words.as_slice() {
            [] => self.mode.word().to_owned(),
            words => format!("{}:{}", self.mode.word(), words.join(",")),
        }
    }

    /// The option with one more host.
    fn with(&self, host: &str) -> String {
        let kind = if self.mode == Mode::Open { Mode::Open } else { Mode::Allow };
        let mut words = self.words.clone();
        words.push(host.to_owned());
        format!("--net {}:{}", kind.word(), words.join(","))
    }

    /// Whether the addresses of a name may be asked for.
    pub fn judge_name(&self, name: &Name) -> Verdict {
        let verdict = |allowed, rule: String, wish| Verdict { allowed, rule, wish, name: Some(name.clone()) };
        match self.mode {
            Mode::None | Mode::Loopback => {
                let rule = format!("--net {}: the lane reaches nothing outside", self.mode.word());
                verdict(false, rule, Some(self.with(name.as_str())))
            }
            Mode::Open | Mode::Host => verdict(true, self.mode.word().to_owned(), None),
            Mode::Allow => match self.rules.iter().find(|rule| rule.names(name)) {
                Some(rule) => verdict(true, rule.to_string(), None),
                None => verdict(
                    false,
                    "not among the hosts of --net allow".into(),
                    Some(self.with(name.as_str())),
                ),
            },
        }
    }

    /// Whether `address` may be reached on `port`. `names`: what the lane was told of this address, or asked for.
    pub fn judge(&self, way: Way, names: &[Name], address: IpAddr, port: u16) -> Verdict {
        let address = address::canonical(address);
        let first = names.first().cloned();
        let refused =
            |rule: String, wish: Option<String>| Verdict { allowed: false, rule, wish, name: first.clone() };
        if self.mode == Mode::Host {
            return Verdict { allowed: true, rule: "host".into(), wish: None, name: first };
        }
        let place = address::place(address);
        if place == Place::Loopback {
            let rule = "this machine's loopback is not the lane's";
            return refused(rule.into(), Some(format!("--host-port {port}")));
        }
        if address.is_unspecified() || address.is_multicast() {
            return refused("not the address of a host".into(), None);
        }
        if way == Way::Udp {
            return refused(
                "UDP does not leave a lane (names are asked for at its own resolver)".into(),
                Some("--net host".into()),
            );
        }
        if matches!(self.mode, Mode::None | Mode::Loopback) {
            let host = first.as_ref().map_or_else(|| address.to_string(), |name| name.as_str().to_owned());
            let rule = format!("--net {}: the lane reaches nothing outside", self.mode.word());
            return refused(rule, Some(self.with(&host)));
        }
        // Addresses that were named as such count wherever they lie.
        let named = self.rules.iter().find(|rule| rule.holds(address) && rule.takes(port));
        if let Some(rule) = named {
            return Verdict { allowed: true, rule: rule.to_string(), wish: None, name: first };
        }
        let what = match place {
            Place::Special(what) => Some(what),
            Place::Example if self.neighbours.iter().any(|net| net.has(address)) => {
                Some("on this machine's own network")
            }
            _ => None,
        };
        if let Some(what) = what {
            let of = first.as_ref().map(|name| format!("{name} is {address}, which is ")).unwrap_or_default();
            return refused(format!("{of}{what}"), Some(self.with(&shown(address))));
        }
        if self.mode == Mode::Open {
            return Verdict { allowed: true, rule: "open".into(), wish: None, name: first };
        }
        for name in names {
            if let Some(rule) = self.rules.iter().find(|rule| rule.names(name) && rule.takes(port)) {
                return Verdict {
                    allowed: true,
                    rule: rule.to_string(),
                    wish: None,
                    name: Some(name.clone()),
                };
            }
        }
        let host = first.as_ref().map_or_else(|| shown(address), |name| name.as_str().to_owned());
        let known = names.iter().any(|name| self.rules.iter().any(|rule| rule.names(name)));
        let (rule, wish) = if known {
            (format!("--net allow names this host without port {port}"), format!("{host}:{port}"))
        } else {
            ("not among the hosts of --net allow".to_owned(), host)
        };
        refused(rule, Some(self.with(&wish)))
    }

    /// True where a client may name this host on a connection to this port.
    pub fn may_be_named(&self, name: &Name, port: u16) -> bool {
        self.rules.iter().any(|rule| rule.names(name) && rule.takes(port))
    }

    /// The option that would allow a host by name or address.
    pub fn wish_for(&self, host: &Host, port: u16) -> String {
        match host {
            Host::Name(name) if self.rules.iter().any(|rule| rule.names(name)) => {
                self.with(&format!("{name}:{port}"))
            }
            Host::Name(name) => self.with(name.as_str()),
            Host::Address(address) => self.with(&shown(*address)),
        }
    }

    /// True where connections are looked into: only names were allowed, so that a name has to be shown.
    pub fn looks_inside(&self, address: IpAddr, port: u16) -> bool {
        self.mode == Mode::Allow && !self.rules.iter().any(|rule| rule.holds(address) && rule.takes(port))
    }
}

fn shown(address: IpAddr) -> String {
    if address.is_ipv6() { format!("[{address}]") } else { address.to_string() }
}

fn rules(word: &str) -> Result<Vec<Rule>, Unclear> {
    if let Some(preset) = preset::named(word) {
        let rules = preset.hosts.iter().map(|host| {
            let mut rule = rule(&host.at)?;
            rule.preset = Some(word.to_owned());
            Ok(rule)
        });
        return rules.collect();
    }
    rule(word).map(|rule| vec![rule])
}

fn rule(word: &str) -> Result<Rule, Unclear> {
    let unclear = || Unclear::Host(word.to_owned());
    let rule = |whom, port| Rule { whom, port, preset: None };
    if let Some(net) = Net::parse(word) {
        return net_rule(word, net, None);
    }
    let (wild, rest) = match word.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let (host, port) = Host::parse_with_port(rest).ok_or_else(unclear)?;
    match host {
        Host::Name(name) if name.is_localhost() => Err(Unclear::Loopback(word.to_owned())),
        Host::Name(name) if wild => Ok(rule(Whom::Below(name.as_str().to_owned()), port)),
        // A word without a dot is what one writes for a preset, and never a public host.
        Host::Name(name) if !name.as_str().contains('.') && port.is_none() => Err(unclear()),
        Host::Name(name) => Ok(rule(Whom::Name(name), port)),
        Host::Address(_) if wild => Err(unclear()),
        Host::Address(address) => {
            let address = address::canonical(address);
            let bits = if address.is_ipv4() { 32 } else { 128 };
            net_rule(word, Net { base: address, bits }, port)
        }
    }
}

fn net_rule(word: &str, net: Net, port: Option<u16>) -> Result<Rule, Unclear> {
    if net.is_single() && address::place(net.base) == Place::Loopback {
        return Err(Unclear::Loopback(word.to_owned()));
    }
    Ok(Rule { whom: Whom::Net(net), port, preset: None })
}

impl Rule {
    /// True where it speaks of this name.
    pub fn names(&self, name: &Name) -> bool {
        match &self.whom {
            Whom::Name(own) => own == name,
            Whom::Below(domain) => name.is_below(domain),
            Whom::Net(_) => false,
        }
    }

    /// True where it speaks of this address by itself.
    pub fn holds(&self, address: IpAddr) -> bool {
        matches!(&self.whom, Whom::Net(net) if net.has(address))
    }

    fn takes(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.whom {
            Whom::Name(name) => write!(f, "allow:{name}")?,
            Whom::Below(domain) => write!(f, "allow:*.{domain}")?,
            Whom::Net(net) if net.base.is_ipv6() && self.port.is_some() => write!(f, "allow:[{net}]")?,
            Whom::Net(net) => write!(f, "allow:{net}")?,
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        if let Some(preset) = &self.preset {
            write!(f, " (of {preset})")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
