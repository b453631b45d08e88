//! All lanes side by side, the trash, two lanes compared.

use serde_json::json;
use testkit::Who;

use crate::site::Site;

#[test]
fn lanes_stand_side_by_side_with_what_they_are() {
    for who in Who::all() {
        let site = Site::new(who);
        site.run("alpha", "echo a >a.txt; rm README.md");
        site.run("beta", "echo b >b.txt; exit 0");
        site.env.ok(&site.project, &["new", "gamma"]);
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.wait("document.querySelectorAll('.card').length === 3");
        let alpha = browser.text("document.querySelector('.card[data-lane=alpha]').innerText");
        for word in ["alpha", "idle", "1 added · 1 deleted", "echo a", "exit 0", "overlay", "full", "Review"]
        {
            assert!(alpha.contains(word), "no {word} in {alpha}");
        }
        browser.wait("document.querySelector('.card[data-lane=alpha] svg.graph circle.here')");
        let gamma = browser.text("document.querySelector('.card[data-lane=gamma]').innerText");
        assert!(gamma.contains("nothing ran yet") && gamma.contains("no changes"), "{gamma}");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_lane_is_discarded_with_its_plan_shown_and_recovered() {
    let site = Site::new(Who::User);
    site.run("alpha", "echo a >a.txt");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.click(".card[data-lane=alpha] [data-focus=discard]");
    browser.wait("document.querySelector('dialog[open]')?.innerText.includes('1 added')");
    browser.wait("document.querySelector('dialog[open] .only-here')?.innerText.includes('1 change: a.txt')");
    // Escape is no.
    browser.keys(&["Escape"]);
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(site.env.json(&site.project, &["ls"]).as_array().map(Vec::len), Some(1));
    browser.click(".card[data-lane=alpha] [data-focus=discard]");
    browser.wait("document.activeElement?.id === 'cancel'");
    browser.click("#confirm");
    browser.wait("document.querySelector('.trash')?.innerText.includes('alpha')");
    assert_eq!(site.env.json(&site.project, &["ls"]), json!([]));
    browser.click(".trash button");
    browser.wait("document.querySelector('.card[data-lane=alpha]')");
    assert_eq!(site.env.json(&site.project, &["ls"])[0]["changes"]["added"], 1);
}

#[test]
fn the_same_file_of_two_lanes_is_compared() {
    let site = Site::new(Who::User);
    site.run("alpha", "printf 'one\\nleft\\n' >README.md; echo same >same.txt; echo a >a.txt");
    site.run("beta", "printf 'one\\nright\\n' >README.md; echo same >same.txt");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelectorAll('.card').length === 2");
    browser.click(".card[data-lane=alpha] .tick input");
    browser.click(".card[data-lane=beta] .tick input");
    browser.keys(&["c"]);
    browser.wait("document.querySelectorAll('.files .file').length === 3");
    let kinds = browser.text("[...document.querySelectorAll('.files .file')].map((row) => `${row.dataset.name} ${row.classList[1]}`).join()");
    assert_eq!(kinds, "README.md different,a.txt left,same.txt same");
    browser.wait("document.querySelector('.hunks .line.minus')?.innerText.includes('left')");
    browser.wait("document.querySelector('.hunks .line.plus')?.innerText.includes('right')");
    browser.click("input[value=both]");
    browser.wait("document.querySelectorAll('.compare-panes .pane').length === 2");
    browser.wait("[...document.querySelectorAll('.compare-panes .line.plus')].map((line) => line.innerText.trim()).join().includes('right')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
