//! [`Browser`]: a real headless Chromium that a test drives by the DevTools protocol, over two pipes of its own.
//!
//! Invariants: it has a profile of its own below the test's world and runs as the test's person. It is asked to end, and
//! then killed by its number, when the value is dropped; what its pages complained about is kept to be asserted on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use crate::env::TestEnv;
use crate::require;

/// How long one command or condition may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    pipe: Option<ChildStdin>,
    messages: Receiver<Value>,
    number: u64,
    page: Option<String>,
    /// Errors of scripts and of the page's policy, dialogs: what a page complained about.
    complaints: Vec<String>,
}

impl Browser {
    /// Starts one for the person of this world.
    pub fn start(env: &TestEnv) -> Browser {
        let profile = env.tmp().join("browser");
        env.mkdir(&profile);
        // The protocol is spoken on descriptors 3 and 4; a shell puts our pipes there.
        let mut command = env.command("/bin/sh");
        command.args(["-c", r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null"#]);
        command.arg(program());
        command.args([
            "--headless=new",
            "--remote-debugging-pipe",
            // The world's user has no namespaces to spare for it, and root gets none from it.
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-breakpad",
            "--disable-crash-reporter",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--no-default-browser-check",
            "--password-store=basic",
            "--use-mock-keychain",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            "--lang=en",
        ]);
        command.arg(format!("--user-data-dir={}", profile.display())).arg("about:blank");
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the browser starts");
        let pipe = child.stdin.take();
        let out = child.stdout.take().expect("a pipe");
        let (send, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(out).split(0) {
                let Ok(message) = message else { break };
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if send.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser { child, pipe, messages, number: 0, page: None, complaints: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.page = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.size(1280, 900);
        browser
    }

    /// One command of the protocol; the test is red where it fails.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({ "id": number, "method": method, "params": params });
        if let Some(page) = &self.page {
            message["sessionId"] = json!(page);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.pipe.as_mut().expect("open").write_all(&bytes).expect("the browser listens");
        let end = Instant::now() + PATIENCE;
        loop {
            let answer = self.message(end).unwrap_or_else(|| panic!("no answer to {method}"));
            if answer["id"] == json!(number) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// The next message; complaints are put down on the way.
    fn message(&mut self, end: Instant) -> Option<Value> {
        let left = end.saturating_duration_since(Instant::now());
        let message = match self.messages.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => panic!("the browser has ended"),
        };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(params["entry"].to_string());
            }
            Some("Page.javascriptDialogOpening") => self.complaints.push(format!("a dialog: {params}")),
            _ => {}
        }
        Some(message)
    }

    /// What pages complained about since the last time this was asked.
    pub fn complaints(&mut self) -> Vec<String> {
        self.eval("0");
        std::mem::take(&mut self.complaints)
    }

    /// Goes to an address and waits until the page is loaded.
    pub fn go(&mut self, url: &str) {
        let answer = self.call("Page.navigate", json!({ "url": url }));
        assert!(answer["errorText"].is_null(), "{url}: {answer}");
        self.wait("document.readyState === 'complete'");
    }

    /// The value of an expression in the page; a promise is waited for.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true }),
        );
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]["exception"]["description"]
        );
        answer["result"]["value"].clone()
    }

    /// The text of an expression's value.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is {value}")).to_owned()
    }

    /// Waits until an expression is true.
    pub fn wait(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        // A page that is just being left answers nothing of use.
        let wrapped =
            format!("(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()");
        while self.eval(&wrapped) != json!(true) {
            if Instant::now() >= end {
                let body = self.text("document.body.innerText");
                panic!(
                    "in vain waited for {expression}; the page says:\n{body}\ncomplaints: {:?}",
                    self.complaints
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for an element and clicks in its middle, as a mouse does.
    pub fn click(&mut self, selector: &str) {
        let quoted = json!(selector).to_string();
        self.wait(&format!("document.querySelector({quoted})?.getClientRects().length > 0"));
        let place = self.eval(&format!(
            "(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{ block: 'nearest' }}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            self.call(
                "Input.dispatchMouseEvent",
                json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 }),
            );
        }
    }

    /// Presses keys one after the other: single characters, or the names of keys.
    pub fn keys(&mut self, keys: &[&str]) {
        for key in keys {
            let (code, text) = match *key {
                "Enter" => (13, Some("\r")),
                "Tab" => (9, None),
                "Escape" => (27, None),
                "ArrowDown" => (40, None),
                "ArrowUp" => (38, None),
                " " => (32, Some(" ")),
                other => (i64::from(other.to_ascii_uppercase().as_bytes()[0]), Some(other)),
            };
            let mut down = json!({ "type": if text.is_some() { "keyDown" } else { "rawKeyDown" }, "key": key, "windowsVirtualKeyCode": code });
            if let Some(text) = text {
                down["text"] = json!(text);
            }
            self.call("Input.dispatchKeyEvent", down);
            self.call(
                "Input.dispatchKeyEvent",
                json!({ "type": "keyUp", "key": key, "windowsVirtualKeyCode": code }),
            );
        }
    }

    /// Gives the page a size, in its own pixels.
    pub fn size(&mut self, width: u32, height: u32) {
        let phone = width < 600;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone }),
        );
    }

    /// Says whether the system is `light` or `dark`.
    pub fn scheme(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// What the page looks like, as a PNG.
    pub fn picture(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        base64(answer["data"].as_str().expect("an image"))
    }
}

/// The browser, by the name that the distribution gives it.
fn program() -> PathBuf {
    let names = ["chromium", "chromium-browser", "google-chrome-stable"];
    let places = require::PATH.split(':').flat_map(|dir| names.map(|name| PathBuf::from(dir).join(name)));
    let found = places.into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| require::program("chromium"))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Without its pipe it has nobody to work for, and ends by itself.
        self.pipe = None;
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // Its group is its own; a number is not used again while a process of the group lives.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
        self.child.wait().ok();
    }
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let mut out = Vec::with_capacity(digits.len() * 3 / 4);
    for group in digits.chunks(4) {
        let bits = group.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - group.len()));
        out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_of_every_remainder_is_read() {
        assert_eq!(base64("TWFu"), b"Man");
        assert_eq!(base64("TWE="), b"Ma");
        assert_eq!(base64("TQ=="), b"M");
        assert_eq!(base64("+/8="), [0xfb, 0xff]);
    }
}
