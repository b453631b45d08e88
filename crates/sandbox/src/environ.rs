//! The environment of a command: what goes in, what stays outside and why.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use crate::credentials::{Kept, Variables};

/// The environment inside, with the names that stayed outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables, sorted by name.
    pub inside: Vec<(OsString, OsString)>,
    /// Names that stayed outside because they name services of the host.
    pub doors: Vec<OsString>,
    /// Names that stayed outside because they look like secrets.
    pub secrets: Vec<OsString>,
}

/// A wish from the command line: `NAME` passes the host's value, `NAME=VALUE` sets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// Name.
    pub name: OsString,
    /// Value, where one was given.
    pub value: Option<OsString>,
}

/// Makes the environment from the host's. `passes` are names that may go in although they look like secrets;
/// `fixed` are set last, whatever was there.
pub fn environment(
    host: impl Iterator<Item = (OsString, OsString)>,
    variables: &Variables,
    passes: &[String],
    wishes: &[Wish],
    fixed: &[(&str, OsString)],
) -> Environment {
    let mut made = Environment::default();
    let mut inside: BTreeMap<OsString, OsString> = BTreeMap::new();
    for (name, value) in host {
        let wished = wishes.iter().any(|wish| wish.name == name && wish.value.is_none());
        if !wished && !passes.iter().any(|pass| name == OsStr::new(pass)) {
            match variables.keeps(name.as_bytes()) {
                Some(Kept::Door) => {
                    made.doors.push(name);
                    continue;
                }
                Some(Kept::Secret) => {
                    made.secrets.push(name);
                    continue;
                }
                None => {}
            }
        }
        inside.insert(name, value);
    }
    for (name, value) in fixed {
        inside.insert(OsString::from(name), value.clone());
    }
    for wish in wishes {
        if let Some(value) = &wish.value {
            inside.insert(wish.name.clone(), value.clone());
        }
    }
    made.inside = inside.into_iter().collect();
    made.doors.sort();
    made.secrets.sort();
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;

    #[test]
    fn secrets_go_in_only_by_name_and_a_given_value_wins() {
        let variables = Credentials::built_in().expect("parses").variables;
        let host =
            [("PATH", "/bin"), ("A_TOKEN", "1"), ("B_TOKEN", "2"), ("C_TOKEN", "3"), ("DISPLAY", ":0")];
        let host = host.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let wishes = [
            Wish { name: "B_TOKEN".into(), value: None },
            Wish { name: "PATH".into(), value: Some("/x".into()) },
        ];
        let made =
            environment(host.into_iter(), &variables, &["C_TOKEN".into()], &wishes, &[("LANE", "a".into())]);
        let inside: Vec<(&str, &str)> = made
            .inside
            .iter()
            .map(|(name, value)| (name.to_str().expect("utf-8"), value.to_str().expect("utf-8")))
            .collect();
        assert_eq!(inside, [("B_TOKEN", "2"), ("C_TOKEN", "3"), ("LANE", "a"), ("PATH", "/x")]);
        assert_eq!(made.secrets, ["A_TOKEN"]);
        assert_eq!(made.doors, ["DISPLAY"]);
    }
}
