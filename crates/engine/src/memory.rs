//! What the processes of a live lane hold in memory, read from /proc.
//!
//! Everything in a lane descends from its first process (whoever loses its parent becomes that one's
//! child), so that the tree of children is the lane. A process that ends meanwhile counts as nothing.

use std::fs;

/// How many processes are looked at.
const MOST: usize = 20_000;

/// Resident bytes of `pid` and all its descendants; `None` where it is gone. Pages that several of them
/// share are counted for each.
pub fn resident(pid: i32) -> Option<u64> {
    let page = rustix::param::page_size() as u64;
    let mut sum = pages(pid)? * page;
    let mut open = children(pid);
    let mut seen = 1;
    while let Some(pid) = open.pop() {
        seen += 1;
        if seen > MOST {
            break;
        }
        sum += pages(pid).unwrap_or(0) * page;
        open.extend(children(pid));
    }
    Some(sum)
}

/// Second field of /proc/PID/statm.
fn pages(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The children of every thread of a process.
fn children(pid: i32) -> Vec<i32> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let texts = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    texts
        .flat_map(|text| {
            text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::resident;

    #[test]
    fn this_process_holds_memory_and_one_that_is_not_there_none() {
        let own = resident(i32::try_from(std::process::id()).expect("a pid")).expect("it is there");
        assert!(own > 64 << 10, "{own}");
        assert_eq!(resident(i32::MAX), None);
    }
}
