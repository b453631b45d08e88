//! git on a real repository: its own files are changed in the lane, and nowhere else.

use testkit::Listing;

use crate::ground::each_over;

#[test]
fn git_commits_moves_stashes_and_packs_in_a_lane_and_the_original_repository_stays_as_it_is() {
    each_over("rust", |ground| {
        let before = Listing::of(&ground.project);
        assert_eq!(ground.sh("g", "git status --porcelain").out(), "");
        let ran = ground.sh(
            "g",
            "git mv crates boxes
             git commit -q -m moved
             echo more >> README.md
             git stash -q
             git status --porcelain
             git stash list
             git stash pop -q
             git status --porcelain
             git commit -qam 'more of it'
             git tag here
             git checkout -q -b other HEAD~2
             test -f crates/core/main.rs
             test ! -e boxes
             git checkout -q main
             git gc -q --prune=now
             git fsck --no-progress
             git log --format=%s",
        );
        let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
        assert!(lines[0].starts_with("stash@{0}: WIP on main"), "{ran}");
        assert_eq!(lines[1..], [" M README.md", "more of it", "moved", "first"], "{ran}");
        let changed = ground.changed("g");
        assert!(changed.contains("README.md") && changed.contains("boxes"), "{changed}");
        assert!(!changed.contains("vendor"), "{changed}");
        before.assert_same(&Listing::of(&ground.project));
        ground.gone("g");
        before.assert_same(&Listing::of(&ground.project));
    });
}

#[test]
fn a_clone_a_worktree_and_a_rebase_inside_a_lane_stay_there() {
    each_over("rust", |ground| {
        let before = Listing::of(&ground.project);
        ground.sh(
            "w",
            "git worktree add -q .trees/one -b one
             cd .trees/one
             git mv tests proofs
             git commit -q -m proofs
             cd ../..
             echo x > new
             git add new
             git commit -q -m new
             git rebase -q one
             test -d proofs
             test -f new
             git clone -q . /tmp/clone
             git -C /tmp/clone fsck --no-progress
             git worktree remove .trees/one
             git worktree list | grep -c .",
        );
        before.assert_same(&Listing::of(&ground.project));
        ground.gone("w");
    });
}
