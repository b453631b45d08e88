//! One entry: what each side did to it, and what is to stand there then.
//!
//! Invariant: without the base's content, two contents that differ are a conflict; a file that was touched is never
//! taken for untouched by its size and modification time.

use std::os::fd::OwnedFd;

use tree::source::Xattr;
use tree::{Entry, Kind, Source, TreePath};

use super::{Base, Bases, Clash, Conflicts, made};
use crate::apply::carried;
use crate::composed::{Composed, Tree};
use crate::error::{Reading as _, Result};
use crate::merge::{self, Merged, Names};
use crate::read::TEXT_LIMIT;
use crate::table::{Did, Outcome, both, decide};

/// The three entries, and where each of them is read.
pub(super) struct Three<'a> {
    pub(super) bases: &'a dyn Bases,
    pub(super) base_path: &'a TreePath,
    pub(super) base: &'a Base,
    pub(super) lane: &'a dyn Source,
    pub(super) lane_path: &'a TreePath,
    pub(super) lane_entry: Option<&'a Entry>,
    pub(super) origin: &'a dyn Source,
    pub(super) origin_path: &'a TreePath,
    pub(super) origin_entry: Option<&'a Entry>,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Nothing.
    Leave,
    /// Nothing, by the caller's wish.
    LeaveFor(Clash),
    /// It goes; with the conflict that the caller settled that way.
    Delete(Option<Clash>),
    /// This comes; with the conflict that the caller settled that way.
    Put(Put, Option<Clash>),
    /// A person has to decide.
    Clash(Clash),
}

/// What is to stand there.
#[derive(Debug)]
pub(super) struct Put {
    content: From,
    /// `None`: as they are where the content comes from.
    dress: Option<(u32, Vec<Xattr>)>,
}

#[derive(Debug, PartialEq, Eq)]
enum From {
    Lane,
    Original,
    Made(Vec<u8>),
}

impl Put {
    /// The original's own object.
    pub(super) fn original() -> Put {
        Put { content: From::Original, dress: None }
    }

    /// Both sides have a part in it.
    pub(super) fn is_joined(&self) -> bool {
        self.dress.is_some() || matches!(self.content, From::Made(_))
    }

    pub(super) fn is_originals(&self) -> bool {
        self.content == From::Original
    }

    pub(super) fn is_made(&self) -> bool {
        matches!(self.content, From::Made(_))
    }

    /// Lets `lane` show it at `place`; answers the entry that is shown.
    pub(super) fn shape(
        &self,
        original: Option<&Entry>,
        lane: &mut Composed<'_>,
        at: &TreePath,
        place: &TreePath,
        standing: &TreePath,
    ) -> Result<Option<Entry>> {
        let dress = self.dress.clone();
        let shown = match &self.content {
            From::Lane if dress.is_none() && at == place => lane.entry(place),
            From::Lane => lane.show_as(place, Tree::Lane, at, dress),
            From::Original => lane.show_as(place, Tree::Base, standing, dress),
            From::Made(content) => {
                let (Some(original), Some((mode, xattrs))) = (original, dress) else { return Ok(None) };
                let like = Entry { mode, ..original.clone() };
                lane.put(place, made(content, place)?, &like, xattrs).map(Some)
            }
        };
        shown.reading("lane", place)
    }
}

fn read(fd: OwnedFd, path: &TreePath) -> Result<Vec<u8>> {
    kernel::bytes::read_all(&fd).reading("lane", path)
}

/// Weighs the three.
pub(super) fn weigh(three: &Three<'_>, how: Conflicts, names: &Names) -> Result<Verdict> {
    let (lane, original) = (three.lane_entry, three.origin_entry);
    let (lane_did, original_did) = match three.base {
        Base::Unknown => (None, None),
        Base::Nothing => (Some(made_of(lane)), Some(made_of(original))),
        Base::Has(was) => (three.lane_did(was)?, three.original_did(was)?),
    };
    let (Some(lane_did), Some(original_did)) = (lane_did, original_did) else {
        return if three.is_same()? {
            Ok(Verdict::Leave)
        } else {
            Ok(three.unsettled(Clash::BaseUnknown, how))
        };
    };
    let did = Clash::Did { lane: lane_did, original: original_did };
    let was = match three.base {
        Base::Has(was) => Some(&**was),
        _ => None,
    };
    match decide(lane_did, original_did) {
        Outcome::Leave => Ok(Verdict::Leave),
        Outcome::Take => Ok(Verdict::Put(Put { content: From::Lane, dress: None }, None)),
        Outcome::Delete => Ok(Verdict::Delete(None)),
        Outcome::Same if three.is_same()? => Ok(Verdict::Leave),
        Outcome::Same | Outcome::Conflict => {
            // Directories go together; what is in them is looked at by itself.
            let dirs = lane.zip(original).is_some_and(|(lane, original)| lane.is_dir() && original.is_dir());
            if dirs { Ok(Verdict::Leave) } else { Ok(three.unsettled(did, how)) }
        }
        Outcome::Meta => three.join(was, From::Original, how),
        Outcome::Content => three.join(was, From::Lane, how),
        Outcome::Merge => three.merge(was, did, how, names),
    }
}

fn made_of(entry: Option<&Entry>) -> Did {
    if entry.is_some() { Did::Add } else { Did::Nothing }
}

impl Three<'_> {
    fn lane_did(&self, was: &Entry) -> Result<Option<Did>> {
        let read = || self.lane.open(self.lane_path).reading("lane", self.lane_path);
        let xattrs = || self.lane.xattrs(self.lane_path).reading("lane", self.lane_path);
        self.did(was, self.lane_entry, &read, &xattrs)
    }

    fn original_did(&self, was: &Entry) -> Result<Option<Did>> {
        let read = || self.origin.open(self.origin_path).reading("origin", self.origin_path);
        let xattrs = || self.origin.xattrs(self.origin_path).reading("origin", self.origin_path);
        self.did(was, self.origin_entry, &read, &xattrs)
    }

    /// What a side did; `None` where that cannot be known.
    fn did(
        &self,
        was: &Entry,
        now: Option<&Entry>,
        read: &dyn Fn() -> Result<OwnedFd>,
        xattrs: &dyn Fn() -> Result<Vec<Xattr>>,
    ) -> Result<Option<Did>> {
        let Some(now) = now else { return Ok(Some(Did::Delete)) };
        if was.kind != now.kind {
            return Ok(Some(Did::Retype));
        }
        let same_content = match was.kind {
            Kind::Symlink => was.target == now.target,
            Kind::File if was.size != now.size => false,
            Kind::File => match self.bases.content(self.base_path, was)? {
                Some(content) => {
                    kernel::bytes::same_content(&content, &read()?).reading("base", self.base_path)?
                }
                None => return Ok(None),
            },
            _ => true,
        };
        if !same_content {
            return Ok(Some(Did::Content));
        }
        if was.kind != Kind::Symlink && was.mode != now.mode {
            return Ok(Some(Did::Meta));
        }
        let same = match self.bases.xattrs(self.base_path, was)? {
            Some(had) if was.kind == Kind::File => own(had) == own(xattrs()?),
            _ => true,
        };
        Ok(Some(if same { Did::Nothing } else { Did::Meta }))
    }

    /// True where both sides hold the same.
    fn is_same(&self) -> Result<bool> {
        let (Some(lane), Some(original)) = (self.lane_entry, self.origin_entry) else {
            return Ok(self.lane_entry.is_none() && self.origin_entry.is_none());
        };
        let alike = lane.kind == original.kind
            && lane.target == original.target
            && (lane.kind == Kind::Symlink || lane.mode == original.mode)
            && (lane.kind != Kind::File || lane.size == original.size);
        if !alike || lane.kind != Kind::File {
            return Ok(alike);
        }
        let (ours, theirs) = self.xattrs()?;
        let a = self.lane.open(self.lane_path).reading("lane", self.lane_path)?;
        let b = self.origin.open(self.origin_path).reading("origin", self.origin_path)?;
        Ok(ours == theirs && kernel::bytes::same_content(&a, &b).reading("origin", self.origin_path)?)
    }

    /// The attributes that count: of the original, of the lane.
    fn xattrs(&self) -> Result<(Vec<Xattr>, Vec<Xattr>)> {
        let ours = self.origin.xattrs(self.origin_path).reading("origin", self.origin_path)?;
        let theirs = self.lane.xattrs(self.lane_path).reading("lane", self.lane_path)?;
        Ok((own(ours), own(theirs)))
    }

    /// Mode and attributes of both sides, or why there are none.
    fn dress(&self, was: Option<&Entry>) -> Result<std::result::Result<(u32, Vec<Xattr>), Clash>> {
        let (Some(was), Some(lane), Some(original)) = (was, self.lane_entry, self.origin_entry) else {
            return Ok(Err(Clash::BaseUnknown));
        };
        let Some(mode) = both(&was.mode, original.mode, lane.mode) else { return Ok(Err(Clash::Mode)) };
        if !lane.is_file() {
            return Ok(Ok((mode, self.origin.xattrs(self.origin_path).reading("origin", self.origin_path)?)));
        }
        let (ours, theirs) = self.xattrs()?;
        if ours == theirs {
            return Ok(Ok((mode, ours)));
        }
        let Some(had) = self.bases.xattrs(self.base_path, was)? else { return Ok(Err(Clash::Attributes)) };
        Ok(both(&own(had), ours, theirs).map(|xattrs| (mode, xattrs)).ok_or(Clash::Attributes))
    }

    /// One side's content with mode and attributes of both.
    fn join(&self, was: Option<&Entry>, content: From, how: Conflicts) -> Result<Verdict> {
        let (mode, xattrs) = match self.dress(was)? {
            Ok(dress) => dress,
            Err(clash) => return Ok(self.unsettled(clash, how)),
        };
        let (ours, _) = self.xattrs()?;
        let same = self.origin_entry.is_some_and(|original| original.mode == mode)
            && own(ours) == own(xattrs.clone());
        if content == From::Original && same {
            return Ok(Verdict::Leave);
        }
        Ok(Verdict::Put(Put { content, dress: Some((mode, xattrs)) }, None))
    }

    /// The contents of both sides, by lines.
    fn merge(&self, was: Option<&Entry>, did: Clash, how: Conflicts, names: &Names) -> Result<Verdict> {
        let dress = match self.dress(was)? {
            Ok(dress) => dress,
            Err(clash) => return Ok(self.unsettled(clash, how)),
        };
        let (Some(was), Some(lane), Some(original)) = (was, self.lane_entry, self.origin_entry) else {
            return Ok(self.unsettled(did, how));
        };
        if !lane.is_file() {
            return if lane.target == original.target {
                Ok(Verdict::Leave)
            } else {
                Ok(self.unsettled(did, how))
            };
        }
        let Some(base) = self.bases.content(self.base_path, was)? else {
            return if self.is_same()? {
                Ok(Verdict::Leave)
            } else {
                Ok(self.unsettled(Clash::BaseUnknown, how))
            };
        };
        if [was.size, lane.size, original.size].iter().any(|size| *size > TEXT_LIMIT) {
            return if self.is_same()? { Ok(Verdict::Leave) } else { Ok(self.unsettled(Clash::Binary, how)) };
        }
        let base = read(base, self.base_path)?;
        let ours =
            read(self.origin.open(self.origin_path).reading("origin", self.origin_path)?, self.origin_path)?;
        let theirs = read(self.lane.open(self.lane_path).reading("lane", self.lane_path)?, self.lane_path)?;
        let three = merge::Three { base: &base, ours: &ours, theirs: &theirs };
        let put = |content: Vec<u8>, clash| {
            let content = if content == ours { From::Original } else { From::Made(content) };
            let as_it_is = content == From::Original
                && dress.0 == original.mode
                && self.xattrs().is_ok_and(|(ours, _)| ours == own(dress.1.clone()));
            match (as_it_is, clash) {
                (true, None) => Verdict::Leave,
                (true, Some(clash)) => Verdict::LeaveFor(clash),
                (false, clash) => Verdict::Put(Put { content, dress: Some(dress.clone()) }, clash),
            }
        };
        let regions = match merge::merge(three) {
            Merged::Clean(merged) => return Ok(put(merged, None)),
            Merged::Binary => return Ok(self.unsettled(Clash::Binary, how)),
            Merged::Conflict(regions) => regions,
        };
        let clash = Clash::Lines(regions);
        let settled = match how {
            Conflicts::Stop => None,
            Conflicts::Markers => merge::with_markers(three, names),
            Conflicts::Ours => merge::settle(three, false),
            Conflicts::Theirs => merge::settle(three, true),
        };
        Ok(match settled {
            Some(content) => put(content, Some(clash)),
            None => Verdict::Clash(clash),
        })
    }

    /// A conflict of whole entries, settled where the caller wants that and it can be done to this entry alone.
    fn unsettled(&self, clash: Clash, how: Conflicts) -> Verdict {
        let is_dir = |entry: Option<&Entry>| entry.is_some_and(Entry::is_dir);
        match how {
            Conflicts::Ours => Verdict::LeaveFor(clash),
            // What a directory holds is not settled by a word about the directory.
            Conflicts::Theirs if !is_dir(self.lane_entry) && !is_dir(self.origin_entry) => {
                match self.lane_entry {
                    None => Verdict::Delete(Some(clash)),
                    Some(_) => Verdict::Put(Put { content: From::Lane, dress: None }, Some(clash)),
                }
            }
            _ => Verdict::Clash(clash),
        }
    }
}

/// The attributes that are carried, in their order.
fn own(xattrs: Vec<Xattr>) -> Vec<Xattr> {
    let mut own: Vec<Xattr> = xattrs.into_iter().filter(|(name, _)| carried(name)).collect();
    own.sort();
    own
}
