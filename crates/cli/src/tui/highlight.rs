//! Colours of source text: a grammar by the file's name, and the lines that are shown, a few at a time.
//!
//! Invariant: a file of any size costs the lines that were looked at, each once, with a short run-up. A hunk is read as
//! if the file began there: what stands above it is not known. No file is opened to find a grammar.

use std::collections::HashMap;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::paint::Piece;
use super::theme::Token;

/// Longer lines stay without colours: no person reads them, and a grammar takes its time over them.
const LONGEST: usize = 1000;

/// Lines that are read before the first shown one, so that what began there is known.
const RUN_UP: usize = 24;

/// Longer stretches than this between what was read and what is shown are jumped over.
const BRIDGE: usize = 64;

/// The grammars, loaded when the first one is needed, and what scopes mean.
#[derive(Default)]
pub(crate) struct Grammars {
    set: Option<SyntaxSet>,
    meanings: Vec<(Scope, Option<Token>)>,
}

impl std::fmt::Debug for Grammars {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grammars").field("loaded", &self.set.is_some()).finish_non_exhaustive()
    }
}

/// What scopes begin with, and what their text is. The longest beginning wins.
const MEANINGS: [(&str, Option<Token>); 24] = [
    ("comment", Some(Token::Comment)),
    ("string", Some(Token::Text)),
    ("constant.numeric", Some(Token::Number)),
    ("constant.language", Some(Token::Number)),
    ("constant.character", Some(Token::Number)),
    ("constant.other", Some(Token::Number)),
    ("keyword", Some(Token::Keyword)),
    ("keyword.operator", None),
    ("storage", Some(Token::Keyword)),
    ("support.function", Some(Token::Function)),
    ("support.macro", Some(Token::Function)),
    ("variable.function", Some(Token::Function)),
    ("entity.name.function", Some(Token::Function)),
    ("entity.name.macro", Some(Token::Function)),
    ("support.type", Some(Token::Type)),
    ("support.class", Some(Token::Type)),
    ("entity.name", Some(Token::Type)),
    ("entity.name.tag", Some(Token::Tag)),
    ("entity.other.attribute-name", Some(Token::Tag)),
    ("entity.other.inherited-class", Some(Token::Type)),
    ("variable.parameter", None),
    ("meta.interpolation", None),
    ("markup.heading", Some(Token::Keyword)),
    ("markup.raw", Some(Token::Text)),
];

impl Grammars {
    fn load(&mut self) {
        if self.set.is_none() {
            self.set = Some(two_face::syntax::extra_newlines());
            let scope = |(name, token): &(&str, Option<Token>)| Some((Scope::new(name).ok()?, *token));
            self.meanings = MEANINGS.iter().filter_map(scope).collect();
            self.meanings.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.len()));
        }
    }

    /// The grammar for a path, by its name alone, else by the first line of its content.
    fn find(&self, path: &[u8], first: &[u8]) -> Option<&SyntaxReference> {
        let set = self.set.as_ref()?;
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        let name = std::str::from_utf8(name).ok()?;
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        let by_name = set.find_syntax_by_extension(name);
        let found =
            by_name.or_else(|| extension.and_then(|extension| set.find_syntax_by_extension(extension)));
        let by_line = || {
            set.find_syntax_by_first_line(std::str::from_utf8(first.get(..first.len().min(LONGEST))?).ok()?)
        };
        found.or_else(by_line).filter(|found| found.name != "Plain Text")
    }

    fn meaning(&self, stack: &ScopeStack) -> Option<Token> {
        let known = |scope: &Scope| self.meanings.iter().find(|(at, _)| at.is_prefix_of(*scope));
        stack.as_slice().iter().rev().find_map(known).and_then(|(_, token)| *token)
    }
}

/// The colours of the file that is looked at.
#[derive(Default)]
pub(crate) struct Highlighter {
    /// Where the parser of each stream stands: behind this line, by the stream's first line.
    standing: HashMap<u64, (usize, ParseState, ScopeStack)>,
    done: HashMap<(u64, usize), Vec<Piece>>,
    /// Lines that were parsed so far.
    pub(crate) parsed: usize,
}

impl std::fmt::Debug for Highlighter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Highlighter").field("parsed", &self.parsed).finish_non_exhaustive()
    }
}

/// Lines that follow one another in one state of a file: a stream of them, the numbers of its lines, and their bytes.
pub(crate) trait Lines {
    /// The bytes of a line with its ending.
    fn bytes(&self, line: usize) -> &[u8];
    /// The line before this one in the same state of the file, if the stream has one.
    fn before(&self, line: usize) -> Option<usize>;
    /// The line after it.
    fn after(&self, line: usize) -> Option<usize>;
}

impl Highlighter {
    /// The pieces of a line, where it was read.
    pub(crate) fn pieces(&self, stream: u64, line: usize) -> Option<&[Piece]> {
        self.done.get(&(stream, line)).map(Vec::as_slice)
    }

    /// Reads on until `line` of a stream is known. Loads the grammars where that was not done yet; false where there
    /// is no grammar for the file.
    pub(crate) fn read(
        &mut self,
        grammars: &mut Grammars,
        path: &[u8],
        first: &[u8],
        (stream, line): (u64, usize),
        lines: &dyn Lines,
    ) -> bool {
        grammars.load();
        let Some(syntax) = grammars.find(path, first) else { return false };
        let Some(set) = grammars.set.as_ref() else { return false };
        if self.done.contains_key(&(stream, line)) {
            return true;
        }
        // From where the parser stands, if that is near; else from a little above.
        let mut begin = line;
        for _ in 0..RUN_UP {
            match lines.before(begin) {
                Some(before) => begin = before,
                None => break,
            }
        }
        let (mut at, mut state, mut stack) = match self.standing.remove(&stream) {
            Some((next, state, stack)) if next <= line && line - next < BRIDGE => (next, state, stack),
            _ => (begin, ParseState::new(syntax), ScopeStack::new()),
        };
        loop {
            let pieces = parse(grammars, set, lines.bytes(at), &mut state, &mut stack);
            self.parsed += 1;
            self.done.insert((stream, at), pieces);
            let next = lines.after(at);
            if at >= line || next.is_none() {
                self.standing.insert(stream, (next.unwrap_or(at + 1), state, stack));
                return true;
            }
            at = next.unwrap_or(at + 1);
        }
    }
}

fn parse(
    grammars: &Grammars,
    set: &SyntaxSet,
    bytes: &[u8],
    state: &mut ParseState,
    stack: &mut ScopeStack,
) -> Vec<Piece> {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST) else {
        return Vec::new();
    };
    let with_end = if text.ends_with('\n') { None } else { Some(format!("{text}\n")) };
    let Ok(ops) = state.parse_line(with_end.as_deref().unwrap_or(text), set) else { return Vec::new() };
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = 0;
    let mut push = |range: std::ops::Range<usize>, token| match pieces.last_mut() {
        _ if range.is_empty() => {}
        Some((last, same)) if *same == token => last.end = range.end,
        _ => pieces.push((range, token)),
    };
    for (offset, op) in &ops {
        push(at..*offset, grammars.meaning(stack));
        at = *offset;
        if stack.apply(op).is_err() {
            return Vec::new();
        }
    }
    push(at..text.len().max(at), grammars.meaning(stack));
    pieces
}

#[cfg(test)]
mod tests {
    use super::{Grammars, Highlighter, Lines, RUN_UP};
    use crate::tui::theme::Token;

    struct Plain(Vec<Vec<u8>>);

    impl Lines for Plain {
        fn bytes(&self, line: usize) -> &[u8] {
            &self.0[line]
        }
        fn before(&self, line: usize) -> Option<usize> {
            line.checked_sub(1)
        }
        fn after(&self, line: usize) -> Option<usize> {
            (line + 1 < self.0.len()).then_some(line + 1)
        }
    }

    fn rust(lines: usize) -> Plain {
        Plain((0..lines).map(|n| format!("fn f{n}() {{ \"text\" }} // {n}\n").into_bytes()).collect())
    }

    #[test]
    fn words_of_a_language_are_told_apart() {
        let (mut grammars, mut colours) = (Grammars::default(), Highlighter::default());
        let lines = Plain(vec![b"fn main() { let x = \"a\"; } // end\n".to_vec()]);
        assert!(colours.read(&mut grammars, b"src/main.rs", b"", (0, 0), &lines));
        let pieces = colours.pieces(0, 0).expect("read");
        let of = |text: &str| {
            let at = String::from_utf8_lossy(&lines.0[0]).find(text).expect("there");
            pieces.iter().find(|(range, _)| range.contains(&at)).and_then(|(_, token)| *token)
        };
        assert_eq!(of("fn"), Some(Token::Keyword));
        assert_eq!(of("main"), Some(Token::Function));
        assert_eq!(of("\"a\""), Some(Token::Text));
        assert_eq!(of("// end"), Some(Token::Comment));
        assert_eq!(of("= "), None);
    }

    #[test]
    fn the_last_of_many_lines_costs_a_run_up_and_no_more() {
        let (mut grammars, mut colours) = (Grammars::default(), Highlighter::default());
        let lines = rust(100_000);
        assert!(colours.read(&mut grammars, b"a.rs", b"", (0, 99_999), &lines));
        assert_eq!(colours.parsed, RUN_UP + 1);
        assert!(colours.read(&mut grammars, b"a.rs", b"", (0, 99_999), &lines));
        assert_eq!(colours.parsed, RUN_UP + 1);
        for line in 0..50 {
            colours.read(&mut grammars, b"a.rs", b"", (0, line), &lines);
        }
        assert_eq!(colours.parsed, RUN_UP + 51);
    }

    #[test]
    fn a_name_without_a_grammar_and_bytes_that_are_no_text_have_no_colours() {
        let (mut grammars, mut colours) = (Grammars::default(), Highlighter::default());
        let lines = Plain(vec![b"fn \xff\n".to_vec(), vec![b'x'; 100_000]]);
        assert!(!colours.read(&mut grammars, b"\xff", b"", (0, 0), &lines));
        assert!(!colours.read(&mut grammars, b"notes.unknown", b"", (0, 0), &lines));
        assert!(colours.read(&mut grammars, b"a.rs", b"", (0, 1), &lines));
        assert_eq!(colours.pieces(0, 0), Some(&[][..]));
        assert_eq!(colours.pieces(0, 1), Some(&[][..]));
        assert!(colours.read(&mut grammars, b"script", b"#!/bin/sh\n", (1, 0), &lines));
    }
}
