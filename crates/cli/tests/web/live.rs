//! What runs now: its output as it comes, its changes, its end.

use std::time::Duration;

use serde_json::json;
use testkit::{Pty, Running, Who};

use crate::site::Site;

#[test]
fn output_of_a_running_lane_appears_as_it_is_printed() {
    for who in Who::all() {
        let site = Site::new(who);
        let line = "echo first; while [ ! -e go ]; do sleep 0.05; done; printf '10%%\\r20%%\\rdone\\n'; touch made; while [ ! -e end ]; do sleep 0.05; done; printf 'no newline'";
        let running = Running::start(
            site.env.lane(&site.project, &["run", "-q", "-n", "busy", "--", "sh", "-c", line]),
        );
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.wait("document.querySelector('.card .state.live') && document.querySelector('.says')?.innerText === 'first'");
        let id = site.id("busy");
        browser.eval(&format!("location.hash = '#/lane/{id}/output'"));
        browser.wait("document.querySelector('.output')?.innerText.trim() === 'first'");
        browser.wait("document.querySelector('.tab-body').innerText.includes('running')");
        // What is written in the lane's own view is seen inside.
        site.env.ok(&site.project, &["exec", "-q", "busy", "--", "touch", "go"]);
        browser.wait("[...document.querySelectorAll('.output-line')].map((line) => line.innerText).join() === 'first,10%,20%,done'");
        site.env.ok(&site.project, &["exec", "-q", "busy", "--", "touch", "end"]);
        browser.wait("document.querySelector('.output').innerText.includes('no newline') && document.querySelector('.tab-body').innerText.includes('exit 0')");
        running.wait(Duration::from_secs(60)).expect_code(0);
        browser.keys(&["Escape"]);
        browser.wait("document.querySelector('.card .state.idle') && document.querySelector('.card').innerText.includes('3 added')");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn output_on_a_terminal_is_read_from_its_cast() {
    let site = Site::new(Who::User);
    let command = site.env.lane(
        &site.project,
        &[
            "run",
            "-q",
            "-n",
            "tty",
            "--",
            "sh",
            "-c",
            "echo on a terminal; printf '\\033[1mbold\\033[0m\\n'; test -t 1 && echo yes",
        ],
    );
    Pty::start(&command, Who::User, 24, 80).wait(Duration::from_secs(60));
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.click(".card [data-focus=output]");
    browser.wait("[...document.querySelectorAll('.output-line')].map((line) => line.innerText).join() === 'on a terminal,bold,yes'");
}

#[test]
fn a_program_that_draws_on_the_screen_is_shown_as_its_screen() {
    let site = Site::new(Who::User);
    let line = "printf 'old text\\033[2J\\033[2;5H<b>drawn</b>\\033[4;1Hbelow'; while [ ! -e go ]; do sleep 0.05; done; printf '\\033[4;1Hagain'; sleep 0.2";
    let command = site.env.lane(&site.project, &["run", "-q", "-n", "tty", "--", "sh", "-c", line]);
    let terminal = Pty::start(&command, Who::User, 24, 80);
    terminal.wait_for("below", Duration::from_secs(60));
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.click(".card [data-focus=output]");
    browser.wait("document.querySelector('.output') && [...document.querySelectorAll('label')].some((label) => label.innerText.includes('Screen') && label.getClientRects().length > 0)");
    browser.keys(&["s"]);
    let rows =
        "[...document.querySelectorAll('.screen div')].map((row) => row.innerText.trimEnd()).join('|')";
    browser.wait(&format!("{rows} === '|    <b>drawn</b>||below'"));
    assert_eq!(browser.eval("document.querySelectorAll('.screen b').length"), json!(0));
    site.env.ok(&site.project, &["exec", "-q", "tty", "--", "touch", "go"]);
    browser.wait(&format!("{rows} === '|    <b>drawn</b>||again'"));
    terminal.wait(Duration::from_secs(60));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_live_lane_is_stopped_from_the_page() {
    let site = Site::new(Who::User);
    site.env.ok(&site.project, &["run", "-q", "-d", "-n", "server", "--", "sleep", "600"]);
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.click(".card [data-focus=stop]");
    browser.wait("document.querySelector('dialog[open]') && document.activeElement.id === 'confirm'");
    browser.keys(&["Enter"]);
    browser.wait("document.querySelector('.card .state.idle')");
    assert_eq!(site.env.json(&site.project, &["show", "server"])["lane"]["state"], json!("idle"));
}

#[test]
fn a_page_whose_server_has_ended_says_so() {
    let site = Site::new(Who::User);
    site.run("one", "true");
    let mut server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card')");
    server.running.signal(rustix::process::Signal::TERM);
    server.running.wait(Duration::from_secs(30)).expect_code(0);
    browser.wait("!document.querySelector('.offline').hidden");
}
