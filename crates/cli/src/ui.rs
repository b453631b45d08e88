//! Talking to people and to programs: data goes to stdout, talk to stderr, and colour only to a
//! terminal. The only place that writes to either, and the only one that asks questions.
//!
//! Invariant: text of a lane reaches neither stream without `escape`; the callers compose lines of
//! their own words and of what `escape` gave them. A reader that closed the pipe is no error.

use std::env;
use std::io::{self, BufWriter, IsTerminal as _, Read as _, Write};

use crate::args::Global;
use crate::style::{Role, paint};

/// The two streams, and how talkative to be.
pub(crate) struct Ui {
    out: BufWriter<Box<dyn Write>>,
    out_color: bool,
    err_color: bool,
    quiet: bool,
    /// More detail in talk.
    pub(crate) verbose: bool,
    /// Answers as JSON.
    pub(crate) json: bool,
    closed: bool,
}

impl Ui {
    /// Looks at the streams and the environment.
    pub(crate) fn new(global: &Global) -> Ui {
        let plain = env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
            || env::var_os("TERM").is_some_and(|term| term == "dumb");
        Ui {
            out: BufWriter::with_capacity(1 << 16, Box::new(io::stdout())),
            out_color: !plain && !global.json && io::stdout().is_terminal(),
            err_color: !plain && io::stderr().is_terminal(),
            quiet: global.quiet,
            verbose: global.verbose > 0,
            json: global.json,
            closed: false,
        }
    }

    /// The same streams for talk only: an error beside other answers must not add a document of its own.
    pub(crate) fn without_json(&self) -> Ui {
        Ui {
            out: BufWriter::new(Box::new(io::sink())),
            out_color: false,
            err_color: self.err_color,
            quiet: self.quiet,
            verbose: self.verbose,
            json: false,
            closed: false,
        }
    }

    /// Columns of the terminal that data goes to; `None` where it goes elsewhere.
    pub(crate) fn columns(&self) -> Option<usize> {
        if self.json || !io::stdout().is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        (size.ws_col > 0).then(|| usize::from(size.ws_col))
    }

    /// Sends data elsewhere from now on (a `run` whose command gets the real stdout).
    pub(crate) fn data_to(&mut self, out: Box<dyn Write>) {
        self.out = BufWriter::with_capacity(1 << 16, out);
    }

    /// Text in the colour of its role, for stdout.
    pub(crate) fn paint(&self, role: Role, text: &str) -> String {
        paint(role, text, self.out_color)
    }

    /// Text in the colour of its role, for stderr.
    pub(crate) fn paint_err(&self, role: Role, text: &str) -> String {
        paint(role, text, self.err_color)
    }

    /// One line of data.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        self.raw(text.as_bytes())?;
        self.raw(b"\n")
    }

    /// Bytes of data, as they are: patches, completions, manual pages.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        match self.out.write_all(bytes) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            done => done,
        }
    }

    /// True where the reader of stdout has gone, so that more work for it is wasted.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True where stdout is a terminal.
    pub(crate) fn out_is_terminal(&self) -> bool {
        io::stdout().is_terminal()
    }

    /// A JSON document as data.
    pub(crate) fn document(&mut self, value: &impl serde::Serialize) -> io::Result<()> {
        let text = if io::stdout().is_terminal() {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        self.line(&crate::escape::json(&text))
    }

    /// One line of talk; `-q` silences it.
    pub(crate) fn say(&self, text: &str) {
        if !self.quiet {
            self.tell(text);
        }
    }

    /// One line of talk that `-q` does not silence: what went wrong, what was left out.
    pub(crate) fn tell(&self, text: &str) {
        // In one write, so that lines of several processes do not mix. A closed stderr is nobody's loss.
        let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
    }

    /// One warning.
    pub(crate) fn warn(&self, text: &str) {
        self.tell(&format!("{} {text}", self.paint_err(Role::Warn, "warning:")));
    }

    /// Asks a plain question. `yes` answers it; without a terminal the answer is no.
    pub(crate) fn confirm(&mut self, question: &str, yes: bool) -> io::Result<Confirm> {
        if yes {
            return Ok(Confirm::Yes);
        }
        if !self.can_ask() {
            return Ok(Confirm::NobodyToAsk);
        }
        let said = self.ask(&format!("{question} [y/N] "))?.unwrap_or_default().to_ascii_lowercase();
        Ok(if said == b"y" || said == b"yes" { Confirm::Yes } else { Confirm::No })
    }

    /// True where somebody can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks, and reads a line; `None` where the terminal was closed instead.
    pub(crate) fn ask(&mut self, question: &str) -> io::Result<Option<Vec<u8>>> {
        self.out.flush()?;
        io::stderr().write_all(question.as_bytes())?;
        let (mut answer, mut ended) = (Vec::new(), false);
        let mut byte = [0];
        while !ended && io::stdin().read(&mut byte)? == 1 {
            ended = byte[0] == b'\n';
            answer.push(byte[0]);
        }
        Ok((ended || !answer.is_empty()).then(|| answer.trim_ascii().to_vec()))
    }

    /// Writes out what is buffered.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self.out.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }
}

/// Bytes of data, for writers that take a stream.
impl Write for Ui {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.raw(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.finish()
    }
}

/// The answer to a plain question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirm {
    /// Go on.
    Yes,
    /// Do not.
    No,
    /// There was no terminal to ask on, and no `--yes`.
    NobodyToAsk,
}
