//! Back and forth in a lane's history, from the page.

use testkit::Who;

use crate::site::Site;

#[test]
fn a_lane_is_put_back_and_forth_and_to_any_snapshot() {
    for who in Who::all() {
        let site = Site::new(who);
        site.run("one", "echo 1 >a");
        site.env.ok(&site.project, &["snap", "one", "-m", "first step"]);
        site.run("one", "echo 2 >a; echo 2 >b");
        let total = |site: &Site| {
            site.env.json(&site.project, &["show", "one"])["changes"][0]["changes"]["total"].clone()
        };
        assert_eq!(total(&site), 2);
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.eval(&format!("location.hash = '#/lane/{}/history'", site.id("one")));
        browser.wait("document.querySelector('.snapshot.here')");
        browser.keys(&["u"]);
        browser.wait("document.querySelector('dialog[open]')");
        browser.keys(&["Enter"]);
        browser.wait("document.querySelector('#toasts').innerText.includes('The lane stands at')");
        assert_eq!(total(&site), 1);
        browser.keys(&["r"]);
        browser.wait("document.querySelector('dialog[open]')");
        browser.keys(&["Enter"]);
        browser.wait("document.querySelectorAll('#toasts .toast').length === 2");
        assert_eq!(total(&site), 2);
        browser.wait("!document.querySelector('.snapshot.here').innerText.includes('first step')");
        // By its own button, and no is no.
        let restore = "[...document.querySelectorAll('.snapshot')].find((row) => row.innerText.includes('first step')).querySelector('button').click()";
        browser.eval(restore);
        browser.wait("document.querySelector('dialog[open]')");
        browser.click("#cancel");
        assert_eq!(total(&site), 2);
        browser.eval(restore);
        browser.click("#confirm");
        browser.wait("document.querySelector('.snapshot.here').innerText.includes('first step')");
        assert_eq!(total(&site), 1);
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}
