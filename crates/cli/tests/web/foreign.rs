//! A page of another origin in the same browser: another port of the same host, to which the browser sends our cookie.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::json;
use testkit::Who;

use crate::site::Site;

/// A server as a lane may run one: answers everything with an empty page, and writes down what it was sent.
fn foreign() -> (u16, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut head = String::new();
            let mut reader = BufReader::new(&stream);
            while let Ok(length) = reader.read_line(&mut head) {
                if length <= 2 {
                    break;
                }
            }
            log.lock().expect("no panic").push(head);
            let body = "<!doctype html><title>foreign</title><p>foreign";
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (port, seen)
}

#[test]
fn a_page_of_another_port_gets_nothing_although_it_is_sent_the_cookie() {
    let site = Site::new(Who::User);
    site.run("one", "echo new >made.txt");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card')");
    let id = site.id("one");
    let (port, seen) = foreign();
    browser.go(&format!("http://127.0.0.1:{port}/"));
    let ours = format!("http://{}", server.host());
    let heads = seen.lock().expect("no panic").concat();
    assert!(heads.contains("lane-web-"), "this is the danger that the key is for: {heads}");
    // Whatever it tries, with the cookie and whatever key it can think of.
    let tried = browser.eval(&format!(
        "(async () => {{ const said = []; const body = JSON.stringify({{ what: 'discard', lane: '{id}', stop: true }}); \
           const ways = [ \
             {{ mode: 'cors', headers: {{ 'content-type': 'application/json', 'x-lane-key': 'x' }} }}, \
             {{ mode: 'cors', headers: {{ 'content-type': 'text/plain' }} }}, \
             {{ mode: 'no-cors', headers: {{ 'content-type': 'text/plain' }} }} ]; \
           for (const way of ways) {{ try {{ const answer = await fetch('{ours}/ask', {{ method: 'POST', credentials: 'include', body, ...way }}); \
             said.push(`${{answer.type}} ${{answer.status}}`); }} catch (error) {{ said.push(error.name); }} }} \
           try {{ await fetch('{ours}/', {{ credentials: 'include' }}).then((answer) => answer.text()); said.push('read'); }} catch (error) {{ said.push(error.name); }} \
           said.push(await new Promise((done) => {{ const script = document.createElement('script'); script.src = '{ours}/page.js'; script.onload = () => done('loaded'); script.onerror = () => done('blocked'); document.body.append(script); }})); \
           const frame = document.createElement('iframe'); frame.src = '{ours}/'; document.body.append(frame); \
           await new Promise((done) => (frame.onload = done)); said.push(frame.contentDocument === null ? 'closed' : frame.contentDocument.body.innerText); \
           said.push(localStorage.getItem('lane-key') ?? 'no key'); return said; }})()"
    ));
    assert_eq!(
        tried,
        json!(["TypeError", "TypeError", "TypeError", "TypeError", "blocked", "closed", "no key"]),
        "not even an answer without content is handed out"
    );
    // Not even a form that the person is made to send.
    browser.eval(&format!(
        "(() => {{ const form = document.createElement('form'); form.method = 'post'; form.action = '{ours}/ask'; form.enctype = 'text/plain'; \
           const field = document.createElement('input'); field.name = '{{\"what\":\"discard\",\"lane\":\"{id}\",\"stop\":true,\"x\":\"'; field.value = '\"}}'; form.append(field); document.body.append(form); form.submit(); }})()"
    ));
    browser.wait("document.body.innerText.includes('only this server')");
    assert_eq!(site.env.json(&site.project, &["ls"])[0]["id"], json!(id), "the lane is still there");
    // A link from elsewhere opens the page, which still is let in.
    browser.go(&format!("http://127.0.0.1:{port}/"));
    browser.eval(&format!("location.href = '{ours}/'"));
    browser.wait("document.querySelector('.card')");
}
