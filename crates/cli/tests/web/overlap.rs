//! What lanes both touch, told on the page before any of it is kept.

use serde_json::json;
use testkit::Who;

use crate::site::Site;

fn lines(changed: &[usize]) -> String {
    let line = |n: usize| if changed.contains(&n) { format!("{n} changed\n") } else { format!("{n}\n") };
    (1..=40).map(line).collect()
}

#[test]
fn paths_that_two_lanes_touch_are_listed_with_how_they_meet() {
    for who in Who::all() {
        let site = Site::new(who);
        for name in ["apart", "lines"] {
            site.env.write(&site.project.join(name), lines(&[]).as_bytes());
        }
        site.run("alpha", "sed -i 's/^3$/3 alpha/' apart lines; echo same >both; echo a >alone");
        site.run("beta", "sed -i 's/^30$/30 beta/' apart; sed -i 's/^3$/3 beta/' lines; echo same >both");
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.click("#overlap");
        browser.wait("document.querySelectorAll('.files .file').length === 3");
        let rows = browser.text("[...document.querySelectorAll('.files .file')].map((row) => `${row.dataset.name} ${row.classList[1]}`).join()");
        assert_eq!(rows, "apart apart,both same,lines lines");
        let said = browser.text("document.querySelector('#overlap-sum').innerText");
        assert_eq!(said, "3 paths touched by two lanes, 1 of them not apart.");
        browser.wait("document.querySelector(\".file[data-name=lines]\").innerText.includes('lines 3 / 3')");
        browser.click(".bar label input");
        browser.wait("document.querySelectorAll('.files .file').length === 1");
        // From there to the two files, line by line.
        browser.click(".file[data-name=lines] .file-name");
        browser.wait("location.hash.startsWith('#/compare/') && document.querySelector('.pane-head h2')?.innerText === 'lines'");
        browser.wait("document.querySelector('.hunks')?.innerText.includes('3 alpha') && document.querySelector('.hunks').innerText.includes('3 beta')");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn without_two_lanes_that_meet_it_says_so() {
    let site = Site::new(Who::User);
    site.run("alpha", "echo a >a");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.keys(&["o"]);
    browser.wait("document.querySelector('.empty')?.innerText === 'There are no two lanes.'");
    site.run("beta", "echo b >b");
    browser.eval("location.reload()");
    browser.wait("document.querySelector('.empty')?.innerText === 'No path is touched by two lanes.'");
    assert_eq!(browser.eval("document.querySelectorAll('.files .file').length"), json!(0));
}
