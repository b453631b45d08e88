//! What each piece of the view looks like on this terminal: as many colours as it has, on the ground that it has.
//!
//! Invariant: nothing is told by colour alone; without any colour every role still has its word, sign or weight.

use ratatui::style::{Color, Modifier, Style};

/// How many colours there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// None: weights only.
    Plain,
    /// The terminal's own sixteen.
    Sixteen,
    /// The cube of 256.
    Cube,
    /// Any.
    Full,
}

/// What the text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ground {
    /// A dark one.
    Dark,
    /// A light one.
    Light,
}

/// What a piece of text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Matters less.
    Dim,
    /// A heading.
    Head,
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
    /// A key to press.
    Key,
    /// A tick box with something in it.
    Tick,
}

/// What a piece of source text is, as far as its colour goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token {
    /// A remark.
    Comment,
    /// A literal text.
    Text,
    /// A number or another constant.
    Number,
    /// A word of the language.
    Keyword,
    /// A function's name.
    Function,
    /// A type's name.
    Type,
    /// A tag or an attribute.
    Tag,
}

/// The looks of one terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Its colours.
    pub(crate) depth: Depth,
    /// Its ground.
    pub(crate) ground: Ground,
}

impl Theme {
    /// From what the environment says: `NO_COLOR`, `TERM`, `COLORTERM`, `COLORFGBG`.
    pub(crate) fn of(var: impl Fn(&str) -> Option<String>, ground: Option<Ground>) -> Theme {
        let has = |name: &str| var(name).is_some_and(|value| !value.is_empty());
        let holds = |name: &str, word: &str| var(name).is_some_and(|value| value.contains(word));
        let depth = if has("NO_COLOR") || holds("TERM", "mono") {
            Depth::Plain
        } else if holds("COLORTERM", "truecolor") || holds("COLORTERM", "24bit") {
            Depth::Full
        } else if holds("TERM", "256color") {
            Depth::Cube
        } else {
            Depth::Sixteen
        };
        // The last number is the ground: 7 and 9 to 15 are light in every palette that sets the variable.
        let told = var("COLORFGBG").and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
        let guess = match told {
            Some(7 | 9..=15) => Ground::Light,
            _ => Ground::Dark,
        };
        Theme { depth, ground: ground.unwrap_or(guess) }
    }

    fn is_light(self) -> bool {
        self.ground == Ground::Light
    }

    /// A colour by what the terminal has: its own, from the cube, or any; each as (dark, light).
    fn pick(self, own: (Color, Color), cube: (u8, u8), full: (u32, u32)) -> Color {
        let side = |pair: (Color, Color)| if self.is_light() { pair.1 } else { pair.0 };
        match self.depth {
            Depth::Plain => Color::Reset,
            Depth::Sixteen => side(own),
            Depth::Cube => side((Color::Indexed(cube.0), Color::Indexed(cube.1))),
            Depth::Full => side((Color::from_u32(full.0), Color::from_u32(full.1))),
        }
    }

    /// The look of a role.
    pub(crate) fn role(self, role: Role) -> Style {
        let plain = Style::new();
        let fg = |color: Color| Style::new().fg(color);
        match role {
            Role::Dim if self.depth == Depth::Plain => plain.add_modifier(Modifier::DIM),
            Role::Dim => fg(self.pick((Color::DarkGray, Color::DarkGray), (245, 243), (0x8b949e, 0x59636e))),
            Role::Head => plain.add_modifier(Modifier::BOLD),
            Role::Add | Role::Good => {
                fg(self.pick((Color::Green, Color::Green), (114, 28), (0x7ee787, 0x1a7f37)))
            }
            Role::Delete | Role::Bad => {
                fg(self.pick((Color::Red, Color::Red), (210, 124), (0xff7b72, 0xcf222e)))
            }
            Role::Modify => fg(self.pick((Color::Yellow, Color::Yellow), (179, 94), (0xe3b341, 0x9a6700))),
            Role::Warn => fg(self.pick((Color::Yellow, Color::Magenta), (214, 130), (0xffa657, 0xbc4c00)))
                .add_modifier(Modifier::BOLD),
            Role::Key => fg(self.pick((Color::Cyan, Color::Blue), (80, 25), (0x56d4dd, 0x0969da)))
                .add_modifier(Modifier::BOLD),
            Role::Tick => fg(self.pick((Color::Cyan, Color::Blue), (80, 25), (0x56d4dd, 0x0969da))),
        }
    }

    /// The look of a piece of source text.
    pub(crate) fn token(self, token: Token) -> Style {
        let fg = |color: Color| Style::new().fg(color);
        match token {
            Token::Comment => self.role(Role::Dim),
            Token::Text => fg(self.pick((Color::Blue, Color::Blue), (153, 24), (0xa5d6ff, 0x0a3069))),
            Token::Number => fg(self.pick((Color::Cyan, Color::Cyan), (75, 26), (0x79c0ff, 0x0550ae))),
            Token::Keyword => {
                fg(self.pick((Color::Magenta, Color::Magenta), (211, 161), (0xff7bc0, 0xa40e6a)))
            }
            Token::Function => {
                fg(self.pick((Color::LightMagenta, Color::Magenta), (183, 91), (0xd2a8ff, 0x8250df)))
            }
            Token::Type => fg(self.pick((Color::Yellow, Color::Yellow), (215, 94), (0xffa657, 0x953800))),
            Token::Tag => fg(self.pick((Color::Cyan, Color::Blue), (80, 25), (0x56d4dd, 0x116329))),
        }
    }

    /// What an added line stands on.
    pub(crate) fn added(self) -> Style {
        self.tinted((22, 194), (0x12261b, 0xdafbe1))
    }

    /// What a removed line stands on.
    pub(crate) fn removed(self) -> Style {
        self.tinted((52, 224), (0x2d1417, 0xffebe9))
    }

    /// A word of an added line that is new, or of a removed one (`added` is false) that is gone.
    pub(crate) fn marked(self, added: bool) -> Style {
        match self.depth {
            // The line itself may be reversed or in colour: a line below the word adds to either.
            Depth::Plain | Depth::Sixteen => Style::new().add_modifier(Modifier::UNDERLINED),
            _ if added => self.tinted((28, 157), (0x1f5b35, 0xaceebb)),
            _ => self.tinted((88, 217), (0x78252b, 0xffc1bc)),
        }
    }

    fn tinted(self, cube: (u8, u8), full: (u32, u32)) -> Style {
        match self.depth {
            // Sixteen colours have no faint one: the sign and its colour say it.
            Depth::Plain | Depth::Sixteen => Style::new(),
            _ => Style::new().bg(self.pick((Color::Reset, Color::Reset), cube, full)),
        }
    }

    /// The row under the cursor.
    pub(crate) fn cursor(self) -> Style {
        match self.depth {
            Depth::Plain | Depth::Sixteen => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new()
                .bg(self.pick((Color::Reset, Color::Reset), (238, 252), (0x30363d, 0xd0d7de)))
                .add_modifier(Modifier::BOLD),
        }
    }

    /// The lines at the top and the bottom.
    pub(crate) fn bar(self) -> Style {
        match self.depth {
            Depth::Plain | Depth::Sixteen => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new().bg(self.pick((Color::Reset, Color::Reset), (236, 254), (0x21262d, 0xeaeef2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Depth, Ground, Theme};

    fn of(vars: &[(&str, &str)]) -> Theme {
        let found =
            |name: &str| vars.iter().find(|(at, _)| *at == name).map(|(_, value)| (*value).to_owned());
        Theme::of(found, None)
    }

    #[test]
    fn colours_follow_what_the_terminal_says_of_itself() {
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]).depth, Depth::Full);
        assert_eq!(of(&[("TERM", "xterm-256color")]).depth, Depth::Cube);
        assert_eq!(of(&[("TERM", "linux")]).depth, Depth::Sixteen);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]).depth, Depth::Plain);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "")]).depth, Depth::Cube);
    }

    #[test]
    fn the_ground_is_told_or_guessed_and_can_be_set() {
        assert_eq!(of(&[]).ground, Ground::Dark);
        assert_eq!(of(&[("COLORFGBG", "15;0")]).ground, Ground::Dark);
        assert_eq!(of(&[("COLORFGBG", "0;15")]).ground, Ground::Light);
        assert_eq!(of(&[("COLORFGBG", "0;default;15")]).ground, Ground::Light);
        assert_eq!(Theme::of(|_| None, Some(Ground::Light)).ground, Ground::Light);
    }
}
