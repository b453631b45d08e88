"""What stands on the street: names, web servers with and without TLS, an echo, a flood. Tells on stdout what it was asked."""
import http.server, os, socket, ssl, struct, sys, threading

place = sys.argv[1]
ZONE = {
    "good.example": ["93.184.216.34", "2606:2800:220:1::1"],
    "four.example": ["93.184.216.34"],
    "six.example": ["2606:2800:220:1::1"],
    "evil.example": ["93.184.216.35"],
    "lan.example": ["10.9.9.9"],
    "meta.example": ["169.254.169.254"],
    "home.example": ["127.0.0.1"],
    "mixed.example": ["10.9.9.9", "93.184.216.34"],
}
TURNS = {"rebind.example": ["93.184.216.34", "10.9.9.9"]}
lock = threading.Lock()


def tell(*words):
    with lock:
        print(*words, flush=True)


def answer(question, cut):
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    name, (kind,) = ".".join(labels).lower(), struct.unpack(">H", question[at + 1 : at + 3])
    tell("asked", name, kind)
    addresses = ZONE.get(name)
    if name in TURNS:
        addresses = TURNS[name][:1]
        if kind == 1 and len(TURNS[name]) > 1:
            TURNS[name].pop(0)
    if name == "many.example":
        addresses = [] if cut else ["93.184.216.34"] + ["198.51.100.%d" % n for n in range(100)]
    records = []
    for address in addresses or []:
        six = ":" in address
        if kind == (28 if six else 1):
            data = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, address)
            records.append(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(data)) + data)
    flags = 0x8180 | (0 if addresses is not None else 3) | (0x200 if cut and name == "many.example" else 0)
    return question[:2] + struct.pack(">HHHHH", flags, 1, len(records), 0, 0) + question[12 : at + 5] + b"".join(records)


def names_by_datagram():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))
    while True:
        question, peer = server.recvfrom(4096)
        server.sendto(answer(question, True), peer)


def names_by_connection():
    server = socket.create_server(("127.0.0.1", 53))
    while True:
        peer, _ = server.accept()
        with peer:
            head = peer.recv(2, socket.MSG_WAITALL)
            if len(head) < 2:
                continue
            (length,) = struct.unpack(">H", head)
            reply = answer(peer.recv(length, socket.MSG_WAITALL), False)
            peer.sendall(struct.pack(">H", len(reply)) + reply)


class Page(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args):
        super().__init__(*args, directory=place + "/www")

    def log_message(self, *_):
        tell("page", self.headers.get("Host"), self.path, self.client_address[0])


class Six(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 2048

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def pages(port, secure):
    server = Six(("::", port), Page)
    if secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place + "/cert.pem", place + "/key.pem")
        context.sni_callback = lambda _socket, name, _context: tell("greeted", name)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.serve_forever()


def each(port, body):
    server = socket.socket(socket.AF_INET6)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("::", port))
    server.listen(4096)
    while True:
        peer, _ = server.accept()
        threading.Thread(target=body, args=(peer,), daemon=True).start()


def echo(peer):
    with peer:
        while True:
            try:
                data = peer.recv(65536)
            except OSError:
                return
            if not data:
                return
            peer.sendall(data)


def greet_first(peer):
    with peer:
        peer.sendall(b"220 hello\r\n")
        echo(peer)


threading.stack_size(256 << 10)
for body, args in [
    (names_by_datagram, ()),
    (names_by_connection, ()),
    (pages, (80, False)),
    (pages, (443, True)),
    (each, (7000, echo)),
    (each, (7001, greet_first)),
]:
    threading.Thread(target=body, args=args, daemon=True).start()
for port in (80, 443, 7000, 7001, 53):
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            pass
tell("ready")
threading.Event().wait()
