//! `lane show`, and which lane is meant.

use crate::world::once;

#[test]
fn the_name_may_be_left_out_where_only_one_lane_fits() {
    once(|world| {
        let none = world.run(&["show"]).expect_code(1);
        assert!(none.err().contains("there is no lane for"), "{none}");
        world.lane("only");
        assert_eq!(world.json(&["show"])["lane"]["name"], "only");
        world.lane("second");
        let many = world.run(&["show"]).expect_code(1);
        assert!(many.err().contains("only, second"), "{many}");
    });
}

#[test]
fn a_mistyped_name_is_answered_with_its_neighbour() {
    once(|world| {
        world.lane("fix-auth");
        let ran = world.run(&["show", "fix-auht"]).expect_code(1);
        assert!(ran.err().contains("did you mean `fix-auth`?"), "{ran}");
    });
}

#[test]
fn an_id_names_a_lane_from_anywhere() {
    once(|world| {
        world.lane("far");
        let id = world.json(&["show", "far"])["lane"]["id"].as_str().unwrap().to_owned();
        let elsewhere = world.env.make_dir("elsewhere");
        assert_eq!(world.env.json(&elsewhere, &["show", &id[..5]])["lane"]["name"], "far");
    });
}

#[test]
fn everything_known_about_a_lane_is_shown() {
    once(|world| {
        world.lane("full");
        let out = world.ok(&["show", "full"]).out();
        for fact in
            ["lane full · new", "strategy", "overlay (", "base", "HEAD ", "changes", "no changes", "layers"]
        {
            assert!(out.contains(fact), "{fact} in {out}");
        }
    });
}

#[test]
fn the_words_of_agentfs_users_work() {
    once(|world| {
        world.ok(&["init", "a", "--mount-backend", "overlay"]);
        world.ok(&["list"]);
        world.ok(&["status", "a"]);
        world.write("a", "x", b"x\n");
        world.ok(&["apply", "a", "--yes"]);
        assert_eq!(world.content("x").as_deref(), Some(&b"x\n"[..]));
    });
}
