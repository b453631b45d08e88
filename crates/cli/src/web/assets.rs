//! The page's own files, part of the program. Nothing of them was made from anything of a lane.

/// A file: its address, its type, its bytes.
pub(super) struct Asset {
    pub(super) path: &'static str,
    pub(super) kind: &'static str,
    pub(super) bytes: &'static [u8],
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! script {
    ($name:literal) => {
        Asset {
            path: concat!("/", $name),
            kind: SCRIPT,
            bytes: include_bytes!(concat!("../../assets/web/", $name)),
        }
    };
}

/// All of them.
pub(super) const ASSETS: &[Asset] = &[
    Asset {
        path: "/",
        kind: "text/html; charset=utf-8",
        bytes: include_bytes!("../../assets/web/index.html"),
    },
    Asset {
        path: "/page.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../../assets/web/page.css"),
    },
    Asset { path: "/icon.svg", kind: "image/svg+xml", bytes: include_bytes!("../../assets/web/icon.svg") },
    script!("page.js"),
    script!("ask.js"),
    script!("dom.js"),
    script!("window.js"),
    script!("lanes.js"),
    script!("graph.js"),
    script!("review.js"),
    script!("files.js"),
    script!("hunks.js"),
    script!("pick.js"),
    script!("verbs.js"),
    script!("keep.js"),
    script!("history.js"),
    script!("output.js"),
    script!("compare.js"),
    script!("overlap.js"),
    script!("keys.js"),
];
