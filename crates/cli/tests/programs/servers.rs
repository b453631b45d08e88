//! A dev server in a live lane, reached from the lane, with the host's network and with none.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use testkit::{Ran, until};

use crate::ground::{Ground, SOON, each};

const PYTHON: &str = "import http.server, socketserver
server = socketserver.TCPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
open('port.new', 'w').write(str(server.server_address[1]))
import os; os.rename('port.new', 'port')
server.serve_forever()";

const NODE: &str = "const fs = require('fs'), http = require('http');
const server = http.createServer((q, a) => a.end(fs.readFileSync('.' + q.url)));
server.listen(0, '127.0.0.1', () => { fs.writeFileSync('port.new', String(server.address().port));
fs.renameSync('port.new', 'port'); });";

fn exec(ground: &Ground, script: &str) -> Ran {
    ground.run(&["exec", "dev", "--", "sh", "-ec", script])
}

fn serve(ground: &Ground, net: &str, server: &[&str]) -> u16 {
    let mut args = vec!["run", "-d", "-n", "dev", "--net", net, "--"];
    args.extend(server);
    ground.run(&args).expect_code(0);
    until("the server has a port", SOON, || exec(ground, "cat port").code == Some(0));
    exec(ground, "cat port").out().parse().unwrap()
}

#[test]
fn a_dev_server_in_a_live_lane_is_reached_from_the_lane_and_sees_what_the_lane_changes() {
    testkit::require::program("curl");
    for (server, net) in [(["python3", "-c", PYTHON], "host"), (["node", "-e", NODE], "none")] {
        testkit::require::program(server[0]);
        each(|ground| {
            let port = serve(ground, net, &server);
            let fetch = format!("curl -sS --noproxy '*' http://127.0.0.1:{port}/README.md");
            assert_eq!(exec(ground, &fetch).expect_code(0).out(), "# A project\n");
            exec(ground, "echo changed > README.md").expect_code(0);
            assert_eq!(exec(ground, &fetch).expect_code(0).out(), "changed\n");
            let from_outside = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
                stream.write_all(b"GET /README.md HTTP/1.0\r\n\r\n")?;
                let mut answer = String::new();
                stream.read_to_string(&mut answer).map(|_| answer)
            });
            match net {
                "host" => assert!(from_outside.unwrap().ends_with("changed\n")),
                // With no network of the host's, nobody outside reaches it (another server may have the port).
                _ => assert!(!from_outside.is_ok_and(|answer| answer.contains("changed"))),
            }
            ground.run(&["stop", "dev"]).expect_code(0);
            assert!(TcpStream::connect(("127.0.0.1", port)).is_err() || net == "none");
            assert_eq!(std::fs::read_to_string(ground.project.join("README.md")).unwrap(), "# A project\n");
        });
    }
}

#[test]
fn what_a_server_prints_in_a_live_lane_is_in_its_log() {
    each(|ground| {
        let port = serve(ground, "none", &["python3", "-u", "-c", PYTHON]);
        exec(ground, &format!("curl -sS --noproxy '*' -o /dev/null http://127.0.0.1:{port}/run.sh"))
            .expect_code(0);
        until("the request in the log", SOON, || {
            // The first run is the server's, the others are what joined it.
            let shown = ground.run(&["log", "dev", "--transcript=1"]);
            shown.out().contains("GET /run.sh") || shown.err().contains("GET /run.sh")
        });
        ground.run(&["stop", "dev"]).expect_code(0);
    });
}
