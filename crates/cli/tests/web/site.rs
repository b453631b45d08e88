//! `Site`: one person's project, the lanes over it, and `lane web` serving them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Browser, Running, TestEnv, Who};

/// A project with its page.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) env: TestEnv,
    pub(crate) project: PathBuf,
}

/// `lane web`, serving.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) running: Running,
    /// The address with its token.
    pub(crate) url: String,
    pub(crate) port: u16,
}

/// An answer, as it came over the wire.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Site {
    /// One with a small git project.
    pub(crate) fn new(who: Who) -> Site {
        let env = TestEnv::new(env!("CARGO_BIN_EXE_lane"), who);
        let project = env.make_git("app");
        Site { env, project }
    }

    /// Runs a shell line in a lane.
    pub(crate) fn run(&self, lane: &str, line: &str) {
        self.env.ok(&self.project, &["run", "-q", "-n", lane, "--", "sh", "-c", line]);
    }

    /// Serves the page.
    pub(crate) fn serve(&self) -> Server {
        self.serve_by(self.env.lane(&self.project, &["web", "--json"]))
    }

    /// Serves the page by this command, which prints its address as JSON.
    pub(crate) fn serve_by(&self, command: Command) -> Server {
        let mut running = Running::start(command);
        running.wait_for("}", Duration::from_secs(60));
        let said: Value = serde_json::from_str(&running.out_so_far()).expect("one document");
        let url = said["url"].as_str().expect("an address").to_owned();
        let port = url.split(['/', ':']).nth(4).and_then(|port| port.parse().ok()).expect("a port");
        Server { running, url, port }
    }

    /// A browser that was let in.
    pub(crate) fn open(&self, server: &Server) -> Browser {
        let mut browser = Browser::start(&self.env);
        browser.go(&server.url);
        browser.wait("document.querySelector('#main h1')");
        browser
    }

    /// The id of a lane.
    pub(crate) fn id(&self, lane: &str) -> String {
        let shown = self.env.json(&self.project, &["show", lane]);
        shown["lane"]["id"].as_str().expect("an id").to_owned()
    }
}

impl Server {
    /// The secret of the address.
    pub(crate) fn token(&self) -> &str {
        self.url.split('#').nth(1).expect("a token")
    }

    /// The host that a browser names.
    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// One request, header by header.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("connected");
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{text}\r\n{body}").as_bytes()).expect("sent");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("answered");
        let got = String::from_utf8_lossy(&got).into_owned();
        let (head, body) = got.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    /// A request as our own page sends it, with more headers.
    pub(crate) fn post(&self, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let (host, origin) = (self.host(), format!("http://{}", self.host()));
        let mut headers =
            vec![("Host", host.as_str()), ("Origin", &origin), ("Content-Type", "application/json")];
        headers.extend_from_slice(more);
        self.request("POST", path, &headers, &body.to_string())
    }

    /// Exchanges the token: the cookie and the key.
    pub(crate) fn enter(&self) -> (String, String) {
        let answer = self.post("/enter", &[], &json!({ "token": self.token() }));
        assert_eq!(answer.status, 200, "{answer:?}");
        let cookie = answer.head.split("set-cookie: ").nth(1).and_then(|rest| rest.split(';').next());
        let key: Value = serde_json::from_str(&answer.body).expect("a document");
        (cookie.expect("a cookie").to_owned(), key["key"].as_str().expect("a key").to_owned())
    }
}
