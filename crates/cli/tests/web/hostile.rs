//! What a lane wrote is text on the page, whatever it looks like: names, targets, content, output, messages.

use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use testkit::{Browser, Who};

use crate::site::Site;

/// Python that plants everything hostile in a lane.
const PLANT: &str = r#"
import os
img = "<img src=x onerror=\"window.bad=1\">"
open(img, "w").write("<script>window.bad=2</script>\n</script><svg onload=window.bad=3>\n\x1b]0;title\x07 & &lt;b&gt;\n")
open(b"bad\xff\x1b[2J\nname", "wb").write(b"raw \xff\xfe bytes\n")
open("rtl\u202etxt.sh", "w").write("a = 1 \u2066// evil\u2069\n\u200bzero\n")
open("quote\" onmouseover=\"window.bad=4", "w").write("javascript:window.bad=5\n")
os.symlink("/tmp/\x1b[31m<b>red</b>", "link")
open("README.md", "ab").write(b"crlf\r\nbare\rreturn\n")
print("<script>window.bad=6</script> \x1b[31mred\x1b[0m \x1b[2J\u202e")
"#;

fn planted(who: Who) -> Site {
    let site = Site::new(who);
    site.env.ok(&site.project, &["run", "-q", "-n", "evil", "--", "python3", "-c", PLANT]);
    site.env.ok(&site.project, &["snap", "evil", "-m", "<b onclick=alert(1)>\u{202e}name"]);
    site
}

/// Nothing ran, nothing became an element, and no hostile character reached a text node or an attribute.
fn assert_inert(browser: &mut Browser, place: &str) {
    assert_eq!(browser.eval("window.bad ?? 0"), json!(0), "{place}");
    assert_eq!(
        browser
            .eval("document.querySelectorAll('main img, main script, main b, main svg:not(.graph)').length"),
        json!(0),
        "{place}"
    );
    let hostile = browser.eval(
        r#"(() => { const found = []; const bad = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
            const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
            while (walk.nextNode()) { const node = walk.currentNode;
              if (node.nodeType === 3 && bad.test(node.data)) found.push(node.data);
              for (const attribute of node.attributes ?? []) if (bad.test(attribute.value) || /^on/.test(attribute.name)) found.push(`${attribute.name}=${attribute.value}`); }
            return found; })()"#,
    );
    assert_eq!(hostile, json!([]), "{place}");
    let complaints = browser.complaints();
    assert_eq!(complaints, Vec::<String>::new(), "{place}");
}

#[test]
fn b59_names_and_contents_of_a_lane_are_text_and_nothing_runs() {
    for who in Who::all() {
        let site = planted(who);
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.wait("document.querySelector('.card .graph circle.here')");
        let command = browser.text("document.querySelector('.command').innerText");
        assert!(command.contains("<img src=x") && command.contains(r"\n"), "{command}");
        assert_inert(&mut browser, "lanes");
        let id = site.id("evil");
        browser.eval(&format!("location.hash = '#/lane/{id}'"));
        browser.wait("document.querySelectorAll('.files .file').length === 6");
        let names = browser.text(
            "[...document.querySelectorAll('.files .file-name')].map((name) => name.innerText).join('|')",
        );
        for name in [
            r#"<img src=x onerror="window.bad=1">"#,
            r"bad\xff\x1b[2J\nname",
            r"rtl\u{202e}txt.sh",
            r#"quote" onmouseover="window.bad=4"#,
            "link",
        ] {
            assert!(names.contains(name), "no {name} in {names}");
        }
        let boxes = browser.text(
            "[...document.querySelectorAll('.files .file-name .box')].map((box) => box.innerText).join('|')",
        );
        assert_eq!(boxes, r"\xff\x1b|\n|\u{202e}");
        // Each file, one after the other, by its place in the list.
        let mut seen = String::new();
        for at in 0..6 {
            browser.eval(&format!(
                "document.querySelectorAll('.files .file')[{at}].querySelector('.file-name').click()"
            ));
            browser.wait(&format!("document.querySelector('.pane-head h2')?.innerText === document.querySelectorAll('.files .file')[{at}].querySelector('.file-name').innerText"));
            seen.push_str(&browser.text("document.querySelector('.pane').innerText"));
            assert_inert(&mut browser, &format!("file {at}"));
        }
        for text in [
            "<script>window.bad=2</script>",
            "</script><svg onload=window.bad=3>",
            r"\x1b]0;title\x07 & &lt;b&gt;",
            r"raw \xff\xfe bytes",
            r"a = 1 \u{2066}// evil\u{2069}",
            r"\u{200b}zero",
            "javascript:window.bad=5",
            r"/tmp/\x1b[31m<b>red</b>",
            r"crlf\r",
            r"bare\rreturn",
            "Lines marked ! hold characters",
        ] {
            assert!(seen.contains(text), "no {text} in {seen}");
        }
        for tab in ["history", "output", "about"] {
            browser.eval(&format!("location.hash = '#/lane/{id}/{tab}'"));
            browser.wait(match tab {
                "history" => r"document.querySelector('.history')?.innerText.includes('<b onclick=alert(1)>\\u{202e}name')",
                "output" => r"document.querySelector('.output')?.innerText.includes('<script>window.bad=6</script> red \\x1b[2J\\u{202e}')",
                _ => "document.querySelector('.facts.wide')",
            });
            assert_inert(&mut browser, tab);
        }
    }
}

/// Python that plants the same names once more, with other contents, and commits under a hostile subject.
const PLANT_AGAIN: &str = r#"
import os, subprocess
img = "<img src=x onerror=\"window.bad=1\">"
open(img, "w").write("<b>other</b>\n")
open(b"bad\xff\x1b[2J\nname", "wb").write(b"other\n")
open("rtl\u202etxt.sh", "w").write("b = 2\n")
git = ["git", "-c", "user.name=A", "-c", "user.email=a@b"]
subprocess.run(git + ["add", "-A"], check=True)
subprocess.run(git + ["commit", "-q", "-m", "<img src=x onerror=window.bad=7> \x1b[2J\u202e"], check=True)
"#;

#[test]
fn plans_in_every_shape_overlaps_and_checks_of_hostile_lanes_are_text() {
    for who in Who::all() {
        let site = planted(who);
        site.env.ok(&site.project, &["run", "-q", "-n", "also", "--", "python3", "-c", PLANT_AGAIN]);
        let check = "true # <img src=x onerror=window.bad=8> \x1b[2J\u{202e}";
        site.env.ok(&site.project, &["verify", "evil", "--", "sh", "-c", check]);
        let policy = "[keep]\nverify = ['true', '<b onclick=window.bad=9>', \"\\u001b[2J\\u202e\"]\n";
        site.env.write(&site.project.join("lane.toml"), policy.as_bytes());
        // The same names in the original: conflicts.
        let img = site.project.join("<img src=x onerror=\"window.bad=1\">");
        site.env.write(&img, b"mine\n");
        site.env.write(&site.project.join("rtl\u{202e}txt.sh"), b"mine\n");
        let server = site.serve();
        let mut browser = site.open(&server);
        browser.eval("location.hash = '#/overlap'");
        browser.wait("document.querySelectorAll('.files .file').length === 3");
        let names = browser.text("document.querySelector('.files').innerText");
        for name in ["<img src=x onerror=\"window.bad=1\">", r"rtl\u{202e}txt.sh", r"bad\xff\x1b[2J\nname"] {
            assert!(names.contains(name), "no {name} in {names}");
        }
        assert_inert(&mut browser, "overlap");
        browser.eval(&format!("location.hash = '#/lane/{}'", site.id("also")));
        browser.wait("document.querySelectorAll('.files .file').length >= 3");
        browser.click(".files-head label input");
        browser.click("#keep");
        browser.wait(
            "document.querySelector('dialog[open] .conflicts')?.innerText.includes('<img src=x onerror=')",
        );
        browser.wait(r"document.querySelector('dialog[open]').innerText.includes('<b onclick=window.bad=9> \\u{1b}[2J') || document.querySelector('dialog[open]').innerText.includes('<b onclick=window.bad=9> \\x1b[2J')");
        assert_inert(&mut browser, "a plan with conflicts");
        for shape in ["patch", "commit", "branch", "commits"] {
            browser.click(&format!("dialog[open] .shapes input[value={shape}]"));
            browser.wait(&format!(
                "document.querySelector('dialog[open] .shapes input[value={shape}]')?.checked"
            ));
            if shape == "commits" {
                browser.wait(r"document.querySelector('dialog[open]').innerText.includes('<img src=x onerror=window.bad=7> \\x1b[2J\\u{202e}')");
            }
            assert_inert(&mut browser, shape);
        }
        browser.keys(&["Escape"]);
        browser.wait("!document.querySelector('dialog')");
        browser.eval(&format!("location.hash = '#/lane/{}'", site.id("evil")));
        browser.wait("document.querySelectorAll('.files .file').length === 6");
        browser.click("#verify");
        browser.wait(r"document.querySelector('dialog[open] .checks')?.innerText.includes('<img src=x onerror=window.bad=8> \\x1b[2J\\u{202e}')");
        browser.wait("document.querySelectorAll('dialog[open] .checks li').length === 2");
        assert_inert(&mut browser, "checks");
        browser.click("dialog[open] .checks li:last-child input");
        browser.click("#confirm");
        browser.wait("[...document.querySelectorAll('#toasts .toast')].some((line) => line.innerText.includes(': pass'))");
        assert_inert(&mut browser, "a verdict");
    }
}

#[test]
fn a_project_and_a_lane_of_hostile_name_are_shown_escaped() {
    let mut site = Site::new(Who::User);
    site.project =
        site.env.project("x").with_file_name(std::ffi::OsStr::from_bytes(b"<i>p\x1b[2J\xe2\x80\xae"));
    site.env.mkdir(&site.project);
    site.env.write(&site.project.join("a"), b"a\n");
    site.run("one", "echo b >a");
    let server = site.serve();
    let mut browser = site.open(&server);
    browser.wait("document.querySelector('.card')");
    let project = browser.text("document.querySelector('.project').innerText");
    assert!(project.ends_with(r"/<i>p\x1b[2J\u{202e}"), "{project}");
    assert_inert(&mut browser, "lanes");
}
