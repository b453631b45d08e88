//! The body of a manifest on disk, read in pages: a lookup in a large one costs a few of them, and memory holds a
//! bounded number.
//!
//! Invariant: a page is checked against its sum before anything in it is used.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use super::format::{HEADER, PAGE, Sum};
use crate::error::{Doing as _, Error, Result};

/// Pages held at most: half a MiB.
const HELD: usize = 32;

/// The body of a manifest: everything between the header and the sums of its pages.
pub(super) struct Pages {
    file: OwnedFd,
    path: PathBuf,
    len: usize,
    sums: Vec<Sum>,
    held: RefCell<Held>,
}

/// Pages in memory, under their numbers, each with when it was last asked for.
struct Held {
    pages: Vec<Option<(u64, Vec<u8>)>>,
    count: usize,
    clock: u64,
}

impl Pages {
    /// The `len` bytes of body of an open manifest; `path` names it in errors.
    pub(super) fn new(file: OwnedFd, path: PathBuf, len: usize, sums: Vec<Sum>) -> Pages {
        let held = Held { pages: vec![None; len.div_ceil(PAGE)], count: 0, clock: 0 };
        Pages { file, path, len, sums, held: RefCell::new(held) }
    }

    /// How many pages there are.
    pub(super) fn count(&self) -> usize {
        self.len.div_ceil(PAGE)
    }

    /// Puts the `len` bytes at `at` into `out`, in place of what it holds.
    pub(super) fn read(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let end = at.checked_add(len).filter(|end| *end <= self.len).ok_or_else(|| self.damaged())?;
        let mut at = at;
        while at < end {
            let (number, from) = (at / PAGE, at % PAGE);
            let take = (end - at).min(PAGE - from);
            self.with(number, |page| out.extend_from_slice(&page[from..from + take]))?;
            at += take;
        }
        Ok(())
    }

    /// Reads and checks one page, without holding it.
    pub(super) fn check(&self, number: usize) -> Result<()> {
        self.load(number).map(drop)
    }

    pub(super) fn damaged(&self) -> Error {
        Error::Damaged { what: "manifest", path: self.path.clone() }
    }

    fn with(&self, number: usize, use_it: impl FnOnce(&[u8])) -> Result<()> {
        let mut held = self.held.borrow_mut();
        held.clock += 1;
        let now = held.clock;
        if let Some((last, page)) = &mut held.pages[number] {
            *last = now;
            use_it(page);
            return Ok(());
        }
        let page = self.load(number)?;
        use_it(&page);
        if held.count == HELD {
            held.drop_oldest();
        }
        held.pages[number] = Some((now, page));
        held.count += 1;
        Ok(())
    }

    fn load(&self, number: usize) -> Result<Vec<u8>> {
        let at = number * PAGE;
        let mut page = vec![0; (self.len - at).min(PAGE)];
        let got = kernel::bytes::read_full_at(&self.file, &mut page, (HEADER + at) as u64)
            .doing("read manifest", &self.path)?;
        if got < page.len() || self.sums.get(number) != Some(&Sum::of(&page)) {
            return Err(self.damaged());
        }
        Ok(page)
    }
}

impl Held {
    fn drop_oldest(&mut self) {
        let asked = |page: &Option<(u64, Vec<u8>)>| page.as_ref().map(|(last, _)| *last);
        let there = self.pages.iter_mut().filter(|page| page.is_some());
        if let Some(oldest) = there.min_by_key(|page| asked(page)) {
            *oldest = None;
            self.count -= 1;
        }
    }
}
