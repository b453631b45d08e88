//! [`Flush`]: bringing much to the disk while more of it is made.
//!
//! Invariant: [`Flush::end`] is back once everything that was written before it was called is on disk, whatever was brought there
//! before; a failure of any part of it is its failure. No thread is left by then, nor after a drop.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use kernel::publish;
use tree::TreePath;

use crate::error::{Result, Stepping as _};

/// A filesystem that is being written.
pub(crate) struct Flush {
    dir: OwnedFd,
    thread: Option<(Sender<()>, JoinHandle<kernel::Result<()>>)>,
}

impl Flush {
    /// Of the filesystem of `dir`. Without a second processor or a thread to be had everything waits for the end.
    pub(crate) fn begin(dir: BorrowedFd<'_>) -> Result<Flush> {
        let top = TreePath::root();
        let copy = || {
            dir.try_clone_to_owned()
                .map_err(|error| kernel::Error::from_io("dup", b"", &error))
                .stepping("open the staging directory", &top)
        };
        let (own, theirs) = (copy()?, copy()?);
        let (ring, rung) = channel::<()>();
        let work = move || {
            while rung.recv().is_ok() {
                // Once is enough for all that rang meanwhile.
                while rung.try_recv().is_ok() {}
                publish::sync_filesystem(&theirs)?;
            }
            Ok(())
        };
        let is_alone = std::thread::available_parallelism().is_ok_and(|count| count.get() < 2);
        let thread = std::thread::Builder::new().name("lane-flush".to_owned());
        let thread = if is_alone { None } else { thread.spawn(work).ok() };
        Ok(Flush { dir: own, thread: thread.map(|thread| (ring, thread)) })
    }

    /// A good part was written: the disk may begin with it.
    pub(crate) fn go_on(&self) {
        if let Some((ring, _)) = &self.thread {
            // One that has failed has ended, and says so at the end.
            let _ = ring.send(());
        }
    }

    /// Has everything on disk.
    pub(crate) fn end(mut self) -> Result<()> {
        let top = TreePath::root();
        self.stop().stepping("syncfs", &top)?;
        publish::sync_filesystem(self.dir.as_fd()).stepping("syncfs", &top)
    }

    fn stop(&mut self) -> kernel::Result<()> {
        let Some((ring, thread)) = self.thread.take() else { return Ok(()) };
        drop(ring);
        // One that panicked has synced nothing, which the end makes good.
        thread.join().unwrap_or(Ok(()))
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        // After a failure that is told already.
        let _ = self.stop();
    }
}
