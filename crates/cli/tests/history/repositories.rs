//! B23: repositories of any kind, also nested ones, are content like any other: nothing of the project is written for a
//! snapshot, and git inside works as before and after going back.

use testkit::{Listing, Running};

use crate::view::View;
use crate::world::{SOON, World, each};

/// A repository in the project, a bare one, one whose `.git` is a file, and a linked worktree.
fn nested(world: &World) {
    let (env, top) = (&world.env, &world.project);
    for name in ["vendor/lib", "vendor/seed"] {
        env.mkdir(&top.join(name));
        env.git_init(&top.join(name));
        env.write(&top.join(name).join("lib.c"), b"int x;\n");
        env.host(top.join(name), "git", &["add", "-A"]);
        env.host(top.join(name), "git", &["commit", "-qm", "lib"]);
    }
    env.host(top, "git", &["clone", "-q", "--bare", "vendor/lib", "vendor/bare.git"]);
    env.host(
        top,
        "git",
        &["clone", "-q", "--separate-git-dir", "vendor/apart", "vendor/seed", "vendor/by-file"],
    );
    env.host(top.join("vendor/lib"), "git", &["worktree", "add", "-q", "../tree", "-b", "side"]);
}

#[test]
fn b23_a_snapshot_writes_nothing_into_the_project_and_git_sees_no_difference_meanwhile() {
    each(|world| {
        nested(world);
        world.lane("a");
        world.sh("a", "echo more >> vendor/lib/lib.c");
        let origin = Listing::of(&world.project);
        // Status without a refresh of the index, which would be a write of its own.
        let script = "for n in $(seq 40); do \
                          for d in vendor/lib vendor/by-file vendor/tree; do \
                              git --no-optional-locks -C $d status --porcelain || echo BROKEN $d; done; \
                          git -C vendor/bare.git rev-parse -q --verify HEAD > /dev/null || echo BROKEN bare; done";
        let mut command = world.env.command("/bin/sh");
        command.args(["-c", script]).current_dir(&world.project);
        let status = Running::start(command);
        for _ in 0..10 {
            world.ok(&["snap", "a"]);
        }
        let status = status.wait(SOON).expect_code(0);
        assert_eq!(status.out(), "", "{status}");
        for at in 0..6u64 {
            let mut taken = world.start(&["snap", "a"]);
            let begun = std::time::Instant::now();
            while begun.elapsed().as_micros() < u128::from(at * at * 900) {
                std::hint::spin_loop();
            }
            taken.kill9();
            taken.wait(SOON);
        }
        world.ok(&["snap", "a"]);
        origin.assert_same(&Listing::of(&world.project));
        world.assert_whole("after kills");
    });
}

#[test]
fn b23_commits_of_nested_repositories_come_and_go_with_the_lane() {
    each(|world| {
        nested(world);
        world.lane("a");
        let commit = |dir: &str, text: &str| {
            let git = "git -c user.name=t -c user.email=t@example.org";
            let script =
                format!("cd {dir}; echo {text} >> lib.c; {git} commit -qam {text}; {git} rev-parse HEAD");
            world.sh("a", &script).out()
        };
        let one = commit("vendor/lib", "one");
        commit("vendor/by-file", "one");
        let id = world.snap("a");
        let seen = View::of(world, "a");
        let two = commit("vendor/lib", "two");
        world.sh("a", "cd vendor/lib; git gc -q --prune=now; git stash list; rm -rf ../bare.git");
        let later = world.snap("a");
        world.restore("a", &id);
        View::of(world, "a").assert_same(&seen, "back");
        let state = "cd vendor/lib; git rev-parse HEAD; git status --porcelain; git fsck --strict; \
                     git -C ../bare.git fsck --strict; git -C ../tree status --porcelain";
        assert_eq!(world.sh("a", state).out(), one);
        world.restore("a", &later);
        assert_eq!(world.sh("a", "cd vendor/lib; git rev-parse HEAD; git status --porcelain; git fsck --strict; test ! -e ../bare.git").out(), two);
    });
}
