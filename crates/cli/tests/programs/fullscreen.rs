//! Full-screen programs, directly and in tmux: drawn, resized, left; the terminal is as before.

use std::process::Command;

use testkit::{Ran, Running, until};

use crate::ground::{Ground, SOON, each};

#[test]
fn less_draws_the_whole_screen_follows_a_resize_and_leaves_it_clean() {
    testkit::require::program("less");
    each(|ground| {
        let numbers: String = (1..=500).map(|number| format!("line-{number}\n")).collect();
        ground.write("numbers", &numbers);
        let mut terminal = ground.terminal(&["run", "-q", "-n", "t", "--", "less", "numbers"]);
        terminal.wait_for("line-23", SOON);
        assert!(terminal.is_full_screen() && !terminal.screen().contains("line-24"), "{}", terminal.screen());
        // The prompt: the name of the file.
        terminal.wait_for("line-23\nnumbers", SOON);
        terminal.resize(40, 80);
        // A resize that meets it just before it waits for a key is heard with that key: less has that gap anywhere.
        terminal.send("r");
        terminal.wait_for("line-39", SOON);
        terminal.send("G");
        terminal.wait_for("line-500", SOON);
        terminal.send("q");
        until("the screen is left", SOON, || !terminal.is_full_screen());
        assert_eq!(terminal.wait(SOON), 0);
    });
}

#[test]
fn vim_edits_a_file_of_the_lane_and_the_original_stays() {
    testkit::require::program("vim");
    each(|ground| {
        let script = "stty -g > /tmp/before; vim -u NONE -N README.md; stty -g | cmp - /tmp/before && echo modes-$((1+1))";
        let mut terminal = ground.terminal(&["run", "-q", "-n", "t", "--", "sh", "-c", script]);
        terminal.wait_for("# A project", SOON);
        until("the whole screen", SOON, || terminal.is_full_screen());
        terminal.send("Gonew line\x1b:wq\r");
        terminal.wait_for("modes-2", SOON);
        assert_eq!(terminal.wait(SOON), 0);
        assert_eq!(ground.sh("t", "cat README.md").out(), "# A project\nnew line\n");
        assert_eq!(std::fs::read_to_string(ground.project.join("README.md")).unwrap(), "# A project\n");
    });
}

#[test]
fn the_terminal_has_its_size_from_the_very_start() {
    each(|ground| {
        for _ in 0..10 {
            let terminal = ground.terminal(&["run", "-q", "--rm", "--", "stty", "size"]);
            terminal.wait_for("24 100", SOON);
            assert_eq!(terminal.wait(SOON), 0);
        }
    });
}

/// A tmux server of this test alone.
struct Tmux<'a> {
    ground: &'a Ground,
    socket: String,
}

impl Tmux<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.ground.env.command(testkit::require::program("tmux"));
        command.args(["-S", &self.socket, "-f", "/dev/null"]).args(args);
        command.env("TERM", "xterm-256color").env("LANE", self.ground.env.lane_program());
        command.current_dir(&self.ground.project);
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Running::start(self.command(args)).wait(SOON)
    }

    fn keys(&self, keys: &[&str]) {
        let mut args = vec!["send-keys", "-t", "main"];
        args.extend(keys);
        self.run(&args).expect_code(0);
    }

    fn screen(&self) -> String {
        self.run(&["capture-pane", "-p", "-t", "main"]).expect_code(0).out()
    }

    fn wait_for(&self, text: &str) {
        let end = std::time::Instant::now() + SOON;
        while !self.screen().contains(text) {
            assert!(std::time::Instant::now() < end, "{text:?} did not come; the screen:\n{}", self.screen());
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        // The server of this socket alone, which this test started.
        Running::start(self.command(&["kill-server"])).wait(SOON);
    }
}

#[test]
fn tmux_resizes_interrupts_stops_and_continues_a_run_and_shows_a_full_screen_program() {
    testkit::require::program("less");
    each(|ground| {
        let tmux = Tmux { ground, socket: ground.env.root().join("t/x").display().to_string() };
        let shell = "exec env PS1='host[$?]> ' bash --norc --noprofile -i";
        tmux.run(&["new-session", "-d", "-s", "main", "-x", "90", "-y", "20", shell]).expect_code(0);
        tmux.wait_for("host[0]>");
        tmux.keys(&["stty -g > before; clear", "Enter"]);

        tmux.keys(&["$LANE run -q -n t -e PS1='in[$?]> ' -- bash --norc --noprofile -i", "Enter"]);
        tmux.wait_for("in[0]>");
        tmux.keys(&["stty size", "Enter"]);
        tmux.wait_for("20 90");
        tmux.run(&["resize-window", "-t", "main", "-x", "100", "-y", "30"]).expect_code(0);
        tmux.keys(&["clear; stty size", "Enter"]);
        tmux.wait_for("30 100");
        tmux.keys(&["clear; echo begun-$((1+1)); sleep 1000", "Enter"]);
        tmux.wait_for("begun-2");
        tmux.keys(&["C-c"]);
        tmux.wait_for("in[130]>");
        tmux.keys(&["clear; less README.md", "Enter"]);
        tmux.wait_for("(END)");
        let is_alternate = || tmux.run(&["display-message", "-p", "-t", "main", "#{alternate_on}"]).out();
        assert_eq!(is_alternate(), "1\n");
        tmux.run(&["resize-window", "-t", "main", "-x", "80", "-y", "24"]).expect_code(0);
        tmux.keys(&["q"]);
        until("the screen is left", SOON, || is_alternate() == "0\n");
        tmux.keys(&["clear; exit 4", "Enter"]);
        tmux.wait_for("host[4]>");

        tmux.keys(&["clear; $LANE run -q -n t -- sh -c 'echo begun-$((2+2)); exec sleep 1000'", "Enter"]);
        tmux.wait_for("begun-4");
        tmux.keys(&["C-z"]);
        tmux.wait_for("Stopped");
        tmux.keys(&["clear; stty -g | cmp - before && echo equal-$((1+1))", "Enter"]);
        tmux.wait_for("equal-2");
        tmux.keys(&["fg", "Enter"]);
        tmux.wait_for("run -q");
        tmux.keys(&["C-c"]);
        tmux.wait_for("host[130]>");
        tmux.keys(&["clear; stty -g | cmp - before && echo equal-$((1+2))", "Enter"]);
        tmux.wait_for("equal-3");
    });
}
