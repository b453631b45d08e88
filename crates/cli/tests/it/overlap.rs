//! `lane overlap`: what two lanes both touch.

use crate::world::{World, each, once};

fn told(world: &World, args: &[&str]) -> Vec<String> {
    let answer = world.json(args);
    let line = |met: &serde_json::Value| {
        let word = |name: &str| met[name].as_str().unwrap().to_owned();
        let lanes: Vec<&str> =
            met["lanes"].as_array().unwrap().iter().map(|lane| lane.as_str().unwrap()).collect();
        format!("{} {} {}", word("what"), word("path"), lanes.join(" "))
    };
    answer["paths"].as_array().unwrap().iter().map(line).collect()
}

#[test]
fn files_and_hunks_that_two_lanes_touch_are_told_before_any_is_kept() {
    each(|world| {
        let lines = |change: &[(usize, &str)]| -> Vec<u8> {
            let line = |n: usize| {
                change.iter().find(|(at, _)| *at == n).map_or(format!("line {n}"), |(_, w)| (*w).to_owned())
            };
            (1..=40).map(|n| line(n) + "\n").collect::<String>().into_bytes()
        };
        for name in ["apart", "clash", "same", "binary", "gone"] {
            world.env.write(&world.project.join(name), &lines(&[]));
        }
        world.env.write(&world.project.join("dir/x"), b"x\n");
        world.lane("a");
        world.lane("b");
        for (lane, line, word) in [("a", 5, "A"), ("b", 30, "B")] {
            world.write(lane, "apart", &lines(&[(line, word)]));
            world.write(lane, "clash", &lines(&[(10, word), (line, word)]));
            world.write(lane, "same", &lines(&[(7, "both")]));
            world.write(lane, "binary", &[0, line as u8]);
            world.write(lane, format!("own-{lane}"), b"x\n");
            world.write(lane, "added", word.as_bytes());
        }
        world.delete("a", "gone");
        world.write("b", "gone", &lines(&[(1, "kept")]));
        world.ok(&["run", "-q", "-n", "a", "--", "rm", "-r", "dir"]);
        world.write("b", "dir/new", b"x\n");
        let wanted = [
            "whole added a b",
            "apart apart a b",
            "whole binary a b",
            "lines clash a b",
            "below dir/new a b",
            "whole gone a b",
            "same same a b",
        ];
        assert_eq!(told(world, &["overlap", "a", "b"]), wanted);
        assert_eq!(told(world, &["overlap"]), wanted);
        let answer = world.json(&["overlap", "a", "b"]);
        let clash = answer["paths"].as_array().unwrap().iter().find(|met| met["path"] == "clash").unwrap();
        let hunks = clash["hunks"].as_array().unwrap();
        assert_eq!(hunks.len(), 1);
        let hunk_of = |lane: &str| {
            let diff = world.json(&["diff", lane, "clash"]);
            let hunks = diff["files"][0]["hunks"].as_array().unwrap().clone();
            hunks.into_iter().map(|hunk| hunk["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for (side, lane) in [("left", "a"), ("right", "b")] {
            let id = hunks[0][side]["id"].as_str().unwrap().to_owned();
            assert!(hunk_of(lane).contains(&id), "{id} of {lane}");
        }
        let ran = world.ok(&["overlap", "a", "b"]);
        assert!(ran.out().contains("lines  clash  a b  lines "), "{ran}");
        assert!(ran.err().contains("7 paths touched by two lanes, 5 of them not apart"), "{ran}");
    });
}

#[test]
fn lanes_that_are_apart_say_so_and_one_lane_is_no_overlap() {
    once(|world| {
        world.lane("a");
        world.lane("b");
        world.write("a", "x", b"x\n");
        world.write("b", "y", b"y\n");
        let ran = world.ok(&["overlap"]);
        assert!(ran.out().is_empty() && ran.err().contains("no path is touched by two lanes"), "{ran}");
        world.run(&["overlap", "a"]).expect_code(2);
        world.run(&["overlap", "a", "nonsense"]).expect_code(1);
    });
}
