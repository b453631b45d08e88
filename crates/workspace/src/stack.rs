//! What a root of a lane stands on: its own upper, sealed layers, the origin.
//!
//! Invariant: [`Layers::open_all`] gives layers that belong together, whatever is sealed meanwhile: the list of sealed
//! layers and the upper are the same before and after all of them were opened.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use kernel::{meta, node, publish};
use tree::Stack;
use tree::layer::Format;

use crate::error::{Doing as _, Error, Result};
use crate::home::Layers;
use crate::pool::{self, Pool, STACK};

/// How often a reader looks again while layers are sealed under it.
const ROUNDS: usize = 64;

/// The layers of a root, opened.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) upper: OwnedFd,
    /// The topmost first.
    pub(crate) sealed: Vec<OwnedFd>,
}

impl Opened {
    /// All of them as one.
    pub(crate) fn into_stack(self, format: Format) -> kernel::Result<Stack<'static>> {
        Stack::of_dirs(self.upper, self.sealed, format)
    }
}

impl Layers {
    pub(crate) fn pool(&self) -> Pool {
        // <state>/lanes/<id>, or <state>/trash/<id>
        Pool::of(self.lane.ancestors().nth(2).unwrap_or(&self.lane))
    }

    fn stack_name(&self) -> String {
        format!("{STACK}{}", self.stem)
    }

    /// The sealed layers, the topmost first.
    pub(crate) fn sealed_ids(&self) -> Result<Vec<String>> {
        let path = self.lane.join(self.stack_name());
        match meta::read_link_at(rustix::fs::CWD, path.as_os_str().as_bytes()) {
            Ok(text) => pool::parse(&text).ok_or(Error::Damaged { what: "list of layers", path }),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error).doing("read list of layers", path),
        }
    }

    /// Where they are.
    pub(crate) fn sealed_paths(&self) -> Result<Vec<PathBuf>> {
        let pool = self.pool();
        self.sealed_ids()?.iter().map(|id| pool.layer(id)).collect()
    }

    /// Says what the upper stands on from here on.
    pub(crate) fn set_sealed(&self, ids: &[String]) -> Result<()> {
        let (name, path) = (self.stack_name(), self.lane.join(self.stack_name()));
        let lane = crate::origin::open_dir(&self.lane)?;
        if ids.is_empty() {
            return match node::unlink_at(&lane, name.as_bytes()) {
                Err(error) if error.is_not_found() => Ok(()),
                other => other.doing("remove list of layers", path),
            };
        }
        publish::write_link(&lane, name.as_bytes(), ids.join(",").as_bytes())
            .doing("write list of layers", path)
    }

    /// Opens the upper and everything sealed below it.
    pub(crate) fn open_all(&self) -> Result<Opened> {
        let pool = self.pool();
        for _ in 0..ROUNDS {
            let ids = self.sealed_ids()?;
            let dir = self.open_dir()?;
            let upper = self.open_layer(&dir, "u")?;
            let open = |id: &String| {
                let path = pool.layer(id)?;
                match kernel::open::root_dir(&path) {
                    Err(error) if error.is_not_found() => Err(Error::LayersGone { path }),
                    other => other.doing("open layer", path),
                }
            };
            let sealed = ids.iter().map(open).collect::<Result<Vec<OwnedFd>>>();
            let name = self.name("u");
            let path = || self.dir.join(OsStr::from_bytes(&name));
            let now = meta::stat_at_if_there(&dir, &name).doing("look at upper layer", path())?;
            let opened = meta::stat_fd(&upper).doing("look at upper layer", path())?;
            if now.is_some_and(|now| now.identity() == opened.identity()) && self.sealed_ids()? == ids {
                return Ok(Opened { upper, sealed: sealed? });
            }
        }
        Err(Error::LayersGone { path: self.upper.clone() })
    }
}
