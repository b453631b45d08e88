//! Ports handed through the wall by name, and two lanes with the same port.

use testkit::{Running, until};

use crate::street::{SOON, Street, each};

const SERVER: &str = "import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = sys.argv[1].encode()
        self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)
server = http.server.HTTPServer(('127.0.0.1', 8000), H)
print('listening', flush=True)
server.serve_forever()";

fn fetch(street: &Street, url: &str) -> (Option<i32>, String) {
    let ran = street.outside("curl", &["-sS", "-m", "20", url]).wait(SOON);
    (ran.code, ran.out())
}

#[test]
fn two_lanes_have_the_same_port_and_each_is_published_under_its_own() {
    each(|street| {
        let start = |name: &str, port: &str| {
            let args = ["run", "-n", name, "--publish", port, "--", "/usr/bin/python3", "-c", SERVER, name];
            let mut running = Running::start(street.lane(&args));
            running.wait_for("listening", SOON);
            running
        };
        let (mut one, mut two) = (start("one", "8000:8001"), start("two", "8000:8002"));
        assert_eq!(fetch(street, "http://127.0.0.1:8001/"), (Some(0), "one".into()));
        assert_eq!(fetch(street, "http://127.0.0.1:8002/"), (Some(0), "two".into()));
        assert_eq!(fetch(street, "http://[::1]:8002/"), (Some(0), "two".into()));
        // On this machine's loopback only, and nothing under the lane's own number.
        assert_eq!(fetch(street, "http://127.0.0.1:8000/").0, Some(7));
        assert_eq!(fetch(street, "http://10.9.9.9:8001/").0, Some(7));
        // A lane reaches itself, and not the other.
        let own = street.run(&["exec", "one", "--", "curl", "-sS", "http://127.0.0.1:8000/"]);
        assert_eq!(own.expect_code(0).out(), "one");
        let other = street.run(&["exec", "one", "--", "curl", "-sS", "http://127.0.0.1:8002/"]);
        assert_eq!(other.code, Some(7), "{other}");
        for running in [&mut one, &mut two] {
            running.signal(rustix::process::Signal::TERM);
        }
        one.wait(SOON);
        two.wait(SOON);
        assert_eq!(fetch(street, "http://127.0.0.1:8001/").0, Some(7));
    });
}

#[test]
fn a_port_of_the_host_is_reached_under_its_number_and_no_other() {
    each(|street| {
        let options = ["--net", "loopback", "--host-port", "7000", "--host-port", "80"];
        let script = "curl -sS -m 20 http://127.0.0.1/; curl -sS -m 20 'http://[::1]/'; curl -sS -m 20 http://localhost/; curl -sS -m 5 http://127.0.0.1:443/; echo $?";
        let ran = street.sh(&options, script).expect_code(0);
        assert_eq!(ran.out(), "hello\nhello\nhello\n7\n", "{ran}");
    });
}

#[test]
fn a_published_port_reaches_a_live_lane_and_goes_with_it() {
    each(|street| {
        let args =
            ["run", "-d", "-n", "dev", "--publish", "8000", "--", "/usr/bin/python3", "-c", SERVER, "live"];
        street.run(&args).expect_code(0);
        until("the server answers", SOON, || fetch(street, "http://127.0.0.1:8000/").1 == "live");
        // What joins has the same wall, and is told of its refusals.
        let ran = street.run(&["exec", "dev", "--", "curl", "-sS", "-m", "20", "http://10.9.9.9/"]);
        assert_eq!(ran.code, Some(7), "{ran}");
        assert_eq!(
            crate::street::refusal(&ran),
            "refused: 10.9.9.9:80 for curl: private; allow it: --net open:10.9.9.9"
        );
        let ran = street.run(&["exec", "dev", "--", "curl", "-sS", "-m", "20", "http://good.example/"]);
        assert_eq!(ran.expect_code(0).out(), "hello\n");
        street.run(&["stop", "dev"]).expect_code(0);
        assert_eq!(fetch(street, "http://127.0.0.1:8000/").0, Some(7));
    });
}

#[test]
fn half_a_connection_stays_open_and_an_end_is_an_end() {
    each(|street| {
        let script = "import socket
s = socket.create_connection(('four.example', 7000), 20)
s.sendall(b'question'); s.shutdown(socket.SHUT_WR)
got = b''
while True:
    part = s.recv(65536)
    if not part: break
    got += part
print(got)";
        for net in ["open", "allow:four.example"] {
            assert_eq!(street.python(&["--net", net], script).expect_code(0).out(), "b'question'\n", "{net}");
        }
    });
}

#[test]
fn nothing_reaches_into_a_lane_but_what_is_published() {
    each(|street| {
        let args = ["run", "-n", "a", "--", "/usr/bin/python3", "-c", SERVER, "inner"];
        let mut running = Running::start(street.lane(&args));
        running.wait_for("listening", SOON);
        assert_eq!(fetch(street, "http://127.0.0.1:8000/").0, Some(7));
        running.signal(rustix::process::Signal::TERM);
        running.wait(SOON);
    });
}
