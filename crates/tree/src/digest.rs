//! A keyed digest of content that can be taken piece by piece: what makes two files comparable without having
//! both at hand.
//!
//! Invariant: under a key that nobody knows who wrote the content, two different contents of one size have
//! equal digests with a chance of at most about 2⁻⁶⁰, however they were chosen. Each block of 1 KiB is hashed by
//! NH (Black et al., "UMAC: Fast and Secure Message Authentication", 1999), and the blocks by a polynomial over
//! the integers modulo 2⁶¹ − 1 at two secret points. So a key must never reach a lane.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

/// Bytes that are hashed at a time; a digest is continued only at a multiple of it.
pub(crate) const BLOCK: usize = 1024;
/// Length of a key as bytes.
pub(crate) const KEY: usize = 8 * (WORDS + 2);

const WORDS: usize = BLOCK / 8;
const PRIME: u64 = (1 << 61) - 1;
/// Into how many numbers below the prime the hash of a block is cut.
const PIECES: usize = 3;

/// What digests are comparable under.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Key {
    words: [u64; WORDS],
    points: [u64; 2],
}

/// The digest of some content, or of what it begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Digest(pub(crate) [u64; 2]);

impl Key {
    /// A key that nobody else has: the random numbers of this process, which keep its hash maps from being aimed at.
    pub(crate) fn new() -> Key {
        let (one, two) = (RandomState::new(), RandomState::new());
        let word = |at: usize| one.hash_one(at) ^ two.hash_one(at).rotate_left(32);
        Key { words: std::array::from_fn(word), points: [word(WORDS), word(WORDS + 1)].map(point) }
    }

    pub(crate) fn from_bytes(bytes: &[u8; KEY]) -> Key {
        let word = |at: usize| word_at(&bytes[8 * at..]);
        Key { words: std::array::from_fn(word), points: [word(WORDS), word(WORDS + 1)].map(point) }
    }

    pub(crate) fn to_bytes(&self) -> [u8; KEY] {
        let mut bytes = [0; KEY];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words.iter().chain(&self.points)) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The digest of what `before` is the digest of, followed by `bytes`. All but the last piece of a content must be
    /// multiples of [`BLOCK`]. Contents of different sizes are not to be compared by it.
    pub(crate) fn add(&self, before: Digest, bytes: &[u8]) -> Digest {
        let mut state = before.0;
        let blocks = bytes.chunks_exact(BLOCK);
        let rest = blocks.remainder();
        for block in blocks {
            self.fold(&mut state, self.block(block));
        }
        if !rest.is_empty() {
            let mut last = [0; BLOCK];
            last[..rest.len()].copy_from_slice(rest);
            self.fold(&mut state, self.block(&last));
        }
        Digest(state)
    }

    /// The digest of what `head` is the digest of, followed by the `len` bytes of which `tail` is the digest by itself:
    /// two pieces can be read at the same time.
    pub(crate) fn join(&self, head: Digest, tail: Digest, len: u64) -> Digest {
        let steps = len.div_ceil(BLOCK as u64) * PIECES as u64;
        let mut state = [0; 2];
        for (at, state) in state.iter_mut().enumerate() {
            let moved = u128::from(head.0[at]) * u128::from(power(self.points[at], steps));
            *state = modulo(moved + u128::from(tail.0[at]));
        }
        Digest(state)
    }

    /// NH of one block: four sums, so that no multiplication waits for the one before.
    fn block(&self, block: &[u8]) -> u128 {
        let mut sums = [0u128; 4];
        for (bytes, key) in block.chunks_exact(64).zip(self.words.chunks_exact(8)) {
            for (at, sum) in sums.iter_mut().enumerate() {
                let a = word_at(&bytes[16 * at..]).wrapping_add(key[2 * at]);
                let b = word_at(&bytes[16 * at + 8..]).wrapping_add(key[2 * at + 1]);
                *sum = sum.wrapping_add(u128::from(a) * u128::from(b));
            }
        }
        sums.iter().fold(0, |sum, one| sum.wrapping_add(*one))
    }

    fn fold(&self, state: &mut [u64; 2], sum: u128) {
        const PIECE: u128 = (1 << 43) - 1;
        let pieces: [u64; PIECES] = [sum & PIECE, (sum >> 43) & PIECE, sum >> 86].map(|piece| piece as u64);
        for (state, point) in state.iter_mut().zip(self.points) {
            for piece in pieces {
                *state = modulo(u128::from(*state) * u128::from(point) + u128::from(piece));
            }
        }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

fn point(word: u64) -> u64 {
    modulo(u128::from(word)).max(2)
}

fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut product = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product = modulo(u128::from(product) * u128::from(base));
        }
        base = modulo(u128::from(base) * u128::from(base));
        exponent >>= 1;
    }
    product
}

fn modulo(number: u128) -> u64 {
    let folded = (number & u128::from(PRIME)) as u64 + (number >> 61) as u64;
    let folded = (folded & PRIME) + (folded >> 61);
    if folded >= PRIME { folded - PRIME } else { folded }
}

fn word_at(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_in_pieces_is_the_digest_of_the_whole() {
        let key = Key::new();
        let content: Vec<u8> = (0..10 * BLOCK + 17).map(|n| (n * 31 % 251) as u8).collect();
        let whole = key.add(Digest::default(), &content);
        for cut in [0, BLOCK, 7 * BLOCK, 10 * BLOCK] {
            let head = key.add(Digest::default(), &content[..cut]);
            assert_eq!(key.add(head, &content[cut..]), whole, "{cut}");
            let tail = key.add(Digest::default(), &content[cut..]);
            assert_eq!(key.join(head, tail, (content.len() - cut) as u64), whole, "{cut} apart");
        }
        assert_eq!(Key::from_bytes(&key.to_bytes()), key);
    }

    #[test]
    fn one_changed_bit_anywhere_changes_the_digest() {
        let key = Key::new();
        let mut content = vec![0u8; 3 * BLOCK + 100];
        let before = key.add(Digest::default(), &content);
        for at in 0..content.len() {
            content[at] ^= 1 << (at % 8);
            assert_ne!(key.add(Digest::default(), &content), before, "{at}");
            content[at] ^= 1 << (at % 8);
        }
        let swapped: Vec<u8> = [vec![1; BLOCK], vec![2; BLOCK]].concat();
        let other: Vec<u8> = [vec![2; BLOCK], vec![1; BLOCK]].concat();
        assert_ne!(key.add(Digest::default(), &swapped), key.add(Digest::default(), &other));
    }

    #[test]
    fn two_keys_give_two_digests() {
        let content = [9u8; 5000];
        assert_ne!(Key::new().add(Digest::default(), &content), Key::new().add(Digest::default(), &content));
    }

    #[test]
    fn numbers_are_reduced_to_the_smallest_rest() {
        for number in [0, 1, u128::from(PRIME) - 1, u128::from(PRIME), u128::from(PRIME) + 1, 1 << 100] {
            assert_eq!(u128::from(modulo(number)), number % u128::from(PRIME), "{number}");
        }
        let largest = u128::from(PRIME - 1) * u128::from(PRIME - 1) + ((1 << 43) - 1);
        assert_eq!(u128::from(modulo(largest)), largest % u128::from(PRIME));
    }
}
