//! Programs that know nothing of a wall: each reaches a host by name with an empty environment, and is refused one.

use testkit::require;

use crate::street::{Street, each, refusal};

/// With `open`, with `allow`, and refused.
fn both(street: &Street, options: &[&str], command: &[&str], expected: &str) {
    for net in ["open", "allow:good.example,four.example"] {
        let mut all = vec!["--net", net];
        all.extend(options);
        let ran = street.inside(&all, command).expect_code(0);
        assert_eq!(ran.out(), expected, "{net}: {ran}");
    }
}

#[test]
fn b54_node_and_python_reach_a_host_with_an_empty_environment() {
    let node = require::program("node");
    let node = node.to_str().unwrap();
    each(|street| {
        let fetch = "fetch('http://good.example/').then(r => r.text()).then(t => process.stdout.write(t))";
        both(street, &[], &[node, "-e", fetch], "hello\n");
        let get = "import urllib.request as u; print(u.urlopen('http://good.example/', timeout=20).read())";
        both(street, &[], &["/usr/bin/python3", "-c", get], "b'hello\\n'\n");
        let refused =
            "fetch('http://lan.example/').catch(e => { console.log(e.cause.code); process.exit(3) })";
        let ran = street.inside(&[], &[node, "-e", refused]).expect_code(3);
        assert_eq!(ran.out(), "EPERM\n");
        assert!(
            refusal(&ran)
                .contains("lan.example is 10.9.9.9, which is private; allow it: --net open:10.9.9.9"),
            "{ran}"
        );
    });
}

const NIO: &str = r#"
import java.net.*; import java.nio.*; import java.nio.channels.*;
public class Nio {
    public static void main(String[] args) throws Exception {
        Selector selector = Selector.open();
        SocketChannel channel = SocketChannel.open();
        channel.configureBlocking(false);
        channel.register(selector, SelectionKey.OP_CONNECT);
        selector.selectNow();
        channel.connect(new InetSocketAddress(InetAddress.getByName("good.example"), 80));
        while (!channel.isConnected()) { selector.select(20000); channel.finishConnect(); }
        channel.keyFor(selector).interestOps(SelectionKey.OP_READ);
        channel.write(ByteBuffer.wrap("GET / HTTP/1.0\r\nHost: good.example\r\n\r\n".getBytes()));
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        while (true) { selector.select(20000); selector.selectedKeys().clear(); if (channel.read(buffer) < 0) break; }
        String text = new String(buffer.array(), 0, buffer.position());
        System.out.println(text.substring(text.length() - 6).trim());
        System.out.println(new String(new URL("http://four.example/").openStream().readAllBytes()).trim());
    }
}
"#;

#[test]
fn b54_java_registers_with_its_selector_first_and_reaches_a_host() {
    let java = require::program("java");
    each(|street| {
        let file = street.file("Nio.java");
        std::fs::write(&file, NIO).unwrap();
        let command = ["PATH=/usr/bin:/bin", java.to_str().unwrap(), "-XX:TieredStopAtLevel=1", &file];
        both(street, &["--ro", &file], &command, "hello\nhello\n");
    });
}

/// What the netpoller of Go does: a static program, no C library's resolver, a raw socket that does not wait, put into an
/// edge-triggered set before it is connected; then SO_ERROR and the peer's name.
const NETPOLL: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
static int go(int family, const char *host, int port) {
    int e = epoll_create1(EPOLL_CLOEXEC), s = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1, zero = 0;
    if (family == AF_INET6) setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    setsockopt(s, SOL_SOCKET, SO_BROADCAST, &one, sizeof one);
    struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.u64 = 0x7f0012345678 }, got;
    if (epoll_ctl(e, EPOLL_CTL_ADD, s, &event)) return 1;
    while (epoll_wait(e, &got, 1, 0) > 0) {}
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(port) };
    inet_pton(family, host, family == AF_INET6 ? (void *)&six.sin6_addr : (void *)&four.sin_addr);
    int r = family == AF_INET6 ? connect(s, (void *)&six, sizeof six) : connect(s, (void *)&four, sizeof four);
    if (r == 0 || errno != EINPROGRESS) return r == 0 ? 2 : errno;
    for (;;) {
        if (epoll_wait(e, &got, 1, 20000) != 1) return 3;
        if (got.data.u64 != event.data.u64) return 4;
        int error; socklen_t length = sizeof error;
        if (getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length)) return 5;
        if (error) return error;
        struct sockaddr_storage peer; length = sizeof peer;
        if (getpeername(s, (void *)&peer, &length) == 0) break;
    }
    const char *ask = "GET / HTTP/1.0\r\nHost: good.example\r\n\r\n";
    if (write(s, ask, strlen(ask)) != (ssize_t)strlen(ask)) return 6;
    char answer[4096]; int n = 0;
    for (;;) {
        int got_now = read(s, answer + n, sizeof answer - n);
        if (got_now == 0) break;
        if (got_now > 0) { n += got_now; continue; }
        if (errno != EAGAIN) return 7;
        if (epoll_wait(e, &got, 1, 20000) != 1) return 8;
    }
    write(1, answer + n - 6, 6);
    return 0;
}
int main(void) {
    int a = go(AF_INET, "93.184.216.34", 80), b = go(AF_INET6, "2606:2800:220:1::1", 80), c = go(AF_INET, "10.9.9.9", 80);
    printf("%d %d %d\n", a, b, c);
}
"#;

#[test]
fn b54_a_static_program_that_polls_as_go_does_reaches_a_host() {
    require::program("cc");
    each(|street| {
        std::fs::write(street.file("netpoll.c"), NETPOLL).unwrap();
        let program = street.file("netpoll");
        street
            .outside("cc", &["-static", "-w", "-O1", "-o", &program, "netpoll.c"])
            .wait(crate::street::SOON)
            .expect_code(0);
        let ran = street.inside(&["--ro", &program], &[&program]).expect_code(0);
        assert_eq!(ran.out(), "hello\nhello\n0 0 1\n", "{ran}");
        assert_eq!(refusal(&ran), "refused: 10.9.9.9:80 for netpoll: private; allow it: --net open:10.9.9.9");
        let ran = street
            .inside(&["--ro", &program, "--net", "allow:93.184.216.34,[2606:2800:220:1::1]"], &[&program]);
        assert_eq!(ran.expect_code(0).out(), "hello\nhello\n0 0 1\n");
    });
}

#[test]
fn b54_git_over_https_clones_a_repository() {
    require::program("git");
    each(|street| {
        let www = street.env.root().join("www");
        let make = "set -e; git init -q r; cd r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first; cd ..
git clone -q --bare r www/r.git; git -C www/r.git update-server-info; chmod -R a+rX www";
        street.outside("sh", &["-c", make]).wait(crate::street::SOON).expect_code(0);
        assert!(www.join("r.git").is_dir());
        let ca = street.file("cert.pem");
        let script = format!(
            "cd /tmp && git -c http.sslCAInfo={ca} clone -q https://good.example/r.git && git -C r log --format=%s"
        );
        for net in ["open", "allow:good.example:443"] {
            let ran = street
                .sh(&["--net", net, "--ro", &ca], &format!("export HOME=/tmp; {script}"))
                .expect_code(0);
            assert_eq!(ran.out(), "first\n", "{net}: {ran}");
        }
        let script = format!(
            "export HOME=/tmp; cd /tmp; git -c http.sslCAInfo={ca} clone -q https://evil.example/r.git"
        );
        let ran = street.sh(&["--net", "allow:good.example:443", "--ro", &ca], &script);
        assert_eq!(ran.code, Some(128), "{ran}");
        assert!(refusal(&ran).contains("allow it: --net allow:good.example:443,evil.example"), "{ran}");
    });
}

#[test]
fn b54_ssh_logs_in_where_it_is_allowed_to() {
    require::program("ssh");
    let sshd = require::program("sshd");
    each(|street| {
        let root = street.env.root();
        for name in ["host_key", "id"] {
            street
                .outside("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", name])
                .wait(crate::street::SOON)
                .expect_code(0);
        }
        std::fs::copy(root.join("id.pub"), root.join("authorized")).unwrap();
        street.who().own(&root.join("id"));
        let (key, authorized) = (street.file("host_key"), street.file("authorized"));
        let options = [
            "-D",
            "-e",
            "-p",
            "22",
            "-h",
            &key,
            "-f",
            "/dev/null",
            "-o",
            "PidFile=none",
            "-o",
            "StrictModes=no",
            "-o",
            "UsePAM=no",
            "-o",
            &format!("AuthorizedKeysFile={authorized}"),
            "-o",
            "PermitRootLogin=yes",
        ];
        let mut server = street.outside(sshd.to_str().unwrap(), &options);
        server.wait_for("listening", crate::street::SOON);
        let id = street.file("id");
        let script = format!(
            "ssh -F none -i {id} -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no -o LogLevel=ERROR root@good.example echo logged in"
        );
        for net in ["open", "allow:good.example:22"] {
            let ran = street.sh(&["--net", net, "--ro", &id], &script).expect_code(0);
            assert_eq!(ran.out(), "logged in\n", "{net}: {ran}");
        }
        let ran = street.sh(&["--net", "allow:good.example:443", "--ro", &id], &script);
        assert_eq!(ran.code, Some(255), "{ran}");
        assert!(
            refusal(&ran)
                .ends_with("without port 22; allow it: --net allow:good.example:443,good.example:22"),
            "{ran}"
        );
        server.kill9();
    });
}
