//! B01, B08: linked worktrees and submodules as projects; what git ignores is there.

use testkit::{Listing, Who};

use crate::world::{Made, World, each, fresh, in_the_open};

/// A repository with a linked worktree; the world's project is the worktree.
fn worktree(env: testkit::TestEnv, made: Made) -> World {
    let main = env.make_git("main");
    let project = env.project("wt");
    env.host(&main, "git", &["worktree", "add", "-q", project.to_str().unwrap(), "-b", "topic"]);
    World::over(env, project, made)
}

#[test]
fn b01_a_commit_in_a_lane_of_a_linked_worktree_works_and_touches_nothing_outside() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            for open in [false, true] {
                let world = worktree(if open { in_the_open(who) } else { fresh(who) }, made);
                let main = world.env.project("main");
                world.lane("a");
                let (before, own) = (Listing::of(&main), Listing::of(&world.project));
                let script = "git status --porcelain; echo a > a; git add a; git commit -qm a; git log --oneline | wc -l; git branch --show-current; git stash list; git tag inside";
                let out = world.sh("a", script).out();
                assert_eq!(out, "2\ntopic\n");
                before.assert_same(&Listing::of(&main));
                own.assert_same(&Listing::of(&world.project));
                // The commit is there in the next run.
                assert_eq!(world.sh("a", "git log --format=%s -1; git tag").out(), "a\ninside\n");
                assert_eq!(world.changes("a"), ["add a"]);
                let ran = world.keep_all("a").expect_code(0);
                assert!(ran.err().contains(".git") || ran.out().contains(".git"), "{ran}");
                before.assert_same(&Listing::of(&main));
                world.gone("a");
                before.assert_same(&Listing::of(&main));
            }
        }
    }
}

#[test]
fn b01_the_main_repository_is_a_project_beside_its_worktrees() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            let world = worktree(fresh(who), made);
            let main = world.env.project("main");
            let world = World { project: main, ..world };
            world.lane("a");
            let before = Listing::of(&world.env.root().join("p"));
            world.sh("a", "echo a > a; git add a; git commit -qm a; git worktree list | wc -l");
            before.assert_same(&Listing::of(&world.env.root().join("p")));
            assert_eq!(world.changes("a"), ["add a"]);
        }
    }
}

#[test]
fn b01_a_submodule_as_the_project_can_commit() {
    for who in Who::all() {
        for made in [Made::Overlay, Made::Copy] {
            let env = fresh(who);
            let sub = env.make_git("sub");
            let top = env.make_git("top");
            let add = [
                "-c",
                "protocol.file.allow=always",
                "submodule",
                "add",
                "-q",
                sub.to_str().unwrap(),
                "vendor",
            ];
            env.host(&top, "git", &add);
            env.host(&top, "git", &["commit", "-qam", "s"]);
            let world = World::over(env, top.join("vendor"), made);
            world.lane("a");
            let before = Listing::of(&top);
            assert_eq!(
                world.sh("a", "echo a > a; git add a; git commit -qm a; git log --format=%s -1").out(),
                "a\n"
            );
            before.assert_same(&Listing::of(&top));
            assert_eq!(world.changes("a"), ["add a"]);
        }
    }
}

#[test]
fn b08_what_git_ignores_is_in_a_fresh_lane() {
    each(|world| {
        world.env.write(&world.project.join(".gitignore"), b".env\nnode_modules/\ntarget/\n");
        world.env.write(&world.project.join(".env"), b"K=1\n");
        world.env.write(&world.project.join("node_modules/dep/index.js"), b"x\n");
        world.env.write(&world.project.join("target/debug/app"), b"built\n");
        world.ok(&["new", "a", "--strategy", world.made.word()]);
        assert_eq!(
            world.sh("a", "cat .env node_modules/dep/index.js target/debug/app").out(),
            "K=1\nx\nbuilt\n"
        );
        world.sh("a", "echo K=2 > .env; echo y > node_modules/dep/index.js");
        assert_eq!(world.changes("a"), ["modify .env", "modify node_modules/dep/index.js"]);
        assert_eq!(world.content(".env").unwrap(), b"K=1\n");
    });
}
