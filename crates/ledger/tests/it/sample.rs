//! Rows to record in tests.

use ledger::{Lane, LaneState, NewRun};
use serde_json::json;

/// A lane whose every field differs from its default.
pub(crate) fn lane(id: &str, name: &str) -> Lane {
    Lane {
        id: id.to_owned(),
        name: name.to_owned(),
        origin: b"/home/\xffdev/pro:ject,\n".to_vec(),
        project: b"/home/\xffdev".to_vec(),
        strategy: "overlay".to_owned(),
        why: "the kernel mounts it here".to_owned(),
        created_at: 1_700_000_000_123,
        base_sec: 1_700_000_000,
        base_nsec: 999_999_999,
        boot_id: "b7c0".to_owned(),
        git_head: Some("0123abcd".to_owned()),
        state: LaneState::New,
        layers: b"/state/lanes/\xfe".to_vec(),
        roots: json!([{ "origin": "/sibling" }]),
        options: json!({ "net": "none" }),
        cost_ms: 2.8,
        cost_bytes: 4096,
        discarded_at: None,
    }
}

/// A run of `lane`.
pub(crate) fn run(lane: &str) -> NewRun {
    NewRun {
        lane: lane.to_owned(),
        argv: vec![b"cargo".to_vec(), Vec::new(), b"\xff\"".to_vec()],
        cwd: b"/home/\xffdev".to_vec(),
        started_at: 5,
        pid: Some(4_000_000_000),
        pid_start: Some(77),
        walls: json!({ "user": "full" }),
        transcript: Some(b"/state/t\xfe.cast".to_vec()),
        detached: true,
    }
}
