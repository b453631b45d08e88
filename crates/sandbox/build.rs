//! Turns `data/credentials.toml` and `data/syscalls.toml` into constants: every run needs the lists, and none should
//! parse them.
//!
//! A list that does not parse, or that has a word of its own, ends the build; so does a system call that stands in it twice.

use std::collections::BTreeMap;
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    class: String,
    answer: String,
    when: Option<String>,
    #[serde(default)]
    nested: bool,
    // For the page.
    #[serde(rename = "why")]
    _why: String,
    calls: Vec<String>,
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
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH")?;
    std::fs::write(Path::new(&out).join("syscalls.rs"), syscalls(&arch)?)?;
    Ok(())
}

/// The calls of the architecture that is built for, sorted by number.
fn syscalls(arch: &str) -> Result<String, Box<dyn std::error::Error>> {
    let table: Table = toml::from_str(&std::fs::read_to_string("data/syscalls.toml")?)?;
    let column = match arch {
        "x86_64" => 1,
        "aarch64" => 2,
        other => return Err(format!("no numbers of system calls for {other}").into()),
    };
    let mut calls = BTreeMap::new();
    for group in &table.group {
        let answer = match (group.answer.as_str(), group.when.as_deref()) {
            ("allowed", None) => "Says::Allowed",
            ("allowed", Some("flags")) => "Says::Flags",
            ("allowed", Some("commands")) => "Says::Commands",
            ("allowed", Some("families")) => "Says::Families",
            ("EPERM", None) => "Says::Refused",
            ("ENOSYS", None) => "Says::Absent",
            other => return Err(format!("no such answer: {other:?}").into()),
        };
        for call in &group.calls {
            let words: Vec<&str> = call.split(' ').collect();
            let &[name, _, _] = words.as_slice() else { return Err(format!("no call: {call}").into()) };
            if words[column] == "-" {
                continue;
            }
            let (number, nested, class) = (words[column].parse::<u32>()?, group.nested, &group.class);
            let line = format!(
                "    Call {{ name: {name:?}, number: {number}, says: {answer}, nested: {nested}, class: {class:?} }},"
            );
            if calls.insert(number, line).is_some() {
                return Err(format!("{number} stands twice: {call}").into());
            }
        }
    }
    let lines: Vec<String> = calls.into_values().collect();
    Ok(format!("&[\n{}\n]\n", lines.join("\n")))
}
