//! B52: SIGKILL of the supervisor at any point, also while the view is being built: nothing stays behind
//! and the next command works.

use std::time::{Duration, Instant};

use testkit::{Listing, Running};

use crate::world::{SOON, World, each, everybody, host_mounts};

/// Lets `span` pass: the stimulus of a test that kills at a random point, not a synchronisation.
fn let_pass(span: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// The test is red where something of this world lives or is mounted, or a lock is held.
fn settled(world: &World, before: &[String]) {
    testkit::until("nothing is left behind", SOON, || world.env.remnants().is_empty());
    assert_eq!(host_mounts(&world.env), before);
}

#[test]
fn b52_a_supervisor_killed_at_any_point_leaves_no_process_mount_or_lock() {
    each(|world| {
        let before = host_mounts(&world.env);
        let origin = Listing::of(&world.project);
        world.lane("a");
        for at in 0..14u64 {
            let script = "echo x > x; (setsid sleep 1000 &) ; sleep 1000 & exec sleep 1000";
            let mut running = world.start(&["run", "-n", "a", "--", "sh", "-c", script]);
            let_pass(Duration::from_micros(at * at * 700));
            running.kill9();
            running.wait(SOON);
            settled(world, &before);
            // Nobody holds the lock, and the lane works.
            world.ok(&["run", "-q", "-n", "a", "--", "true"]);
        }
        let show = world.json(&["show", "a"]);
        assert_eq!(show["lane"]["state"], "idle");
        assert!(show["runs"].as_array().unwrap().iter().all(|run| !run["exit"].is_null()), "{show}");
        world.gone("a");
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
        origin.assert_same(&Listing::of(&world.project));
    });
}

#[test]
fn b52_a_run_that_makes_its_lane_and_is_killed_leaves_nothing_after_the_next_command() {
    each(|world| {
        let before = host_mounts(&world.env);
        for at in 0..12u64 {
            let strategy = world.made.word();
            let mut running = world.start(&["run", "-n", "a", "--strategy", strategy, "--", "sleep", "1000"]);
            let_pass(Duration::from_micros(at * at * 500));
            running.kill9();
            running.wait(SOON);
            settled(world, &before);
            let lanes = world.json(&["ls"]);
            if !lanes.as_array().unwrap().is_empty() {
                world.gone("a");
            }
            assert_eq!(world.state_names("lanes"), Vec::<String>::new(), "after {at}");
        }
    });
}

#[test]
fn b52_a_killed_supervisor_of_an_unattended_lane_takes_everything_with_it() {
    everybody(|world| {
        let before = host_mounts(&world.env);
        world.lane("a");
        world.ok(&["run", "-n", "a", "-d", "--", "sh", "-c", "sleep 1000 & sleep 1000"]);
        let mut joined = world.start(&["exec", "a", "--", "sh", "-c", "echo ready; sleep 1000"]);
        joined.wait_for("ready", SOON);
        let shown = world.json(&["show", "a"]);
        let sleeps = |run: &&serde_json::Value| {
            run["argv"][2]["text"].as_str().is_some_and(|text| text.starts_with("sleep"))
        };
        let pid =
            shown["runs"].as_array().unwrap().iter().find(sleeps).unwrap()["pid"].as_u64().unwrap() as u32;
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(program, world.env.lane_program(), "{shown}");
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(pid as i32).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
        joined.wait(SOON);
        settled(world, &before);
        let shown = world.json(&["show", "a"]);
        assert_eq!(shown["lane"]["state"], "idle");
        assert!(shown["runs"].as_array().unwrap().iter().all(|run| !run["exit"].is_null()), "{shown}");
        world.sh("a", "true");
        world.gone("a");
    });
}

#[test]
fn a_discard_that_is_killed_is_ended_by_the_next_command() {
    each(|world| {
        for at in 0..10u64 {
            world.lane("a");
            world.sh("a", "for i in $(seq 200); do echo $i > f$i; done");
            let mut running = world.start(&["discard", "a", "--now", "--yes"]);
            let_pass(Duration::from_micros(at * 1500));
            running.kill9();
            running.wait(SOON);
            let left = world.json(&["ls"]);
            if !left.as_array().unwrap().is_empty() {
                world.gone("a");
            }
            assert_eq!(world.state_names("lanes"), Vec::<String>::new(), "after {at}");
            assert_eq!(world.state_names("trash"), Vec::<String>::new(), "after {at}");
        }
    });
}

#[test]
fn a_lane_can_be_dropped_while_its_base_is_still_being_recorded() {
    for who in testkit::Who::all() {
        let env = crate::world::fresh(who);
        let project = env.make_many("many", 3000);
        let world = World::over(env, project, crate::world::Made::Overlay);
        for round in 0..5 {
            world.ok(&["run", "-n", "a", "--", "true"]);
            world.gone("a");
            assert_eq!(world.state_names("lanes"), Vec::<String>::new(), "round {round}");
        }
    }
}

#[test]
fn b52_a_terminated_supervisor_passes_it_on_even_while_the_view_is_being_built() {
    everybody(|world| {
        let before = host_mounts(&world.env);
        for at in 0..8u64 {
            let mut running =
                Running::start(world.env.lane(&world.project, &["run", "--rm", "--", "sleep", "1000"]));
            let_pass(Duration::from_micros(at * at * 900));
            running.signal(rustix::process::Signal::TERM);
            let ran = running.wait(SOON);
            assert!(ran.code == Some(143) || ran.signal == Some(15), "{ran}");
            settled(world, &before);
        }
        world.ok(&["ls"]);
        assert_eq!(world.state_names("lanes"), Vec::<String>::new());
    });
}
