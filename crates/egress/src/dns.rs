//! Names inside: questions are read, judged, asked of the host's own servers, and what they answered is remembered.
//!
//! Invariants: a name that may not be reached is not asked for outside; an address is remembered for a name only where
//! the answer was to our own question for it. Rests on RFC 1035, RFC 6761, resolv.conf(5).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, RData, Record, RecordType};

use crate::name::{Host, Name};

/// How long addresses that we were told ourselves may be kept by a client, in seconds.
const TTL: u32 = 60;

/// One question of a client.
#[derive(Debug, Clone)]
pub struct Question {
    id: u16,
    query: Query,
    /// The name in its one spelling; `None` where it is no host name.
    pub name: Option<Name>,
    /// The longest answer that fits the client's way.
    room: usize,
    has_edns: bool,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
    /// How to reach a service, which names further hosts and keys that hide the name: never answered.
    Service,
    /// Something else.
    Other,
}

impl Question {
    /// Reads a question; `None` where it is none. `stream`: it came over TCP, whose answers may be long.
    pub fn read(bytes: &[u8], stream: bool) -> Option<Question> {
        let message = Message::from_vec(bytes).ok()?;
        let [query] = message.queries.as_slice() else { return None };
        let is_plain = message.metadata.message_type == MessageType::Query
            && message.metadata.op_code == OpCode::Query
            && query.query_class() == DNSClass::IN;
        if !is_plain {
            return None;
        }
        let room = if stream { 65_535 } else { usize::from(message.max_payload().clamp(512, 4096)) };
        Some(Question {
            id: message.metadata.id,
            query: query.clone(),
            name: Name::from_labels(query.name().iter()),
            room,
            has_edns: message.edns.is_some(),
        })
    }

    /// A question of our own.
    pub fn of(name: &Name, wanted: Wanted) -> Option<Question> {
        let kind = if wanted == Wanted::V6 { RecordType::AAAA } else { RecordType::A };
        let dns = hickory_proto::rr::Name::from_ascii(format!("{name}.")).ok()?;
        let query = Query::query(dns, kind);
        Some(Question { id: 0, query, name: Some(name.clone()), room: 65_535, has_edns: false })
    }

    /// What is asked for.
    pub fn wanted(&self) -> Wanted {
        match self.query.query_type() {
            RecordType::A => Wanted::V4,
            RecordType::AAAA => Wanted::V6,
            RecordType::HTTPS | RecordType::SVCB | RecordType::ANY => Wanted::Service,
            _ => Wanted::Other,
        }
    }

    fn empty(&self, code: ResponseCode) -> Message {
        let mut message = Message::error_msg(self.id, OpCode::Query, code);
        message.metadata.recursion_desired = true;
        message.metadata.recursion_available = true;
        message.add_query(self.query.clone());
        if self.has_edns {
            let mut edns = Edns::new();
            edns.set_max_payload(1232).set_version(0);
            message.set_edns(edns);
        }
        message
    }

    fn finish(&self, message: &Message) -> Vec<u8> {
        match message.to_vec() {
            Ok(bytes) if bytes.len() <= self.room => bytes,
            _ => message.truncate().to_vec().unwrap_or_default(),
        }
    }

    /// There is no such name, as far as this lane goes.
    pub fn no_such_name(&self) -> Vec<u8> {
        self.finish(&self.empty(ResponseCode::NXDomain))
    }

    /// Nobody answered.
    pub fn no_answer(&self) -> Vec<u8> {
        self.finish(&self.empty(ResponseCode::ServFail))
    }

    /// The name is these addresses, as far as they are of the kind that is asked for.
    pub fn answer(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let mut message = self.empty(ResponseCode::NoError);
        for address in addresses {
            let data = match (address, self.wanted()) {
                (IpAddr::V4(four), Wanted::V4) => RData::A(A(*four)),
                (IpAddr::V6(six), Wanted::V6) => RData::AAAA(AAAA(*six)),
                _ => continue,
            };
            message.add_answer(Record::from_rdata(self.query.name().clone(), TTL, data));
        }
        self.finish(&message)
    }

    /// The question as it is asked outside.
    pub fn ask(&self, id: u16) -> Vec<u8> {
        let mut message = Message::new(id, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        message.add_query(self.query.clone());
        let mut edns = Edns::new();
        edns.set_max_payload(1232).set_version(0);
        message.set_edns(edns);
        message.to_vec().unwrap_or_default()
    }

    /// The answer from outside; `None` where it answers something else.
    pub fn hear(&self, id: u16, bytes: &[u8]) -> Option<Heard> {
        let message = Message::from_vec(bytes).ok()?;
        let [query] = message.queries.as_slice() else { return None };
        let answers = message.metadata.id == id
            && message.metadata.message_type == MessageType::Response
            && query.name() == self.query.name()
            && query.query_type() == self.query.query_type();
        answers.then_some(Heard { is_cut: message.metadata.truncation, message })
    }

    /// The answer for the client, without the addresses that `leave_out` names.
    pub fn pass_on(&self, heard: &Heard, leave_out: &dyn Fn(IpAddr) -> bool) -> Vec<u8> {
        let mut message = self.empty(heard.message.metadata.response_code);
        let keep = |record: &&Record| address(record).is_none_or(|address| !leave_out(address));
        message.add_answers(heard.message.answers.iter().filter(keep).cloned());
        message.add_authorities(heard.message.authorities.iter().cloned());
        self.finish(&message)
    }
}

/// An answer from outside.
#[derive(Debug)]
pub struct Heard {
    /// It did not fit: to be asked again over TCP.
    pub is_cut: bool,
    message: Message,
}

impl Heard {
    /// The addresses in it.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.message.answers.iter().filter_map(address)
    }

    /// True where the server would not or could not answer.
    pub fn is_no_help(&self) -> bool {
        matches!(
            self.message.metadata.response_code,
            ResponseCode::ServFail | ResponseCode::Refused | ResponseCode::NotImp
        )
    }
}

fn address(record: &Record) -> Option<IpAddr> {
    match &record.data {
        RData::A(A(four)) => Some(IpAddr::V4(*four)),
        RData::AAAA(AAAA(six)) => Some(IpAddr::V6(*six)),
        _ => None,
    }
}

/// Names by the addresses that the lane was told for them.
#[derive(Debug, Default)]
pub struct Memory {
    names: HashMap<IpAddr, Vec<Name>>,
}

/// How many addresses, and names of each, are remembered.
const MOST_ADDRESSES: usize = 1 << 16;
const MOST_NAMES: usize = 32;

impl Memory {
    /// `name` is `address`. The latest stands first.
    pub fn learn(&mut self, name: &Name, address: IpAddr) {
        if self.names.len() >= MOST_ADDRESSES && !self.names.contains_key(&address) {
            self.names.clear();
        }
        let names = self.names.entry(crate::address::canonical(address)).or_default();
        names.retain(|known| known != name);
        names.insert(0, name.clone());
        names.truncate(MOST_NAMES);
    }

    /// The names of an address.
    pub fn names(&self, address: IpAddr) -> &[Name] {
        self.names.get(&crate::address::canonical(address)).map_or(&[], Vec::as_slice)
    }
}

/// The servers of a resolv.conf.
pub fn servers(resolv_conf: &str) -> Vec<SocketAddr> {
    let lines = resolv_conf.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default());
    let named = lines.filter_map(|line| line.trim().strip_prefix("nameserver")).filter_map(|address| {
        // A link-local server comes with its zone, which only the kernel knows by number.
        address.trim().split('%').next()?.parse::<IpAddr>().ok()
    });
    let servers: Vec<SocketAddr> = named.map(|address| SocketAddr::new(address, 53)).collect();
    // As resolv.conf(5) has it.
    if servers.is_empty() { vec![SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 53)] } else { servers }
}

/// The names of a hosts file.
pub fn hosts(text: &str) -> HashMap<Name, Vec<IpAddr>> {
    let mut hosts: HashMap<Name, Vec<IpAddr>> = HashMap::new();
    for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        let mut words = line.split_whitespace();
        let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
        for word in words {
            if let Some(Host::Name(name)) = Host::parse(word) {
                hosts.entry(name).or_default().push(address);
            }
        }
    }
    hosts
}

/// What `localhost` is (RFC 6761).
pub const LOCALHOST: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

#[cfg(test)]
mod tests {
    use super::{Memory, Question, Wanted, hosts, servers};
    use crate::name::{Host, Name};

    fn name(text: &str) -> Name {
        match Host::parse(text) {
            Some(Host::Name(name)) => name,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn a_question_is_asked_outside_and_its_answer_handed_back_under_the_clients_number() {
        let own = Question::of(&name("Example.com"), Wanted::V4).expect("a question");
        let asked = Question::read(&own.ask(77), false).expect("read");
        assert_eq!((asked.name.clone(), asked.wanted()), (Some(name("example.com")), Wanted::V4));
        let outside = asked.answer(&["93.184.216.34".parse().expect("one"), "::1".parse().expect("one")]);
        let heard = own.hear(77, &outside).expect("heard");
        assert_eq!(
            heard.addresses().collect::<Vec<_>>(),
            ["93.184.216.34".parse::<std::net::IpAddr>().expect("one")]
        );
        assert!(own.hear(78, &outside).is_none());
        let other = Question::of(&name("other.com"), Wanted::V4).expect("a question");
        assert!(other.hear(77, &outside).is_none());
        let passed = asked.pass_on(&heard, &|_| true);
        assert_eq!(own.hear(77, &passed).expect("heard").addresses().count(), 0);
    }

    #[test]
    fn what_does_not_fit_a_datagram_is_cut_and_says_so() {
        let own = Question::of(&name("example.com"), Wanted::V4).expect("a question");
        let asked = |stream| Question::read(&own.ask(1), stream).expect("read");
        let many: Vec<std::net::IpAddr> = (0..200u8).map(|n| [10, 0, 0, n].into()).collect();
        assert!(own.hear(1, &asked(false).answer(&many)).expect("heard").is_cut);
        let whole = own.hear(1, &asked(true).answer(&many)).expect("heard");
        assert_eq!((whole.is_cut, whole.addresses().count()), (false, 200));
    }

    #[test]
    fn what_is_no_question_is_none_and_never_a_panic() {
        let own = Question::of(&name("example.com"), Wanted::V6).expect("a question");
        let asked = own.ask(9);
        for end in 0..asked.len() {
            let _ = Question::read(&asked[..end], false);
        }
        assert!(Question::read(b"", false).is_none());
        assert!(Question::read(&own.no_answer(), false).is_none());
    }

    #[test]
    fn the_latest_name_of_an_address_stands_first() {
        let mut memory = Memory::default();
        let address = "93.184.216.34".parse().expect("one");
        for text in ["a.b", "c.d", "a.b"] {
            memory.learn(&name(text), address);
        }
        assert_eq!(memory.names("::ffff:93.184.216.34".parse().expect("one")), [name("a.b"), name("c.d")]);
        assert!(memory.names("1.2.3.4".parse().expect("one")).is_empty());
    }

    #[test]
    fn servers_and_hosts_are_read_as_the_c_library_reads_them() {
        let conf = "# x\nnameserver 10.0.0.1 \nnameserver fe80::1%eth0\nsearch a.b\nnameserver x\n;nameserver 1.1.1.1\n";
        let shown: Vec<String> = servers(conf).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.0.0.1:53", "[fe80::1]:53"]);
        assert_eq!(servers("").len(), 1);
        let hosts = hosts("10.0.0.1 a.b A.C # d.e\nbad f.g\n::1 a.b\n");
        assert_eq!(hosts[&name("a.b")].len(), 2);
        assert!(hosts.contains_key(&name("a.c")) && !hosts.contains_key(&name("d.e")));
    }
}
