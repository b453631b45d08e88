//! What a client says first: the host that it names in a TLS greeting or in the head of an HTTP request.
//!
//! Only where hosts were allowed by name is a connection looked into. Invariants: nothing is passed on before the host it
//! names was judged; on a connection with HTTP every request is; a greeting or a head that cannot be read is refused;
//! what is neither TLS nor HTTP was judged by its address and passes.

use crate::name::{Host, Name};

/// The longest greeting or head that is waited for.
const LONGEST: usize = 64 << 10;

/// What to do with the bytes so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More is needed.
    Wait,
    /// So many may go on.
    Pass(usize),
    /// All may go on, and nothing is looked at any more.
    Open,
    /// The connection ends, after these bytes for the client.
    Shut {
        /// The host that was named, where one was.
        host: Option<Host>,
        /// Why, where it is not the host.
        why: &'static str,
        /// A last word in the client's own language.
        answer: Kind,
    },
}

/// The language of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TLS.
    Tls,
    /// HTTP.
    Http,
}

/// Looks at what a client sends.
#[derive(Debug, Default)]
pub(crate) struct Inspector(State);

#[derive(Debug, Default)]
enum State {
    #[default]
    First,
    Head,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    Trailer,
    /// Whether the client's stream becomes another protocol is the server's word.
    Answer(Vec<u8>),
    Free,
}

impl Inspector {
    /// Looks at the bytes that wait; those that passed are taken off by the caller. `judge` says whether a host may be
    /// named.
    pub(crate) fn look(&mut self, bytes: &[u8], judge: &dyn Fn(&Name) -> bool) -> Step {
        match &mut self.0 {
            _ if bytes.is_empty() => Step::Wait,
            State::Free => Step::Open,
            State::First if bytes[0] == 0x16 => self.tls(bytes, judge),
            State::First => self.first_line(bytes, judge),
            State::Head => self.head(bytes, judge),
            State::Body(left) | State::ChunkData(left) => {
                let now = (*left).min(bytes.len() as u64);
                *left -= now;
                if *left == 0 {
                    self.0 = if matches!(self.0, State::Body(_)) { State::Head } else { State::ChunkSize };
                }
                Step::Pass(now as usize)
            }
            State::ChunkSize => match httparse::parse_chunk_size(bytes) {
                Ok(httparse::Status::Complete((used, 0))) => {
                    self.0 = State::Trailer;
                    Step::Pass(used)
                }
                Ok(httparse::Status::Complete((used, size))) => {
                    let Some(with_end) = size.checked_add(2) else {
                        return shut("a body that cannot be read");
                    };
                    self.0 = State::ChunkData(with_end);
                    Step::Pass(used)
                }
                Ok(httparse::Status::Partial) if bytes.len() < 4096 => Step::Wait,
                _ => shut("a body that cannot be read"),
            },
            State::Trailer => match bytes.iter().position(|byte| *byte == b'\n') {
                Some(at) => {
                    if bytes[..at].iter().all(|byte| *byte == b'\r') {
                        self.0 = State::Head;
                    }
                    Step::Pass(at + 1)
                }
                None if bytes.len() < LONGEST => Step::Wait,
                None => shut("a trailer without an end"),
            },
            State::Answer(_) => Step::Wait,
        }
    }

    /// True where a client that has ended said something that could only have become TLS or HTTP with more.
    pub(crate) fn ends_freely(&self, bytes: &[u8]) -> bool {
        matches!(self.0, State::First) && bytes.first().is_some_and(|first| *first != 0x16)
    }

    /// True while the server's answer decides what the client's bytes are.
    pub(crate) fn wants_answer(&self) -> bool {
        matches!(self.0, State::Answer(_))
    }

    /// What the server says, while [`Inspector::wants_answer`].
    pub(crate) fn answer(&mut self, bytes: &[u8]) {
        let State::Answer(seen) = &mut self.0 else { return };
        seen.extend_from_slice(bytes);
        // `HTTP/1.1 101`; a `100 Continue` before it does not decide.
        let Some(code) = seen.get(9..12) else { return };
        match code {
            b"101" => self.0 = State::Free,
            b"100" | b"103" => {
                let end = seen.windows(4).position(|four| four == b"\r\n\r\n");
                if let Some(end) = end {
                    let rest = seen.split_off(end + 4);
                    *seen = Vec::new();
                    self.answer(&rest);
                }
            }
            _ => self.0 = State::Head,
        }
    }

    fn first_line(&mut self, bytes: &[u8], judge: &dyn Fn(&Name) -> bool) -> Step {
        // Servers skip empty lines before a request.
        let skipped = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let text = &bytes[skipped..];
        let line_end = text.iter().position(|byte| *byte == b'\n');
        let line = &text[..line_end.unwrap_or(text.len())];
        let printable = line.iter().all(|byte| (b' '..0x7f).contains(byte) || matches!(byte, b'\r' | b'\t'));
        if !text.is_empty() && !printable {
            self.0 = State::Free;
            return Step::Open;
        }
        let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
        let method = METHODS.iter().any(|method| word.eq_ignore_ascii_case(method));
        let says_http = line.windows(5).any(|five| five.eq_ignore_ascii_case(b"HTTP/"));
        if method || says_http {
            self.0 = State::Head;
            return self.head(bytes, judge);
        }
        // A method is a token (RFC 9110, section 5.6.2); a line without an end may still say that it is HTTP.
        let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
        let longest = if word.len() < line.len() { 8192 } else { 32 };
        if line_end.is_none() && word.iter().all(token) && line.len() < longest {
            return Step::Wait;
        }
        self.0 = State::Free;
        Step::Open
    }

    fn tls(&mut self, bytes: &[u8], judge: &dyn Fn(&Name) -> bool) -> Step {
        let refuse = |host, why| Step::Shut { host, why, answer: Kind::Tls };
        match greeting(bytes) {
            Greeting::Part if bytes.len() < LONGEST => Step::Wait,
            Greeting::Names(names) => match names.as_slice() {
                [Some(Host::Name(name))] if judge(name) => {
                    self.0 = State::Free;
                    Step::Open
                }
                [Some(host)] => refuse(Some(host.clone()), "it names another host"),
                [] => refuse(None, "a TLS greeting that names no host"),
                _ => refuse(None, "a TLS greeting that cannot be read"),
            },
            _ => refuse(None, "a TLS greeting that cannot be read"),
        }
    }

    fn head(&mut self, bytes: &[u8], judge: &dyn Fn(&Name) -> bool) -> Step {
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let used = match request.parse(bytes) {
            Ok(httparse::Status::Complete(used)) => used,
            Ok(httparse::Status::Partial) if bytes.len() < LONGEST => return Step::Wait,
            _ => return shut("a request that cannot be read"),
        };
        let host = match request_host(&request) {
            Ok(host) => host,
            Err(why) => return shut(why),
        };
        let allowed = matches!(&host, Host::Name(name) if judge(name));
        if !allowed {
            return Step::Shut { host: Some(host), why: "it names another host", answer: Kind::Http };
        }
        match body(&request) {
            Some(next) => self.0 = next,
            None => return shut("a request whose length cannot be told"),
        }
        Step::Pass(used)
    }
}

fn shut(why: &'static str) -> Step {
    Step::Shut { host: None, why, answer: Kind::Http }
}

const METHODS: &[&[u8]] =
    &[b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PRI"];

fn values<'r>(request: &'r httparse::Request<'_, '_>, name: &str) -> impl Iterator<Item = &'r [u8]> {
    request
        .headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// The one host that a request names.
fn request_host(request: &httparse::Request<'_, '_>) -> Result<Host, &'static str> {
    if request.method.is_some_and(|method| method == "CONNECT" || method == "PRI") {
        return Err("a method that hides the host");
    }
    let mut hosts = values(request, "host");
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("not exactly one Host in a request");
    };
    let parsed = std::str::from_utf8(host).ok().and_then(|text| Host::parse_with_port(text.trim()));
    let Some((host, _)) = parsed else { return Err("a Host that cannot be read") };
    if let Some(target) = request.path.filter(|path| !path.starts_with('/') && *path != "*") {
        let in_target = authority(target).and_then(|(host, _, _)| Host::parse(host));
        if in_target.as_ref() != Some(&host) {
            return Err("a request that names two hosts");
        }
    }
    Ok(host)
}

/// Host, port and the rest of `http://host:port/rest`.
pub(crate) fn authority(target: &str) -> Option<(&str, Option<u16>, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let at_port = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
    let (host, port) = match at_port {
        Some(at) => (&authority[..at], Some(authority[at + 1..].parse().ok()?)),
        None => (authority, None),
    };
    (!authority.contains('@') && !host.is_empty()).then_some((host, port, path))
}

/// What follows a request's head; `None` where that cannot be told for sure.
fn body(request: &httparse::Request<'_, '_>) -> Option<State> {
    let encodings: Vec<&[u8]> = values(request, "transfer-encoding").collect();
    let lengths: Vec<&[u8]> = values(request, "content-length").collect();
    if values(request, "upgrade").next().is_some() {
        // Nothing but the head may have been sent yet.
        return (encodings.is_empty() && lengths.iter().all(|length| *length == b"0"))
            .then(|| State::Answer(Vec::new()));
    }
    match (encodings.as_slice(), lengths.as_slice()) {
        ([], []) => Some(State::Head),
        ([coding], []) if coding.trim_ascii().eq_ignore_ascii_case(b"chunked") => Some(State::ChunkSize),
        ([], [length]) => {
            let digits = std::str::from_utf8(length.trim_ascii()).ok()?;
            let length = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok())??;
            Some(if length == 0 { State::Head } else { State::Body(length) })
        }
        _ => None,
    }
}

enum Greeting {
    Part,
    Names(Vec<Option<Host>>),
    Other,
}

/// The names in a TLS ClientHello, which may lie in several records.
fn greeting(bytes: &[u8]) -> Greeting {
    use tls_parser::{TlsExtension, TlsMessage, TlsMessageHandshake};
    let (mut rest, mut message) = (bytes, Vec::new());
    loop {
        let needed = message.get(1..4).map(|three: &[u8]| {
            4 + (usize::from(three[0]) << 16 | usize::from(three[1]) << 8 | usize::from(three[2]))
        });
        match needed {
            Some(needed) if needed > LONGEST => return Greeting::Other,
            Some(needed) if message.len() >= needed => {
                message.truncate(needed);
                break;
            }
            _ => {}
        }
        match tls_parser::parse_tls_raw_record(rest) {
            Ok((after, record)) if record.hdr.record_type == tls_parser::TlsRecordType::Handshake => {
                message.extend_from_slice(record.data);
                rest = after;
            }
            Err(tls_parser::nom::Err::Incomplete(_)) => return Greeting::Part,
            _ => return Greeting::Other,
        }
    }
    let Ok((_, TlsMessage::Handshake(TlsMessageHandshake::ClientHello(hello)))) =
        tls_parser::parse_tls_message_handshake(&message)
    else {
        return Greeting::Other;
    };
    let extensions = hello.ext.map(tls_parser::parse_tls_client_hello_extensions);
    let Some(Ok((unread, extensions))) = extensions else {
        return if hello.ext.is_none() { Greeting::Names(Vec::new()) } else { Greeting::Other };
    };
    if !unread.is_empty() {
        return Greeting::Other;
    }
    let names = extensions.iter().filter_map(|extension| match extension {
        TlsExtension::SNI(names) => Some(names),
        _ => None,
    });
    let parse = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(Host::parse);
    Greeting::Names(names.flatten().map(|(_, name)| parse(name)).collect())
}

/// What the client is told before the connection ends.
pub(crate) fn last_word(kind: Kind, text: &str) -> Vec<u8> {
    match kind {
        // A fatal alert, access_denied (RFC 8446, section 6.2).
        Kind::Tls => vec![0x15, 3, 3, 0, 2, 2, 49],
        Kind::Http => format!(
            "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}\n",
            text.len() + 1
        )
        .into_bytes(),
    }
}

#[cfg(test)]
mod tests;
