//! Whether an upper of a lane holds hard links, remembered by whoever has just read it, so that a lane can be forked
//! without being read once more: links would part when the layer becomes a lower one.
//!
//! ```text
//! links -> none | some | reading-<token>
//! ```
//!
//! Invariant: what is remembered was true of the layers as they are. It is forgotten before they are mounted or written;
//! what a reading found is remembered only where its token still stands there, so that nothing was mounted meanwhile.

use kernel::{meta, node, publish};

use crate::error::{Doing as _, Result};
use crate::home::LaneHome;

const LINKS: &[u8] = b"links";
const READING: &[u8] = b"reading-";

/// A reading of a lane's layers that was begun while they were at rest.
#[derive(Debug)]
pub struct LinksReading {
    token: Vec<u8>,
}

fn word(linked: bool) -> &'static [u8] {
    if linked { b"some" } else { b"none" }
}

impl LaneHome {
    /// Whether an upper holds hard links, where that is known. The caller holds the lock.
    pub fn known_links(&self) -> Result<Option<bool>> {
        match meta::read_link_at(&self.dir().fd, LINKS) {
            Ok(said) if said == word(false) => Ok(Some(false)),
            Ok(said) if said == word(true) => Ok(Some(true)),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error).doing("look at what is known of links", self.path()),
        }
    }

    /// Remembers it. The caller holds the lock and nothing is mounted.
    pub fn note_links(&self, linked: bool) -> Result<()> {
        publish::write_link(&self.dir().fd, LINKS, word(linked)).doing("note links", self.path())
    }

    /// Before the layers are mounted or written: nothing is known any more.
    pub fn forget_links(&self) -> Result<()> {
        match node::unlink_at(&self.dir().fd, LINKS) {
            Err(error) if error.is_not_found() => Ok(()),
            other => other.doing("forget links", self.path()),
        }
    }

    /// Announces that the layers will be read, which may go on when the lock is let go. The caller holds it, and
    /// nothing is mounted.
    pub fn begin_links(&self) -> Result<LinksReading> {
        let token = [READING, publish::temp_name().as_slice()].concat();
        publish::write_link(&self.dir().fd, LINKS, &token).doing("note links", self.path())?;
        Ok(LinksReading { token })
    }

    /// Remembers what the reading found, unless the lane is in use or was since it began. The caller does not hold the
    /// lock.
    pub fn end_links(&self, reading: &LinksReading, linked: bool) -> Result<()> {
        let Some(_lock) = self.try_lock()? else { return Ok(()) };
        match meta::read_link_at(&self.dir().fd, LINKS) {
            Ok(said) if said == reading.token => self.note_links(linked),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_counts_only_where_nothing_was_mounted_meanwhile() {
        let state = tempfile::tempdir().expect("a directory");
        let (home, lock) = LaneHome::create(state.path(), "k3").expect("made");
        assert_eq!(home.known_links().expect("asked"), None);
        let reading = home.begin_links().expect("begun");
        assert_eq!(home.known_links().expect("asked"), None);
        drop(lock);
        home.end_links(&reading, false).expect("ended");
        assert_eq!(home.known_links().expect("asked"), Some(false));
        home.forget_links().expect("forgotten");
        home.end_links(&reading, false).expect("ended");
        assert_eq!(home.known_links().expect("asked"), None);
        home.note_links(true).expect("noted");
        assert_eq!(home.known_links().expect("asked"), Some(true));
    }

    #[test]
    fn nothing_is_remembered_of_a_lane_that_somebody_holds() {
        let state = tempfile::tempdir().expect("a directory");
        let (home, _lock) = LaneHome::create(state.path(), "k3").expect("made");
        let reading = home.begin_links().expect("begun");
        home.end_links(&reading, true).expect("ended");
        assert_eq!(home.known_links().expect("asked"), None);
    }
}
