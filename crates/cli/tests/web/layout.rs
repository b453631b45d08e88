//! How the page stands: on a phone, in the dark, with very large changes.

use serde_json::json;
use testkit::{Browser, Who};

use crate::site::Site;

fn assert_no_overflow(browser: &mut Browser, place: &str) {
    let wide = browser.eval(
        "(() => { const most = innerWidth; return [...document.querySelectorAll('body *')] \
           .filter((e) => !e.closest('.window, .graph-place, .tabs, dialog:not([open])') && e.getClientRects().length && e.getBoundingClientRect().right > most + 1 && getComputedStyle(e).position !== 'absolute') \
           .map((e) => `${e.tagName}.${e.className} ${e.getBoundingClientRect().right}`); })()",
    );
    assert_eq!(wide, json!([]), "{place}");
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), json!(true), "{place}");
}

#[test]
fn on_a_phone_nothing_is_wider_than_the_screen() {
    let site = Site::new(Who::User);
    let long = "x".repeat(200);
    site.run(
        "a-lane-with-quite-a-long-name-that-does-not-break",
        &format!("echo {long} >{long}; echo {long} >>README.md"),
    );
    site.run("two", "echo b >>README.md");
    let server = site.serve();
    let mut browser = Browser::start(&site.env);
    browser.size(360, 740);
    browser.go(&server.url);
    browser.wait("document.querySelectorAll('.card').length === 2 && document.querySelectorAll('svg.graph').length === 2");
    assert_no_overflow(&mut browser, "lanes");
    let (one, two) = (site.id("a-lane-with-quite-a-long-name-that-does-not-break"), site.id("two"));
    for (place, ready) in [
        (format!("lane/{one}"), "document.querySelector('.hunks .line')"),
        (format!("lane/{one}/history"), "document.querySelector('.snapshot.here')"),
        (format!("lane/{one}/about"), "document.querySelector('.facts.wide')"),
        (format!("compare/{one}/{two}"), "document.querySelector('.hunks .line')"),
    ] {
        browser.eval(&format!("location.hash = '#/{place}'"));
        browser.wait(ready);
        assert_no_overflow(&mut browser, &place);
    }
    browser.eval(&format!("location.hash = '#/lane/{one}'"));
    browser.click("#discard");
    browser.wait("document.querySelector('dialog[open]')");
    assert_no_overflow(&mut browser, "a dialog");
}

#[test]
fn light_and_dark_follow_the_system_until_one_is_chosen() {
    let site = Site::new(Who::User);
    site.run("one", "echo b >>README.md");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card')");
    let colours = |browser: &mut Browser| {
        browser.text("getComputedStyle(document.documentElement).backgroundColor + getComputedStyle(document.querySelector('.card h2')).color")
    };
    browser.scheme("light");
    let light = colours(&mut browser);
    browser.scheme("dark");
    let dark = colours(&mut browser);
    assert_ne!(light, dark);
    browser.keys(&["t"]);
    assert_eq!(colours(&mut browser), light, "chosen light in a dark system");
    browser.scheme("light");
    browser.keys(&["t"]);
    assert_eq!(colours(&mut browser), dark, "chosen dark in a light system");
    browser.go(&format!("http://{}/", server.host()));
    browser.wait("document.querySelector('.card')");
    assert_eq!(colours(&mut browser), dark, "the choice stays");
    // Text that can be told from its ground, in both: a ratio of at least 4.5.
    for scheme in ["light", "dark"] {
        browser.eval(&format!("document.documentElement.dataset.theme = '{scheme}'"));
        let worst = browser.eval(
            "(() => { const parse = (c) => c.match(/[\\d.]+/g).map(Number); \
               const lum = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); }; \
               const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0.99) return c; } return [255, 255, 255]; }; \
               let worst = [99]; for (const e of document.querySelectorAll('main *, #top *')) { \
                 if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest(':disabled')) continue; \
                 const [a, b] = [lum(parse(getComputedStyle(e).color)), lum(ground(e))]; const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); \
                 if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 80)]; } return worst; })()",
        );
        assert!(worst[0].as_f64() >= Some(4.5), "{scheme}: {worst}");
    }
}

#[test]
fn a_file_of_a_hundred_thousand_lines_is_shown_whole_and_few_of_it_are_elements() {
    let site = Site::new(Who::User);
    site.run("big", "seq 1 100000 >big.txt; i=0; mkdir many; while [ $i -lt 1500 ]; do echo $i >many/f$i; i=$((i+1)); done; head -c 30000 /dev/zero | tr '\\0' z >long.txt");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id("big")));
    browser.wait("document.querySelector('.hunks .line')?.innerText.includes('1')");
    let elements = browser.eval("document.querySelectorAll('main *').length");
    assert!(elements.as_u64() < Some(2000), "{elements}");
    browser.eval("document.querySelector('.hunks').focus()");
    let took = browser.eval("(async () => { const began = performance.now(); const pane = document.querySelector('.hunks'); \
        for (let at = 0; at <= 10; at += 1) { pane.scrollTop = pane.scrollHeight * at / 10; await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame); } return performance.now() - began; })()");
    assert!(took.as_f64() < Some(3000.0), "{took} ms for ten jumps");
    browser.wait(
        "[...document.querySelectorAll('.hunks .line-text')].some((line) => line.innerText === '100000')",
    );
    // The last of many files is there too, and a very long line says how much of it is not shown yet.
    browser.eval(
        "(() => { const list = document.querySelector('.files'); list.scrollTop = list.scrollHeight; })()",
    );
    browser.wait("document.querySelector(\".file[data-name='many/f999']\")");
    browser.eval("(() => { const list = document.querySelector('.files'); list.scrollTop = 0; })()");
    browser.click(".file[data-name='long.txt'] .file-name");
    browser.wait("document.querySelector('.line-text button')?.innerText.includes('28,000 more characters')");
    browser.click(".line-text button");
    browser.wait(
        "document.querySelector('.line-text').innerText.length === 30000 + ' ⃠ no newline at the end'.length",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
