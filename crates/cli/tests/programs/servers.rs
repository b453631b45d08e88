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

#[test]
fn a_database_server_is_made_filled_stopped_and_started_again_in_a_lane() {
    let bin = std::fs::read_dir("/usr/lib/postgresql")
        .expect("PostgreSQL: scripts/setup-tests installs it")
        .map(|version| version.unwrap().path().join("bin"))
        .max()
        .unwrap();
    // It refuses to run as root.
    let env = crate::ground::in_the_open(testkit::Who::User);
    let ground = Ground { project: env.make_git("app"), env };
    let start = format!(
        "PATH={}:$PATH; pg_ctl -D db -o '-k /tmp -c listen_addresses=' -w -l log start >/dev/null",
        bin.display()
    );
    let ask = "psql -h /tmp -U me postgres -AtXqc";
    ground.sh(
        "db",
        &format!(
            "{}/initdb -D db -A trust -U me >/dev/null; {start}
             {ask} 'create table t (a int); insert into t select generate_series(1, 1000)'
             pg_ctl -D db -w stop >/dev/null",
            bin.display()
        ),
    );
    let first = ground.run(&["snap", "db", "-q"]).expect_code(0).out();
    let sum = format!(
        "{start}; {ask} 'select sum(a) from t'; {ask} 'delete from t where a > 10'; pg_ctl -D db -w stop >/dev/null"
    );
    assert_eq!(ground.sh("db", &sum).out(), "500500\n");
    assert_eq!(ground.sh("db", &sum).out(), "55\n");
    // A state of the past is one that the server starts from.
    ground.run(&["restore", "db", first.trim(), "--yes"]).expect_code(0);
    assert_eq!(ground.sh("db", &sum).out(), "500500\n");
    assert!(!ground.project.join("db").exists());
}
