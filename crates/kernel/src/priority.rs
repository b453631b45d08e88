//! Background work gives way: the lowest CPU and disk priority for the calling thread.
//!
//! Both are settings of one thread (`sched(7)`, `ioprio_set(2)`), and an ordinary user cannot raise
//! niceness again: call it from a thread that was started for the background work.

use crate::Result;
use crate::error::Asked as _;

const IOPRIO_WHO_PROCESS: libc::c_int = 1;
const IOPRIO_CLASS_IDLE: libc::c_int = 3;
const IOPRIO_CLASS_SHIFT: libc::c_int = 13;

/// Gives the calling thread niceness 19 and the idle class of disk priority.
pub fn idle_priority() -> Result<()> {
    rustix::process::setpriority_process(None, 19).asked("setpriority", "self, 19")?;
    // SAFETY: ioprio_set takes three integers and touches no memory; `0` names the calling thread.
    let answer = unsafe {
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_CLASS_IDLE << IOPRIO_CLASS_SHIFT)
    };
    if answer == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(crate::Error::from_io("ioprio_set", "self, idle", &error))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_thread_can_give_way_and_its_siblings_stay() {
        let before = rustix::process::getpriority_process(None).expect("readable");
        let inside = std::thread::spawn(|| {
            super::idle_priority().expect("anyone may lower itself");
            rustix::process::getpriority_process(None).expect("readable")
        });
        assert_eq!(inside.join().expect("no panic"), 19);
        assert_eq!(rustix::process::getpriority_process(None).expect("readable"), before);
    }
}
