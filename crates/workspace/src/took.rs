//! [`Took`]: which paths of a keep are one lane's, where several lanes were kept in one go: it alone is to advance there, and
//! to go back where the keep is undone.
//!
//! Invariant: one that was cut short or damaged is none. It is written before the keep, and never changed.

use tree::TreePath;

use crate::error::{Doing as _, Result};
use crate::home::{HomeDir, read_file};
use crate::kept::{hex, unhex};

const FIRST_LINE: &str = "lane took 1";
const LAST_LINE: &str = "end";

/// What a lane had in a keep, in one root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Took {
    /// Every path of the original that is concerned.
    pub paths: Vec<TreePath>,
    /// Directories among them that came with all that is in them.
    pub whole: Vec<TreePath>,
}

impl Took {
    /// What a lane had in the keep `id` in its root `index`; `None` where that is not written down.
    pub fn load(home: &HomeDir, id: &str, index: usize) -> Result<Option<Took>> {
        let name = file_name(id, index);
        let text = read_file(&home.fd, name.as_bytes()).doing("read what was kept", home.path.join(&name))?;
        Ok(text.and_then(|text| decode(std::str::from_utf8(&text).ok()?)))
    }

    /// Writes it down.
    pub fn save(&self, home: &HomeDir, id: &str, index: usize) -> Result<()> {
        let name = file_name(id, index);
        let path = home.path.join(&name);
        kernel::publish::write_file(&home.fd, name.as_bytes(), encode(self).as_bytes(), 0o600)
            .doing("write what is kept", path)
    }
}

fn file_name(id: &str, index: usize) -> String {
    format!("took.{id}.{index}")
}

fn encode(took: &Took) -> String {
    let line = |word: &'static str| move |path: &TreePath| format!("{word} {}\n", hex(path.as_bytes()));
    let mut text = format!("{FIRST_LINE}\n");
    text.extend(took.paths.iter().map(line("path")));
    text.extend(took.whole.iter().map(line("whole")));
    text.push_str(LAST_LINE);
    text.push('\n');
    text
}

fn decode(text: &str) -> Option<Took> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    if lines.next() != Some(FIRST_LINE) || lines.next_back() != Some(LAST_LINE) {
        return None;
    }
    let mut took = Took::default();
    for line in lines {
        let (word, path) = line.split_once(' ')?;
        let path = TreePath::new(unhex(path)?).ok()?;
        match word {
            "path" => took.paths.push(path),
            "whole" => took.whole.push(path),
            _ => return None,
        }
    }
    Some(took)
}

#[cfg(test)]
mod tests {
    use super::{Took, decode, encode};
    use tree::TreePath;

    #[test]
    fn what_was_written_is_read_and_cut_short_it_is_nothing() {
        let path = |bytes: &[u8]| TreePath::new(bytes).expect("a path");
        let took = Took { paths: vec![path(b"a\n\xff"), path(b"d/e")], whole: vec![path(b"d")] };
        let text = encode(&took);
        assert_eq!(decode(&text), Some(took));
        for cut in 0..text.len() {
            assert_eq!(decode(&text[..cut]), None, "{cut}");
        }
    }
}
