//! Names of what is stored: BLAKE3 hashes with a type, so that one kind cannot stand for another.
//!
//! Invariant: content of a file is hashed as it is, so that an id can be checked with `b3sum`; everything that has a
//! structure is hashed under a context of its own, so that no file can be mistaken for a node of a manifest.

use std::fmt;
use std::sync::LazyLock;

/// Bytes of a hash.
pub(crate) const HASH: usize = 32;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// Content of a file, or a part of it.
    Blob = 1,
    /// A node of a manifest.
    Node = 2,
    /// The list of the parts of a large file.
    Parts = 3,
}

impl ObjectKind {
    /// The kind that a byte of the format stands for.
    pub(crate) fn from_byte(byte: u8) -> Option<ObjectKind> {
        match byte {
            1 => Some(ObjectKind::Blob),
            2 => Some(ObjectKind::Node),
            3 => Some(ObjectKind::Parts),
            _ => None,
        }
    }

    fn context(self) -> Option<&'static str> {
        match self {
            ObjectKind::Blob => None,
            ObjectKind::Node => Some("lanekeeper store v1 manifest node"),
            ObjectKind::Parts => Some("lanekeeper store v1 parts"),
        }
    }
}

impl fmt::Display for ObjectKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ObjectKind::Blob => "content",
            ObjectKind::Node => "manifest node",
            ObjectKind::Parts => "parts list",
        })
    }
}

/// The context under which snapshot records are hashed.
const SNAPSHOT: &str = "lanekeeper store v1 snapshot";

macro_rules! hash_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; HASH]);

        impl $name {
            /// The hash as bytes.
            pub fn as_bytes(&self) -> &[u8; HASH] {
                &self.0
            }

            /// The id that 64 hexadecimal digits stand for.
            pub fn from_hex(text: &str) -> Option<$name> {
                parse_hex(text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let digits = hex(&self.0);
                // A precision shortens: `{:.12}`.
                f.write_str(&digits[..f.precision().unwrap_or(digits.len()).min(digits.len())])
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:.12})", stringify!($name), self)
            }
        }
    };
}

hash_id! {
    /// An object of a pack.
    ObjectId
}
hash_id! {
    /// The root node of a manifest. Equal layers have equal ids.
    ManifestId
}
hash_id! {
    /// A snapshot: the hash of its record.
    SnapshotId
}

impl ObjectId {
    /// The id of an object of this kind with these bytes.
    pub fn of(kind: ObjectKind, bytes: &[u8]) -> ObjectId {
        ObjectId(match kind.context() {
            None => *blake3::hash(bytes).as_bytes(),
            Some(context) => {
                let mut hasher = blake3::Hasher::new_derive_key(context);
                hasher.update(bytes);
                *hasher.finalize().as_bytes()
            }
        })
    }
}

impl ManifestId {
    /// The root node as an object.
    pub fn object(self) -> ObjectId {
        ObjectId(self.0)
    }
}

impl SnapshotId {
    /// The id of a record with these bytes.
    pub fn of(record: &[u8]) -> SnapshotId {
        // The key is derived once: a history is a thousand records.
        static KEYED: LazyLock<blake3::Hasher> = LazyLock::new(|| blake3::Hasher::new_derive_key(SNAPSHOT));
        let mut hasher = KEYED.clone();
        hasher.update(record);
        SnapshotId(*hasher.finalize().as_bytes())
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The bytes that lower-case digits stand for, exactly as many as asked for.
pub(crate) fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways_and_shortens() {
        let id = ObjectId::of(ObjectKind::Blob, b"");
        assert_eq!(id.to_string(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(format!("{id:.8}"), "af1349b9");
        assert_eq!(ObjectId::from_hex(&id.to_string()), Some(id));
        assert_eq!(ObjectId::from_hex("AF"), None);
    }

    #[test]
    fn the_same_bytes_have_another_id_as_another_kind() {
        let bytes = b"same";
        assert_ne!(ObjectId::of(ObjectKind::Blob, bytes), ObjectId::of(ObjectKind::Node, bytes));
        assert_ne!(ObjectId::of(ObjectKind::Node, bytes), ObjectId::of(ObjectKind::Parts, bytes));
        assert_ne!(ObjectId::of(ObjectKind::Node, bytes).0, SnapshotId::of(bytes).0);
    }
}
