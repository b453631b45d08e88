//! How Rust values stand in columns: JSON as TEXT, argument lists as NUL-ended BLOBs, sizes as INTEGER.
//! A value that cannot be read back is reported as damage by [`crate::Error`], never guessed.

use rusqlite::Row;
use rusqlite::types::Type;
use serde_json::Value;

/// Reads a JSON column.
pub(crate) fn json(row: &Row<'_>, column: &'static str) -> rusqlite::Result<Value> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| unreadable(row, column, error))
}

/// Reads a JSON column that may be NULL.
pub(crate) fn json_or_null(row: &Row<'_>, column: &'static str) -> rusqlite::Result<Option<Value>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unreadable(row, column, error))).transpose()
}

/// Reads a column through `parse`, which knows the words that may stand there.
pub(crate) fn word<T>(
    row: &Row<'_>,
    column: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    parse(&text).ok_or_else(|| unreadable(row, column, UnknownWord(text)))
}

/// Argument list → bytes, each argument ended by a NUL as in /proc/PID/cmdline.
pub(crate) fn pack_argv(argv: &[Vec<u8>]) -> Vec<u8> {
    argv.iter().flat_map(|arg| arg.iter().copied().chain([0])).collect()
}

/// The reverse of [`pack_argv`].
pub(crate) fn unpack_argv(bytes: &[u8]) -> Vec<Vec<u8>> {
    match bytes.strip_suffix(&[0]) {
        Some(body) => body.split(|b| *b == 0).map(<[u8]>::to_vec).collect(),
        None => Vec::new(),
    }
}

/// An unsigned count → INTEGER; SQLite has no number above `i64::MAX`, and no count of ours reaches it.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads a count; a negative one is damage.
pub(crate) fn read_count(row: &Row<'_>, column: &'static str) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|error| unreadable(row, column, error))
}

/// Bytes as a string of hexadecimal digits, for JSON.
pub(crate) mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(crate) fn to_text(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
        bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
    }

    pub(super) fn from_text(text: &str) -> Option<Vec<u8>> {
        let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let pairs = text.as_bytes().chunks(2);
        pairs.map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?)).collect()
    }

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&to_text(bytes))
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        from_text(&String::deserialize(from)?).ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

/// The same for what may be absent.
pub(crate) mod hex_or_null {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::hex;

    pub(crate) fn serialize<S: Serializer>(bytes: &Option<Vec<u8>>, to: S) -> Result<S::Ok, S::Error> {
        bytes.as_deref().map(hex::to_text).serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Vec<u8>>, D::Error> {
        let read = |text: String| hex::from_text(&text).ok_or_else(|| D::Error::custom("not hexadecimal"));
        Option::<String>::deserialize(from)?.map(read).transpose()
    }
}

/// The same for a list.
pub(crate) mod hex_list {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    use super::hex;

    pub(crate) fn serialize<S: Serializer>(list: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
        list.iter().map(|bytes| hex::to_text(bytes)).collect::<Vec<_>>().serialize(to)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let read = |text: &String| hex::from_text(text).ok_or_else(|| D::Error::custom("not hexadecimal"));
        Vec::<String>::deserialize(from)?.iter().map(read).collect()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("unknown word {0:?}")]
struct UnknownWord(String);

fn unreadable(
    row: &Row<'_>,
    column: &'static str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    let index = row.as_ref().column_index(column).unwrap_or(0);
    rusqlite::Error::FromSqlConversionFailure(index, Type::Text, Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::{pack_argv, unpack_argv};

    #[test]
    fn an_argument_list_with_empty_and_non_utf8_arguments_survives() {
        for argv in
            [vec![], vec![vec![]], vec![b"a".to_vec(), vec![], b"\xff\n".to_vec()], vec![vec![], vec![]]]
        {
            assert_eq!(unpack_argv(&pack_argv(&argv)), argv);
        }
    }
}
