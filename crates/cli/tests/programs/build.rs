//! Builds: what was built outside counts inside, and only what was touched is built again.

use testkit::Listing;

use crate::ground::{Ground, each, each_over};

/// Lines of cargo that tell of a crate that it compiles.
fn compiled(said: &str) -> Vec<&str> {
    said.lines().map(str::trim).filter(|line| line.starts_with("Compiling ")).collect()
}

#[test]
fn a_fresh_lane_of_a_built_project_compiles_nothing_and_then_what_was_touched() {
    each_over("rust", |ground| {
        let before = Listing::of(&ground.project);
        // Cargo says why it builds what it builds.
        let build =
            ["env", "CARGO_LOG=cargo::core::compiler::fingerprint=info", "cargo", "build", "--offline"];
        let ran = ground.inside("b", &build);
        assert_eq!(compiled(&ran.err()), Vec::<&str>::new(), "{ran}");
        assert!(ran.err().contains("Finished"), "{ran}");
        ground.sh("b", "touch crates/core/main.rs");
        let ran = ground.inside("b", &build);
        let said = ran.err();
        let crates = compiled(&said);
        assert!(crates.len() == 1 && crates[0].starts_with("Compiling ripgrep "), "{ran}");
        let ran = ground.inside("b", &build);
        assert_eq!(compiled(&ran.err()), Vec::<&str>::new(), "{ran}");
        assert!(ground.sh("b", "target/debug/rg --version").out().starts_with("ripgrep 14.1.1"));
        before.assert_same(&Listing::of(&ground.project));
        ground.gone("b");
    });
}

#[test]
fn cargo_test_of_a_small_crate_builds_and_runs_in_a_lane() {
    for who in testkit::Who::all() {
        let mut env = crate::ground::in_the_open(who);
        env.with_rust();
        let project = env.make_dir("crate");
        let ground = Ground { env, project };
        ground.write("Cargo.toml", "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
        ground.write(
            "src/lib.rs",
            "/// ```\n/// assert_eq!(small::twice(2), 4);\n/// ```\npub fn twice(n: u32) -> u32 {\n    n * 2\n}\n
#[test]
fn twice_is_twice() {
    let dir = std::env::temp_dir().join(\"small\");
    std::fs::create_dir(&dir).unwrap();
    std::fs::rename(&dir, dir.with_extension(\"b\")).unwrap();
    assert_eq!(twice(3), 6);
}\n",
        );
        ground.env.git_init(&ground.project);
        let before = Listing::of(&ground.project);
        let ran = ground.inside("t", &["cargo", "test", "--offline"]);
        assert!(ran.out().matches("test result: ok. 1 passed").count() == 2, "{ran}");
        before.assert_same(&Listing::of(&ground.project));
    }
}

#[test]
fn make_builds_in_a_lane_what_is_newer_and_nothing_else() {
    testkit::require::program("cc");
    testkit::require::program("make");
    each(|ground| {
        ground.write(
            "Makefile",
            "all: hello\nhello: hello.o other.o\n\tcc -o $@ $^\n%.o: %.c\n\tcc -c -o $@ $<\n",
        );
        ground.write(
            "hello.c",
            "#include <stdio.h>\nint n(void);\nint main(void) { printf(\"%d\\n\", n()); }\n",
        );
        ground.write("other.c", "int n(void) { return 42; }\n");
        ground.env.host(&ground.project, "make", &["-s"]);
        let before = Listing::of(&ground.project);
        let ran = ground.inside("m", &["make"]);
        assert!(ran.out().contains("Nothing to be done"), "{ran}");
        let ran = ground.sh("m", "sed -i s/42/43/ other.c; make -j2; ./hello");
        assert!(ran.out().ends_with("43\n") && !ran.out().contains("hello.c"), "{ran}");
        before.assert_same(&Listing::of(&ground.project));
    });
}
