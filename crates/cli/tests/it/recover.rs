//! `lane recover`.

use crate::world::once;

#[test]
fn a_name_that_was_taken_meanwhile_needs_another_one() {
    once(|world| {
        world.lane("twin");
        world.write("twin", "x", b"first\n");
        world.ok(&["discard", "twin"]);
        world.lane("twin");
        let ran = world.run(&["recover", "twin"]).expect_code(1);
        assert!(ran.err().contains("already"), "{ran}");
        world.ok(&["recover", "twin", "--name", "elder"]);
        assert_eq!(world.json(&["diff", "elder"])["files"][0]["path"], "x");
        assert_eq!(world.json(&["diff", "twin"])["files"], serde_json::json!([]));
    });
}

#[test]
fn an_empty_trash_is_said_to_be_empty() {
    once(|world| {
        let ran = world.run(&["recover"]).expect_code(1);
        assert!(ran.err().contains("the trash holds no lane"), "{ran}");
        let ran = world.run(&["recover", "x"]).expect_code(1);
        assert!(ran.err().contains("there is no lane 'x' in the trash"), "{ran}");
    });
}
