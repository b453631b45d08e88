//! Turns `data/credentials.toml` into constants: every run needs the list, and none should parse it.
//!
//! A list that does not parse, or that has a word of its own, ends the build.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    path: Vec<Entry>,
    variables: Variables,
    files: Files,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Files {
    names: Vec<String>,
    harmless: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    at: String,
    reason: String,
    #[serde(default)]
    only_with: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variables {
    doors: Vec<String>,
    secrets: Vec<String>,
    harmless: Vec<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let list: List = toml::from_str(&std::fs::read_to_string("data/credentials.toml")?)?;
    let mut text = String::from("const PATHS: &[(&str, &str, &[&str])] = &[\n");
    for entry in &list.path {
        // What Debug writes of a string is a string of Rust.
        writeln!(text, "    ({:?}, {:?}, &{:?}),", entry.at, entry.reason, entry.only_with)?;
    }
    text.push_str("];\n");
    let names = [
        ("DOORS", &list.variables.doors),
        ("SECRETS", &list.variables.secrets),
        ("HARMLESS", &list.variables.harmless),
        ("FILES", &list.files.names),
        ("HARMLESS_FILES", &list.files.harmless),
    ];
    for (name, words) in names {
        writeln!(text, "const {name}: &[&str] = &{words:?};")?;
    }
    let out = std::env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?;
    std::fs::write(Path::new(&out).join("credentials.rs"), text)?;
    Ok(())
}
