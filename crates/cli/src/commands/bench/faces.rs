//! The rows of `review` about the faces: how long until the first screen of `lane review` stands, until a key is answered,
//! and until the page of `lane web` has its first answer. The program is this one, on a terminal and behind a socket of its own.
//!
//! Invariant: nothing is remembered for a round by the one before it: what a sum of a lane read is thrown away first.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::ground::Ground;
use super::process::{Job, Outcome, Trouble};
use super::row::{Promise, Row, Unit};
use super::stats;
use super::terminal::Terminal;

/// Lanes of the project.
const LANES: usize = 20;
/// Files that the first of them changed; the others changed [`FEW`].
const FILES: usize = 2000;
const FEW: usize = 20;
const PER_DIRECTORY: usize = 50;

/// A project with many lanes.
struct Crowd<'g> {
    ground: &'g Ground,
    dir: PathBuf,
}

impl<'g> Crowd<'g> {
    fn new(ground: &'g Ground, name: &str) -> Outcome<Crowd<'g>> {
        let crowd = Crowd { ground, dir: ground.scratch().join(name) };
        let state = crowd.state();
        fs::create_dir_all(&state)?;
        rustix::fs::chmod(&state, rustix::fs::Mode::RWXU).map_err(std::io::Error::from)?;
        write_files(&crowd.project(), FILES, 0)?;
        // What the lanes change is older than they are.
        for lane in 0..LANES {
            let name = Crowd::lane(lane);
            let run = ["run", "-n", &name, "--strategy", "overlay", "--checkpoints", "none", "--", "true"];
            crowd.job(run).run()?;
            let mut uppers = fs::read_dir(state.join("lanes"))?.flatten().map(|lane| lane.path().join("0.u"));
            let is_empty =
                |upper: &PathBuf| fs::read_dir(upper).is_ok_and(|mut names| names.next().is_none());
            let upper = uppers
                .find(is_empty)
                .ok_or_else(|| Trouble::Failed("the layer of the lane is not beside its state".to_owned()))?;
            write_files(&upper, if lane == 0 { FILES } else { FEW }, lane + 1)?;
        }
        Job::new("sync", &crowd.dir).args(["-f", "."]).run()?;
        Ok(crowd)
    }

    fn lane(number: usize) -> String {
        format!("lane-{number:02}")
    }

    fn project(&self) -> PathBuf {
        self.dir.join("project")
    }

    fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    fn job<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Job {
        self.ground.lane(&self.project(), args).env("LANE_STATE", self.state())
    }

    /// Forgets what earlier sums read of content.
    fn forget(&self) -> Outcome<()> {
        for lane in fs::read_dir(self.state().join("lanes"))?.flatten() {
            match fs::remove_file(lane.path().join("recall.0")) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// `lane review`, with the moment of its start.
    fn review(&self, args: &[&str]) -> Outcome<(Terminal, Instant)> {
        Terminal::start(&self.job(["review", "--ground", "dark"]).args(args))
    }
}

/// Files of 80 lines; with another number one line of each differs.
fn write_files(top: &Path, count: usize, number: usize) -> Outcome<()> {
    for file in 0..count {
        let at = top.join(format!("d{:03}", file / PER_DIRECTORY)).join(format!("f{file:05}.txt"));
        if file % PER_DIRECTORY == 0 {
            fs::create_dir_all(at.parent().unwrap_or(top))?;
        }
        let mut text = String::new();
        for line in 0..80 {
            let _ = match line {
                40 => writeln!(text, "line {line} of file {file} as of {number}"),
                _ => writeln!(text, "line {line} of file {file}"),
            };
        }
        fs::write(at, text)?;
    }
    Ok(())
}

/// The figure of a row: the median, with the worst beside it.
fn told(promise: &Promise, figures: &[f64], more: &str) -> Row {
    let worst = figures.iter().copied().fold(0.0, f64::max);
    let note = format!("{worst:.1} ms at most{more}");
    Row::within(promise, Unit::Ms, stats::median(figures), figures.len()).note(note)
}

/// From the start of `lane review` until all lanes stand on the screen.
pub(crate) fn first_paint(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let crowd = Crowd::new(ground, "paint")?;
    let names: Vec<String> = (0..LANES).map(Crowd::lane).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut figures, mut full) = (Vec::new(), Vec::new());
    for _ in 0..wanted.unwrap_or(15) {
        crowd.forget()?;
        let (mut terminal, began) = crowd.review(&[])?;
        figures.push(terminal.shows(began, &names, &[])?);
        full.push(terminal.shows(began, &["2000 modified"], &["…"])?);
    }
    Ok(told(promise, &figures, &format!("; with every sum {:.0} ms", stats::median(&full))))
}

/// From the start of `lane review LANE` until the first of its 2,000 changed files stand on the screen.
pub(crate) fn open_lane(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let crowd = Crowd::new(ground, "open")?;
    let name = Crowd::lane(0);
    let mut figures = Vec::new();
    for _ in 0..wanted.unwrap_or(15) {
        crowd.forget()?;
        let (mut terminal, began) = crowd.review(&[&name])?;
        figures.push(terminal.shows(began, &["f00000.txt", "f00020.txt"], &[])?);
    }
    Ok(told(promise, &figures, ""))
}

/// From a key to its screen, pressed while the view is still at work: on the list of all lanes, whose sums are being
/// read, and on the list of 2,000 files, whose lines are being counted. The worst of each round counts.
pub(crate) fn key_press(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    const PRESSES: usize = 10;
    let crowd = Crowd::new(ground, "key")?;
    let first = Crowd::lane(0);
    let (mut figures, mut all) = (Vec::new(), Vec::new());
    for _ in 0..wanted.unwrap_or(15) {
        let mut worst: f64 = 0.0;
        for (args, shown) in [(&[][..], "lane-19"), (&[first.as_str()][..], "f00020.txt")] {
            crowd.forget()?;
            let (mut terminal, began) = crowd.review(args)?;
            terminal.shows(began, &[shown], &[])?;
            for _ in 0..PRESSES {
                let box_comes = terminal.answers(b"?", &["draw anew, suspend"], &[])?;
                let box_goes = terminal.answers(b" ", &[], &["draw anew, suspend"])?;
                all.extend([box_comes, box_goes]);
                worst = worst.max(box_comes).max(box_goes);
            }
        }
        figures.push(worst);
    }
    Ok(told(promise, &figures, &format!("; {:.1} ms the median of all keys", stats::median(&all))))
}

/// From the first byte of the page's first request to the last of its answer: all lanes with their sums.
pub(crate) fn first_answer(ground: &Ground, promise: &Promise, wanted: Option<usize>) -> Outcome<Row> {
    let crowd = Crowd::new(ground, "page")?;
    let (mut figures, mut page, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..wanted.unwrap_or(15) {
        crowd.forget()?;
        let (_server, url) = crowd.job(["web"]).first_line()?;
        let visit = Visit::of(&url)?;
        let began = Instant::now();
        visit.get("/")?;
        page.push(millis(began));
        let visit = visit.enter()?;
        for found in [&mut figures, &mut again] {
            let began = Instant::now();
            let answer = visit.ask("{\"what\":\"lanes\"}")?;
            found.push(millis(began));
            let names = answer.matches("\"strategy\"").count();
            if names != LANES {
                return Err(Trouble::Failed(format!("{names} lanes of {LANES} in the answer")));
            }
        }
    }
    let (page, again) = (stats::median(&page), stats::median(&again));
    Ok(told(
        promise,
        &figures,
        &format!("; the page itself {page:.1} ms, the same answer again {again:.1} ms"),
    ))
}

fn millis(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

/// A visitor of the page.
struct Visit {
    host: String,
    token: String,
    cookie: String,
    key: String,
}

impl Visit {
    fn of(url: &str) -> Outcome<Visit> {
        let parts = url.strip_prefix("http://").and_then(|rest| rest.split_once("/#"));
        let (host, token) = parts.ok_or_else(|| Trouble::Failed(format!("no address: {url}")))?;
        let (cookie, key) = (String::new(), String::new());
        Ok(Visit { host: host.to_owned(), token: token.to_owned(), cookie, key })
    }

    /// Changes the token for what lets in.
    fn enter(mut self) -> Outcome<Visit> {
        let (head, body) = self.post("/enter", &format!("{{\"token\":\"{}\"}}", self.token))?;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_default();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
        self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        self.key = body["key"].as_str().unwrap_or_default().to_owned();
        Ok(self)
    }

    fn get(&self, path: &str) -> Outcome<(String, String)> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.host))
    }

    fn ask(&self, question: &str) -> Outcome<String> {
        self.post("/ask", question).map(|(_, body)| body)
    }

    fn post(&self, path: &str, body: &str) -> Outcome<(String, String)> {
        let Visit { host, cookie, key, .. } = self;
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\ncookie: {cookie}\r\nx-lane-key: {key}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// One request on a connection of its own: head and body of the answer, which has to be a good one.
    fn exchange(&self, request: &str) -> Outcome<(String, String)> {
        let mut connection = TcpStream::connect(&self.host)?;
        connection.set_read_timeout(Some(Duration::from_secs(20)))?;
        connection.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok((head.to_owned(), body.to_owned())),
            _ => Err(Trouble::Failed(format!("{}: {answer}", self.host))),
        }
    }
}
