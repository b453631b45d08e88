//! A digest tells every difference of a change that a keep would carry, and nothing else.

use std::fs;
use std::path::Path;

use review::digest::{Digest, of_change, of_list};
use tree::TreePath;

use crate::world::{World, change_rich, chmod, fill_rich, path, write, xattr};

fn all(world: &World) -> Vec<(TreePath, Digest)> {
    let (base, lane) = world.trees();
    let digest = |change| of_change(change, &base, &lane).expect("a digest");
    world.set().changes.iter().map(|change| (change.path.clone(), digest(change))).collect()
}

fn total(list: &[(TreePath, Digest)]) -> Digest {
    of_list(list.iter().map(|(path, digest)| (b"/p".as_slice(), path, *digest)))
}

/// What has another digest after `act`.
fn moved(world: &World, act: impl FnOnce(&World)) -> Vec<String> {
    let before = all(world);
    act(world);
    let after = all(world);
    assert_eq!(total(&before) == total(&after), before == after);
    let other: Vec<&(TreePath, Digest)> = after.iter().filter(|one| !before.contains(one)).collect();
    other.into_iter().map(|(path, _)| path.as_path().display().to_string()).collect()
}

fn world() -> World {
    World::new(fill_rich, change_rich)
}

#[test]
fn nothing_moves_by_looking_or_by_writing_the_same_again() {
    assert!(moved(&world(), |_| {}).is_empty());
    let again = |world: &World| {
        let edit = world.lane().join("src/edit.txt");
        let content = fs::read(&edit).expect("read");
        fs::remove_file(&edit).expect("removed");
        write(edit, content);
    };
    assert!(moved(&world(), again).is_empty());
}

#[test]
fn another_byte_on_either_side_another_mode_or_attribute_is_told() {
    let edit = Path::new("src/edit.txt");
    assert_eq!(moved(&world(), |w| write(w.lane().join(edit), "one\nTwO\nthree\n")), ["src/edit.txt"]);
    assert_eq!(moved(&world(), |w| write(w.origin().join(edit), "One\ntwo\nthree\n")), ["src/edit.txt"]);
    assert_eq!(moved(&world(), |w| chmod(w.lane().join(edit), 0o600)), ["src/edit.txt"]);
    assert_eq!(moved(&world(), |w| xattr(w.lane().join("attr"), "user.new", "3")), ["attr"]);
    assert_eq!(moved(&world(), |w| write(w.origin().join("src/gone.txt"), "gone!")), ["src/gone.txt"]);
    let relink = |w: &World| {
        fs::remove_file(w.lane().join("link")).expect("removed");
        std::os::unix::fs::symlink("elsewhere", w.lane().join("link")).expect("linked");
    };
    assert_eq!(moved(&world(), relink), ["link"]);
}

#[test]
fn a_digest_is_read_as_it_is_printed() {
    let digest = total(&[(path("a"), all(&world())[0].1)]);
    assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
    assert_eq!(Digest::parse(""), None);
    assert_eq!(Digest::parse(&"g".repeat(64)), None);
    assert_eq!(Digest::parse(&digest.to_string().to_uppercase()), None);
}
