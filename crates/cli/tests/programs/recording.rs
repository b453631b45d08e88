//! What a run printed, recorded outside the lane: an asciicast of a terminal, plain bytes of a pipe, never more
//! than the limit.

use std::path::PathBuf;

use serde_json::Value;

use crate::ground::{Ground, SOON, each};

/// The one recording below the state directory with this ending.
fn recording(ground: &Ground, ending: &str) -> PathBuf {
    let mut found = Vec::new();
    for lane in std::fs::read_dir(ground.env.state().join("lanes")).unwrap() {
        for run in std::fs::read_dir(lane.unwrap().path().join("runs")).into_iter().flatten() {
            found.push(run.unwrap().path());
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == ending));
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_terminal_run_is_an_asciicast_with_times_resizes_and_every_byte() {
    each(|ground| {
        let script = "printf 'caf\\303\\251 \\033[31mred\\033[0m\\n'; read line; stty size; printf 'end\\n'";
        let mut terminal = ground.terminal(&["run", "-n", "t", "--", "sh", "-c", script]);
        terminal.wait_for("red", SOON);
        terminal.resize(30, 90);
        terminal.send("go\n");
        terminal.wait_for("end", SOON);
        assert_eq!(terminal.wait(SOON), 0);
        let text = std::fs::read_to_string(recording(ground, "cast")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0]["version"], 2);
        assert_eq!((&lines[0]["width"], &lines[0]["height"]), (&100.into(), &24.into()));
        let of = |kind: &str| {
            let events = lines[1..].iter().filter(|event| event[1] == kind);
            events.map(|event| event[2].as_str().unwrap().to_owned()).collect::<String>()
        };
        assert!(of("o").starts_with("café \x1b[31mred\x1b[0m\r\n"), "{text}");
        assert!(of("o").contains("30 90") && of("o").ends_with("end\r\n"), "{text}");
        assert_eq!(of("r"), "90x30");
        let times: Vec<f64> = lines[1..].iter().map(|event| event[0].as_f64().unwrap()).collect();
        assert!(times.is_sorted() && times[0] >= 0.0, "{times:?}");
        let shown = ground.run(&["show", "t", "--transcript"]).expect_code(0);
        // Colours are taken out, the rest is escaped.
        assert!(shown.out().starts_with("café red\n"), "{shown}");
        assert!(!shown.stdout.contains(&0x1b) && !shown.stdout.contains(&b'\r'), "{shown}");
    });
}

#[test]
fn a_run_that_prints_more_than_the_limit_is_recorded_up_to_it_and_all_of_it_comes_out() {
    each(|ground| {
        let ran = ground.inside("big", &["sh", "-c", "head -c 20000000 /dev/zero | tr '\\0' 'x'"]);
        assert_eq!(ran.stdout.len(), 20_000_000);
        let size = std::fs::metadata(recording(ground, "log")).unwrap().len();
        assert!((16 << 20..18 << 20).contains(&size), "{size}");
        let shown = ground.run(&["log", "big", "--transcript"]).expect_code(0);
        assert!(shown.out().contains("[the recording ends here: it has reached its limit]"));
        ground.gone("big");
    });
}

#[test]
fn a_terminal_run_that_prints_control_characters_alone_is_recorded_within_the_limit() {
    each(|ground| {
        // In the recording each of them takes six bytes.
        let script = "stty -opost; head -c 6000000 /dev/zero; printf 'end\\n'";
        let terminal = ground.terminal(&["run", "-n", "zero", "--", "sh", "-c", script]);
        terminal.wait_for("end", SOON);
        assert_eq!(terminal.wait(SOON), 0);
        let size = std::fs::metadata(recording(ground, "cast")).unwrap().len();
        assert!(size < 18 << 20, "{size}");
    });
}
