//! The document `lane.selection/1`: a selection as JSON.
//!
//! Invariant: reading what was written gives the same selection. A field that is not known is refused, since it may
//! narrow what is selected. A path is its own text; where its bytes are no UTF-8, `…_bytes` holds them in hexadecimal
//! and the text is for reading only.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tree::TreePath;

use super::{Digest, Lines, Part, SelectedFile, Selection, Take};
use crate::describe;
use crate::error::{Doing as _, EngineError, Result};

/// What a document says of itself.
const FORMAT: &str = "lane.selection/1";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    lane: String,
    lane_id: String,
    digest: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    within: Vec<Place>,
    files: Vec<File>,
}

/// What a document of several says of itself.
const FORMAT_OF_SEVERAL: &str = "lane.selections/1";

/// Selections of several lanes, in the order in which they are kept together.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    format: String,
    selections: Vec<Document>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root_bytes: Option<String>,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    root: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    root_bytes: Option<String>,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    digest: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    guarded: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    named: bool,
    take: Word,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    rename: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    mode: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    hunks: Vec<Hunk>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Word {
    None,
    Whole,
    Part,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hunk {
    id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lines: Option<BTreeSet<u32>>,
}

fn text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => {
            let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            (bytes.escape_ascii().to_string(), Some(hex))
        }
    }
}

fn bad(why: impl Into<String>) -> EngineError {
    EngineError::BadSelection { why: why.into() }
}

fn bytes(text: String, hex: Option<String>) -> Result<Vec<u8>> {
    let Some(hex) = hex else { return Ok(text.into_bytes()) };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pairs = hex.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        pairs.map(|pair| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?)).collect();
    bytes.ok_or_else(|| bad(format!("'{}' is not hexadecimal", hex.escape_default())))
}

fn tree_path(text: String, hex: Option<String>) -> Result<TreePath> {
    let bytes = bytes(text, hex)?;
    TreePath::new(&bytes).map_err(|_| bad(format!("'{}' is not a path below a root", bytes.escape_ascii())))
}

fn digest(text: &str) -> Result<Digest> {
    Digest::parse(text).ok_or_else(|| bad(format!("'{}' is not a digest", text.escape_default())))
}

impl Selection {
    /// Writes the document to a file that a person named; one that stands there is replaced.
    pub fn save(&self, file: &Path) -> Result<()> {
        write(file, &self.to_json())
    }

    /// Writes those of several lanes to one file.
    pub fn save_all(selections: &[&Selection], file: &Path) -> Result<()> {
        if let [only] = selections {
            return only.save(file);
        }
        let selections = selections.iter().map(|selection| selection.document()).collect();
        write(file, &text_of(&Several { format: FORMAT_OF_SEVERAL.to_owned(), selections }))
    }

    /// The document.
    pub fn to_json(&self) -> String {
        text_of(&self.document())
    }

    fn document(&self) -> Document {
        let files = self.files.iter().map(|file| {
            let (root, root_bytes) = text(file.root.as_os_str().as_bytes());
            let (path, path_bytes) = text(file.path.as_bytes());
            let mut wire = File {
                root,
                root_bytes,
                path,
                path_bytes,
                digest: file.digest.to_string(),
                guarded: file.guarded,
                named: file.named,
                take: Word::None,
                rename: false,
                mode: false,
                hunks: Vec::new(),
            };
            match &file.take {
                None => {}
                Some(Take::Whole) => wire.take = Word::Whole,
                Some(Take::Part(part)) => {
                    (wire.take, wire.rename, wire.mode) = (Word::Part, part.rename, part.mode);
                    let hunks = part.hunks.iter().map(|(id, lines)| Hunk {
                        id: id.clone(),
                        lines: match lines {
                            Lines::All => None,
                            Lines::Some(numbers) => Some(numbers.clone()),
                        },
                    });
                    wire.hunks = hunks.collect();
                }
            }
            wire
        });
        let within = self.within.iter().map(|(root, path)| {
            let (root, root_bytes) = text(root.as_os_str().as_bytes());
            let (path, path_bytes) = text(path.as_bytes());
            Place { root, root_bytes, path, path_bytes }
        });
        Document {
            format: FORMAT.to_owned(),
            lane: self.lane.clone(),
            lane_id: self.lane_id.clone(),
            digest: self.digest.to_string(),
            within: within.collect(),
            files: files.collect(),
        }
    }

    /// Reads a document: of one lane, or of several.
    pub fn all_from_json(json: &[u8]) -> Result<Vec<Selection>> {
        let said: serde_json::Value = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        if said["format"] != FORMAT_OF_SEVERAL {
            return Ok(vec![Selection::from_json(json)?]);
        }
        let several: Several = serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?;
        several.selections.into_iter().map(Selection::of_document).collect()
    }

    /// Reads a document of one lane.
    pub fn from_json(json: &[u8]) -> Result<Selection> {
        Selection::of_document(serde_json::from_slice(json).map_err(|error| bad(error.to_string()))?)
    }

    fn of_document(document: Document) -> Result<Selection> {
        if document.format != FORMAT {
            return Err(bad(format!("its format is '{}', not {FORMAT}", document.format.escape_default())));
        }
        let mut seen = BTreeSet::new();
        let mut files = Vec::with_capacity(document.files.len());
        for file in document.files {
            let root: PathBuf = describe::path(&bytes(file.root, file.root_bytes)?);
            let path = tree_path(file.path, file.path_bytes)?;
            if !seen.insert((root.clone(), path.clone())) {
                return Err(bad(format!("{path:?} is in it twice")));
            }
            let parts = file.rename || file.mode || !file.hunks.is_empty();
            if parts && file.take != Word::Part {
                return Err(bad(format!("{path:?} has parts, and is not taken in part")));
            }
            let take = match file.take {
                Word::None => None,
                Word::Whole => Some(Take::Whole),
                Word::Part => {
                    let mut hunks = BTreeMap::new();
                    for hunk in file.hunks {
                        let lines = hunk.lines.map_or(Lines::All, Lines::Some);
                        if hunks.insert(hunk.id.clone(), lines).is_some() {
                            return Err(bad(format!("hunk {} is in it twice", hunk.id.escape_default())));
                        }
                    }
                    Some(Take::Part(Part { rename: file.rename, mode: file.mode, hunks }))
                }
            };
            let digest = digest(&file.digest)?;
            let (guarded, named) = (file.guarded, file.named);
            files.push(SelectedFile { root, path, digest, guarded, named, take });
        }
        let mut within = Vec::new();
        for place in document.within {
            let root = describe::path(&bytes(place.root, place.root_bytes)?);
            within.push((root, tree_path(place.path, place.path_bytes)?));
        }
        let selection = Selection {
            lane: document.lane,
            lane_id: document.lane_id,
            digest: digest(&document.digest)?,
            within,
            files,
        };
        if selection.digest != Selection::digest_of(&selection.files) {
            return Err(bad("its digest is not that of the files in it"));
        }
        Ok(selection)
    }
}

fn text_of(document: &impl Serialize) -> String {
    // Strings and numbers only: nothing in it can fail to be written.
    let mut json = serde_json::to_string_pretty(document).unwrap_or_default();
    json.push('\n');
    json
}

fn write(file: &Path, text: &str) -> Result<()> {
    let doing = || format!("write {}", file.display());
    let above = file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = file.file_name().ok_or_else(|| bad(format!("{} is no file name", file.display())))?;
    let dir = kernel::open::root_dir(above).doing(doing)?;
    kernel::publish::write_file(&dir, name.as_bytes(), text.as_bytes(), 0o644).doing(doing)
}
