//! `lane keep --as branch`: the commits that were made in a lane, as a branch of the original, and what a lane's
//! repository may look like.

use std::fs;
use std::path::PathBuf;

use testkit::Listing;

use crate::commit::{git, paths, take_back};
use crate::world::{World, each, once};

fn inside(world: &World, lane: &str, script: &str) {
    world.ok(&["run", "-q", "-n", lane, "--", "sh", "-ec", script]);
}

/// Where the lane's own repository is on the host.
fn git_of(world: &World, lane: &str) -> PathBuf {
    world.layer(lane).join(".git")
}

#[test]
fn the_lanes_own_commits_arrive_as_a_branch_and_nothing_else_changes() {
    each(|world| {
        world.lane("a");
        inside(
            world,
            "a",
            "git switch -qc work; echo 1 > one; git add one; git commit -qm 'first of two'
echo 2 >> README.md; git -c user.name=Agent commit -qam 'second'; git gc -q; echo 3 > three; git add three; git commit -qm third
echo later > later; mkdir -p target; echo o > target/o",
        );
        let working = Listing::without(&world.project, &[".git"]);
        let index = fs::read(world.project.join(".git/index")).unwrap();
        let config = fs::read(world.project.join(".git/config")).unwrap();
        let mut command =
            world.env.lane(&world.project, &["keep", "a", "--as", "branch", "agent/work", "--yes", "--json"]);
        command.env("GIT_AUTHOR_NAME", "Somebody else");
        let ran = testkit::Running::start(command).wait(std::time::Duration::from_secs(60)).expect_code(1);
        let answer: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
        let subjects: Vec<&str> =
            answer["commits"].as_array().unwrap().iter().map(|c| c["subject"].as_str().unwrap()).collect();
        assert_eq!(subjects, ["first of two", "second", "third"]);
        assert_eq!(paths(&answer, "files"), ["README.md", "one", "three"]);
        // What is in no commit of the lane's is told, and the exit code says so; what git ignores is no such thing.
        let left: Vec<(&str, &str)> = answer["left_out"]
            .as_array()
            .unwrap()
            .iter()
            .map(|left| (left["path"].as_str().unwrap(), left["why"].as_str().unwrap()))
            .collect();
        assert_eq!(left, [("later", "uncommitted"), ("target/o", "ignored")]);
        assert_eq!(
            git(world, &["log", "--format=%s %an", "agent/work"]),
            "third Tester\nsecond Tester\nfirst of two Tester\nfirst Tester"
        );
        assert_eq!(git(world, &["rev-parse", "agent/work"]), answer["commit"].as_str().unwrap());
        assert_eq!(git(world, &["rev-list", "--count", "refs/heads/main"]), "1");
        git(world, &["fsck", "--strict", "--no-dangling"]);
        working.assert_same(&Listing::without(&world.project, &[".git"]));
        assert_eq!(fs::read(world.project.join(".git/index")).unwrap(), index);
        assert_eq!(fs::read(world.project.join(".git/config")).unwrap(), config);
        take_back(world, &answer);
        assert_eq!(git(world, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    });
}

#[test]
fn without_commits_of_its_own_it_is_one_commit_on_what_the_lane_started_from() {
    each(|world| {
        world.lane("a");
        world.write("a", "new", b"x\n");
        let base = git(world, &["rev-parse", "HEAD"]);
        world.env.write(&world.project.join("gone-on"), b"x\n");
        git(world, &["add", "gone-on"]);
        git(world, &["commit", "-qm", "gone on"]);
        let answer = world.json(&["keep", "a", "--as", "branch", "result", "--yes", "-m", "The result"]);
        assert_eq!((&answer["parent"], &answer["new_branch"]), (&base.as_str().into(), &true.into()));
        assert_eq!(git(world, &["log", "--format=%s", "result"]), "The result\nfirst");
        assert_eq!(git(world, &["show", "--format=", "--name-only", "result"]), "new");
        assert_eq!(world.content("new"), None);
        take_back(world, &answer);
        assert_eq!(git(world, &["for-each-ref", "--format=%(refname)"]), "refs/heads/main");
    });
}

#[test]
fn named_paths_are_one_commit_though_the_lane_has_some() {
    each(|world| {
        world.lane("a");
        inside(world, "a", "echo 1 > one; git add one; git commit -qm one; echo 2 > two");
        let answer = world.json(&["keep", "a", "two", "--as", "branch", "picked", "--yes"]);
        assert_eq!(paths(&answer, "files"), ["two"]);
        assert_eq!(answer["commits"], serde_json::json!([]));
        assert_eq!(git(world, &["rev-parse", "picked~"]), git(world, &["rev-parse", "refs/heads/main"]));
    });
}

#[test]
fn commits_that_change_files_which_run_by_themselves_wait_until_each_is_named() {
    each(|world| {
        world.lane("a");
        inside(
            world,
            "a",
            "echo x > x; echo run > .envrc; mkdir -p .github/workflows; echo on > .github/workflows/ci.yml; git add .; git commit -qm all",
        );
        let before = git(world, &["for-each-ref"]);
        for args in [
            &["keep", "a", "--as", "branch", "b", "--yes"] as &[&str],
            &["keep", "a", "--as", "branch", "b", ".envrc", "--yes"],
        ] {
            let ran = world.run(args).expect_code(1);
            assert!(
                ran.err().contains("run by themselves") && ran.err().contains(".github/workflows/ci.yml"),
                "{ran}"
            );
            assert_eq!(git(world, &["for-each-ref"]), before);
        }
        let ran =
            world.ok(&["keep", "a", "--as", "branch", "b", ".envrc", ".github/workflows/ci.yml", "--yes"]);
        assert!(ran.err().contains("1 commit of lane a: branch b"), "{ran}");
        assert_eq!(git(world, &["show", "b:.envrc"]), "run");
        assert_eq!(world.content(".envrc"), None);
    });
}

#[test]
fn other_branches_of_the_lane_are_named() {
    once(|world| {
        world.lane("a");
        inside(
            world,
            "a",
            "git switch -qc side; echo 1 > one; git add one; git commit -qm one; git pack-refs --all; git switch -q main; echo 2 > two; git add two; git commit -qm two",
        );
        let ran = world.ok(&["keep", "a", "--as", "branch", "b", "--yes"]);
        assert!(ran.err().contains("the lane's branch side has commits, too"), "{ran}");
        assert_eq!(git(world, &["log", "--format=%s", "b"]), "two\nfirst");
    });
}

/// Tries to bring the commits of a lane whose repository somebody meant harm with; nothing may come of it.
fn nothing_comes(world: &World, what: &str) {
    let before = Listing::without(&world.project, &[]);
    let ran = world.run(&["keep", "a", "--as", "branch", "b", "--yes"]);
    assert_eq!(ran.code, Some(1), "{what}: {ran}");
    before.assert_same(&Listing::without(&world.project, &[]));
    let left: Vec<_> = fs::read_dir(world.env.state().join("scratch")).into_iter().flatten().collect();
    assert!(left.is_empty(), "{what}: {left:?}");
}

fn fresh(world: &World, n: u32) -> String {
    let commit = |name: &str| format!("echo {name} > {name}; git add {name}; git commit -qm {name}");
    if world.run(&["show", "a"]).code == Some(0) {
        world.ok(&["discard", "a", "--now", "--yes"]);
    }
    world.lane("a");
    inside(world, "a", &commit(&format!("secret-{n}")));
    let head = fs::read_to_string(git_of(world, "a").join("refs/heads/main")).unwrap();
    head.trim().to_owned()
}

#[test]
fn a_repository_with_links_forged_objects_or_names_that_lead_elsewhere_is_refused() {
    each(|world| {
        let outside = world.env.make_git("outside");
        world.env.write(&outside.join("private"), b"PRIVATE\n");
        world.env.host(&outside, "git", &["add", "private"]);
        world.env.host(&outside, "git", &["commit", "-qm", "private"]);
        let private = world.env.host(&outside, "git", &["rev-parse", "HEAD"]).out().trim().to_owned();
        let object = |id: &str| PathBuf::from("objects").join(&id[..2]).join(&id[2..]);

        // Objects by a link: what is behind it is somebody else's.
        let id = fresh(world, 1);
        let dot_git = git_of(world, "a");
        let at = dot_git.join(object(&id));
        fs::remove_dir_all(at.parent().unwrap()).unwrap();
        world.env.link(outside.join(".git/objects").join(&private[..2]), at.parent().unwrap());
        world.env.write(&dot_git.join("refs/heads/main"), format!("{private}\n").as_bytes());
        nothing_comes(world, "a link in place of a directory of objects");

        let id = fresh(world, 2);
        let at = git_of(world, "a").join(object(&id));
        fs::remove_file(&at).unwrap();
        world.env.link(outside.join(".git").join(object(&private)), &at);
        nothing_comes(world, "a link in place of an object");

        // By the lane's own alternates: they are not read.
        fresh(world, 3);
        let dot_git = git_of(world, "a");
        world.env.write(
            &dot_git.join("objects/info/alternates"),
            format!("{}\n", outside.join(".git/objects").display()).as_bytes(),
        );
        world.env.write(&dot_git.join("refs/heads/main"), format!("{private}\n").as_bytes());
        nothing_comes(world, "objects by alternates");

        // An object under the name of another one.
        let id = fresh(world, 4);
        let at = git_of(world, "a").join(object(&id));
        let other = fs::read(outside.join(".git").join(object(&private))).unwrap();
        fs::remove_file(&at).unwrap();
        world.env.write(&at, &other);
        nothing_comes(world, "a forged object");

        let id = fresh(world, 5);
        let at = git_of(world, "a").join(object(&id));
        fs::remove_file(&at).unwrap();
        world.env.write(&at, b"no object at all");
        nothing_comes(world, "a damaged object");

        let id = fresh(world, 6);
        fs::remove_file(git_of(world, "a").join(object(&id))).unwrap();
        nothing_comes(world, "a missing object");

        for (n, head) in [
            "ref: refs/heads/../../../../outside/.git/refs/heads/main",
            "ref: /etc/passwd",
            "ref: refs/heads/a/../main",
            "ref: refs/tags/x",
            "nonsense",
        ]
        .iter()
        .enumerate()
        {
            fresh(world, 10 + n as u32);
            world.env.write(&git_of(world, "a").join("HEAD"), format!("{head}\n").as_bytes());
            nothing_comes(world, head);
        }

        fresh(world, 20);
        let main = git_of(world, "a").join("refs/heads/main");
        fs::remove_file(&main).unwrap();
        world.env.link(outside.join(".git/refs/heads/main"), &main);
        nothing_comes(world, "a link in place of a ref");

        fresh(world, 21);
        let head = git_of(world, "a").join("HEAD");
        let _ = fs::remove_file(&head);
        world.env.link("/etc/passwd", &head);
        nothing_comes(world, "a link in place of HEAD");
    });
}

#[test]
fn a_commit_whose_tree_leads_out_or_into_dot_git_never_reaches_the_repository() {
    each(|world| {
        for (n, name) in ["..", ".git", ".GIT", "a/b"].iter().enumerate() {
            fresh(world, n as u32);
            let script = format!(
                "blob=$(echo evil | git hash-object -w --stdin); raw=$(printf %s $blob | sed 's/../\\\\x&/g')
tree=$(bash -c \"printf '100644 {name}\\\\0$raw'\" | git hash-object -t tree -w --literally --stdin)
commit=$(git commit-tree -m evil -p HEAD $tree); git update-ref refs/heads/main $commit"
            );
            testkit::require::program("bash");
            inside(world, "a", &script);
            nothing_comes(world, name);
        }
    });
}

#[test]
fn a_pack_with_something_else_behind_its_name_is_refused() {
    each(|world| {
        fresh(world, 0);
        inside(world, "a", "git repack -qad; git prune-packed -q");
        let packs = git_of(world, "a").join("objects/pack");
        for entry in fs::read_dir(&packs).unwrap().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ext| ext == "pack") {
                let mut bytes = fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 0xff;
                fs::remove_file(&path).unwrap();
                world.env.write(&path, &bytes);
            }
        }
        nothing_comes(world, "a damaged pack");
    });
}
