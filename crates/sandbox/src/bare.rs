//! The leader of a command without namespaces of its own: it stands behind Landlock and the filter alone.
//!
//! Runs in the child after the fork and never returns. Invariants: everything that the command leaves behind becomes this
//! process's child and is ended with it; nothing else is ever signalled. What survives is what is left when this process
//! itself is killed: there is no pid namespace that would go with it.

use std::collections::HashSet;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use kernel::process::{self, Status, Which};
use kernel::{Errno, fdpass, signal};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;

use crate::error::{Result, Stage, Step as _};
use crate::init::Birth;
use crate::leader::{self, Started};
use crate::message::{FromInside, ToInside};
use crate::order::Order;
use crate::plan::Mode;

/// How long what is left may take after TERM.
const GRACE: Duration = Duration::from_secs(2);

/// Becomes the leader. Never returns.
pub(crate) fn main(channel: &OwnedFd, birth: &Birth<'_>) -> ! {
    match come_up(channel, birth) {
        Ok(Some((started, _hold))) => stand_by(channel, started.pid),
        Ok(None) => process::exit_now(0),
        Err(error) => {
            let _ = fdpass::send(channel, &FromInside::failed(&error).encode(), &[]);
            process::exit_now(125)
        }
    }
}

fn come_up(channel: &OwnedFd, birth: &Birth<'_>) -> Result<Option<(Started, Vec<OwnedFd>)>> {
    process::die_with_parent().step(Stage::Walls, "die with the supervisor")?;
    signal::block_all().step(Stage::Walls, "block signals")?;
    let mut keep = vec![channel.as_fd()];
    keep.extend(birth.streams.given.iter().flatten().map(|fd| fd.as_fd()));
    process::close_others(&keep).step(Stage::Walls, "close what the caller left open")?;
    let Some((order, hold)) = hear_order(channel)? else { return Ok(None) };
    // Orphans of the command become our children.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| kernel::Error::new("prctl", "PR_SET_CHILD_SUBREAPER", errno))
        .step(Stage::Walls, "take in orphans")?;
    kernel::privilege::own_keyring();
    kernel::privilege::not_dumpable().step(Stage::Walls, "shut the leader to tracing")?;
    kernel::privilege::no_new_privs().step(Stage::Walls, "no_new_privs")?;
    if birth.mode == Mode::Root {
        kernel::privilege::lock_down_root().step(Stage::Walls, "empty the bounding set")?;
    }
    kernel::privilege::drop_capabilities().step(Stage::Walls, "drop capabilities")?;
    process::die_with_parent().step(Stage::Walls, "die with the supervisor")?;
    fdpass::send(channel, &FromInside::Ready.encode(), &[]).step(Stage::Walls, "say that the walls stand")?;
    let Some(command) = &order.command else { return Ok(None) };
    let mut buffer = [0u8; 64];
    let heard = fdpass::receive(channel, &mut buffer);
    if !matches!(heard, Ok(Some((n, _))) if ToInside::decode(&buffer[..n]) == Some(ToInside::Go)) {
        return Ok(None);
    }
    let started = leader::start(channel, command, birth.streams, &order.walls, true)?;
    Ok(Some((started, hold)))
}

fn hear_order(channel: &OwnedFd) -> Result<Option<(Order, Vec<OwnedFd>)>> {
    loop {
        let mut buffer = [0u8; 64];
        let heard = fdpass::receive(channel, &mut buffer).step(Stage::Walls, "hear the order")?;
        let Some((n, mut fds)) = heard else { return Ok(None) };
        if fds.is_empty() {
            return Ok(None);
        }
        let file = fds.remove(0);
        match ToInside::decode(&buffer[..n]) {
            // There is nothing to build.
            Some(ToInside::Build) => {}
            Some(ToInside::Order) => return Ok(Some((Order::from_file(&file)?, fds))),
            _ => return Ok(None),
        }
    }
}

/// Waits for the word to end.
fn stand_by(channel: &OwnedFd, command: i32) -> ! {
    let Ok(children) = signal::block_and_watch(&[Signal::CHILD.as_raw()]) else { process::exit_now(125) };
    let mut command = Some(command);
    let mut end: Option<Instant> = None;
    loop {
        while let Ok(Some((pid, status))) = process::wait(Which::Any, false, true) {
            if Some(pid) != command {
                continue;
            }
            let _ = fdpass::send(channel, &FromInside::Changed(status).encode(), &[]);
            if matches!(status, Status::Exited(_) | Status::Killed(_)) {
                command = None;
            }
        }
        if let Some(end) = end {
            let left = below_us();
            if left.is_empty() {
                process::exit_now(0)
            }
            if Instant::now() >= end {
                left.iter().for_each(|pid| signal_if_ours(*pid, Signal::KILL));
            }
        }
        let mut fds = [PollFd::new(channel, PollFlags::IN), PollFd::new(&children, PollFlags::IN)];
        let timeout = end.map(|_| rustix::event::Timespec { tv_sec: 0, tv_nsec: 2_000_000 });
        if let Err(errno) = rustix::event::poll(&mut fds, timeout.as_ref())
            && errno != Errno::INTR
        {
            process::exit_now(125)
        }
        let said = fds[0].revents();
        while let Ok(Some(_)) = signal::next(&children) {}
        if said.contains(PollFlags::IN) {
            let mut buffer = [0u8; 64];
            let word = match fdpass::receive(channel, &mut buffer) {
                Ok(Some((n, _))) => ToInside::decode(&buffer[..n]),
                Ok(None) | Err(_) => None,
            };
            match word {
                Some(ToInside::Signal(number)) => {
                    if let Some(pid) = command {
                        let _ = process::kill(-pid, number);
                    }
                }
                Some(ToInside::Terminate) if end.is_none() => {
                    let left = below_us();
                    left.iter().for_each(|pid| signal_if_ours(*pid, Signal::TERM));
                    left.iter().for_each(|pid| signal_if_ours(*pid, Signal::CONT));
                    end = Some(Instant::now() + GRACE);
                }
                Some(ToInside::Terminate | ToInside::Go | ToInside::Build | ToInside::Order) => {}
                Some(ToInside::Kill) | None => end = Some(Instant::now()),
            }
        } else if said.intersects(PollFlags::HUP | PollFlags::ERR) {
            end = Some(Instant::now());
        }
    }
}

/// Every process that descends from this one and has not ended.
fn below_us() -> Vec<i32> {
    let us = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(proc) = kernel::proc::Proc::open() else { return Vec::new() };
    let Ok(pids) = proc.pids() else { return Vec::new() };
    let stats: Vec<(i32, i32, bool)> = pids
        .into_iter()
        .filter_map(|pid| proc.stat(pid).map(|stat| (pid, stat.parent, stat.has_ended())))
        .collect();
    let mut ours: HashSet<i32> = HashSet::from([us]);
    // Parents may come after their children in the list.
    loop {
        let before = ours.len();
        ours.extend(
            stats
                .iter()
                .filter(|(_, parent, _)| ours.contains(parent))
                .map(|(pid, ..)| *pid)
                .collect::<Vec<_>>(),
        );
        if ours.len() == before {
            break;
        }
    }
    stats
        .iter()
        .filter(|(pid, _, ended)| *pid != us && !ended && ours.contains(pid))
        .map(|(pid, ..)| *pid)
        .collect()
}

/// By a descriptor that is known to be of a descendant: the number may be somebody else's by now.
fn signal_if_ours(pid: i32, number: Signal) {
    let Ok(process) = kernel::proc::open_process(pid) else { return };
    if below_us().contains(&pid) {
        let _ = rustix::process::pidfd_send_signal(&process, number);
    }
}
