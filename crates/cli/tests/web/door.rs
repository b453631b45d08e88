//! The door: who is let in, and what every answer says.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::Who;

use crate::site::Site;

#[test]
fn a_token_opens_once_and_a_wrong_one_never() {
    let site = Site::new(Who::User);
    let server = site.serve();
    let wrong = server.post("/enter", &[], &json!({ "token": "0".repeat(64) }));
    assert_eq!((wrong.status, wrong.head.contains("set-cookie")), (403, false), "{wrong:?}");
    let (cookie, key) = server.enter();
    let again = server.post("/enter", &[], &json!({ "token": server.token() }));
    assert_eq!((again.status, again.head.contains("set-cookie")), (403, false), "{again:?}");
    let lanes =
        server.post("/ask", &[("Cookie", &cookie), ("X-Lane-Key", &key)], &json!({ "what": "lanes" }));
    assert_eq!(lanes.status, 200, "{lanes:?}");
    assert!(serde_json::from_str::<Value>(&lanes.body).expect("a document")["lanes"].is_array());
}

#[test]
fn cookie_key_host_origin_and_type_must_all_fit() {
    let site = Site::new(Who::User);
    let server = site.serve();
    let (cookie, key) = server.enter();
    let (host, origin) = (server.host(), format!("http://{}", server.host()));
    let foreign_port = format!("http://127.0.0.1:{}", server.port.wrapping_add(1));
    let body = json!({ "what": "lanes" }).to_string();
    let ours = [
        ("Host", host.as_str()),
        ("Origin", origin.as_str()),
        ("Content-Type", "application/json"),
        ("Cookie", cookie.as_str()),
        ("X-Lane-Key", key.as_str()),
    ];
    assert_eq!(server.request("POST", "/ask", &ours, &body).status, 200);
    for (changed, value, status) in [
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1", 403),
        ("Origin", "http://evil.example", 403),
        ("Origin", foreign_port.as_str(), 403),
        ("Origin", "null", 403),
        ("Content-Type", "text/plain", 403),
        ("Cookie", "lane-web=1", 401),
        ("X-Lane-Key", "0", 401),
    ] {
        let headers: Vec<_> =
            ours.iter().map(|(name, had)| (*name, if *name == changed { value } else { had })).collect();
        let answer = server.request("POST", "/ask", &headers, &body);
        assert_eq!(answer.status, status, "{changed}: {value}: {answer:?}");
        assert!(!answer.body.contains("lanes"), "{answer:?}");
        let without: Vec<_> = ours.iter().filter(|(name, _)| *name != changed).copied().collect();
        assert_ne!(server.request("POST", "/ask", &without, &body).status, 200, "without {changed}");
    }
    let mut cross = ours.to_vec();
    cross.push(("Sec-Fetch-Site", "cross-site"));
    assert_eq!(server.request("POST", "/ask", &cross, &body).status, 403);
    for method in ["OPTIONS", "PUT", "DELETE"] {
        let answer = server.request(method, "/ask", &ours, "");
        assert_eq!(answer.status, 403, "{method}");
        assert!(!answer.head.contains("access-control"), "{answer:?}");
    }
    assert_eq!(server.request("GET", "/ask", &ours, "").status, 405);
}

#[test]
fn every_answer_carries_the_policy_and_nothing_is_stored() {
    let site = Site::new(Who::User);
    let server = site.serve();
    let host = server.host();
    for (path, name, status) in [
        ("/", host.as_str(), 200),
        ("/page.js", &host, 200),
        ("/nowhere", &host, 404),
        ("/", "evil.example", 403),
    ] {
        let answer = server.request("GET", path, &[("Host", name)], "");
        assert_eq!(answer.status, status, "{answer:?}");
        for says in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';",
            "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cross-origin-resource-policy: same-origin",
            "cache-control: no-store",
        ] {
            assert!(answer.head.contains(says), "{path}: no {says}\n{}", answer.head);
        }
    }
}

#[test]
fn only_loopback_is_listened_on_and_the_first_answer_is_quick() {
    let site = Site::new(Who::User);
    let server = site.serve();
    let port = format!(":{:04X} ", server.port);
    let listening: Vec<String> = ["tcp", "tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(format!("/proc/net/{table}")).ok())
        .flat_map(|table| table.lines().map(str::to_owned).collect::<Vec<_>>())
        .filter(|line| line.split_whitespace().nth(3) == Some("0A") && line.contains(&port))
        .collect();
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert!(listening[0].contains("0100007F:"), "{listening:?}");
    let fastest = (0..5)
        .map(|_| {
            let began = Instant::now();
            assert_eq!(server.request("GET", "/", &[("Host", &server.host())], "").status, 200);
            began.elapsed()
        })
        .min();
    assert!(fastest < Some(Duration::from_millis(100)), "{fastest:?}");
}

#[test]
fn it_ends_cleanly_by_either_signal_and_leaves_no_process() {
    let site = Site::new(Who::User);
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = site.serve();
        let processes = server.running.descendants();
        assert_eq!(processes.len(), 1, "the desk");
        server.running.signal(signal);
        server.running.wait(Duration::from_secs(10)).expect_code(0);
        let is_there = |pid: &u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
        assert!(!processes.iter().any(is_there), "{processes:?}");
    }
    // The terminal's end is one too, but not for `nohup`.
    let mut server = site.serve();
    server.running.signal(Signal::HUP);
    server.running.wait(Duration::from_secs(10)).expect_code(0);
    let line = format!("trap '' HUP; exec {} web --json", site.env.lane_program().display());
    let mut shell = site.env.command("/bin/sh");
    shell.args(["-c", &line]).current_dir(&site.project);
    let mut server = site.serve_by(shell);
    server.running.signal(Signal::HUP);
    assert_eq!(server.request("GET", "/", &[("Host", &server.host())], "").status, 200);
    server.running.signal(Signal::TERM);
    server.running.wait(Duration::from_secs(10)).expect_code(0);
    // Whoever kills it leaves nobody behind either.
    let mut server = site.serve();
    server.running.kill9();
    server.running.wait(Duration::from_secs(10));
}

#[test]
fn requests_are_answered_side_by_side_and_a_killed_one_takes_nothing_from_the_others() {
    let site = Site::new(Who::User);
    site.env.ok(&site.project, &["run", "-q", "-d", "-n", "busy", "--", "sh", "-c", "echo out; sleep 600"]);
    let id = site.id("busy");
    let server = site.serve();
    let (cookie, key) = server.enter();
    let headers = [("Cookie", cookie.as_str()), ("X-Lane-Key", key.as_str())];
    let run = site.env.json(&site.project, &["show", "busy"])["runs"][0]["id"].clone();
    // It waits a second for something new, in a process of its own.
    let waiting =
        json!({ "what": "output", "lane": id, "run": run, "from": { "at": 4, "skip": 0 }, "wait": true });
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| server.post("/ask", &headers, &waiting));
        let mut answering = Vec::new();
        testkit::until("the request has its process", Duration::from_secs(30), || {
            answering = server.running.descendants();
            answering.len() == 2
        });
        let many: Vec<_> = (0..12)
            .map(|_| scope.spawn(|| server.post("/ask", &headers, &json!({ "what": "lanes" })).status))
            .collect();
        let desk = *answering.iter().min().expect("the desk is the elder");
        let child = answering.into_iter().find(|pid| *pid != desk).expect("a child");
        let child = i32::try_from(child).ok().and_then(rustix::process::Pid::from_raw).expect("a number");
        rustix::process::kill_process(child, Signal::KILL).expect("killed");
        assert_eq!(asked.join().expect("no panic").status, 502);
        assert!(many.into_iter().all(|one| one.join().expect("no panic") == 200));
    });
    assert_eq!(server.post("/ask", &headers, &json!({ "what": "nonsense" })).status, 400);
    assert_eq!(server.post("/ask", &headers, &json!({ "what": "lane", "lane": "nobody" })).status, 409);
    site.env.ok(&site.project, &["stop", "busy"]);
}

#[test]
fn a_browser_is_let_in_once_and_inline_script_does_not_run() {
    let site = Site::new(Who::User);
    site.run("one", "echo new >made.txt");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card[data-lane=one]')");
    assert_eq!(browser.text("location.hash"), "", "the token does not stay in the address");
    assert_eq!(browser.text("document.cookie"), "", "the cookie is out of reach");
    assert_eq!(browser.complaints(), Vec::<String>::new());
    // It stays in when it is loaded anew.
    browser.go(&format!("http://{}/", server.host()));
    browser.wait("document.querySelector('.card[data-lane=one]')");
    let ran = browser.eval(
        "(async () => { window.bad = 0; \
           try { const s = document.createElement('script'); s.text = 'window.bad = 1'; document.body.append(s); } catch {} \
           try { document.body.setAttribute('onclick', 'window.bad = 2'); document.body.click(); } catch {} \
           try { document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.bad = 3\">'); } catch {} \
           try { eval('window.bad = 4'); } catch {} \
           try { await fetch('http://127.0.0.1:1/'); window.bad = 5; } catch {} \
           await new Promise((done) => setTimeout(done, 50)); return window.bad; })()",
    );
    // The protocol's own evaluation is not bound by the policy of the page, but what it puts into the page is.
    assert!(ran == json!(0) || ran == json!(4), "{ran}");
    drop(browser);
    // The address was used: another browser stays outside, whatever it knows of it.
    let mut other = testkit::Browser::start(&site.env);
    other.go(&server.url);
    other.wait("document.querySelector('#main').innerText.includes('Not let in')");
    assert_eq!(other.eval("document.querySelectorAll('.card').length"), json!(0));
}
