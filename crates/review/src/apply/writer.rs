//! [`Writer`]: small files are made by a thread of its own while the next ones are read.
//!
//! Invariant: a file that was ordered is there with its content once [`Writer::end`] is back without an error. The first one that
//! fails ends it. No thread is left by then, nor after a drop.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use kernel::meta::{self, RawStat};
use kernel::{bytes, open};
use rustix::fs::{Mode, OFlags};

/// Orders that may wait; more would only cost memory.
const WAITING: usize = 64;

/// A new file.
pub(crate) struct Order {
    /// Whoever ordered it knows it by that.
    pub(crate) number: usize,
    /// Its directory.
    pub(crate) dir: Arc<OwnedFd>,
    pub(crate) name: Vec<u8>,
    /// Subject to the umask.
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

/// What became of an order: the file as it is, or what went wrong.
pub(crate) type Made = (usize, kernel::Result<RawStat>);

/// A thread that writes.
pub(crate) struct Writer(Option<(SyncSender<Order>, JoinHandle<Vec<Made>>)>);

impl Writer {
    /// `None` without a second processor, or without a thread to be had.
    pub(crate) fn begin() -> Option<Writer> {
        if std::thread::available_parallelism().is_ok_and(|count| count.get() < 2) {
            return None;
        }
        let (desk, orders) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("lane-write".to_owned());
        let thread = thread.spawn(move || work(&orders)).ok()?;
        Some(Writer(Some((desk, thread))))
    }

    /// Orders a file; false where an earlier one failed, so that there is no use in more.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.0.as_ref().is_some_and(|(desk, _)| desk.send(order).is_ok())
    }

    /// Waits for everything that was ordered.
    pub(crate) fn end(mut self) -> Vec<Made> {
        match self.stop() {
            Some(Ok(made)) => made,
            // As if it had happened here.
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Vec::new(),
        }
    }

    fn stop(&mut self) -> Option<std::thread::Result<Vec<Made>>> {
        let (desk, thread) = self.0.take()?;
        drop(desk);
        Some(thread.join())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // After a failure that is told already.
        let _ = self.stop();
    }
}

fn work(orders: &Receiver<Order>) -> Vec<Made> {
    let mut made = Vec::new();
    while let Ok(order) = orders.recv() {
        let answer = make(&order);
        let failed = answer.is_err();
        made.push((order.number, answer));
        if failed {
            break;
        }
    }
    made
}

fn make(order: &Order) -> kernel::Result<RawStat> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
    let file = open::open_beneath(&*order.dir, &order.name, flags, Mode::from_raw_mode(order.mode))?;
    bytes::write_all_at(&file, &order.content, 0)?;
    meta::stat_fd(&file)
}
