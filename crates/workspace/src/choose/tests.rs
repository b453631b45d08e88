use std::path::PathBuf;

use super::{Abilities, Choice, Reason, Refusal, Remedy, Strategy, choose};
use crate::origin::{ForeignOwners, OriginFacts};

fn facts() -> OriginFacts {
    OriginFacts {
        path: "/p".into(),
        fs_type: "ext4".into(),
        mount_point: "/".into(),
        ..OriginFacts::default()
    }
}

fn user() -> Abilities {
    Abilities { is_root: false, overlay_user: Ok(()), overlay_root: Err("EPERM".into()), reflink: false }
}

fn root() -> Abilities {
    Abilities { is_root: true, overlay_user: Err("not tried".into()), overlay_root: Ok(()), reflink: false }
}

fn with_submount() -> OriginFacts {
    OriginFacts { submounts: vec!["/p/my data".into()], ..facts() }
}

fn with_foreign() -> OriginFacts {
    let foreign = ForeignOwners {
        owners: vec![(0, 0), (1000, 27)],
        examples: vec!["/p/dist".into()],
        ..ForeignOwners::default()
    };
    OriginFacts { foreign, ..facts() }
}

fn check(facts: &OriginFacts, can: &Abilities, wish: Option<Strategy>, expected: &str) {
    let told = match choose(facts, can, wish) {
        Ok(Choice { strategy, why, rejected }) => {
            let rejected: Vec<String> = rejected.iter().map(|(s, r)| format!("{s} ({r})")).collect();
            format!("{strategy} because {why}; not {}", rejected.join(", "))
        }
        Err(refusal) => format!("refused: {refusal}"),
    };
    assert_eq!(told, expected);
}

#[test]
fn overlay_comes_first_where_it_works() {
    let expected = "overlay because works on this ext4; not copy (a cheaper strategy comes first)";
    check(&facts(), &user(), None, expected);
    check(&facts(), &root(), None, expected);
}

#[test]
fn a_submount_leads_to_a_copy_and_is_named() {
    check(
        &with_submount(),
        &user(),
        None,
        "copy because no overlay: mounted below the project: /p/my data; not overlay (mounted below the project: /p/my data)",
    );
}

#[test]
fn foreign_owners_matter_to_a_user_and_not_to_root() {
    check(
        &with_foreign(),
        &user(),
        None,
        "copy because no overlay: files of other owners (0:0, 1000:27): /p/dist; not overlay (files of other owners (0:0, 1000:27): /p/dist)",
    );
    check(
        &with_foreign(),
        &root(),
        None,
        "overlay because works on this ext4; not copy (a cheaper strategy comes first)",
    );
}

#[test]
fn the_kernels_own_answer_is_passed_on() {
    let can = Abilities { overlay_user: Err("unshare: EPERM".into()), ..user() };
    check(
        &facts(),
        &can,
        None,
        "copy because no overlay: overlay over ext4 was refused: unshare: EPERM; not overlay (overlay over ext4 was refused: unshare: EPERM)",
    );
}

#[test]
fn a_remote_filesystem_is_copied_unless_overlay_is_asked_for() {
    let facts = OriginFacts { fs_type: "fuse.sshfs".into(), ..facts() };
    let copy = choose(&facts, &user(), None).expect("copy serves");
    assert_eq!(copy.strategy, Strategy::Copy);
    let overlay = choose(&facts, &user(), Some(Strategy::Overlay)).expect("asked for");
    assert_eq!(overlay.strategy, Strategy::Overlay);
}

#[test]
fn overlay_by_name_that_cannot_be_is_refused_with_reasons_and_remedies() {
    let facts = OriginFacts { submounts: with_submount().submounts, ..with_foreign() };
    let refusal = choose(&facts, &user(), Some(Strategy::Overlay)).expect_err("it cannot be");
    let points = vec![PathBuf::from("/p/my data")];
    assert_eq!(
        refusal,
        Refusal {
            strategy: Strategy::Overlay,
            reasons: vec![
                Reason::Submounts(points.clone()),
                Reason::ForeignOwners { examples: vec!["/p/dist".into()], owners: vec![(0, 0), (1000, 27)] },
            ],
            remedies: vec![
                Remedy::Use(Strategy::Copy),
                Remedy::Unmount(points),
                Remedy::TakeOver(vec!["/p/dist".into()]),
            ],
        }
    );
}

#[test]
fn copy_by_name_is_always_given() {
    check(
        &facts(),
        &user(),
        Some(Strategy::Copy),
        "copy because asked for; not overlay (another strategy was asked for)",
    );
}

#[test]
fn words_and_strategies_are_one_to_one() {
    for strategy in [Strategy::Overlay, Strategy::Copy] {
        assert_eq!(Strategy::from_word(strategy.word()), Some(strategy));
    }
    assert_eq!(Strategy::from_word("fuse"), None);
}
