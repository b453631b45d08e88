//! Hosts by purpose: what a package manager or an agent reaches, each with its reason. Data from `data/hosts.toml`.

use std::sync::OnceLock;

use serde::Deserialize;

/// The hosts of one purpose.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// What is reached with it.
    pub why: String,
    /// The hosts.
    pub hosts: Vec<Host>,
}

/// One host of a preset.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// A host as one writes it after `allow:`.
    pub at: String,
    /// What it is needed for.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    preset: Vec<Preset>,
}

/// All presets. A test holds the data to its form, so that nobody ever sees an empty list.
pub fn all() -> &'static [Preset] {
    static ALL: OnceLock<Vec<Preset>> = OnceLock::new();
    let read = || toml::from_str::<File>(include_str!("../data/hosts.toml")).map(|file| file.preset);
    ALL.get_or_init(|| read().unwrap_or_default())
}

/// The preset of this name.
pub fn named(name: &str) -> Option<&'static Preset> {
    all().iter().find(|preset| preset.name == name)
}

#[cfg(test)]
mod tests {
    use super::all;
    use crate::policy::Policy;

    #[test]
    fn every_preset_is_a_list_of_hosts_with_reasons() {
        assert!(all().len() >= 10);
        for preset in all() {
            assert!(!preset.why.is_empty() && !preset.hosts.is_empty(), "{}", preset.name);
            let policy = Policy::parse(&format!("allow:{}", preset.name)).expect("a policy");
            assert_eq!(policy.rules.len(), preset.hosts.len());
            assert!(preset.hosts.iter().all(|host| !host.why.is_empty()));
            assert!(!preset.name.contains(['.', ':', ',', '*']), "{}", preset.name);
        }
    }
}
