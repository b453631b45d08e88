use proptest::prelude::*;

use super::{Inspector, Kind, Step};
use crate::name::{Host, Name};

fn judge(name: &Name) -> bool {
    name.as_str() == "good.example"
}

/// What of `bytes` passes, fed in pieces of `piece` bytes, and why the rest does not.
fn fed(bytes: &[u8], piece: usize) -> (usize, Option<Step>) {
    let (mut inspector, mut waiting, mut passed) = (Inspector::default(), Vec::new(), 0);
    for part in bytes.chunks(piece.max(1)) {
        waiting.extend_from_slice(part);
        loop {
            match inspector.look(&waiting, &judge) {
                Step::Wait => break,
                Step::Pass(n) => {
                    waiting.drain(..n);
                    passed += n;
                }
                Step::Open => {
                    passed += waiting.len();
                    waiting.clear();
                    break;
                }
                shut => return (passed, Some(shut)),
            }
        }
    }
    (passed, None)
}

fn hello(names: &[&str], version: [u8; 2]) -> Vec<u8> {
    let mut list = Vec::new();
    for name in names {
        list.push(0);
        list.extend_from_slice(&(name.len() as u16).to_be_bytes());
        list.extend_from_slice(name.as_bytes());
    }
    let mut sni = (list.len() as u16).to_be_bytes().to_vec();
    sni.extend_from_slice(&list);
    let mut extensions = Vec::new();
    if !names.is_empty() {
        extensions.extend_from_slice(&[0, 0]);
        extensions.extend_from_slice(&(sni.len() as u16).to_be_bytes());
        extensions.extend_from_slice(&sni);
    }
    // ALPN, h2.
    extensions.extend_from_slice(&[0, 16, 0, 5, 0, 3, 2, b'h', b'2']);
    let mut body = version.to_vec();
    body.extend_from_slice(&[7; 32]);
    body.extend_from_slice(&[0, 0, 2, 0x13, 1, 1, 0]);
    body.extend_from_slice(&(extensions.len() as u16).to_be_bytes());
    body.extend_from_slice(&extensions);
    let mut message = vec![1, 0];
    message.extend_from_slice(&(body.len() as u16).to_be_bytes());
    message.extend_from_slice(&body);
    message
}

fn records(message: &[u8], each: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        let mut record = vec![0x16, 3, 1];
        record.extend_from_slice(&(part.len() as u16).to_be_bytes());
        record.extend_from_slice(part);
        record
    };
    message.chunks(each).flat_map(record).collect()
}

#[test]
fn a_greeting_passes_whole_with_an_allowed_name_however_it_is_cut() {
    for each in [1, 3, 50, 4000] {
        let bytes = records(&hello(&["good.example"], [3, 3]), each);
        for piece in [1, 7, 5000] {
            assert_eq!(fed(&bytes, piece), (bytes.len(), None), "{each} {piece}");
        }
    }
}

#[test]
fn nothing_of_a_greeting_for_another_host_or_for_none_passes() {
    let shut = |names: &[&str]| match fed(&records(&hello(names, [3, 3]), 4000), 100) {
        (0, Some(Step::Shut { host, answer: Kind::Tls, .. })) => host.map(|host| host.to_string()),
        other => panic!("{other:?}"),
    };
    assert_eq!(shut(&["evil.example"]), Some("evil.example".into()));
    assert_eq!(shut(&["10.0.0.1"]), Some("10.0.0.1".into()));
    assert_eq!(shut(&[]), None);
    assert_eq!(shut(&["good.example", "evil.example"]), None);
    assert_eq!(shut(&["good.example.evil"]), Some("good.example.evil".into()));
}

#[test]
fn every_request_on_a_connection_is_looked_at() {
    let good = "GET /a HTTP/1.1\r\nHost: GOOD.example:80\r\n\r\n";
    let posted = "POST / HTTP/1.1\r\nhost: good.example\r\nContent-Length: 5\r\n\r\nGET /";
    let chunked = "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nHost:\r\n0\r\nX: y\r\n\r\n";
    let absolute = "GET http://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n";
    let fine = [good, posted, chunked, absolute, good].concat();
    for piece in [1, 9, 10_000] {
        assert_eq!(fed(fine.as_bytes(), piece), (fine.len(), None), "{piece}");
    }
    for evil in [
        "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "FOO / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "get / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: good.example\r\nHost: evil.example\r\n\r\n",
        "GET http://evil.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "GET http://evil.example@good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET /\r\n",
        "CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.example\r\nContent-Length: +5\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n",
    ] {
        for piece in [1, 10_000] {
            let (passed, shut) = fed(evil.as_bytes(), piece);
            assert!(passed == 0 && matches!(shut, Some(Step::Shut { .. })), "{evil:?}: {passed} {shut:?}");
            let after = [posted, evil].concat();
            let (passed, shut) = fed(after.as_bytes(), piece);
            assert!(passed == posted.len() && matches!(shut, Some(Step::Shut { .. })), "{evil:?} second");
        }
    }
}

#[test]
fn other_protocols_pass_as_they_were_judged_by_their_address() {
    for text in [
        &b"SSH-2.0-OpenSSH_9.2 x\r\n"[..],
        b"EHLO me\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"* OK\r\n",
        b"{\"op\":1}\n",
    ] {
        assert_eq!(fed(text, 1), (text.len(), None), "{text:?}");
        assert_eq!(fed(text, 1000), (text.len(), None), "{text:?}");
    }
}

#[test]
fn another_protocol_begins_on_the_servers_word_only() {
    let head = "GET /ws HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let evil = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    for (answer, opens) in [
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n", true),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n", true),
        ("HTTP/1.1 404 Not Found\r\n\r\n", false),
    ] {
        let mut inspector = Inspector::default();
        assert_eq!(inspector.look(head.as_bytes(), &judge), Step::Pass(head.len()));
        assert!(inspector.wants_answer());
        assert_eq!(inspector.look(evil.as_bytes(), &judge), Step::Wait);
        for byte in answer.bytes() {
            inspector.answer(&[byte]);
        }
        let step = inspector.look(evil.as_bytes(), &judge);
        assert_eq!(step == Step::Open, opens, "{answer:?}: {step:?}");
        assert_eq!(matches!(step, Step::Shut { host: Some(Host::Name(_)), .. }), !opens);
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic_and_pieces_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..40) {
        let (whole, shut) = fed(&bytes, 1000);
        let (pieces, shut_in_pieces) = fed(&bytes, piece);
        prop_assert_eq!((whole, shut.is_some()), (pieces, shut_in_pieces.is_some()));
    }

    #[test]
    fn bytes_behind_a_greetings_head_never_make_it_panic(tail in prop::collection::vec(any::<u8>(), 0..200), cut in 0usize..100) {
        let mut bytes = records(&hello(&["good.example"], [3, 3]), 4000);
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes.extend(tail);
        let _ = fed(&bytes, 64);
    }
}
