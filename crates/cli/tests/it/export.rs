//! `lane export`.

use testkit::Plain;

use crate::world::each;

#[test]
fn the_export_is_the_lane_and_the_original_stays_as_it_was() {
    each(|world| {
        world.lane("out");
        world.write("out", "new.txt", b"new\n");
        world.write("out", "src/lib.rs", b"//! Other.\n");
        world.delete("out", "README.md");
        world.link("out", "new.txt", "to-new");
        let before = Plain::of(&world.project);
        let ran = world.ok(&["export", "out"]);
        let target = world.project.with_file_name("app-out");
        assert_eq!(ran.out().trim(), target.to_str().unwrap());
        before.assert_same(&Plain::of(&world.project));
        let changed = Plain::without(&world.project, &[".git"]).changed(&Plain::of(&target));
        assert_eq!(changed, [&b"README.md"[..], b"new.txt", b"src/lib.rs", b"to-new"]);
        assert!(!target.join(".git").exists());
    });
}

#[test]
fn an_export_never_overwrites_and_never_lands_in_the_project() {
    each(|world| {
        world.lane("out");
        let there = world.env.make_dir("there");
        let ran = world.run(&["export", "out", there.to_str().unwrap()]).expect_code(1);
        assert!(ran.err().contains("exists already"), "{ran}");
        let ran = world.run(&["export", "out", "src/copy"]).expect_code(1);
        assert!(ran.err().contains("lies in"), "{ran}");
        assert!(!world.project.join("src/copy").exists());
    });
}

#[test]
fn what_runs_by_itself_is_in_it_and_told() {
    each(|world| {
        world.lane("out");
        world.write("out", ".envrc", b"export X=1\n");
        world.write("out", "plain", b"x\n");
        world.env.write(&world.project.join("lane.toml"), b"[keep]\nonly = [\"src/**\"]\n");
        let ran = world.ok(&["export", "out", "../told"]);
        assert!(ran.err().contains("run by itself later: 1 path") && ran.err().contains(".envrc ("), "{ran}");
        assert!(world.env.project("told").join(".envrc").exists(), "no rule binds what is written beside");
        let told = world.json(&["export", "out", "../again"]);
        assert_eq!(told["guarded"][0]["path"], ".envrc");
    });
}
