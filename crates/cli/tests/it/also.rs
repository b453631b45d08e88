//! Further roots: a sibling directory with a layer, a diff and a keep of its own.

use testkit::Listing;

use crate::world::each;

#[test]
fn a_sibling_is_written_diffed_kept_and_exported_beside_the_project() {
    each(|world| {
        let sibling = world.env.make_dir("lib");
        world.env.write(&sibling.join("old"), b"old\n");
        let before = Listing::of(&sibling);
        let strategy = if world.made == crate::world::Made::Overlay { "overlay" } else { "copy" };
        world.ok(&["new", "two", "--also", "../lib", "--strategy", strategy]);
        world.ok(&["exec", "two", "--", "sh", "-c", "echo x >mine; echo y >../lib/theirs; rm ../lib/old"]);
        before.assert_same(&Listing::of(&sibling));

        let sibling_name = sibling.display().to_string();
        let names = world.ok(&["diff", "two", "--name-only"]).out();
        assert_eq!(names, format!("mine\n{sibling_name}/old\n{sibling_name}/theirs\n"));
        let inner = world.env.ok(&sibling, &["-C", world.project.to_str().unwrap(), "diff", "two", "../lib"]);
        assert!(inner.out().contains("theirs") && !inner.out().contains("mine"), "{inner}");
        let shown = world.json(&["show", "two"]);
        assert_eq!(shown["changes"].as_array().map(Vec::len), Some(2), "{shown}");

        let exported = world.json(&["export", "two"]);
        let further = exported["further"][0].as_str().unwrap();
        assert_eq!(std::fs::read(format!("{further}/theirs")).unwrap(), b"y\n");

        world.ok(&["keep", "two", "../lib/theirs", "--yes"]);
        assert_eq!(std::fs::read(sibling.join("theirs")).unwrap(), b"y\n");
        assert!(sibling.join("old").exists() && world.content("mine").is_none());
        world.ok(&["keep", "two", "--yes"]);
        assert!(!sibling.join("old").exists() && world.content("mine").is_some());
    });
}
