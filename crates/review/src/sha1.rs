//! SHA-1, for the names that git gives to blobs and for short hunk ids. It protects nothing here:
//! `git apply --binary` wants full blob names, and that is all it is used for (FIPS 180-4, 6.1). The processor's own instructions do it where it has them.

use sha1::Digest as _;

/// A running SHA-1.
#[derive(Debug, Clone)]
pub(crate) struct Sha1(sha1::Sha1);

impl Sha1 {
    pub(crate) fn new() -> Sha1 {
        Sha1(sha1::Sha1::new())
    }

    /// The start of the name of a git blob of `len` bytes; the content follows through `update`.
    pub(crate) fn blob(len: u64) -> Sha1 {
        let mut sha = Sha1::new();
        sha.update(format!("blob {len}\0").as_bytes());
        sha
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> [u8; 20] {
        self.0.finalize().into()
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Sha1, hex};

    #[test]
    fn digests_are_those_of_the_standard_and_of_git() {
        let of = |bytes: &[u8]| {
            let mut sha = Sha1::new();
            sha.update(bytes);
            hex(&sha.finish())
        };
        assert_eq!(of(b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(of(&vec![b'a'; 1_000_000]), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        assert_eq!(hex(&Sha1::blob(0).finish()), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    }

    #[test]
    fn pieces_of_any_length_give_the_same_digest() {
        let bytes: Vec<u8> = (0..1000u32).map(|i| (i % 251) as u8).collect();
        let mut whole = Sha1::new();
        whole.update(&bytes);
        let whole = whole.finish();
        for step in [1, 3, 55, 56, 63, 64, 65, 127] {
            let mut sha = Sha1::new();
            bytes.chunks(step).for_each(|piece| sha.update(piece));
            assert_eq!(sha.finish(), whole, "step {step}");
        }
    }
}
