//! The documents hang together: every link inside the repository leads somewhere, and every page of
//! `docs/` is mentioned by README.md or ARCHITECTURE.md.

use crate::source::{Source, top};

/// Complains about dead links and unmentioned pages.
pub fn check(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        let dir = top().join(&file.path);
        for target in links(&file.text) {
            let place = target.split('#').next().unwrap_or_default();
            let outside = place.is_empty() || place.contains("://") || place.starts_with("mailto:");
            if !outside && !dir.parent().is_some_and(|dir| dir.join(place).exists()) {
                complaints.push(format!("{}: the link to {place} leads nowhere", file.path));
            }
        }
        let entrance = |page: &&Source| page.path == "README.md" || page.path == "ARCHITECTURE.md";
        let mentioned = files.iter().filter(entrance).any(|page| page.text.contains(&file.path));
        if file.path.starts_with("docs/") && !mentioned {
            complaints.push(format!("{}: neither README.md nor ARCHITECTURE.md mentions it", file.path));
        }
    }
    complaints
}

/// The targets of Markdown links outside code blocks.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, behind)) = after.split_once(')') else { break };
            found.push(target);
            rest = behind;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn links_are_found_outside_code_blocks() {
        let text = "a [b](c.md) and [d](e.md#f)\n```\n[no](x.md)\n```\n![p](q.svg)\n";
        assert_eq!(links(text), ["c.md", "e.md#f", "q.svg"]);
    }
}
