use std::net::IpAddr;

use proptest::prelude::*;

use super::{Mode, Policy, Unclear, Verdict, Way};
use crate::address::{self, Net, Place};
use crate::name::{Host, Name};

fn name(text: &str) -> Name {
    match Host::parse(text) {
        Some(Host::Name(name)) => name,
        other => panic!("{text}: {other:?}"),
    }
}

fn policy(text: &str) -> Policy {
    Policy::parse(text).expect("a policy")
}

fn tcp(policy: &Policy, names: &[&str], address: &str, port: u16) -> Verdict {
    let names: Vec<Name> = names.iter().map(|text| name(text)).collect();
    policy.judge(Way::Tcp, &names, address.parse().expect("an address"), port)
}

#[test]
fn a_wish_is_read_as_it_was_written_and_what_is_unclear_is_named() {
    for text in [
        "none",
        "loopback",
        "open",
        "host",
        "allow:example.com",
        "allow:*.a.b:443,10.0.0.0/8",
        "open:10.1.2.3",
        "allow:npm,[2001:db8::1]:22",
    ] {
        assert_eq!(policy(text).text(), text);
    }
    assert_eq!(policy("open").mode, Mode::Open);
    let unclear = |text: &str| Policy::parse(text).expect_err("unclear");
    assert_eq!(unclear("allow"), Unclear::Nobody);
    assert_eq!(unclear("allow:"), Unclear::Nobody);
    assert_eq!(unclear("allow:,"), Unclear::Nobody);
    assert_eq!(unclear("lan"), Unclear::Mode("lan".into()));
    assert_eq!(unclear("none:example.com"), Unclear::Mode("none:example.com".into()));
    for host in ["a..b", "no-such-preset", "*.10.0.0.1", "a.b:0", "http://a.b/", "*"] {
        assert_eq!(unclear(&format!("allow:{host}")), Unclear::Host(host.into()), "{host}");
    }
    for host in
        ["localhost", "127.0.0.1", "127.1:80", "[::1]:80", "a.localhost", "0x7f000001", "::ffff:127.0.0.1"]
    {
        assert_eq!(unclear(&format!("allow:{host}")), Unclear::Loopback(host.into()), "{host}");
    }
}

#[test]
fn open_takes_what_is_public_and_nothing_else() {
    let open = policy("open");
    assert_eq!(tcp(&open, &[], "93.184.216.34", 443).rule, "open");
    assert!(tcp(&open, &["example.com"], "2606:4700::1", 443).allowed);
    assert!(tcp(&open, &[], "203.0.113.80", 443).allowed);
    for (address, rule, wish) in [
        ("192.168.1.5", "private", Some("--net open:192.168.1.5")),
        ("169.254.169.254", "a cloud's metadata service", Some("--net open:169.254.169.254")),
        ("fd00::1", "private", Some("--net open:[fd00::1]")),
        ("127.0.0.1", "this machine's loopback is not the lane's", Some("--host-port 80")),
        ("::ffff:127.0.0.1", "this machine's loopback is not the lane's", Some("--host-port 80")),
        ("0.0.0.0", "not the address of a host", None),
        ("224.0.0.1", "not the address of a host", None),
    ] {
        let said = tcp(&open, &[], address, 80);
        assert_eq!(
            (said.allowed, said.rule.as_str(), said.wish.as_deref()),
            (false, rule, wish),
            "{address}"
        );
    }
    let rebound = tcp(&open, &["evil.example"], "10.0.0.1", 80);
    assert_eq!(rebound.rule, "evil.example is 10.0.0.1, which is private");
    assert_eq!(rebound.wish.as_deref(), Some("--net open:10.0.0.1"));
    assert!(tcp(&policy("open:10.0.0.0/8"), &["evil.example"], "10.0.0.1", 80).allowed);
    let neighbours = vec![Net::parse("203.0.113.0/24").expect("a range")];
    let said = tcp(&Policy { neighbours, ..open }, &[], "203.0.113.80", 443);
    assert_eq!(said.rule, "on this machine's own network");
}

#[test]
fn what_is_allowed_is_the_named_host_and_not_its_namesakes() {
    let allow = policy("allow:example.com,*.wild.org:443,10.0.0.5:22,github");
    let public = "93.184.216.34";
    for (host, port, allowed) in [
        ("example.com", 443, true),
        ("example.com", 9999, true),
        ("a.wild.org", 443, true),
        ("b.a.wild.org", 443, true),
        ("github.com", 443, true),
        ("wild.org", 443, false),
        ("badwild.org", 443, false),
        ("a.wild.org", 80, false),
        ("www.example.com", 443, false),
        ("example.com.evil.org", 443, false),
        ("notexample.com", 443, false),
    ] {
        assert_eq!(tcp(&allow, &[host], public, port).allowed, allowed, "{host}:{port}");
    }
    assert!(tcp(&allow, &["other.org", "example.com"], public, 1).allowed);
    assert!(tcp(&allow, &[], "10.0.0.5", 22).allowed);
    assert!(!tcp(&allow, &[], "10.0.0.5", 23).allowed);
    assert!(!tcp(&allow, &[], public, 443).allowed);
    assert!(!tcp(&allow, &["example.com"], "192.168.0.1", 443).allowed);
    let said = tcp(&policy("allow:example.com"), &["other.org"], public, 443);
    assert_eq!(said.rule, "not among the hosts of --net allow");
    assert_eq!(said.wish.as_deref(), Some("--net allow:example.com,other.org"));
    let said = tcp(&policy("allow:example.com:443"), &["example.com"], public, 22);
    assert_eq!(said.rule, "--net allow names this host without port 22");
    assert_eq!(said.wish.as_deref(), Some("--net allow:example.com:443,example.com:22"));
    assert!(policy("allow:a.b").looks_inside(public.parse().expect("one"), 443));
    assert!(!policy("allow:93.184.216.0/24").looks_inside(public.parse().expect("one"), 443));
}

#[test]
fn names_are_asked_for_only_where_they_may_be_reached() {
    assert!(policy("open").judge_name(&name("anything.org")).allowed);
    assert!(policy("allow:*.example.com").judge_name(&name("a.example.com")).allowed);
    for (text, wish) in [
        ("none", "--net allow:secret.evil.org"),
        ("loopback", "--net allow:secret.evil.org"),
        ("allow:*.example.com", "--net allow:*.example.com,secret.evil.org"),
    ] {
        let said = policy(text).judge_name(&name("secret.evil.org"));
        assert_eq!((said.allowed, said.wish.as_deref()), (false, Some(wish)), "{text}");
    }
}

#[test]
fn datagrams_leave_no_lane_but_one_with_the_hosts_network() {
    for text in ["none", "loopback", "open", "allow:8.8.8.8"] {
        let said = policy(text).judge(Way::Udp, &[], "8.8.8.8".parse().expect("one"), 53);
        assert_eq!((said.allowed, said.wish.as_deref()), (false, Some("--net host")), "{text}");
    }
}

proptest! {
    #[test]
    fn open_never_takes_an_address_that_is_not_public(bits in any::<u128>(), is_four in any::<bool>(), port in 1u16..) {
        let address: IpAddr = if is_four { std::net::Ipv4Addr::from(bits as u32).into() } else { std::net::Ipv6Addr::from(bits).into() };
        let said = policy("open").judge(Way::Tcp, &[name("a.b")], address, port);
        let public = matches!(address::place(address), Place::Public | Place::Example);
        prop_assert_eq!(said.allowed, public);
        // The option that is offered does allow it.
        if let Some(net) = said.wish.as_deref().and_then(|wish| wish.strip_prefix("--net ")) {
            prop_assert!(policy(net).judge(Way::Tcp, &[], address, port).allowed, "{}", net);
        }
    }

    #[test]
    fn the_option_that_is_offered_allows_what_was_refused(
        host in "[a-z]{1,8}(\\.[a-z]{1,8}){1,3}", own in "[a-z]{1,8}\\.[a-z]{2,3}(:[1-9][0-9]{0,3})?", port in 1u16..,
    ) {
        let own = policy(&format!("allow:{own}"));
        let asked = [name(&host)];
        let address = "93.184.216.34".parse().expect("one");
        let said = own.judge(Way::Tcp, &asked, address, port);
        if let Some(wish) = said.wish {
            let then = policy(wish.strip_prefix("--net ").expect("the option"));
            prop_assert!(then.judge(Way::Tcp, &asked, address, port).allowed, "{}", wish);
            prop_assert!(then.judge_name(&asked[0]).allowed);
        } else {
            prop_assert!(said.allowed);
        }
    }

    #[test]
    fn a_name_is_allowed_with_its_domain_by_whole_labels_only(
        domain in "[a-z]{1,6}\\.[a-z]{2,3}", before in "[a-z.]{0,10}",
    ) {
        let wild = policy(&format!("allow:*.{domain}"));
        if let Some(Host::Name(asked)) = Host::parse(&format!("{before}{domain}")) {
            let below = before.ends_with('.');
            prop_assert_eq!(wild.judge_name(&asked).allowed, below, "{}", asked);
        }
    }

    #[test]
    fn no_wish_makes_the_parser_panic(text in "\\PC{0,60}") {
        if let Ok(policy) = Policy::parse(&text) {
            prop_assert!(Policy::parse(&policy.text()).is_ok());
        }
    }
}
