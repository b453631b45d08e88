//! The answer of `web`.

use serde::Serialize;

/// The answer of `web`, before it serves.
#[derive(Debug, Serialize)]
pub(crate) struct Web {
    url: String,
}

impl Web {
    pub(crate) fn new(url: &str) -> Web {
        Web { url: url.to_owned() }
    }
}
