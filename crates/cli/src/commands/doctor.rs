//! `lane doctor`.

use engine::ops::doctor::{Check, CheckId, DoctorRequest, Verdict};

use super::Context;
use crate::error::Result;
use crate::exit_code;
use crate::render::table::{self, Cell};
use crate::style::Role;
use crate::wire;

/// Try what lanes need on this machine and this project, and name a remedy for what is missing.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Tries everything; exit code 1 where a lane cannot be made.
pub(crate) fn run(context: &mut Context, _args: Args) -> Result<u8> {
    let engine = context.engine()?;
    let checks = engine::ops::doctor::doctor(&engine, &DoctorRequest { dir: context.dir() })?;
    let ready = !checks.iter().any(|check| check.verdict == Verdict::Missing && is_needed(check.id));
    let code = if ready { exit_code::DONE } else { exit_code::NOT_DONE };
    let ui = &mut context.ui;
    if ui.json {
        let probes = checks.iter().map(|check| wire::Probe {
            id: word(check.id),
            verdict: check.verdict.word(),
            found: check.found.clone(),
            remedy: remedy(check).map(str::to_owned),
        });
        ui.document(&wire::Doctor { ready, checks: probes.collect() })?;
        return Ok(code);
    }
    let rows: Vec<Vec<Cell>> = checks
        .iter()
        .map(|check| {
            let role = match check.verdict {
                Verdict::Ok => Role::Good,
                Verdict::Degraded => Role::Warn,
                Verdict::Missing => Role::Bad,
            };
            vec![
                Cell::new(word(check.id)),
                Cell::new(check.verdict.word()).role(role),
                Cell::new(&check.found),
            ]
        })
        .collect();
    for line in table::lines(ui, &["CHECK", "VERDICT", "FOUND"], &rows) {
        ui.line(&line)?;
    }
    for check in &checks {
        if let Some(remedy) = remedy(check) {
            ui.line(&format!("{}: {remedy}", word(check.id)))?;
        }
    }
    ui.say(if ready { "lanes can be made here" } else { "no lane can be run here" });
    Ok(code)
}

fn is_needed(id: CheckId) -> bool {
    matches!(
        id,
        CheckId::State
            | CheckId::Ledger
            | CheckId::UserNamespace
            | CheckId::Namespaces
            | CheckId::Seccomp
            | CheckId::View
            | CheckId::Strategy
    )
}

fn word(id: CheckId) -> &'static str {
    match id {
        CheckId::Kernel => "kernel",
        CheckId::State => "state",
        CheckId::Ledger => "ledger",
        CheckId::UserNamespace => "user-namespace",
        CheckId::Namespaces => "namespaces",
        CheckId::Overlay => "overlay",
        CheckId::Reflink => "reflink",
        CheckId::Seccomp => "seccomp",
        CheckId::View => "view",
        CheckId::SeccompNotify => "seccomp-notify",
        CheckId::Landlock => "landlock",
        CheckId::Project => "project",
        CheckId::Strategy => "strategy",
        CheckId::Remnants => "remnants",
    }
}

/// One thing to do about it.
fn remedy(check: &Check) -> Option<&'static str> {
    if check.verdict == Verdict::Ok {
        return None;
    }
    Some(match check.id {
        CheckId::Kernel => {
            "lanes need Linux 5.11 or newer for overlays of ordinary users; copy lanes need 5.6"
        }
        CheckId::State => "name a directory of your own with `--state DIR` or LANE_STATE",
        CheckId::Ledger => "move lane.db away from the state directory; lanes stay, their record begins anew",
        CheckId::UserNamespace => {
            "`sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000` (Ubuntu 24.04: also \
             `kernel.apparmor_restrict_unprivileged_userns=0`, or a profile for lane); in a container: `--security-opt seccomp=unconfined`"
        }
        CheckId::Namespaces => {
            "raise `user.max_mnt_namespaces`, `max_pid_namespaces` and their like with sysctl"
        }
        CheckId::Overlay => {
            "lanes are copies here; keep the state on ext4, xfs or btrfs with `--state DIR` for overlays"
        }
        CheckId::Reflink => {
            "nothing to do: writes copy the file once; btrfs, or xfs with reflink=1, would share its blocks"
        }
        CheckId::Seccomp => "the kernel needs CONFIG_SECCOMP_FILTER; lanes do not run without it",
        CheckId::SeccompNotify => {
            "Linux 5.5 or newer; without it renaming a directory of the original answers EXDEV"
        }
        CheckId::View => {
            "the step that failed is named: a container or a policy of this system refuses it (in a container: \
             `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`)"
        }
        CheckId::Landlock => "add landlock to the kernel's `lsm=` list; the other walls stand without it",
        CheckId::Project => "see what was found; `--strategy copy` makes a lane of what overlay cannot hold",
        CheckId::Strategy => "`--strategy copy` needs only room on disk; `lane -C DIR` names another project",
        CheckId::Remnants => "`lane ls --all` shows them; `lane discard NAME --now` removes one",
    })
}
