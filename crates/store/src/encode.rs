//! Numbers, bytes and paths as bytes, and back: the alphabet of manifests and records.
//!
//! Invariant: each value has exactly one encoding, and decoding takes any bytes whatever: lengths are held
//! against what is there before anything is allocated, and nothing panics.

use tree::TreePath;

use crate::id::HASH;

/// Longest path that the format holds: sixteen times what one system call takes.
pub(crate) const MAX_PATH: usize = 64 * 1024;

/// Why bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

pub(crate) type Decoded<T> = Result<T, Malformed>;

/// Appends encoded values.
pub(crate) trait Put {
    fn byte(&mut self, value: u8);
    fn raw(&mut self, bytes: &[u8]);

    /// Seven bits a byte, the low ones first.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    /// Small numbers of either sign are short.
    fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.raw(bytes);
    }

    fn path(&mut self, path: &TreePath) {
        self.bytes(path.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn byte(&mut self, value: u8) {
        self.push(value);
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Takes encoded values from the front.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn byte(&mut self) -> Decoded<u8> {
        let (first, rest) = self.0.split_first().ok_or(Malformed("ends early"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Decoded<&'a [u8]> {
        if len > self.0.len() {
            return Err(Malformed("ends early"));
        }
        let (taken, rest) = self.0.split_at(len);
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn number(&mut self) -> Decoded<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(Malformed("a number is too large"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(Malformed("a number is longer than it needs to be"));
                }
                return Ok(value);
            }
        }
        Err(Malformed("a number is too large"))
    }

    pub(crate) fn small(&mut self) -> Decoded<u32> {
        u32::try_from(self.number()?).map_err(|_| Malformed("a number is too large"))
    }

    pub(crate) fn signed(&mut self) -> Decoded<i64> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A count of things that take at least one byte each, so that what is left bounds it.
    pub(crate) fn count(&mut self) -> Decoded<usize> {
        let count = self.number()?;
        if count > self.0.len() as u64 {
            return Err(Malformed("a count is larger than what is there"));
        }
        Ok(count as usize)
    }

    pub(crate) fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let len = self.count()?;
        self.raw(len)
    }

    pub(crate) fn hash(&mut self) -> Decoded<[u8; HASH]> {
        let mut hash = [0; HASH];
        hash.copy_from_slice(self.raw(HASH)?);
        Ok(hash)
    }

    pub(crate) fn path(&mut self) -> Decoded<TreePath> {
        tree_path(self.bytes()?)
    }

    pub(crate) fn end(self) -> Decoded<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("goes on after its end")) }
    }
}

pub(crate) fn tree_path(bytes: &[u8]) -> Decoded<TreePath> {
    if bytes.len() > MAX_PATH {
        return Err(Malformed("a path is too long"));
    }
    TreePath::new(bytes).map_err(|_| Malformed("a path is not one"))
}

/// A little-endian number of fixed size at a place that the caller has checked.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

/// As [`u32_at`].
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// A hash at a place that the caller has checked.
pub(crate) fn hash_at(bytes: &[u8], at: usize) -> [u8; HASH] {
    let mut raw = [0; HASH];
    raw.copy_from_slice(&bytes[at..at + HASH]);
    raw
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn values_come_back(number in any::<u64>(), signed in any::<i64>(), bytes in any::<Vec<u8>>()) {
            let mut out = Vec::new();
            out.number(number);
            out.signed(signed);
            out.bytes(&bytes);
            let mut take = Take(&out);
            prop_assert_eq!(take.number(), Ok(number));
            prop_assert_eq!(take.signed(), Ok(signed));
            prop_assert_eq!(take.bytes(), Ok(bytes.as_slice()));
            prop_assert_eq!(take.end(), Ok(()));
        }

        #[test]
        fn any_bytes_are_a_number_in_one_way_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut take = Take(&bytes);
            if let Ok(number) = take.number() {
                let mut again = Vec::new();
                again.number(number);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - take.0.len()]);
            }
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_before_anything_is_made() {
        let mut out = Vec::new();
        out.number(u64::MAX);
        assert!(Take(&out).bytes().is_err());
        assert!(Take(&out).count().is_err());
        assert!(Take(&[3, 1, 2]).bytes().is_err());
    }
}
