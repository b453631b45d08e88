//! What snapshots cost, against `cp -r` of the same files, in one run on one filesystem:
//! `cargo run --release -p store --example measure -- DIR [ROUNDS [files|series|large]]`. Works in a directory of its own below DIR.
//!
//! Every figure has the syncs in it that make a snapshot durable; `cp -r` has none. Ratios are medians of paired rounds. Processor
//! time is told beside the clock's, because that of a busy machine says more about the others. Nothing is deleted before the end:
//! ext4 makes new files slowly for half a minute after many were deleted, which would flatter us.

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use store::{Capture, Captured, LaneKey, NewSnapshot, Pass, Quiescence, Root, SnapshotKind, Store, restore};
use tree::layer::Format;

type Answer<T> = Result<T, Box<dyn Error>>;

const FILES: usize = 5000;

fn main() -> Answer<()> {
    let mut arguments = std::env::args().skip(1);
    let place = PathBuf::from(arguments.next().unwrap_or_else(|| "/var/tmp".to_owned()));
    let rounds = arguments.next().map_or(Ok(5), |rounds| rounds.parse())?;
    let part = arguments.next();
    let dir = place.join(format!("lane-measure-{}", std::process::id()));
    fs::create_dir(&dir)?;
    let measured = measure(&dir, rounds, part.as_deref());
    fs::remove_dir_all(&dir)?;
    measured
}

fn measure(dir: &Path, rounds: usize, part: Option<&str>) -> Answer<()> {
    let wanted = |name: &str| part.is_none_or(|part| part == name);
    if wanted("files") {
        files(dir, rounds)?;
    }
    if wanted("series") {
        series(dir)?;
    }
    if wanted("large") {
        large(dir)?;
    }
    Ok(())
}

fn files(dir: &Path, rounds: usize) -> Answer<()> {
    let mut first = Vec::new();
    let mut ten = Vec::new();
    let mut same = Vec::new();
    let mut back = Vec::new();
    for round in 0..rounds {
        let world = World::new(&dir.join(format!("r{round}")))?;
        fill(&world.layer, FILES)?;
        settle();
        let copy = time(|| copy(&world.layer, &world.dir.join("copy")))?;
        settle();
        let (cost, _) = timed(|| world.snap())?;
        first.push((cost, copy));
        for n in 0..10 {
            fs::write(world.layer.join(name(n * 497)), text(n + round * 1000 + 77_777))?;
        }
        settle();
        let (cost, _) = timed(|| world.snap())?;
        ten.push((cost, copy));
        settle();
        let (cost, _) = timed(|| world.snap())?;
        same.push((cost, copy));
        for n in 0..10 {
            fs::write(world.layer.join(name(n * 497 + 1)), text(n + round * 1000 + 99_999))?;
        }
        let now = world.snap()?;
        settle();
        let target =
            world.store.history(&world.lane)?.snapshots().rev().nth(1).ok_or("no snapshot")?.1.roots[0].top;
        back.push((time(|| world.back(&now, target))?, copy));
    }
    say("first snapshot of 5,000 new files of 2 KiB", &mut first, 0.60);
    say("next one, 10 of them changed", &mut ten, 0.25);
    say("next one, nothing changed", &mut same, 0.25);
    say("restore over 10 changed files", &mut back, 0.10);
    Ok(())
}

/// 1,000 snapshots of a lane with 500 files, three of which change each time.
fn series(dir: &Path) -> Answer<()> {
    let world = World::new(&dir.join("series"))?;
    fill(&world.layer, 500)?;
    let mut costs = Vec::new();
    for round in 0..1000 {
        for n in 0..3 {
            fs::write(world.layer.join(name((round * 3 + n) % 500)), text(round * 10 + n))?;
        }
        costs.push(time(|| world.snap().map(drop))?);
    }
    let median = |part: &[Cost]| {
        let mut part: Vec<Duration> = part.iter().map(|cost| cost.clock).collect();
        part.sort();
        part[part.len() / 2]
    };
    let (early, late) = (median(&costs[5..105]), median(&costs[900..]));
    let work = |part: &[Cost]| part.iter().map(|cost| cost.work).sum::<Duration>() / 100;
    let (early_work, late_work) = (work(&costs[5..105]), work(&costs[900..]));
    let log = time(|| {
        let history = world.store.history(&world.lane)?;
        if history.snapshots().count() == 1000 { Ok(()) } else { Err("records are missing".into()) }
    })?;
    let (open, _) = timed(|| Ok(Store::open(kernel::open::root_dir(&world.dir.join("store"))?)?))?;
    print(&format!(
        "1,000 snapshots: about the 50th {early:.2?} ({early_work:.2?} of work), about the 950th {late:.2?} \
         ({late_work:.2?} of work); log read in {:.2?}, store opened in \
         {:.2?}; {} KiB stored of {} KiB written",
        log.clock,
        open.clock,
        allocated(&world.dir.join("store"))? / 1024,
        1000 * 3 * 2
    ));
    Ok(())
}

/// A file of 1 GiB with one page changed in place.
fn large(dir: &Path) -> Answer<()> {
    let world = World::new(&dir.join("large"))?;
    let path = world.layer.join("big");
    let mut file = fs::File::create(&path)?;
    let mut state = 88_172_645_463_325_252_u64;
    let mut block = vec![0u8; 1 << 20];
    for _ in 0..1024 {
        for word in block.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let (first, _) = timed(|| world.snap())?;
    file.write_at(&[1; 4096], 300 << 20)?;
    file.sync_all()?;
    settle();
    let before = free(dir)?;
    let (second, captured) = timed(|| world.snap())?;
    settle();
    let more = before.saturating_sub(free(dir)?);
    let shared = fs::read_dir(world.dir.join("store/large"))?.next().is_some();
    let target = world.store.history(&world.lane)?.snapshots().next().ok_or("no snapshot")?.1.roots[0].top;
    let back = time(|| world.back(&captured, target))?;
    print(&format!(
        "1 GiB file{}: first {first}, one page changed {second} and {} KiB more, restored in {back}",
        if shared { " (blocks shared)" } else { "" },
        more / 1024,
    ));
    Ok(())
}

struct World {
    dir: PathBuf,
    layer: PathBuf,
    store: Store,
    lane: LaneKey,
}

impl World {
    fn new(dir: &Path) -> Answer<World> {
        for name in ["", "layer", "store", "stage"] {
            fs::create_dir(dir.join(name))?;
        }
        let store = Store::create(kernel::open::root_dir(&dir.join("store"))?)?;
        Ok(World { dir: dir.to_path_buf(), layer: dir.join("layer"), store, lane: LaneKey::new("lane")? })
    }

    fn snap(&self) -> Answer<Captured> {
        let mut writer = self.store.begin()?;
        let mut capture = Capture::begin(&self.store, &self.lane, 0, "boot");
        let layer = kernel::open::root_dir(&self.layer)?;
        capture.pass(&mut writer, layer.as_fd(), &Pass::at_rest(Format::User))?;
        let captured = capture.finish(&mut writer)?;
        let root = Root {
            origin: b"/project".to_vec(),
            base: Vec::new(),
            layers: Vec::new(),
            top: captured.manifest,
            base_contents: None,
            entries: captured.entries,
            bytes: captured.bytes,
        };
        writer.finish(
            &self.lane,
            NewSnapshot {
                parent: None,
                time_ms: 0,
                kind: SnapshotKind::Asked,
                quiescence: Quiescence::AtRest,
                message: Vec::new(),
                roots: vec![root],
                gaps: Vec::new(),
                credentials: Vec::new(),
            },
        )?;
        captured.remember(&self.store)?;
        Ok(captured)
    }

    fn back(&self, now: &Captured, target: store::ManifestId) -> Answer<()> {
        let plan = restore::plan(&self.store.manifest(now.manifest), &self.store.manifest(target), &[])?;
        let layer = kernel::open::root_dir(&self.layer)?;
        let stage = kernel::open::root_dir(&self.dir.join("stage"))?;
        let report = restore::execute(&self.store, layer.as_fd(), stage.as_fd(), Format::User, &plan)?;
        if report.left.is_empty() { Ok(()) } else { Err(format!("{:?}", report.left).into()) }
    }
}

fn name(n: usize) -> String {
    format!("d{:03}/file{n:05}.txt", n % 100)
}

fn text(n: usize) -> String {
    let mut text = String::with_capacity(2100);
    let mut word = n as u64;
    while text.len() < 2048 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:x} ", word >> 33));
    }
    text.truncate(2048);
    text
}

fn fill(dir: &Path, count: usize) -> Answer<()> {
    for n in 0..count {
        let path = dir.join(name(n));
        if n < 100 {
            fs::create_dir(path.parent().ok_or("no parent")?)?;
        }
        fs::write(path, text(n))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Answer<()> {
    let status = Command::new("cp").arg("-r").args([from, to]).status()?;
    if status.success() { Ok(()) } else { Err("cp failed".into()) }
}

fn settle() {
    rustix::fs::sync();
}

/// By the clock, and of the processors, ours and our children's.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Cost {
    clock: Duration,
    work: Duration,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} ({:.0?} of work)", self.clock, self.work)
    }
}

fn time(what: impl FnOnce() -> Answer<()>) -> Answer<Cost> {
    timed(what).map(|(time, ())| time)
}

fn timed<T>(what: impl FnOnce() -> Answer<T>) -> Answer<(Cost, T)> {
    let (begun, before) = (Instant::now(), work()?);
    let answer = what()?;
    Ok((Cost { clock: begun.elapsed(), work: work()?.saturating_sub(before) }, answer))
}

/// Processor time that this process and its children have had, to a hundredth of a second.
fn work() -> Answer<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').ok_or("no fields")?.1.split_ascii_whitespace().skip(11).take(4);
    let ticks = fields.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 10))
}

/// Bytes that are free on the filesystem: files that share blocks take them once.
fn free(dir: &Path) -> Answer<u64> {
    Ok(kernel::meta::room(kernel::open::root_dir(dir)?)?.free)
}

fn allocated(dir: &Path) -> Answer<u64> {
    let mut sum = 0;
    for item in fs::read_dir(dir)? {
        let item = item?;
        let meta = item.metadata()?;
        sum += if meta.is_dir() { allocated(&item.path())? } else { meta.blocks() * 512 };
    }
    Ok(sum)
}

fn say(what: &str, pairs: &mut [(Cost, Cost)], target: f64) {
    let ratio = |one: Duration, two: Duration| one.as_secs_f64() / two.as_secs_f64().max(0.005);
    let clock = |pair: &(Cost, Cost)| ratio(pair.0.clock, pair.1.clock);
    pairs.sort_by(|a, b| clock(a).total_cmp(&clock(b)));
    let middle = &pairs[pairs.len() / 2];
    let mut works: Vec<f64> = pairs.iter().map(|pair| ratio(pair.0.work, pair.1.work)).collect();
    works.sort_by(f64::total_cmp);
    print(&format!(
        "{what}: {:.2} of cp -r ({:.2} to {:.2}), by work {:.2}; {} against {}; target {target:.2}",
        clock(middle),
        clock(&pairs[0]),
        clock(&pairs[pairs.len() - 1]),
        works[works.len() / 2],
        middle.0,
        middle.1,
    ));
}

#[expect(clippy::print_stdout, reason = "figures for a person")]
fn print(line: &str) {
    println!("{line}");
}
