//! docs/cli.md is what the program says of itself.

use std::path::Path;

use crate::world::once;

#[test]
fn the_reference_is_in_step_with_the_help() {
    once(|world| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
        let said = world.ok(&["man", "--markdown"]).out();
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(said == written, "write it anew: `cargo run -p cli -- man --markdown > docs/cli.md`");
    });
}
