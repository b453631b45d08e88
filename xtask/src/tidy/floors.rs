//! Which crate may use which. A new edge is a change of the architecture and is made here, on purpose.

use toml::Table;

use crate::source::Source;

/// Crates of ours that each crate may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("tree", &["kernel"]),
    ("workspace", &["tree", "kernel"]),
    ("sandbox", &["tree", "kernel"]),
    ("ledger", &["tree"]),
    ("review", &["tree", "kernel"]),
    ("store", &["tree", "kernel"]),
    ("egress", &["kernel"]),
    ("engine", &["workspace", "sandbox", "egress", "ledger", "review", "store", "tree", "kernel"]),
    ("cli", &["engine", "tree", "sandbox"]),
    ("testkit", &[]),
    ("xtask", &[]),
];

/// Crates of ours that any crate may use in its tests.
const IN_TESTS: &[&str] = &["testkit", "tree", "kernel"];

/// Foreign crates that only some of ours may use, because each is a power.
const RESERVED: &[(&str, &[&str])] = &[
    ("libc", &["kernel"]),
    ("rusqlite", &["ledger"]),
    ("clap", &["cli"]),
    ("anyhow", &["cli"]),
    ("axum", &["cli"]),
    ("tokio", &["cli"]),
    ("gix-imara-diff", &["review"]),
    ("blake3", &["store", "review", "ledger"]),
    ("fastcdc", &["store"]),
    ("hickory-proto", &["egress"]),
    ("httparse", &["egress"]),
    ("tls-parser", &["egress"]),
    ("url", &["egress"]),
    ("vt100", &["testkit", "cli"]),
];

/// Complains about every dependency that the tables do not hold.
pub fn check(files: &[Source]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    manifests.flat_map(|file| manifest(&file.path, &file.text)).collect()
}

fn manifest(path: &str, text: &str) -> Vec<String> {
    let table: Table = match text.parse() {
        Ok(table) => table,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    let name = table.get("package").and_then(|package| package.get("name")).and_then(|name| name.as_str());
    let Some(name) = name else { return Vec::new() };
    let Some((_, below)) = EDGES.iter().find(|(ours, _)| *ours == name) else {
        return vec![format!("{path}: crate {name} stands on no floor; add it to xtask/src/tidy/floors.rs")];
    };
    let mut complaints = Vec::new();
    for (section, tests) in
        [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
    {
        let wanted = table.get(section).and_then(|value| value.as_table());
        for dependency in wanted.into_iter().flat_map(Table::keys) {
            let ours = EDGES.iter().any(|(known, _)| known == dependency);
            let allowed =
                below.contains(&dependency.as_str()) || (tests && IN_TESTS.contains(&dependency.as_str()));
            if ours && !allowed {
                complaints.push(format!("{path}: {name} may not use {dependency} (floors)"));
            }
            let reserved = RESERVED.iter().find(|(foreign, _)| foreign == dependency);
            if reserved.is_some_and(|(_, users)| !users.contains(&name)) {
                complaints.push(format!("{path}: {name} may not use {dependency} (a power of others)"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::manifest;

    #[test]
    fn an_edge_upward_and_a_borrowed_power_are_named() {
        let text = "[package]\nname = \"tree\"\n[dependencies]\nkernel = 1\nengine = 1\nrusqlite = 1\n\
                    [dev-dependencies]\ntestkit = 1\n";
        let complaints = manifest("crates/tree/Cargo.toml", text);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("tree may not use engine"));
        assert!(complaints[1].contains("tree may not use rusqlite"));
    }
}
