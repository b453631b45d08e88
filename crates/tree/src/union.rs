//! [`Union`]: the merged view of layers, read without mounting it.

use std::os::fd::OwnedFd;

use kernel::Result;

use crate::entry::Entry;
use crate::layer::Format;
use crate::path::TreePath;
use crate::source::{Source, Xattr};

/// What the kernel would show for a stack of layers. A reading of one moment: directories are looked up
/// once, so make a new one after the layers have changed.
pub struct Union {
    _todo: (),
}

impl Union {
    /// The merged view of `layers` (open directories), the topmost first.
    pub fn new(_layers: Vec<OwnedFd>, _format: Format) -> Union {
        todo!()
    }

    /// The merged view of one layer over any other tree.
    pub fn over(_upper: OwnedFd, _lower: Box<dyn Source>, _format: Format) -> Union {
        todo!()
    }
}

impl Source for Union {
    fn entry(&self, _path: &TreePath) -> Result<Option<Entry>> {
        todo!()
    }
    fn list(&self, _path: &TreePath) -> Result<Vec<Vec<u8>>> {
        todo!()
    }
    fn open(&self, _path: &TreePath) -> Result<OwnedFd> {
        todo!()
    }
    fn xattrs(&self, _path: &TreePath) -> Result<Vec<Xattr>> {
        todo!()
    }
}
