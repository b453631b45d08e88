//! Keep in its other shapes: a patch that the browser saves, a commit, a branch; and a full disk.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use testkit::{Browser, FsKind, Listing, LoopFs, Plain, TestEnv, Who, until};

use crate::site::{Server, Site};

const SOON: Duration = Duration::from_secs(60);

fn numbers(changed: &[usize]) -> String {
    let line = |n: usize| if changed.contains(&n) { format!("{n} changed\n") } else { format!("{n}\n") };
    (1..=40).map(line).collect()
}

/// A site whose lane `one` changed two places of a file and made another.
fn site(who: Who) -> Site {
    let site = Site::new(who);
    site.env.write(&site.project.join("list"), numbers(&[]).as_bytes());
    git(&site, &["add", "-A"]);
    git(&site, &["commit", "-q", "-m", "list"]);
    site.run("one", "sed -i 's/^3$/3 changed/; s/^30$/30 changed/' list; echo new >made.txt");
    site
}

fn git(site: &Site, args: &[&str]) -> String {
    String::from_utf8(site.env.host(&site.project, "git", args).stdout).expect("text").trim_end().to_owned()
}

fn open(site: &Site, server: &Server) -> Browser {
    let mut browser = site.open(server);
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id("one")));
    browser.wait("document.querySelectorAll('.files .file').length >= 2");
    browser
}

/// Ticks a file and asks for this shape of it.
fn shape(browser: &mut Browser, file: &str, shape: &str) {
    browser.click(&format!(".file[data-name='{file}'] input"));
    browser.click("#keep");
    browser.click(&format!("dialog[open] .shapes input[value={shape}]"));
    browser.wait(&format!("document.querySelector('dialog[open] .shapes input[value={shape}]')?.checked"));
}

/// Puts words into a field of the dialog; they are planned with.
fn type_in(browser: &mut Browser, field: &str, words: &str) {
    let input = format!("dialog[open] input[name={field}]");
    browser.click(&input);
    browser.eval(&format!("document.querySelector('{input}').select()"));
    browser.call("Input.insertText", json!({ "text": words }));
    browser.keys(&["Enter"]);
    let words = json!(words);
    browser.wait(&format!(
        "document.querySelector('{input}')?.value === {words} && document.activeElement?.id === 'confirm'"
    ));
}

#[test]
fn a_patch_is_saved_by_the_browser_and_applies() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    let saved: PathBuf = site.env.tmp().join("saved");
    site.env.mkdir(&saved);
    browser.call("Page.setDownloadBehavior", json!({ "behavior": "allow", "downloadPath": saved }));
    // Only the first hunk of it.
    browser.click(".file[data-name=list] .file-name");
    browser.wait("document.querySelectorAll('.hunk-head').length === 2");
    browser.click(".hunk-head input");
    browser.click("#keep");
    browser.click("dialog[open] .shapes input[value=patch]");
    browser.wait("document.querySelector('dialog[open] #confirm')?.innerText === 'Save'");
    browser.wait("document.querySelector('dialog[open]').innerText.includes('A patch of 1 path')");
    let before = Listing::of(&site.project);
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('The patch is with the browser')");
    let patch = saved.join("one.patch");
    until("the patch is saved", SOON, || fs::read(&patch).is_ok_and(|bytes| bytes.ends_with(b"\n")));
    before.assert_same(&Listing::of(&site.project));
    git(&site, &["apply", patch.to_str().expect("text")]);
    assert_eq!(fs::read_to_string(site.project.join("list")).expect("there"), numbers(&[3]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_commit_is_made_with_its_message_and_files_and_on_another_branch_without_them() {
    for who in Who::all() {
        let site = site(who);
        git(&site, &["branch", "aside"]);
        let server = site.serve();
        let mut browser = open(&site, &server);
        shape(&mut browser, "made.txt", "commit");
        type_in(&mut browser, "message", "What the lane made");
        browser
            .wait("document.querySelector('dialog[open]').innerText.includes('message: What the lane made')");
        assert_eq!(git(&site, &["log", "--format=%s", "-1"]), "list", "a plan commits nothing");
        browser.click("#confirm");
        browser.wait("document.querySelector('#toasts .committed')?.innerText.includes('git reset --keep')");
        assert_eq!(git(&site, &["log", "--format=%s", "-1"]), "What the lane made");
        assert_eq!(git(&site, &["show", "--format=", "--name-only", "HEAD"]), "made.txt");
        assert_eq!(fs::read_to_string(site.project.join("made.txt")).expect("there"), "new\n");
        // The rest onto a branch that is not checked out.
        browser.wait("document.querySelectorAll('.files .file').length === 1");
        shape(&mut browser, "list", "commit");
        type_in(&mut browser, "to", "aside");
        browser
            .wait("document.querySelector('dialog[open]').innerText.includes('whose files are not touched')");
        browser.click("#confirm");
        browser.wait("document.querySelectorAll('#toasts .committed').length === 2");
        assert_eq!(git(&site, &["show", "aside:list"]) + "\n", numbers(&[3, 30]));
        assert_eq!(fs::read_to_string(site.project.join("list")).expect("there"), numbers(&[]));
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_branch_gets_what_is_ticked_under_its_name_and_a_bad_name_is_refused_in_the_plan() {
    let site = site(Who::User);
    let server = site.serve();
    let mut browser = open(&site, &server);
    shape(&mut browser, "list", "branch");
    assert_eq!(browser.text("document.querySelector('dialog[open] input[name=name]').value"), "one");
    browser.click("dialog[open] input[name=name]");
    browser.eval("document.querySelector('dialog[open] input[name=name]').select()");
    browser.call("Input.insertText", json!({ "text": "no..such name" }));
    browser.keys(&["Enter"]);
    browser.wait("document.querySelector('dialog[open] .problem')?.innerText.includes('no..such name')");
    assert_eq!(browser.eval("document.querySelector('#confirm').disabled"), json!(true));
    type_in(&mut browser, "name", "from/one");
    browser.wait("document.querySelector('#confirm')?.disabled === false");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts .committed')?.innerText.includes('from/one')");
    assert_eq!(git(&site, &["show", "from/one:list"]) + "\n", numbers(&[3, 30]));
    assert_eq!(git(&site, &["branch", "--show-current"]), "main");
    assert_eq!(git(&site, &["status", "--porcelain"]), "");
}

#[test]
fn commits_of_the_lane_come_as_they_are_and_not_where_others_were_looked_at() {
    let site = site(Who::User);
    site.run("one", "git add list && git -c user.name=A -c user.email=a@b commit -q -m 'Agent did it'");
    let server = site.serve();
    let mut browser = open(&site, &server);
    shape(&mut browser, "made.txt", "commits");
    browser.wait("document.querySelector('dialog[open] .commits')?.innerText.includes('Agent did it')");
    site.run("one", "echo more >>list; git -c user.name=A -c user.email=a@b commit -qam 'One more'");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts .bad')?.innerText.includes('other commits than those that were looked at')");
    assert_eq!(git(&site, &["branch", "--list", "one"]), "");
    browser.click("#keep");
    browser.click("dialog[open] .shapes input[value=commits]");
    browser.wait("document.querySelector('dialog[open] .commits')?.innerText.includes('One more')");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts .committed')?.innerText.includes('one')");
    assert_eq!(git(&site, &["log", "--format=%s", "-2", "one"]), "One more\nAgent did it");
}

#[test]
fn a_conflict_is_settled_in_a_commit_too() {
    let site = site(Who::User);
    let server = site.serve();
    site.env.write(&site.project.join("list"), numbers(&[]).replace("3\n", "mine\n").as_bytes());
    git(&site, &["commit", "-qam", "mine"]);
    let mut browser = open(&site, &server);
    shape(&mut browser, "list", "commit");
    browser.wait("document.querySelector('dialog[open] .left-out')?.innerText.includes('list')");
    assert_eq!(browser.eval("document.querySelector('#confirm').disabled"), json!(true));
    browser.click("dialog[open] input[value=theirs]");
    browser.wait("document.querySelector('#confirm')?.disabled === false");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts .committed')");
    let kept = fs::read_to_string(site.project.join("list")).expect("there");
    assert!(kept.starts_with("1\n2\n3 changed\n"), "{kept}");
}

#[test]
fn b39_a_full_disk_leaves_the_original_as_it_was_and_the_page_says_what_is_missing_where() {
    for who in Who::all() {
        let Some(fs) = LoopFs::make(FsKind::Tmpfs, 2, who) else { return };
        let env = TestEnv::new(env!("CARGO_BIN_EXE_lane"), who);
        let project = fs.path().join("app");
        env.mkdir(&project);
        env.write(&project.join("orig"), &vec![1; 300 << 10]);
        let site = Site { env, project };
        site.run("one", "head -c 900000 /dev/zero >orig; echo x >new");
        let fill = site.project.join("fill");
        site.env.write(&fill, &vec![2; 1200 << 10]);
        let server = site.serve();
        let before = Plain::of(&site.project);
        let mut browser = open(&site, &server);
        browser.click(".files-head label input");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] #confirm')?.disabled === false");
        browser.click("#confirm");
        browser
            .wait("document.querySelector('#toasts .bad')?.innerText.includes('missing on the file system')");
        before.assert_same(&Plain::of(&site.project));
        // With room again, the same ticks are kept.
        fs::remove_file(&fill).expect("room");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] #confirm')?.disabled === false");
        browser.click("#confirm");
        browser.wait("[...document.querySelectorAll('#toasts .toast')].some((line) => line.innerText.includes('done in'))");
        assert_eq!(fs::read(site.project.join("orig")).expect("there"), vec![0; 900_000]);
        drop(browser);
        drop(server);
        site.env.ok(&site.project, &["discard", "one", "--now", "--yes"]);
    }
}
