//! Many connections: at once, and one after the other without end.

use std::io::Write as _;

use crate::street::each;

#[test]
fn a_thousand_connections_at_once_each_carry_their_own() {
    each(|street| {
        let script = "import errno, resource, select, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
e = select.epoll(); sockets = {}
for n in range(1000):
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    e.register(s, select.EPOLLOUT)
    assert s.connect_ex(('93.184.216.34', 7000)) == errno.EINPROGRESS
    sockets[s.fileno()] = (s, b'%04d' % n)
sent = got = 0
while got < 1000:
    for fd, events in e.poll(60):
        s, word = sockets[fd]
        if events & select.EPOLLOUT:
            assert s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            s.send(word); sent += 1; e.modify(fd, select.EPOLLIN)
        elif events & select.EPOLLIN:
            assert s.recv(100) == word; got += 1; e.modify(fd, 0)
print(sent, got)";
        for net in ["open", "allow:93.184.216.34"] {
            assert_eq!(street.python(&["--net", net], script).expect_code(0).out(), "1000 1000\n", "{net}");
        }
    });
}

#[test]
fn connections_one_after_the_other_leave_nothing_behind() {
    each(|street| {
        // What the process that answers holds after a hundred and after three thousand.
        let script = "import socket, sys
def go(n):
    for _ in range(n):
        s = socket.create_connection(('93.184.216.34', 7000), 60)
        s.sendall(b'x'); assert s.recv(1) == b'x'; s.close()
go(100); print('few', flush=True); sys.stdin.readline(); go(3000); print('many', flush=True); sys.stdin.readline()";
        let args = ["run", "--rm", "--", "/usr/bin/python3", "-u", "-c", script];
        let mut command = street.lane(&args);
        command.stdin(std::process::Stdio::piped());
        let mut running = testkit::Running::start(command);
        running.wait_for("few", crate::street::SOON);
        let gate = running.descendants().into_iter().find(|pid| {
            std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().any(|task| {
                std::fs::read_to_string(task.path().join("comm"))
                    .is_ok_and(|name| name.trim() == "lane-network")
            })
        });
        let gate = gate.expect("the process that answers");
        let held = || std::fs::read_dir(format!("/proc/{gate}/fd")).unwrap().count();
        // The last connection's end is seen a moment later.
        let at_rest = |most: usize| testkit::until("it has let go", crate::street::SOON, || held() <= most);
        at_rest(80);
        let before = held();
        running.stdin().unwrap().write_all(b"\n").unwrap();
        running.wait_for("many", crate::street::SOON);
        at_rest(before + 8);
        running.feed(b"\n");
        running.wait(crate::street::SOON).expect_code(0);
    });
}
