//! The pictures of `lane review`: the files of a lane, and the hunks of one of them with some of its lines ticked.

use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use testkit::{Pty, TestEnv, Who};

use crate::svg;

const COLUMNS: u16 = 100;
const PATIENCE: Duration = Duration::from_secs(60);

const BEFORE: &str = include_str!("before.txt");
const AFTER: &str = include_str!("after.txt");

/// Both screens as an SVG.
pub(crate) fn draw(lane: &Path) -> String {
    let who = Who::all().last().copied().expect("somebody");
    let env = TestEnv::new(lane, who);
    let project = env.make_git("hello");
    let files =
        [("src/main.rs", BEFORE), ("README.md", "# hello\n"), ("old.py", "print('nobody calls this')\n")];
    for (path, text) in files {
        env.write(&project.join(path), text.as_bytes());
    }
    env.host(&project, "git", &["add", "-A"]);
    env.host(&project, "git", &["commit", "-q", "-m", "hello"]);
    env.write(&env.tmp().join("after.rs"), AFTER.as_bytes());
    let work = "cat > src/main.rs; git mv README.md readme.md; rm old.py; mkdir -p .vscode .github/workflows;\
                echo '{}' > .vscode/tasks.json; echo 'on: push' > .github/workflows/ci.yml";
    for (name, script) in [("try-2", "echo '# hello, world' > README.md"), ("fix-greeting", work)] {
        let mut command = env.command("/bin/sh");
        command.args(["-c", "exec \"$0\" run -q -n \"$1\" -- sh -c \"$2\" < \"$3\""]);
        command
            .arg(env.lane_program())
            .args([name, script])
            .arg(env.tmp().join("after.rs"))
            .current_dir(&project);
        testkit::Running::start(command).wait(PATIENCE).expect_code(0);
    }

    let mut command = env.lane(&project, &["review", "fix-greeting"]);
    command.env("COLORTERM", "truecolor");
    let files = {
        let mut terminal = Pty::start(&command, who, 15, COLUMNS);
        terminal.wait_for("+4 -2", PATIENCE);
        terminal.send("a");
        terminal.wait_for("that run by themselves", PATIENCE);
        leave(terminal, 15)
    };
    let hunks = {
        let mut terminal = Pty::start(&command, who, 25, COLUMNS);
        terminal.wait_for("+4 -2", PATIENCE);
        terminal.send("/main.rs\r\r");
        terminal.wait_for("tidy up", PATIENCE);
        // The whole hunk but for one line.
        terminal.send(" /exit(0)\r ");
        terminal.wait_for("[~]", PATIENCE);
        // Colours come after the text.
        testkit::until("colours", PATIENCE, || terminal.raw().windows(9).any(|part| part == b"38;2;139;"));
        std::thread::sleep(Duration::from_millis(500));
        leave(terminal, 25)
    };
    svg::draw(&[files.screen(), hunks.screen()])
}

/// Leaves, and gives back what the terminal showed before that.
fn leave(mut terminal: Pty, rows: u16) -> vt100::Parser {
    let raw = terminal.raw();
    terminal.send("q");
    terminal.wait(PATIENCE);
    let some = |n| NonZero::new(n).expect("positive");
    let mut parser = vt100::Parser::new(some(rows), some(COLUMNS), 0);
    parser.process(&raw);
    parser
}
