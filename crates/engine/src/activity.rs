//! How much the processes of a lane have written, by the kernel's own counters: two looks that differ have writing, or
//! a process that came or went, between them.
//!
//! Costs one small call a process of the machine and one small read a process of the lane. Rests on namespaces(7),
//! proc_pid_io(5).

use std::fs;
use std::os::unix::fs::MetadataExt as _;

/// A look at the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Activity {
    /// Bytes that were given to write(2) and its kin, over the processes that are there.
    written: u64,
    /// The processes that are there.
    processes: u64,
}

/// Looks at the processes in the pid namespace with this inode number. Those that a command joined are no descendants
/// of the lane's pid 1, but in its namespace they are.
pub(crate) fn look(pid_namespace: u64) -> Activity {
    let mut activity = Activity::default();
    let Ok(entries) = fs::read_dir("/proc") else { return activity };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
        // Somebody else's process cannot be asked, nor can our pid 1, which writes nothing.
        let Ok(namespace) = fs::metadata(format!("/proc/{pid}/ns/pid")) else { continue };
        if namespace.ino() == pid_namespace {
            activity.processes = activity.processes.wrapping_add(pid.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            activity.written = activity.written.wrapping_add(written(pid));
        }
    }
    activity
}

fn written(pid: u64) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/io")) else { return 0 };
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok()).unwrap_or(0)
}
