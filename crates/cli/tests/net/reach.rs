//! What leaves a lane, and how: by name and by address, in both families, waiting and not.

use crate::street::each;

#[test]
fn b55_open_reaches_public_hosts_by_name_and_by_address_in_both_families() {
    each(|street| {
        for host in [
            "good.example",
            "four.example",
            "93.184.216.34",
            "[2606:2800:220:1::1]",
            "hosts.example",
            "GOOD.example.",
        ] {
            let ran = street.sh(&[], &format!("curl -sS -m 20 'http://{host}/'")).expect_code(0);
            assert_eq!(ran.out(), "hello\n", "{host}");
            assert!(!ran.err().contains("refused"), "{host}: {ran}");
        }
        let ran = street.sh(&[], "curl -sS -m 20 http://six.example/").expect_code(0);
        assert_eq!(ran.out(), "hello\n");
        // Over TLS, the name is the host's own.
        let ca = street.file("cert.pem");
        let ran = street.sh(&["--ro", &ca], &format!("curl -sS -m 20 --cacert {ca} https://good.example/"));
        assert_eq!(ran.expect_code(0).out(), "hello\n");
        assert!(street.told().contains("greeted good.example"));
    });
}

#[test]
fn b55_a_long_answer_is_asked_for_again_by_connection_and_reaches_the_lane_whole() {
    each(|street| {
        let script = "import socket
found = sorted({found[4][0] for found in socket.getaddrinfo('many.example', 80, socket.AF_INET)})
print(len(found))";
        assert_eq!(street.python(&[], script).expect_code(0).out(), "101\n");
    });
}

#[test]
fn a_call_that_would_wait_waits_and_one_that_would_not_is_told_of_later() {
    each(|street| {
        let script = "import errno, os, select, socket
def go(family, address, epoll_first):
    s = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    e = select.epoll()
    if epoll_first: e.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET)
    assert s.connect_ex(address) == errno.EINPROGRESS
    if not epoll_first: e.register(s, select.EPOLLOUT)
    while True:
        got = e.poll(20)
        assert got and got[0][0] == s.fileno(), got
        if got[0][1] & (select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP): break
    error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error: return errno.errorcode[error]
    assert not got[0][1] & select.EPOLLHUP, got
    s.setblocking(True)
    s.sendall(b'x' * 100000)
    got = 0
    while got < 100000: got += len(s.recv(65536))
    assert s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    return 'echoed'
for family, address in [(socket.AF_INET, ('93.184.216.34', 7000)), (socket.AF_INET6, ('2606:2800:220:1::1', 7000)),
                        (socket.AF_INET6, ('::ffff:93.184.216.34', 7000))]:
    print(go(family, address, False), go(family, address, True))
    # Who refuses ends it with an error.
    shut = (address[0], 7999)
    print(go(family, shut, True) in ('ECONNREFUSED', 'ECONNRESET'))
    s = socket.socket(family)
    print(errno.errorcode[s.connect_ex(shut)], s.connect_ex(address))
    s = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    print([errno.errorcode[s.connect_ex(address)] for _ in range(1)], select.select([], [s], [], 20)[1] == [s], s.connect_ex(address))";
        let ran = street.python(&[], script).expect_code(0);
        let once = "echoed echoed\nTrue\nECONNREFUSED 0\n['EINPROGRESS'] True 0\n";
        assert_eq!(ran.out(), once.repeat(3), "{ran}");
        let ran =
            street.python(&["--net", "allow:93.184.216.34,[2606:2800:220:1::1]"], script).expect_code(0);
        assert_eq!(ran.out(), once.repeat(3), "{ran}");
    });
}

#[test]
fn allow_reaches_the_named_hosts_in_the_clear_over_tls_and_where_the_server_speaks_first() {
    each(|street| {
        let ca = street.file("cert.pem");
        let net = ["--net", "allow:good.example,*.example:7001", "--ro", &ca];
        let script = format!(
            "curl -sS -m 20 http://good.example/; curl -sS -m 20 --cacert {ca} https://good.example/
             curl -sS -m 20 http://93.184.216.34/ -H 'Host: good.example'
             curl -sS -m 20 -d x -H 'Expect: 100-continue' http://good.example/nothing -o /dev/null -w '%{{http_code}}\\n'"
        );
        assert_eq!(street.sh(&net, &script).expect_code(0).out(), "hello\nhello\nhello\n501\n");
        let script = "import socket
s = socket.create_connection(('four.example', 7001), 20)
f = s.makefile('rwb')
print(f.readline()); f.write(b'EHLO me\\r\\n'); f.flush(); print(f.readline())";
        assert_eq!(
            street.python(&net, script).expect_code(0).out(),
            "b'220 hello\\r\\n'\nb'EHLO me\\r\\n'\n"
        );
    });
}

#[test]
fn one_connection_may_carry_many_requests_and_each_is_looked_at() {
    each(|street| {
        let script = "import http.client
c = http.client.HTTPConnection('good.example', 80, timeout=20)
for host in ['good.example', 'good.example:80', 'evil.example']:
    c.request('GET', '/', headers={'Host': host})
    r = c.getresponse()
    print(r.status, r.read().split()[0])";
        let ran = street.python(&["--net", "allow:good.example"], script).expect_code(0);
        assert_eq!(ran.out(), "200 b'hello'\n200 b'hello'\n403 b'refused'\n", "{ran}");
        assert_eq!(
            crate::street::refusal(&ran),
            "refused: evil.example:80 for python3: named on a connection to good.example; allow it: --net allow:good.example,evil.example"
        );
        assert!(!street.told().contains("page evil.example"));
    });
}

#[test]
fn host_is_the_hosts_own_network_and_says_so() {
    each(|street| {
        let ran = street.run(&["run", "--rm", "--net", "host", "--", "curl", "-sS", "http://10.9.9.9/"]);
        let ran = ran.expect_code(0);
        assert_eq!(ran.out(), "hello\n");
        assert!(ran.err().contains("net host"), "{ran}");
    });
}
