//! Completions and manual pages.

use crate::world::once;

#[test]
fn every_shell_gets_a_script_that_knows_the_verbs() {
    once(|world| {
        for shell in ["bash", "zsh", "fish"] {
            let script = world.ok(&["completions", shell]).out();
            for verb in ["run", "keep", "discard", "recover"] {
                assert!(script.contains(verb), "{verb} for {shell}");
            }
        }
        let script = world.env.root().join("lane.bash");
        world.env.write(&script, world.ok(&["completions", "bash"]).out().as_bytes());
        world.env.host(&world.project, "bash", &["-n", script.to_str().unwrap()]);
        world.run(&["completions", "nonsense"]).expect_code(2);
    });
}

#[test]
fn every_verb_has_a_manual_page() {
    once(|world| {
        let dir = world.env.root().join("man");
        world.ok(&["man", dir.to_str().unwrap()]);
        for page in ["lane.1", "lane-run.1", "lane-keep.1", "lane-doctor.1"] {
            let text = std::fs::read_to_string(dir.join(page)).unwrap();
            assert!(text.contains(".TH"), "{page}");
        }
        assert!(world.ok(&["man"]).out().contains(".SH"));
    });
}

#[test]
fn help_and_version_are_data_and_wrong_usage_is_two() {
    once(|world| {
        assert!(world.ok(&["--version"]).out().starts_with("lane "));
        assert!(world.ok(&["--help"]).out().contains("keep"));
        assert!(world.ok(&["keep", "--help"]).out().contains("--dry-run"));
        let ran = world.run(&["keep", "--nonsense"]).expect_code(2);
        assert!(ran.stdout.is_empty() && ran.err().contains("--nonsense"), "{ran}");
        world.run(&[]).expect_code(2);
    });
}
