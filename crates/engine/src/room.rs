//! How much room histories may take: a budget for each store, and a floor of free space that they leave to everything
//! else on the filesystem.
//!
//! The policy: a snapshot is written only where the floor holds afterwards; automatic ones only where the store is within
//! its budget, too, and before one is left out for that, automatic ones are thinned out, the oldest first.

use std::os::fd::AsFd;

use kernel::meta::Room;
use store::SnapshotKind;

use crate::error::{Doing as _, Result};

const GIB: u64 = 1 << 30;
/// A store takes at most so much, and at most this part of its filesystem: one in so many.
const BUDGET: u64 = 10 * GIB;
const BUDGET_PART: u64 = 5;
/// So much stays free, or this part of the filesystem where that is less.
const FLOOR: u64 = GIB;
const FLOOR_PART: u64 = 20;
/// The part of the floor that counts for the state that a restore is about to leave: where it cannot be recorded, nobody
/// goes back.
const RESCUE_PART: u64 = 8;
/// Sets the budget in place of the rule.
const VARIABLE: &str = "LANE_HISTORY_BUDGET";

/// The room on a filesystem.
pub fn of(dir: impl AsFd) -> Result<Room> {
    kernel::meta::room(dir).doing(|| "ask how much room is left".to_owned())
}

/// What a store may take.
pub fn budget(room: Room) -> u64 {
    let said = std::env::var(VARIABLE).ok().and_then(|text| size(&text));
    said.unwrap_or_else(|| BUDGET.min(room.total / BUDGET_PART))
}

/// What stays free when a snapshot of this kind is taken.
pub fn floor(room: Room, kind: SnapshotKind) -> u64 {
    let floor = FLOOR.min(room.total / FLOOR_PART);
    if kind == SnapshotKind::Rescue { floor / RESCUE_PART } else { floor }
}

/// A size in words: `500M`, `1.5G`, `2 GiB`, `4096`. The units are powers of 1024.
pub fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let unit = unit.trim().to_ascii_uppercase();
    let shift = match unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(&unit) {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let whole: u64 = whole.parse().ok()?;
    if part.is_empty() || part.len() > 9 || shift == 0 && number.contains('.') {
        return None;
    }
    let scale = 10u64.pow(u32::try_from(part.len()).ok()?);
    let part: u64 = part.parse().ok()?;
    let part = u128::from(part) * (1u128 << shift) / u128::from(scale);
    whole.checked_mul(1 << shift)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_read_as_it_is_said() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("500M", 500 << 20),
            ("1.5G", 3 << 29),
            ("2 GiB", 2 << 30),
            ("10kb", 10 << 10),
            (" 1T ", 1 << 40),
            ("7B", 7),
        ] {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for bad in ["", "G", "-1", "1.G", "1.5", "5X", "1..2G", "99999999999T", "1 2", "ten"] {
            assert_eq!(size(bad), None, "{bad}");
        }
    }

    #[test]
    fn small_filesystems_have_small_floors_and_budgets() {
        let (small, large) = (Room { free: 0, total: 64 << 20 }, Room { free: 0, total: 1 << 40 });
        assert_eq!(floor(small, SnapshotKind::Quiet), (64 << 20) / 20);
        assert_eq!(floor(large, SnapshotKind::Asked), GIB);
        assert_eq!(floor(large, SnapshotKind::Rescue), GIB / 8);
    }
}
