//! docs/syscalls.md, made from the table of system calls that the filter is made from, so that the page cannot say
//! what the filter does not do.

use std::fmt::Write as _;

/// Where the table lies.
pub const TABLE: &str = "crates/sandbox/data/syscalls.toml";
/// The page.
pub const PAGE: &str = "docs/syscalls.md";

const HEAD: &str = "\
# System calls inside a lane

<!-- written by `cargo xtask gen` from crates/sandbox/data/syscalls.toml -->

Every system call of Linux 6.18 on x86-64 by its number, and what a command in a lane gets. A test calls them inside a lane and compares.

- **allowed**: the kernel decides, as it does outside; other walls (the view, namespaces, no capabilities, Landlock) still stand.
- **EPERM**: policy refuses it, whatever the arguments.
- **ENOSYS**: this machine is said not to have it, so that programs take another way.

A number that is not in the table is ENOSYS: a call that a later kernel brings is none here until it is in the table. Calls of the i386
table (`int 0x80`) and of the x32 table are ENOSYS, all of them. The rename family is carried out by the supervisor in lanes of ordinary
users, where the kernel would refuse to rename a directory of the project.

`ioctl` is EPERM for the commands that type into a terminal, TIOCSTI and TIOCLINUX. `clone` and `unshare` are EPERM with any flag that makes a
namespace. `socket` is EAFNOSUPPORT for families other than unix, inet, inet6 and netlink, and EPERM for vsock. With `--nest`, what is
marked \"yes\" in the last column is simply allowed.

| number | call | answer | kind | why | with `--nest` |
|---|---|---|---|---|---|
";

/// The page that this table makes.
pub fn page(table: &str) -> Result<String, String> {
    let table: toml::Table = table.parse().map_err(|error| format!("{TABLE}: {error}"))?;
    let groups = table.get("group").and_then(toml::Value::as_array).ok_or(format!("{TABLE}: no groups"))?;
    let mut rows = std::collections::BTreeMap::new();
    for group in groups {
        let text = |key: &str| group.get(key).and_then(toml::Value::as_str);
        let needed = |key: &str| text(key).ok_or(format!("{TABLE}: a group has no {key}"));
        let (class, answer, why) = (needed("class")?, needed("answer")?, needed("why")?);
        let nested = group.get("nested").and_then(toml::Value::as_bool).unwrap_or(false);
        let calls = group.get("calls").and_then(toml::Value::as_array).ok_or(format!("{TABLE}: no calls"))?;
        for call in calls.iter().filter_map(toml::Value::as_str) {
            let words: Vec<&str> = call.split(' ').collect();
            let number = words.get(1).and_then(|word| word.parse::<u32>().ok());
            let number = number.ok_or(format!("{TABLE}: {call} has no number"))?;
            let answer =
                if text("when").is_some() { format!("{answer}, some arguments") } else { answer.to_owned() };
            let nested = if nested { "yes" } else { "" };
            rows.insert(
                number,
                format!("| {number} | `{}` | {answer} | {class} | {why} | {nested} |", words[0]),
            );
        }
    }
    let mut page = HEAD.to_owned();
    for row in rows.values() {
        let _ = writeln!(page, "{row}");
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::page;

    #[test]
    fn a_page_has_a_line_for_each_call_by_number() {
        let table = "[[group]]\nclass = \"c\"\nanswer = \"EPERM\"\nnested = true\nwhy = \"w\"\ncalls = [\"b 7 -\", \"a 2 3\"]\n";
        let page = page(table).expect("a page");
        assert!(
            page.ends_with("| 2 | `a` | EPERM | c | w | yes |\n| 7 | `b` | EPERM | c | w | yes |\n"),
            "{page}"
        );
    }
}
