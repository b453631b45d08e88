//! Every kind of change, kept from the page; and what a lane planted, looked at on it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use testkit::{Browser, Who};

use crate::site::{Server, Site};

fn open(site: &Site, server: &Server, files: usize) -> Browser {
    let mut browser = site.open(server);
    browser.eval(&format!("location.hash = '#/lane/{}'", site.id("one")));
    browser.wait(&format!("document.querySelectorAll('.files .file').length >= {files}"));
    browser
}

fn keep_all(browser: &mut Browser) {
    browser.click(".files-head label input");
    browser.click("#keep");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
}

#[test]
fn b35_b41_modes_binaries_links_and_replaced_things_are_kept_from_the_page() {
    for who in Who::all() {
        let site = Site::new(who);
        for (path, bytes) in
            [("gone", "x"), ("dir/old", "x"), ("d2f/x", "x"), ("f2d", "x"), ("f", "f\n"), ("s.txt", "s\n")]
        {
            site.env.write(&site.project.join(path), bytes.as_bytes());
        }
        site.env.link("f", &site.project.join("l"));
        site.run(
            "one",
            "rm gone; rm -r dir; mkdir dir; echo n >dir/new; rm -r d2f; echo f >d2f; rm f2d; mkdir f2d; echo q >f2d/q; \
             rm l; mkdir l; mkdir empty; : >zero; head -c 3000 /dev/zero >bin; ln -s s.txt link; chmod 600 f; mv s.txt moved.txt",
        );
        let server = site.serve();
        let mut browser = open(&site, &server, 10);
        keep_all(&mut browser);
        let at = |path: &str| site.project.join(path);
        let text = |path: &str| fs::read_to_string(at(path)).ok();
        assert!(!at("gone").exists() && !at("dir/old").exists() && !at("s.txt").exists());
        assert_eq!(text("dir/new").as_deref(), Some("n\n"));
        assert_eq!(text("d2f").as_deref(), Some("f\n"));
        assert_eq!(text("f2d/q").as_deref(), Some("q\n"));
        assert_eq!(text("moved.txt").as_deref(), Some("s\n"));
        assert!(at("l").is_dir() && !at("l").is_symlink() && at("empty").is_dir());
        assert_eq!(fs::read(at("zero")).ok(), Some(Vec::new()));
        assert_eq!(fs::read(at("bin")).ok(), Some(vec![0; 3000]));
        assert_eq!(fs::read_link(at("link")).ok(), Some("s.txt".into()));
        assert_eq!(fs::metadata(at("f")).expect("there").permissions().mode() & 0o7777, 0o600);
        assert_eq!(browser.complaints(), Vec::<String>::new());
    }
}

#[test]
fn b33_a_hunk_of_a_file_with_mixed_endings_keeps_every_other_byte() {
    let site = Site::new(Who::User);
    let body = |three: &str, thirty: &str| {
        let line = |n: usize| match n {
            3 => three.to_owned(),
            30 => thirty.to_owned(),
            n if n % 2 == 0 => format!("{n}\r\n"),
            n => format!("{n}\n"),
        };
        [b"\xef\xbb\xbf".to_vec(), (1..=40).map(line).collect::<String>().into_bytes(), b"end".to_vec()]
            .concat()
    };
    site.env.write(&site.project.join("mixed"), &body("3\n", "30\r\n"));
    site.run("one", "printf '%s' 's/^3$/three/; s/^30/thirty/' >e; sed -i -f e mixed; rm e");
    let server = site.serve();
    let mut browser = open(&site, &server, 1);
    browser.wait("document.querySelectorAll('.hunk-head').length === 2");
    browser
        .wait(r"[...document.querySelectorAll('.line.minus .box')].some((box) => box.innerText === '\\r')");
    browser.click(".hunk-head:has(+ .line) input");
    browser.eval("document.querySelectorAll('.hunk-head input')[0].checked || document.querySelectorAll('.hunk-head input')[0].click()");
    browser.click("#keep");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
    let kept = fs::read(site.project.join("mixed")).expect("there");
    assert_eq!(String::from_utf8_lossy(&kept), String::from_utf8_lossy(&body("three\n", "30\r\n")));
}

#[test]
fn b44_looking_at_traps_on_the_page_and_keeping_beside_them_runs_none() {
    let mut site = Site::new(Who::User);
    let mark = site.env.root().join("fired");
    let trap = site.env.root().join("trap");
    site.env.write(&trap, format!("#!/bin/sh\necho \"$0 $*\" >>{}\ncat\n", mark.display()).as_bytes());
    site.env.chmod(&trap, 0o755);
    // The person's own configuration is hostile to whoever runs git with it.
    let config = format!(
        "[core]\n\tpager = {0}\n[diff]\n\texternal = {0}\n\tnoprefix = true\n[color]\n\tui = always\n",
        trap.display()
    );
    site.env.write(&site.env.home().join(".gitconfig"), config.as_bytes());
    for variable in ["PAGER", "GIT_EXTERNAL_DIFF", "EDITOR", "BROWSER"] {
        site.env.set(variable, trap.display().to_string());
    }
    let line = format!(
        "git config core.fsmonitor {0}; git config core.hooksPath hooks; git config filter.z.clean {0}; git config diff.z.textconv {0}; \
         printf '* filter=z diff=z\\n' >.gitattributes; mkdir hooks; cp {1} hooks/pre-commit; echo 'eval {0}' >.envrc; echo more >>README.md",
        trap.display(),
        "/bin/true"
    );
    site.run("one", &line);
    fs::remove_file(&mark).ok();
    let server = site.serve();
    let mut browser = open(&site, &server, 4);
    let files = browser.eval("document.querySelectorAll('.files .file').length").as_u64().expect("a number");
    for at in 0..files {
        browser.eval(&format!(
            "document.querySelectorAll('.files .file')[{at}].querySelector('.file-name').click()"
        ));
        browser.wait(&format!("document.querySelector('.pane-head h2')?.innerText + '/' === document.querySelectorAll('.files .file')[{at}].querySelector('.file-name').innerText || document.querySelector('.pane-head h2')?.innerText === document.querySelectorAll('.files .file')[{at}].querySelector('.file-name').innerText"));
    }
    browser.click(".file[data-name='README.md'] input");
    browser.click("#keep");
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
    browser.keys(&["2"]);
    browser.wait("document.querySelector('.snapshot.here')");
    assert_eq!(fs::read_to_string(&mark).unwrap_or_default(), "", "a trap fired");
    assert!(!site.project.join(".envrc").exists() && !site.project.join("hooks").exists());
}

#[test]
fn b42_a_server_that_is_killed_in_a_keep_leaves_the_project_whole() {
    let site = Site::new(Who::User);
    site.run("one", "mkdir many; i=0; while [ $i -lt 400 ]; do echo $i >many/f$i; i=$((i+1)); done");
    let count = || fs::read_dir(site.project.join("many")).map_or(0, Iterator::count);
    for pause in [0, 20, 60, 120] {
        let mut server = site.serve();
        let mut browser = open(&site, &server, 10);
        browser.click(".files-head label input");
        browser.click("#keep");
        browser.wait("document.querySelector('dialog[open] #confirm')");
        browser.eval("document.querySelector('#confirm').click()");
        std::thread::sleep(std::time::Duration::from_millis(pause));
        for pid in server.running.descendants().into_iter().chain([server.running.pid()]) {
            if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
            }
        }
        server.running.over();
        drop(browser);
        // The next command puts right what was left: all of it or nothing.
        site.env.ok(&site.project, &["ls"]);
        let there = count();
        assert!(there == 0 || there == 400, "{there} of 400 files");
        if there == 400 {
            break;
        }
    }
}

#[test]
fn a_further_root_has_a_section_of_its_own_and_is_kept_into_its_own_place() {
    let site = Site::new(Who::User);
    let lib = site.env.make_git("lib");
    site.env.ok(
        &site.project,
        &[
            "run",
            "-q",
            "-n",
            "one",
            "--also",
            "../lib",
            "--",
            "sh",
            "-c",
            "echo here >x; echo there >../lib/x",
        ],
    );
    let server = site.serve();
    let mut browser = open(&site, &server, 2);
    let sections =
        browser.text("[...document.querySelectorAll('.files .section')].map((row) => row.innerText).join()");
    assert_eq!(sections, lib.display().to_string());
    // Both have the same path: only the second is ticked.
    browser.eval("document.querySelectorAll('.file[data-name=x] input')[1].click()");
    browser.click("#keep");
    browser.wait(&format!(
        "document.querySelector('dialog[open] .steps')?.innerText.includes('{}/x')",
        lib.display()
    ));
    browser.click("#confirm");
    browser.wait("document.querySelector('#toasts').innerText.includes('done in')");
    assert_eq!(fs::read_to_string(lib.join("x")).ok().as_deref(), Some("there\n"));
    assert!(!site.project.join("x").exists());
}
