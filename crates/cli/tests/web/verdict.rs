//! Checking a lane from the page: with commands that are named elsewhere, and no others.

use std::fs;

use serde_json::{Value, json};
use testkit::Who;

use crate::site::Site;

const POLICY: &str = "[keep]\nverify = \"grep -q good README.md\"\n";

fn site(who: Who) -> Site {
    let site = Site::new(who);
    site.env.write(&site.project.join("lane.toml"), POLICY.as_bytes());
    site.run("one", "echo bad >README.md");
    site
}

#[test]
fn a_check_that_the_policy_names_is_run_and_its_verdict_shown() {
    for who in Who::all() {
        let site = site(who);
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.click(".card[data-lane=one] [data-focus=verify]");
        browser.wait(
            "document.querySelector('dialog[open] .checks')?.innerText.includes('grep -q good README.md')",
        );
        browser.wait("document.querySelector('dialog[open] .checks').innerText.includes('lane.toml:2')");
        browser.click("#confirm");
        browser.wait("[...document.querySelectorAll('#toasts .bad')].some((line) => line.innerText.includes(': fail'))");
        browser.wait("document.querySelector('.card[data-lane=one] .facts')?.innerText.includes('fail')");
        site.run("one", "echo good >README.md");
        browser.click(".card[data-lane=one] [data-focus=verify]");
        browser.click("#confirm");
        browser.wait("[...document.querySelectorAll('#toasts .toast')].some((line) => line.innerText.includes(': pass'))");
        browser.wait("document.querySelector('.card[data-lane=one] .facts')?.innerText.includes('pass')");
        assert_eq!(site.env.json(&site.project, &["ls"])[0]["verdict"]["verdict"], "pass");
        assert!(!fs::read_to_string(site.project.join("README.md")).expect("there").contains("good"));
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_keep_from_the_page_runs_the_check_that_it_needs() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id("one")));
    browser.click(".file[data-name='README.md'] input");
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open]')?.innerText.includes('It is checked first')");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts .bad')?.innerText.includes('grep -q good')");
    assert_ne!(fs::read_to_string(site.project.join("README.md")).expect("there"), "bad\n");
    site.run("one", "echo good >README.md");
    browser.eval("location.reload()");
    browser.wait("!document.querySelector('#toasts .bad') && document.querySelector(\".file[data-name='README.md'] input\")");
    browser.click(".file[data-name='README.md'] input");
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open] #confirm')?.disabled === false");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
    assert_eq!(fs::read_to_string(site.project.join("README.md")).expect("there"), "good\n");
}

#[test]
fn a_page_says_nothing_that_is_run() {
    let site = Site::new(Who::User);
    site.run("one", "echo a >a");
    let server = site.serve();
    let (cookie, key) = server.enter();
    let ours = [("Cookie", cookie.as_str()), ("X-Lane-Key", key.as_str())];
    let id = site.id("one");
    let hex = |words: &[&str]| -> Vec<String> {
        words.iter().map(|word| word.bytes().map(|byte| format!("{byte:02x}")).collect()).collect()
    };
    let ask = |command: &Value| {
        server.post("/ask", &ours, &json!({ "what": "verify", "lane": id, "command": command }))
    };
    for command in [hex(&["/bin/sh", "-c", "true"]), hex(&["true"]), Vec::new(), vec!["zz".to_owned()]] {
        let answer = ask(&json!(command));
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(answer.body.contains("names that command"), "{answer:?}");
    }
    assert_eq!(site.env.json(&site.project, &["ls"])[0]["verdict"], Value::Null);
    // What somebody typed in a shell is known from then on, and nothing that begins like it.
    site.env.ok(&site.project, &["verify", "one", "--", "true"]);
    assert_eq!(ask(&json!(hex(&["true"]))).status, 200);
    assert_eq!(ask(&json!(hex(&["true", "more"]))).status, 409);
    let second = site.serve();
    let mut browser = site.open(&second);
    browser.click(".card[data-lane=one] [data-focus=verify]");
    browser.wait("document.querySelector('dialog[open] .checks')?.innerText.includes('as the last verdict')");
}
