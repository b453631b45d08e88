//! Review: files, hunks and lines ticked, and exactly these kept.

use std::fs;

use serde_json::json;
use testkit::{Browser, Who};

use crate::site::{Server, Site};

/// Forty numbered lines, with some replaced.
fn lines(changed: &[(usize, &str)]) -> String {
    let line = |number: usize| {
        changed
            .iter()
            .find(|(at, _)| *at == number)
            .map_or_else(|| number.to_string(), |(_, text)| (*text).to_owned())
    };
    (1..=40).map(|number| line(number) + "\n").collect()
}

/// A site whose lane `one` changed two places of a file, made and deleted another, and planted a hook.
fn site(who: Who) -> Site {
    let site = Site::new(who);
    site.env.write(&site.project.join("list"), lines(&[]).as_bytes());
    site.env.host(&site.project, "git", &["add", "-A"]);
    site.env.host(&site.project, "git", &["commit", "-q", "-m", "list"]);
    site.run("one", "sed -i 's/^3$/three/; s/^30$/thirty/' list; echo new >made.txt; rm README.md; echo 'export X=1' >.envrc; chmod 755 src/lib.rs");
    site
}

fn open(site: &Site, server: &Server) -> Browser {
    let mut browser = site.open(server);
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id("one")));
    browser.wait("document.querySelectorAll('.files .file').length >= 5");
    browser
}

fn read(site: &Site, path: &str) -> Option<String> {
    fs::read_to_string(site.project.join(path)).ok()
}

fn show(browser: &mut Browser, name: &str) {
    browser.click(&format!(".file[data-name='{name}'] .file-name"));
    browser.wait(&format!("document.querySelector('.pane-head h2')?.innerText === '{name}'"));
}

fn keep(browser: &mut Browser) {
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open] #confirm')");
    browser.click("#confirm");
    browser.wait("!document.querySelector('dialog')");
}

#[test]
fn exactly_the_ticked_hunk_is_kept_and_the_other_stays_in_the_lane() {
    for who in Who::all() {
        let site = site(who);
        let server = site.serve();
        let mut browser = open(&site, &server);
        assert_eq!(
            browser.eval("document.querySelector('#keep').disabled"),
            json!(true),
            "nothing is ticked yet"
        );
        show(&mut browser, "list");
        browser.wait("document.querySelectorAll('.hunk-head').length === 2");
        browser.click(".hunk-head input");
        browser.wait("document.querySelector(\".file[data-name=list] input\").indeterminate");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] .steps')?.innerText.includes('in part')");
        assert_eq!(read(&site, "list"), Some(lines(&[])), "a plan writes nothing");
        browser.click("#confirm");
        browser.wait("document.querySelector('#toasts').innerText.includes('1 step done')");
        assert_eq!(read(&site, "list"), Some(lines(&[(3, "three")])));
        assert!(read(&site, "made.txt").is_none() && read(&site, "README.md").is_some());
        // What was not kept is still there to be looked at.
        browser.wait("document.querySelectorAll('.files .file').length >= 5");
        show(&mut browser, "list");
        browser.wait("document.querySelectorAll('.hunk-head').length === 1 && document.querySelector('.hunks').innerText.includes('thirty')");
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn single_lines_are_ticked_and_kept() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    show(&mut browser, "list");
    browser.wait("document.querySelectorAll('.hunk-head').length === 2");
    // Of the first hunk only the added line: the old one stays.
    browser.click(".line.plus .line-tick");
    browser.wait("document.querySelector('.line.plus .line-tick.on') && document.querySelector('.line.minus .line-tick.off')");
    keep(&mut browser);
    browser.wait("document.querySelector('#toasts').innerText.includes('done')");
    let expected = lines(&[(3, "3\nthree")]);
    assert_eq!(read(&site, "list"), Some(expected));
}

#[test]
fn all_covers_everything_but_what_runs_by_itself_which_is_kept_by_its_own_tick() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    let sections =
        browser.text("[...document.querySelectorAll('.files .section')].map((row) => row.innerText).join()");
    assert_eq!(sections, "Runs by itself");
    browser.click(".files-head label input");
    browser.wait("document.querySelector(\".file[data-name='made.txt'] input\").checked");
    assert_eq!(
        browser.eval("document.querySelector(\".file[data-name='.envrc'] input\").checked"),
        json!(false)
    );
    keep(&mut browser);
    browser.wait("document.querySelector('#toasts').innerText.includes('done')");
    assert_eq!(read(&site, "list"), Some(lines(&[(3, "three"), (30, "thirty")])));
    assert!(
        read(&site, "made.txt").is_some()
            && read(&site, "README.md").is_none()
            && read(&site, ".envrc").is_none()
    );
    browser.wait("document.querySelector(\".file[data-name='.envrc']\")");
    browser.click(".file[data-name='.envrc'] input");
    keep(&mut browser);
    browser.wait("document.querySelectorAll('#toasts .toast').length >= 2");
    assert_eq!(read(&site, ".envrc").as_deref(), Some("export X=1\n"));
}

#[test]
fn a_keep_is_undone_from_the_page_and_not_where_it_was_edited_since() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    browser.click(".file[data-name=list] input");
    keep(&mut browser);
    browser.click("#toasts .toast .link");
    browser.wait("document.querySelector('dialog[open] .steps')?.innerText.includes('put-back')");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('undone')");
    assert_eq!(read(&site, "list"), Some(lines(&[])));
    // The lane shows the change again; kept once more and edited, it is not undone.
    browser.wait("document.querySelector('.file[data-name=list]')");
    browser.click(".file[data-name=list] input");
    keep(&mut browser);
    browser.wait(
        "[...document.querySelectorAll('#toasts .toast')].some((line) => line.innerText.includes('done in'))",
    );
    site.env.write(&site.project.join("list"), b"mine\n");
    browser.keys(&["Escape"]);
    browser.click(".keeps summary");
    browser.click(".keeps button");
    browser.wait("document.querySelector('dialog[open]')?.innerText.includes('edited since')");
    assert_eq!(browser.eval("document.querySelector('#confirm').disabled"), json!(true));
    browser.keys(&["Escape"]);
    assert_eq!(read(&site, "list").as_deref(), Some("mine\n"));
}

#[test]
fn a_lane_that_moved_on_since_it_was_looked_at_is_not_kept() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    show(&mut browser, "list");
    browser.click(".file[data-name=list] input");
    site.run("one", "sed -i 's/^20$/evil/' list");
    browser.click("#keep");
    browser
        .wait("document.querySelector('#toasts .bad')?.innerText.includes('no longer what was looked at')");
    assert_eq!(read(&site, "list"), Some(lines(&[])));
    // The same between the plan and the act.
    browser.eval("location.reload()");
    browser.wait(
        "document.querySelectorAll('.files .file').length >= 5 && !document.querySelector('#toasts .bad')",
    );
    browser.click(".file[data-name='made.txt'] input");
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open] #confirm')");
    site.run("one", "echo other >made.txt");
    browser.click("#confirm");
    browser
        .wait("document.querySelector('#toasts .bad')?.innerText.includes('no longer what was looked at')");
    assert_eq!(read(&site, "made.txt"), None);
}

#[test]
fn everything_goes_by_keyboard_alone() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card')");
    browser.keys(&["j", "Enter"]);
    browser.wait("document.querySelectorAll('.files .file').length >= 5");
    // Through the files to the one with two hunks, its second hunk, keep, and yes.
    browser.wait("document.querySelector('.pane-head h2')");
    for _ in 0..8 {
        if browser.text("document.querySelector('.pane-head h2').innerText") == "list" {
            break;
        }
        let before = browser.text("document.querySelector('.pane-head h2').innerText");
        browser.keys(&["n"]);
        browser.wait(&format!("document.querySelector('.pane-head h2').innerText !== '{before}'"));
    }
    browser.wait("document.querySelectorAll('.hunk-head').length === 2");
    browser.keys(&["j", " "]);
    browser.wait("document.querySelectorAll('.hunk-head')[1].getAttribute('aria-selected') === 'true'");
    assert_eq!(
        browser.text("document.querySelectorAll('.hunk-head')[0].getAttribute('aria-selected')"),
        "false"
    );
    browser.keys(&["K"]);
    browser.wait("document.querySelector('dialog[open]') && document.activeElement.id === 'confirm'");
    browser.keys(&["Enter"]);
    browser.wait("document.querySelector('#toasts').innerText.includes('1 step done')");
    assert_eq!(read(&site, "list"), Some(lines(&[(30, "thirty")])));
    // The help says what the keys do, and Escape closes it and leads back.
    browser.keys(&["?"]);
    browser.wait("document.querySelector('dialog.help[open]')?.innerText.includes('next, previous hunk')");
    browser.keys(&["Escape"]);
    browser.wait("!document.querySelector('dialog')");
    browser.keys(&["Escape"]);
    browser.wait("document.querySelector('.card')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_result_is_exported_to_where_the_plan_said() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    browser.keys(&["E"]);
    let beside = site.project.with_file_name("app-one");
    browser
        .wait(&format!("document.querySelector('dialog[open]')?.innerText.includes('{}')", beside.display()));
    browser.keys(&["Enter"]);
    browser.wait("document.querySelector('#toasts').innerText.includes('written to')");
    assert_eq!(fs::read_to_string(beside.join("made.txt")).expect("exported"), "new\n");
    assert!(read(&site, "made.txt").is_none());
    // A second time it is refused: nothing is overwritten.
    browser.keys(&["E"]);
    browser.wait("document.querySelector('#toasts .bad')?.innerText.includes('exists already')");
}

#[test]
fn b38_a_conflict_is_shown_and_settled_as_the_person_says_and_what_does_not_meet_is_merged() {
    for who in Who::all() {
        let site = site(who);
        let server = site.serve();
        // One edit of ours meets the lane's, the other does not.
        let mine = lines(&[(3, "mine"), (15, "also mine")]);
        site.env.write(&site.project.join("list"), mine.as_bytes());
        let mut browser = open(&site, &server);
        browser.wait("document.querySelector(\".file[data-name=list] .tag\")?.innerText.includes('drifted')");
        show(&mut browser, "list");
        browser.click(".file[data-name=list] input");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] .conflicts')?.innerText.includes('list')");
        assert_eq!(browser.eval("document.querySelector('#confirm').disabled"), json!(true));
        browser.keys(&["Escape"]);
        browser.wait("!document.querySelector('dialog')");
        assert_eq!(read(&site, "list"), Some(mine.clone()));
        browser.click("#keep");
        browser.click("dialog[open] input[value=theirs]");
        browser.wait("document.querySelector('dialog[open] #confirm')?.disabled === false");
        browser.click("#confirm");
        browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
        assert_eq!(read(&site, "list"), Some(lines(&[(3, "three"), (15, "also mine"), (30, "thirty")])));
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn changes_of_both_sides_that_do_not_meet_are_put_together() {
    let site = site(Who::User);
    let server = site.serve();
    site.env.write(&site.project.join("list"), lines(&[(15, "mine")]).as_bytes());
    let mut browser = open(&site, &server);
    browser.click(".file[data-name=list] input");
    browser.click("#keep");
    browser.wait("document.querySelector('dialog[open] .merged')?.innerText === 'list'");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
    assert_eq!(read(&site, "list"), Some(lines(&[(3, "three"), (15, "mine"), (30, "thirty")])));
}
