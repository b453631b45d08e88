//! npm with its registry: a few small packages, installed outside and inside.

use std::process::Command;

use testkit::{Listing, Plain, Running};

use crate::ground::{Ground, LONG, each};

const PACKAGE: &str = r#"{
  "name": "small", "version": "1.0.0", "private": true, "type": "module",
  "scripts": { "test": "node --test test/", "pretest": "semver 1.2.3" },
  "dependencies": { "is-odd": "3.0.1", "semver": "7.6.3" }
}
"#;

const TEST: &str = "import test from 'node:test';\nimport assert from 'node:assert';\nimport isOdd from 'is-odd';\n\
test('three is odd', () => assert.ok(isOdd(3)));\n";

fn install(ground: &Ground) {
    ground.write("package.json", PACKAGE);
    ground.write("test/odd.test.js", TEST);
    ground.write(".gitignore", "node_modules/\n");
    let mut npm: Command = ground.env.command(testkit::require::program("npm"));
    npm.args(["install", "--no-audit", "--no-fund"]).current_dir(&ground.project);
    Running::start(npm).wait(LONG).expect_code(0);
    ground.env.git_init(&ground.project);
}

#[test]
fn npm_test_and_npm_ci_work_in_a_lane_and_node_modules_outside_stay_as_they_are() {
    testkit::require::program("node");
    each(|ground| {
        install(ground);
        let before = Listing::of(&ground.project);
        let home = Listing::of(&ground.env.home());
        let ran = ground.inside("n", &["npm", "test"]);
        assert!(ran.out().contains("# pass 1"), "{ran}");
        // Takes the whole node_modules away and makes it anew.
        ground.inside("n", &["npm", "ci", "--no-audit", "--no-fund"]);
        let ran = ground.inside("n", &["npm", "test"]);
        assert!(ran.out().contains("# pass 1"), "{ran}");
        before.assert_same(&Listing::of(&ground.project));
        home.assert_same(&Listing::of(&ground.env.home()));
        // What it made is what it had found, so that nothing but times could differ.
        let out = ground.env.project("out");
        ground.run(&["export", "n", out.to_str().unwrap()]).expect_code(0);
        let left_out = [".git", "node_modules/.package-lock.json"];
        Plain::without(&ground.project, &left_out).assert_same(&Plain::without(&out, &left_out));
    });
}

#[test]
fn npm_adds_and_removes_a_package_in_a_lane_and_keep_brings_it_out() {
    each(|ground| {
        install(ground);
        ground.sh(
            "n",
            "npm uninstall -s --no-audit --no-fund is-odd; npm install -s --no-audit --no-fund is-even@1.0.0",
        );
        let changed = ground.changed("n");
        assert!(changed.contains("package.json\n") && changed.contains("package-lock.json\n"), "{changed}");
        ground
            .run(&["keep", "n", "package.json", "package-lock.json", "node_modules", "--yes"])
            .expect_code(0);
        let out = ground.env.host(&ground.project, "npm", &["ls", "--parseable"]).out();
        assert!(out.contains("/is-even") && !out.contains("/is-odd\n") && out.contains("/semver"), "{out}");
    });
}
