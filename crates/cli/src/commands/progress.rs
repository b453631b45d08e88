//! The engine's events as talk on stderr, and the lines around a run.

use std::path::PathBuf;

use engine::view::{Cost, DriftView, LaneView, Net, RootChanges};
use engine::{Event, Monitor};

use crate::escape;
use crate::render::report;
use crate::style::Role;
use crate::ui::Ui;

/// Shows events as they come.
pub(crate) struct Talk<'u> {
    ui: &'u Ui,
}

impl<'u> Talk<'u> {
    /// Talks through `ui`.
    pub(crate) fn new(ui: &'u Ui) -> Talk<'u> {
        Talk { ui }
    }
}

impl Monitor for Talk<'_> {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Ready { lane, cost, net, direct, shared } => {
                ready(self.ui, lane, cost, net, direct, shared)
            }
            Event::Checking { command, rule } => {
                let rule = report::path(rule);
                self.ui.say(&format!("checking: {} (keep.verify of {rule})", escape::name(command)));
            }
            Event::Drifted(drift) => say_drift(self.ui, drift),
            Event::Copying { files, bytes } if self.ui.verbose => {
                self.ui.say(&format!("copying: {files} files, {}", report::bytes(bytes)));
            }
            Event::Copying { .. } => {}
            Event::Repaired(what, on) => {
                self.ui.say(&format!("repaired: {} ({})", escape::name(what), escape::name(on)));
            }
            Event::LimitHit(hit) => self.ui.warn(&report::limit_hit(hit)),
            Event::Warning(what) => self.ui.warn(&escape::name(what)),
        }
    }
}

/// `lane fix-auth · overlay · cloned in 2.8 ms · 0 B allocated · original protected · net host`.
fn ready(
    ui: &Ui,
    lane: &LaneView,
    cost: Option<Cost>,
    net: &Net,
    direct: &[PathBuf],
    shared: &[(String, String)],
) {
    let cost = cost.map_or_else(|| "reopened".to_owned(), |cost| report::cost(lane.strategy, cost));
    ui.say(&format!(
        "{} · {} · {cost} · original protected · net {}",
        ui.paint_err(Role::Lane, &format!("lane {}", lane.name)),
        lane.strategy.word(),
        escape::name(net.text())
    ));
    for path in direct {
        // Said even under -q: the promise of the line above has this hole.
        ui.tell(&format!("{} writes directly to the original", report::path(path)));
    }
    for (preset, what) in shared {
        ui.say(&format!("shared for {}: {}", escape::name(preset), escape::name(what)));
    }
    if lane.base.other_boot {
        ui.warn("the machine was restarted since this lane last ran; its newest writes may be incomplete");
    }
}

/// Names what changed in the origin.
pub(crate) fn say_drift(ui: &Ui, drift: &[DriftView]) {
    if drift.is_empty() {
        return;
    }
    let most = if ui.verbose { usize::MAX } else { 10 };
    for (at, line) in report::drift(drift, most).iter().enumerate() {
        let text = if at == 0 { ui.paint_err(Role::Warn, line) } else { line.clone() };
        ui.say(&text);
    }
}

/// One line for each root that changed; one line where none did.
pub(crate) fn change_lines(changes: &[RootChanges], home: u64) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, root) in changes.iter().enumerate() {
        if at == 0 {
            lines.push(report::counts(&root.counts));
        } else if root.counts != engine::view::Counts::default() {
            lines.push(format!("{}: {}", report::path(&root.root), report::counts(&root.counts)));
        }
    }
    if home > 0 {
        lines.push(format!("{home} in $HOME (private to the lane, never kept)"));
    }
    lines
}
