//! placeholder
pub(crate) fn forget(_store: &crate::Store, _lane: &crate::LaneKey) -> crate::Result<()> { Ok(()) }
