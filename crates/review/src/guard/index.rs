//! [`Index`]: the patterns of all rules, found by the name that they begin with: there are hundreds of them, and each change
//! is asked about.
//!
//! Invariant: it answers what going through the rules in their order would answer first.

use std::collections::HashMap;

use super::{Data, component_matches};

/// One pattern of a rule.
#[derive(Debug)]
pub(super) struct Pattern {
    /// Number of its group, and of its rule there.
    pub(super) group: usize,
    pub(super) rule: usize,
    /// It means a directory with everything below it.
    pub(super) below: bool,
    anywhere: bool,
    parts: Vec<&'static [u8]>,
}

/// All of them, in the order of the rules.
#[derive(Debug)]
pub(super) struct Index {
    patterns: Vec<Pattern>,
    /// Those that begin with a plain name, by that name in small letters.
    plain: HashMap<Vec<u8>, Vec<usize>>,
    /// The others.
    starred: Vec<usize>,
}

impl Index {
    pub(super) fn of(data: &'static Data) -> Index {
        let mut index = Index { patterns: Vec::new(), plain: HashMap::new(), starred: Vec::new() };
        for (group, rules) in data.group.iter().enumerate() {
            for (rule, of) in rules.rule.iter().enumerate() {
                for path in &of.paths {
                    let dir = path.strip_suffix("/**");
                    let parts: Vec<&[u8]> = dir.unwrap_or(path).split('/').map(str::as_bytes).collect();
                    let at = index.patterns.len();
                    if parts[0].contains(&b'*') {
                        index.starred.push(at);
                    } else {
                        index.plain.entry(parts[0].to_ascii_lowercase()).or_default().push(at);
                    }
                    let (below, anywhere) = (dir.is_some(), of.anywhere);
                    index.patterns.push(Pattern { group, rule, below, anywhere, parts });
                }
            }
        }
        index
    }

    /// The first pattern that covers a path of these names and counts, with how many leading names it covers.
    pub(super) fn find(
        &self,
        names: &[&[u8]],
        counts: impl Fn(&Pattern) -> bool,
    ) -> Option<(&Pattern, usize)> {
        let mut first: Option<(usize, usize)> = None;
        for (start, name) in names.iter().enumerate() {
            let plain = self.plain.get(&name.to_ascii_lowercase()).into_iter().flatten();
            for at in plain.chain(&self.starred) {
                let pattern = &self.patterns[*at];
                let is_later = first.is_some_and(|(found, _)| found <= *at);
                if is_later || (start > 0 && !pattern.anywhere) {
                    continue;
                }
                let end = start + pattern.parts.len();
                let Some(window) = names.get(start..end) else { continue };
                let reaches = pattern.below || end == names.len();
                let mut parts = pattern.parts.iter().zip(window);
                if reaches && parts.all(|(part, name)| component_matches(part, name)) && counts(pattern) {
                    first = Some((*at, end));
                }
            }
        }
        first.map(|(at, end)| (&self.patterns[at], end))
    }
}
