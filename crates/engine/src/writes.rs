//! What a lane holds that was written in it, by class: project, home, caches, credentials. Told once a run has ended.

use std::ffi::OsStr;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sandbox::credentials::Credentials;
use tree::walk::{Visit, walk};

use crate::happened::{Class, Happening};
use crate::lane::OpenLane;
use crate::view::RootChanges;

/// Places below a home that tools fill and can fill again.
const CACHES: [&str; 17] = [
    ".cache",
    ".cargo/registry",
    ".cargo/git",
    ".rustup/downloads",
    ".npm",
    ".yarn",
    ".pnpm-store",
    ".local/share/pnpm/store",
    ".bun/install/cache",
    ".gradle",
    ".m2/repository",
    ".ivy2",
    ".nuget",
    ".ccache",
    ".deno",
    "go/pkg/mod",
    ".node-gyp",
];

/// Paths of a class that are named.
const NAMED: usize = 20;

/// Sums of one class.
#[derive(Debug, Default)]
struct Sum {
    entries: u64,
    some: Vec<PathBuf>,
}

impl Sum {
    fn add(&mut self, path: PathBuf) {
        self.entries += 1;
        if self.some.len() < NAMED {
            self.some.push(path);
        }
    }
}

/// What was written beside the project.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    home: Sum,
    caches: Sum,
    credentials: Sum,
}

/// Looks through the layers over the home.
pub(crate) fn beside(lane: &OpenLane) -> Writes {
    let mut writes = Writes::default();
    let credentials = Credentials::built_in().map(|list| list.path).unwrap_or_default();
    let is_credential = |path: &Path| {
        credentials.iter().any(|known| !known.at.starts_with('/') && path.starts_with(&known.at))
    };
    let tops = names_of_parts();
    for (part, upper) in lane.home.home_parts().unwrap_or_default() {
        let top = match part.as_str() {
            "0" => Some(PathBuf::new()),
            part => tops.iter().find(|(known, _)| known == part).map(|(_, name)| name.clone()),
        };
        let _ = walk(upper.as_fd(), &mut |path, entry| {
            if entry.is_dir() {
                return Visit::Enter;
            }
            let below = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
            match &top {
                // A toolchain in a place of its own.
                None => writes.caches.add(below),
                Some(top) => {
                    let path = top.join(below);
                    let sum = if is_credential(&path) {
                        &mut writes.credentials
                    } else if CACHES.iter().any(|cache| path.starts_with(cache)) {
                        &mut writes.caches
                    } else {
                        &mut writes.home
                    };
                    sum.add(path);
                }
            }
            Visit::Enter
        });
    }
    writes
}

/// Parts of a home that is put together, by the names of its entries.
fn names_of_parts() -> Vec<(String, PathBuf)> {
    let entries = crate::launch::home_dir().and_then(|home| std::fs::read_dir(home).ok());
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names
        .map(|name| {
            (format!("{:x}", crate::launch::fingerprint(name.as_encoded_bytes())), PathBuf::from(name))
        })
        .collect()
}

impl Writes {
    /// Entries in all.
    pub(crate) fn entries(&self) -> u64 {
        self.home.entries + self.caches.entries + self.credentials.entries
    }

    /// As happenings of the run that has just ended, with the sums of the project. Classes without an entry are left out.
    pub(crate) fn told(self, roots: &[RootChanges]) -> Vec<Happening> {
        let project = roots.iter().map(|root| root.counts.total() + root.counts.git_internal).sum();
        let tops = roots.iter().map(|root| root.root.clone()).collect();
        let classes = [
            (Class::Project, Sum { entries: project, some: tops }),
            (Class::Home, self.home),
            (Class::Caches, self.caches),
            (Class::Credentials, self.credentials),
        ];
        classes
            .into_iter()
            .filter(|(_, sum)| sum.entries > 0)
            .map(|(class, Sum { entries, some })| Happening::Writes { class, entries, some })
            .collect()
    }
}
