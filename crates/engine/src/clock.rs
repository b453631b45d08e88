//! Time and identity: the only place that asks for the time of day or for randomness.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::rand::{GetRandomFlags, getrandom};

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Milliseconds since the epoch (negative before it).
pub fn now_ms() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
    }
}

/// The time of day as file times are told.
pub fn now() -> tree::Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    tree::Time { sec: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nsec: since.subsec_nanos() }
}

/// Forty random bits. Falls back to time and process id where the kernel's pool is not ready, which
/// is good enough: ids and names are checked for being taken.
pub fn random() -> u64 {
    let mut bytes = [0u8; 5];
    if !matches!(getrandom(&mut bytes, GetRandomFlags::NONBLOCK), Ok(5)) {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.subsec_nanos());
        bytes[..4].copy_from_slice(&(nanos ^ std::process::id().rotate_left(16)).to_le_bytes());
    }
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// A secret of 256 random bits, in hexadecimal. There is no way round the kernel's pool here.
pub fn secret() -> crate::Result<String> {
    let mut bytes = [0u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(got) => filled += got,
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => {
                let source = kernel::Error::new("getrandom", "", errno);
                return Err(crate::EngineError::Kernel { doing: "make a secret".to_owned(), source });
            }
        }
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A fresh lane id: eight characters of a 32-character alphabet without look-alikes.
pub fn new_id() -> String {
    id_of(random())
}

fn id_of(bits: u64) -> String {
    (0..8).rev().map(|at| char::from(ALPHABET[usize::try_from(bits >> (5 * at) & 31).unwrap_or(0)])).collect()
}

#[cfg(test)]
mod tests {
    use super::{id_of, new_id};

    #[test]
    fn an_id_has_eight_characters_whatever_the_bits() {
        assert_eq!(id_of(0), "00000000");
        assert_eq!(id_of(u64::MAX), "zzzzzzzz");
        assert_eq!(id_of(1), "00000001");
        assert_eq!(new_id().len(), 8);
    }
}
