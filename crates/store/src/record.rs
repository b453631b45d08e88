//! [`Record`]: what a snapshot says of itself. Its id is the hash of these bytes, so that nothing in it can change.
//!
//! Invariant: decoding accepts what encoding makes and nothing else, byte for byte.

use std::collections::HashMap;

use tree::TreePath;

use crate::encode::{Decoded, Malformed, Put, Take};
use crate::error::{Error, Result};
use crate::history::{History, LaneKey};
use crate::id::{ManifestId, SnapshotId};

const VERSION: u8 = 1;

macro_rules! bytes_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $byte:literal $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$each])* $variant = $byte,)*
        }

        impl $name {
            /// One word for it.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }

            /// What one word stands for.
            pub fn from_word(word: &str) -> Option<$name> {
                match word {
                    $($word => Some($name::$variant),)*
                    _ => None,
                }
            }

            pub(crate) fn from_byte(byte: u8) -> Decoded<$name> {
                match byte {
                    $($byte => Ok($name::$variant),)*
                    _ => Err(Malformed(concat!("unknown ", stringify!($name)))),
                }
            }
        }
    };
}

bytes_enum! {
    /// Why a snapshot was taken.
    SnapshotKind {
        /// A person asked for it and gave it a name, which is the message.
        Named = 0 "named",
        /// Asked for, from outside or inside.
        Asked = 1 "asked",
        /// Writing had gone quiet.
        Quiet = 2 "quiet",
        /// Writing never went quiet, and it was time: mid-write.
        Ceiling = 3 "ceiling",
        /// A command ended.
        Exit = 4 "exit",
        /// A command was about to begin.
        Exec = 5 "exec",
        /// The lane was about to be put back to another state.
        Rescue = 6 "rescue",
        /// Another lane was begun from here.
        Fork = 7 "fork",
        /// The first state of a lane.
        Start = 8 "start",
        /// The lane was about to be dropped.
        Last = 9 "last",
    }
}

impl SnapshotKind {
    /// True where a program took it by itself, so that it may be thinned out. The first state of a lane is none: it is what
    /// `base` means.
    pub fn is_automatic(self) -> bool {
        use SnapshotKind::{Ceiling, Exec, Exit, Fork, Quiet, Rescue};
        matches!(self, Quiet | Ceiling | Exit | Exec | Rescue | Fork)
    }
}

bytes_enum! {
    /// What the lane was doing.
    Quiescence {
        /// Nobody was in it.
        AtRest = 0 "at-rest",
        /// Everybody in it was stopped.
        Frozen = 1 "frozen",
        /// It went on writing: files that belong together may be of different moments.
        Running = 2 "running",
    }
}

/// A layer below the top one, which is never written any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRef {
    /// Its name, as whoever keeps layers gave it.
    pub id: Vec<u8>,
    /// Its content, once that has reached the store.
    pub manifest: Option<ManifestId>,
}

/// One root of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Path of the origin.
    pub origin: Vec<u8>,
    /// What identifies the base, in the words of whoever made it.
    pub base: Vec<u8>,
    /// The layers between base and top, the topmost first.
    pub layers: Vec<LayerRef>,
    /// The top layer.
    pub top: ManifestId,
    /// What stood in the base under the paths that the lane has changed.
    pub base_contents: Option<ManifestId>,
    /// Entries of the top layer.
    pub entries: u64,
    /// Bytes of content of the top layer.
    pub bytes: u64,
}

/// Something that is not in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Which root.
    pub root: u32,
    /// Where.
    pub path: TreePath,
    /// Why.
    pub reason: String,
}

/// A snapshot, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The lane.
    pub lane: Vec<u8>,
    /// Counts the lane's snapshots, from 1.
    pub sequence: u64,
    /// The snapshot that the lane stood at.
    pub parent: Option<SnapshotId>,
    /// Milliseconds since 1970 UTC.
    pub time_ms: i64,
    /// Why.
    pub kind: SnapshotKind,
    /// What the lane was doing.
    pub quiescence: Quiescence,
    /// Name or text; may be empty.
    pub message: Vec<u8>,
    /// The roots.
    pub roots: Vec<Root>,
    /// What is not in it.
    pub gaps: Vec<Gap>,
    /// Files that look like credentials, by root.
    pub credentials: Vec<(u32, TreePath)>,
    /// Fields of later versions, by number: kept, and not understood.
    pub extra: Vec<(u64, Vec<u8>)>,
}

/// What the maker of a snapshot says of it; place in the history comes from the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// The parent, where it is not the lane's present position: the snapshot of another lane that this one began from.
    pub parent: Option<SnapshotId>,
    /// Milliseconds since 1970 UTC.
    pub time_ms: i64,
    /// Why.
    pub kind: SnapshotKind,
    /// What the lane was doing.
    pub quiescence: Quiescence,
    /// Name or text; may be empty.
    pub message: Vec<u8>,
    /// The roots.
    pub roots: Vec<Root>,
    /// What is not in it.
    pub gaps: Vec<Gap>,
    /// Files that look like credentials, by root.
    pub credentials: Vec<(u32, TreePath)>,
}

impl NewSnapshot {
    pub(crate) fn into_record(self, lane: &LaneKey, history: &History) -> Record {
        Record {
            lane: lane.as_str().as_bytes().to_vec(),
            sequence: history.last_sequence() + 1,
            parent: self.parent.or_else(|| history.position()),
            time_ms: self.time_ms,
            kind: self.kind,
            quiescence: self.quiescence,
            message: self.message,
            roots: self.roots,
            gaps: self.gaps,
            credentials: self.credentials,
            extra: Vec::new(),
        }
    }
}

impl Record {
    /// The snapshot's id.
    pub fn id(&self) -> SnapshotId {
        SnapshotId::of(&self.encode())
    }

    /// True where files are not in it that were in the lane.
    pub fn is_partial(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Every manifest that it names, by root; `layers` tells of sealed layers that it names by their id alone.
    pub(crate) fn manifests<'a>(
        &'a self,
        layers: &'a HashMap<Vec<u8>, ManifestId>,
    ) -> impl Iterator<Item = (u32, ManifestId)> + 'a {
        (0..).zip(&self.roots).flat_map(|(number, root)| {
            let below = root
                .layers
                .iter()
                .filter_map(|layer| layer.manifest.or_else(|| layers.get(&layer.id).copied()));
            std::iter::once(root.top).chain(root.base_contents).chain(below).map(move |id| (number, id))
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.bytes(&self.lane);
        out.number(self.sequence);
        optional(&mut out, self.parent.as_ref().map(|id| &id.0));
        out.signed(self.time_ms);
        out.byte(self.kind as u8);
        out.byte(self.quiescence as u8);
        out.bytes(&self.message);
        out.number(self.roots.len() as u64);
        for root in &self.roots {
            out.bytes(&root.origin);
            out.bytes(&root.base);
            out.number(root.layers.len() as u64);
            for layer in &root.layers {
                out.bytes(&layer.id);
                optional(&mut out, layer.manifest.as_ref().map(|id| &id.0));
            }
            out.raw(&root.top.0);
            optional(&mut out, root.base_contents.as_ref().map(|id| &id.0));
            out.number(root.entries);
            out.number(root.bytes);
        }
        out.number(self.gaps.len() as u64);
        for gap in &self.gaps {
            out.number(gap.root.into());
            out.path(&gap.path);
            out.bytes(gap.reason.as_bytes());
        }
        out.number(self.credentials.len() as u64);
        for (root, path) in &self.credentials {
            out.number((*root).into());
            out.path(path);
        }
        out.number(self.extra.len() as u64);
        for (number, bytes) in &self.extra {
            out.number(*number);
            out.bytes(bytes);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Record> {
        decode(bytes).map_err(|Malformed(why)| Error::malformed("snapshot record", why))
    }
}

fn optional(out: &mut Vec<u8>, hash: Option<&[u8; 32]>) {
    out.byte(hash.is_some().into());
    out.raw(hash.map_or(&[], |hash| &hash[..]));
}

fn take_optional(take: &mut Take<'_>) -> Decoded<Option<[u8; 32]>> {
    match take.byte()? {
        0 => Ok(None),
        1 => take.hash().map(Some),
        _ => Err(Malformed("neither there nor not")),
    }
}

fn decode(bytes: &[u8]) -> Decoded<Record> {
    let mut take = Take(bytes);
    if take.byte()? != VERSION {
        return Err(Malformed("of an unknown version"));
    }
    let mut record = Record {
        lane: take.bytes()?.to_vec(),
        sequence: take.number()?,
        parent: take_optional(&mut take)?.map(SnapshotId),
        time_ms: take.signed()?,
        kind: SnapshotKind::from_byte(take.byte()?)?,
        quiescence: Quiescence::from_byte(take.byte()?)?,
        message: take.bytes()?.to_vec(),
        roots: Vec::new(),
        gaps: Vec::new(),
        credentials: Vec::new(),
        extra: Vec::new(),
    };
    for _ in 0..take.count()? {
        let (origin, base) = (take.bytes()?.to_vec(), take.bytes()?.to_vec());
        let mut layers = Vec::new();
        for _ in 0..take.count()? {
            let id = take.bytes()?.to_vec();
            layers.push(LayerRef { id, manifest: take_optional(&mut take)?.map(ManifestId) });
        }
        record.roots.push(Root {
            origin,
            base,
            layers,
            top: ManifestId(take.hash()?),
            base_contents: take_optional(&mut take)?.map(ManifestId),
            entries: take.number()?,
            bytes: take.number()?,
        });
    }
    for _ in 0..take.count()? {
        let (root, path) = (take.small()?, take.path()?);
        let reason = std::str::from_utf8(take.bytes()?).map_err(|_| Malformed("a reason is no text"))?;
        record.gaps.push(Gap { root, path, reason: reason.to_owned() });
    }
    for _ in 0..take.count()? {
        record.credentials.push((take.small()?, take.path()?));
    }
    for _ in 0..take.count()? {
        record.extra.push((take.number()?, take.bytes()?.to_vec()));
    }
    take.end()?;
    Ok(record)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn sample() -> Record {
        let path = |text: &str| TreePath::new(text).expect("valid path");
        Record {
            lane: b"lane-1".to_vec(),
            sequence: 7,
            parent: Some(SnapshotId([3; 32])),
            time_ms: -5,
            kind: SnapshotKind::Ceiling,
            quiescence: Quiescence::Running,
            message: b"turn \xff 38".to_vec(),
            roots: vec![Root {
                origin: b"/home/x/\xfe".to_vec(),
                base: b"live 1".to_vec(),
                layers: vec![
                    LayerRef { id: b"l1".to_vec(), manifest: None },
                    LayerRef { id: b"l0".to_vec(), manifest: Some(ManifestId([9; 32])) },
                ],
                top: ManifestId([1; 32]),
                base_contents: Some(ManifestId([2; 32])),
                entries: 5000,
                bytes: 1 << 40,
            }],
            gaps: vec![Gap { root: 0, path: path("run/s.sock"), reason: "a socket".to_owned() }],
            credentials: vec![(0, path(".env"))],
            extra: vec![(900, b"later".to_vec())],
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_no_other_bytes_mean_it() {
        let record = sample();
        let bytes = record.encode();
        assert_eq!(Record::decode(&bytes).expect("decodes"), record);
        for len in 0..bytes.len() {
            assert!(Record::decode(&bytes[..len]).is_err());
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(Record::decode(&longer).is_err());
        assert!(SnapshotKind::from_word("quiet").is_some_and(SnapshotKind::is_automatic));
    }

    proptest! {
        #[test]
        fn a_changed_record_is_another_one_or_none(at in 0usize..300, bit in 0u8..8) {
            let mut bytes = sample().encode();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            if let Ok(record) = Record::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
            }
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes in any::<Vec<u8>>()) {
            let _ = Record::decode(&bytes);
        }
    }
}
