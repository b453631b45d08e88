//! Roles of text and their colours. Nothing depends on colour: every role has its word or its sign.

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A lane's name.
    Lane,
    /// Something that matters less.
    Dim,
    /// Added.
    Add,
    /// Removed.
    Delete,
    /// Changed.
    Modify,
    /// Wants attention.
    Warn,
    /// Went wrong.
    Bad,
    /// Is well.
    Good,
    /// A heading.
    Head,
    /// A command to type.
    Command,
}

/// Wraps text in the role's colour where `on`.
pub(crate) fn paint(role: Role, text: &str, on: bool) -> String {
    if !on || text.is_empty() {
        return text.to_owned();
    }
    let code = match role {
        Role::Lane | Role::Head => "1",
        Role::Dim => "2",
        Role::Add | Role::Good => "32",
        Role::Delete | Role::Bad => "31",
        Role::Modify | Role::Warn => "33",
        Role::Command => "36",
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
