//! Ticks in several lanes, kept in one go from the page.

use std::fs;

use serde_json::json;
use testkit::{Browser, Who};

use crate::site::Site;

fn numbers(changed: &[usize]) -> String {
    let line = |n: usize| if changed.contains(&n) { format!("{n} changed\n") } else { format!("{n}\n") };
    (1..=60).map(line).collect()
}

/// Ticks the hunk with this number in the file of a lane.
fn tick(site: &Site, browser: &mut Browser, lane: &str, hunk: usize) {
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id(lane)));
    browser.wait(&format!("document.querySelector('.review h1')?.innerText.includes('{lane}')"));
    browser.click(".file[data-name=list] .file-name");
    browser.wait("document.querySelectorAll('.hunk-head').length === 2");
    browser.eval(&format!("document.querySelectorAll('.hunk-head input')[{hunk}].click()"));
    browser.wait(&format!(
        "document.querySelectorAll('.hunk-head')[{hunk}].getAttribute('aria-selected') === 'true'"
    ));
}

#[test]
fn hunks_of_two_lanes_are_kept_in_one_go_or_without_one_another() {
    for who in Who::all() {
        let site = Site::new(who);
        site.env.write(&site.project.join("list"), numbers(&[]).as_bytes());
        site.run("one", "sed -i 's/^3$/3 changed/; s/^30$/30 changed/' list");
        site.run("two", "sed -i 's/^15$/15 changed/; s/^50$/50 changed/' list");
        let server = site.serve();
        let mut browser = site.open(&server);
        tick(&site, &mut browser, "one", 1);
        tick(&site, &mut browser, "two", 0);
        browser.wait("document.querySelector('.verbs').innerText.includes('more in one')");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] .along')?.innerText.includes('one (1 path)')");
        browser.wait("document.querySelector('dialog[open] .steps').innerText.includes('two + one')");
        // Without the other lane, and with it again.
        browser.click("dialog[open] .along input");
        browser.wait("document.querySelector('dialog[open] .along input')?.checked === false");
        assert_eq!(
            browser.eval("document.querySelector('dialog[open] .steps').innerText.includes('+ one')"),
            json!(false)
        );
        browser.click("dialog[open] .along input");
        browser.wait("document.querySelector('dialog[open] .steps')?.innerText.includes('two + one')");
        assert_eq!(fs::read_to_string(site.project.join("list")).expect("there"), numbers(&[]));
        browser.click("#confirm");
        browser.wait("document.querySelector('#toasts').innerText.includes('1 step done')");
        assert_eq!(fs::read_to_string(site.project.join("list")).expect("there"), numbers(&[15, 30]));
        // Nothing is ticked any more, in either lane.
        browser.wait("document.querySelector('.verbs')?.innerText.includes('Tick what is to be kept')");
        browser.eval(&format!("location.hash = '#/lane/{}'", site.id("one")));
        browser.wait("document.querySelector('.review h1')?.innerText.includes('one') && document.querySelector('.verbs')?.innerText.includes('Tick what is to be kept')");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn what_moved_on_in_either_lane_stops_all_of_it() {
    let site = Site::new(Who::User);
    site.env.write(&site.project.join("list"), numbers(&[]).as_bytes());
    site.run("one", "sed -i 's/^3$/3 changed/; s/^30$/30 changed/' list");
    site.run("two", "sed -i 's/^15$/15 changed/; s/^50$/50 changed/' list");
    let server = site.serve();
    let mut browser = site.open(&server);
    tick(&site, &mut browser, "one", 1);
    tick(&site, &mut browser, "two", 0);
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open] #confirm')?.disabled === false");
    site.run("one", "sed -i 's/^40$/evil/' list");
    browser.click("#confirm");
    browser
        .wait("document.querySelector('#toasts .bad')?.innerText.includes('no longer what was looked at')");
    assert_eq!(fs::read_to_string(site.project.join("list")).expect("there"), numbers(&[]));
}
