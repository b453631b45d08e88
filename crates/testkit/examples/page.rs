//! Takes the pictures of the page: real lanes of a real project, served by the built program, in a real browser.
//!
//! `cargo run -p testkit --example page -- LANE-PROGRAM OUT-DIR`

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Browser, Running, TestEnv, Who};

fn main() {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(lane), Some(out)) = (args.next(), args.next()) else {
        panic!("usage: page LANE-PROGRAM OUT-DIR")
    };
    let lane = std::fs::canonicalize(lane).expect("the program");
    let who = Who::all().last().copied().expect("somebody");
    let env = TestEnv::new(&lane, who);
    let project = project(&env);
    lanes(&env, &project);
    let mut live =
        Running::start(env.lane(&project, &["run", "-q", "-n", "port-to-asyncio", "--", "sh", "-c", LIVE]));
    live.wait_for("test_retry", Duration::from_secs(60));

    let mut server = Running::start(env.lane(&project, &["web", "--json"]));
    server.wait_for("}", Duration::from_secs(60));
    let said: serde_json::Value = serde_json::from_str(&server.out_so_far()).expect("a document");
    let mut browser = Browser::start(&env);
    browser.scheme("light");
    browser.size(1280, 860);
    browser.go(said["url"].as_str().expect("an address"));
    browser.wait("document.querySelectorAll('.card').length === 4 && document.querySelectorAll('svg.graph').length >= 3");
    picture(&mut browser, &out, "lanes.png");
    browser.scheme("dark");
    picture(&mut browser, &out, "lanes-dark.png");

    browser.click(".card[data-lane=fix-retry] [data-focus=review]");
    browser.wait("document.querySelectorAll('.files .file').length > 3");
    browser.click(".file[data-name='client/retry.py'] input");
    browser.click(".file[data-name='client/retry.py'] .file-name");
    browser.wait("document.querySelector('.pane-head')?.innerText.includes('retry.py') && document.querySelector('.hunk-head input:checked')");
    browser.click(".hunk-head input");
    browser.wait(
        "document.querySelector('.verbs').innerText.includes('in part') && document.querySelector('.tally')",
    );
    picture(&mut browser, &out, "review-dark.png");
    browser.scheme("light");
    picture(&mut browser, &out, "review.png");
    browser.keys(&["Escape"]);
    browser.click(".card[data-lane=fix-retry] .tick input");
    browser.click(".card[data-lane=fix-retry-2] .tick input");
    browser.keys(&["c"]);
    browser.wait("document.querySelector('.hunks .line.plus')");
    browser.click("input[value=both]");
    browser.wait("document.querySelectorAll('.compare-panes .line.plus').length > 1");
    picture(&mut browser, &out, "compare.png");
    browser.keys(&["Escape"]);
    browser.wait("document.querySelector('.card[data-lane=fix-retry]')");
    browser.click(".card[data-lane=fix-retry] [data-focus=review]");
    browser.click(".file[data-name='client/retry.py'] .file-name");
    browser.wait("document.querySelector('.hunks .line')");
    browser.size(390, 844);
    picture(&mut browser, &out, "phone.png");
    drop(browser);
    server.signal(rustix::process::Signal::TERM);
    server.wait(Duration::from_secs(30));
    env.ok(&project, &["stop", "port-to-asyncio"]);
    live.wait(Duration::from_secs(30));
}

/// What runs while the pictures are taken.
const LIVE: &str = "echo 'class Link: ...' >client/link.py; rm client/pool.py; \
    for test in connect close retry; do echo \"tests/test_io.py::test_$test PASSED\"; sleep 0.1; done; sleep 600";

const RETRY: &str = "import random\nimport time\n\n\ndef delays(tries):\n    wait = 1\n    for _ in range(tries):\n        yield wait\n        wait = wait * 2\n\n\n\
    def call(send, tries=5):\n    for wait in delays(tries):\n        try:\n            return send()\n        except OSError:\n            time.sleep(wait)\n    return send()\n\n\n\
    def reset(state):\n    state.clear()\n    return state\n\n\ndef name():\n    return \"retry\"\n";

fn project(env: &TestEnv) -> PathBuf {
    let top = env.make_dir("client");
    for (path, text) in [
        ("client/retry.py", RETRY),
        ("client/pool.py", "POOL = []\n\n\ndef take():\n    return POOL.pop()\n"),
        ("client/__init__.py", ""),
        (
            "tests/test_retry.py",
            "from client.retry import delays\n\n\ndef test_delays():\n    assert list(delays(3)) == [1, 2, 4]\n",
        ),
        ("README.md", "# client\n\nTalks to the server.\n"),
    ] {
        env.write(&top.join(path), text.as_bytes());
    }
    env.git_init(&top);
    top
}

fn lanes(env: &TestEnv, project: &Path) {
    let run = |name: &str, line: &str| env.ok(project, &["run", "-q", "-n", name, "--", "sh", "-c", line]);
    run(
        "fix-retry",
        "sed -i 's/        wait = wait \\* 2/        wait = min(wait * 2, 30)/' client/retry.py",
    );
    run(
        "fix-retry",
        "sed -i 's/time.sleep(wait)/time.sleep(wait * random.uniform(0.5, 1))/; s/    return \"retry\"/    return \"client.retry\"/' client/retry.py; \
         printf '\\n\\ndef test_cap():\\n    assert max(delays(9)) == 30\\n' >>tests/test_retry.py",
    );
    run(
        "fix-retry",
        "mkdir -p .github/workflows && printf 'on: push\\njobs:\\n  test:\\n    runs-on: ubuntu-latest\\n' >.github/workflows/ci.yml; \
         printf 'A client with patience.\\n' >>README.md; touch 'notes\u{202e}txt.sh'",
    );
    env.ok(
        project,
        &[
            "verify",
            "fix-retry",
            "--",
            "python3",
            "-c",
            "import client.retry as r; assert max(r.delays(9)) == 30",
        ],
    );
    env.ok(project, &["fork", "fix-retry", "fix-retry-2"]);
    run("fix-retry-2", "sed -i 's/min(wait \\* 2, 30)/min(wait * 3, 60)/' client/retry.py");
    env.ok(project, &["undo", "fix-retry-2"]);
    run(
        "fix-retry-2",
        "sed -i 's/min(wait \\* 2, 30)/min(wait + 2, 20)/' client/retry.py; python3 -c 'raise SystemExit(1)' || true",
    );
    run("docs", "printf '\\nSee `client/retry.py`.\\n' >>README.md; mv client/pool.py client/pools.py");
}

fn picture(browser: &mut Browser, out: &Path, name: &str) {
    let bytes = browser.picture();
    let path = out.join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
