//! [`Order`]: what pid 1 is told once its ground stands: the rest of the view, the walls of each command, the
//! command. It crosses a fork as bytes, because it is made after the fork.
//!
//! Invariant: what was encoded comes back equal, and bytes that are no order are refused, never half-read. Both
//! ends are one program of one version, so the form is nobody else's business.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use kernel::Errno;
use kernel::landlock::{Access, Domain};
use kernel::mountspec::{MountSpec, MountWhat, Overlay};
use rustix::fs::MemfdFlags;

use crate::error::{Result, Stage, Step as _};
use crate::gate::Doors;
use crate::limits::{Limit, Means, What};
use crate::mask::Absent;
use crate::plan::{Command, Op, Trace, Walls};
use crate::secret::Secret;

/// By their number on the wire.
const WHATS: [What; 6] = [What::Memory, What::Cpus, What::Pids, What::Disk, What::Inodes, What::IoWeight];
const MEANS: [Means; 7] = [
    Means::Group(1),
    Means::Group(2),
    Means::Rlimit,
    Means::PidMax,
    Means::Affinity,
    Means::WatchedMemory,
    Means::WatchedLayers,
];

/// The rest of a plan, with the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) ops: Vec<Op>,
    pub(crate) walls: Walls,
    pub(crate) doors: Option<Doors>,
    pub(crate) command: Option<Command>,
}

/// As a file without a name: arguments and environment may be longer than a message can be.
fn to_file(bytes: &[u8]) -> Result<OwnedFd> {
    let write = || -> kernel::Result<OwnedFd> {
        let asked = |errno| kernel::Error::new("memfd_create", "order", errno);
        let file = rustix::fs::memfd_create("order", MemfdFlags::CLOEXEC).map_err(asked)?;
        kernel::bytes::write_all_at(&file, bytes, 0)?;
        Ok(file)
    };
    write().step(Stage::Mounts, "write the order for pid 1")
}

fn from_file<T>(file: &OwnedFd, decode: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
    let read = || -> kernel::Result<T> {
        let bytes = kernel::bytes::read_all(file)?;
        decode(&bytes).ok_or_else(|| kernel::Error::new("read", "order", Errno::BADMSG))
    };
    read().step(Stage::Mounts, "read the order for pid 1")
}

/// Some ops as a file.
pub(crate) fn ops_to_file(ops: &[Op]) -> Result<OwnedFd> {
    let mut out = Writer(Vec::with_capacity(8 << 10));
    out.list(ops, Writer::op);
    to_file(&out.0)
}

/// Some ops from a file.
pub(crate) fn ops_from_file(file: &OwnedFd) -> Result<Vec<Op>> {
    from_file(file, |bytes| {
        let mut from = Reader(bytes);
        from.list(Reader::op).filter(|_| from.0.is_empty())
    })
}

/// What a command takes on as a file, for who joins.
pub(crate) fn walls_to_file(walls: &Walls) -> Result<OwnedFd> {
    let mut out = Writer(Vec::with_capacity(1 << 10));
    out.walls(walls);
    to_file(&out.0)
}

/// The same from a file.
pub(crate) fn walls_from_file(file: &OwnedFd) -> Result<Walls> {
    from_file(file, |bytes| {
        let mut from = Reader(bytes);
        from.walls().filter(|_| from.0.is_empty())
    })
}

impl Order {
    pub(crate) fn to_file(&self) -> Result<OwnedFd> {
        to_file(&self.encode())
    }

    pub(crate) fn from_file(file: &OwnedFd) -> Result<Order> {
        from_file(file, Order::decode)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Writer(Vec::with_capacity(8 << 10));
        out.list(&self.ops, Writer::op);
        out.walls(&self.walls);
        out.flag(self.doors.is_some());
        if let Some(doors) = &self.doors {
            out.list(&doors.host_ports, |out, port| out.number(u64::from(*port)));
        }
        out.flag(self.command.is_some());
        if let Some(command) = &self.command {
            out.list(&command.argv, |out, arg| out.bytes(arg.as_bytes()));
            out.list(&command.env, |out, (name, value)| {
                out.bytes(name.as_bytes());
                out.bytes(value.as_bytes());
            });
            out.path(&command.cwd);
            out.list(&command.secrets, |out, secret| {
                out.bytes(secret.name.as_bytes());
                out.bytes(&secret.value);
            });
        }
        out.0
    }

    fn decode(bytes: &[u8]) -> Option<Order> {
        let mut from = Reader(bytes);
        let ops = from.list(Reader::op)?;
        let walls = from.walls()?;
        let doors = if from.flag()? {
            let host_ports = from.list(|from| u16::try_from(from.number()?).ok())?;
            Some(Doors { host_ports })
        } else {
            None
        };
        let command = if from.flag()? {
            let argv = from.list(|from| Some(OsString::from_vec(from.bytes()?.to_vec())))?;
            let env = from.list(|from| {
                let name = OsString::from_vec(from.bytes()?.to_vec());
                Some((name, OsString::from_vec(from.bytes()?.to_vec())))
            })?;
            let cwd = from.path()?;
            let secrets = from.list(|from| {
                let name = String::from_utf8(from.bytes()?.to_vec()).ok()?;
                Some(Secret { name, value: from.bytes()?.to_vec() })
            })?;
            Some(Command { argv, env, cwd, secrets })
        } else {
            None
        };
        from.0.is_empty().then_some(Order { ops, walls, doors, command })
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn flag(&mut self, on: bool) {
        self.0.push(u8::from(on));
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn list<T>(&mut self, items: &[T], mut each: impl FnMut(&mut Writer, &T)) {
        self.number(items.len() as u64);
        for item in items {
            each(self, item);
        }
    }

    fn walls(&mut self, walls: &Walls) {
        let Walls { emulate_rename, report_connects, nest, bare, fence, trace, doors, limits } = walls;
        let traced = [trace.refusals, trace.execs, trace.reads];
        let fenced = [fence.files, fence.abstract_sockets, fence.signals];
        for on in [*emulate_rename, *report_connects, *nest, *bare].into_iter().chain(traced).chain(fenced) {
            self.flag(on);
        }
        self.list(&fence.rules, |out, (path, access)| {
            out.path(path);
            out.0.push(match access {
                Access::Read => b'r',
                Access::Touch => b't',
                Access::Devices => b'd',
                Access::Add => b'a',
                Access::Write => b'w',
            });
        });
        self.list(doors, |out, name| out.bytes(name.as_bytes()));
        self.list(limits, |out, limit| {
            out.0.push(WHATS.iter().position(|what| *what == limit.what).unwrap_or(0) as u8);
            out.number(limit.most);
            out.0.push(MEANS.iter().position(|means| *means == limit.means).unwrap_or(0) as u8);
        });
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Dir { at, mode } => {
                self.0.push(b'd');
                self.path(at);
                self.number(u64::from(*mode));
            }
            Op::Symlink { at, target } => {
                self.0.push(b'l');
                self.path(at);
                self.path(target);
            }
            Op::File { at, bytes, mode } => {
                self.0.push(b'f');
                self.path(at);
                self.bytes(bytes);
                self.number(u64::from(*mode));
            }
            Op::Mount(spec) => {
                self.0.push(b'm');
                self.spec(spec);
            }
            Op::Masked { mount, absent, in_memory } => {
                self.0.push(b'a');
                self.spec(mount);
                self.list(absent, |out, absent| {
                    out.path(&absent.path);
                    out.list(&absent.parents, |out, (path, mode)| {
                        out.path(path);
                        out.number(u64::from(*mode));
                    });
                });
                self.flag(*in_memory);
            }
            Op::Device { name } => {
                self.0.push(b'n');
                self.bytes(name.as_bytes());
            }
            Op::Over { from, at } => {
                self.0.push(b'o');
                self.path(from);
                self.path(at);
            }
            Op::Hide { at } => {
                self.0.push(b'h');
                self.path(at);
            }
            Op::ReadOnly { at } => {
                self.0.push(b'r');
                self.path(at);
            }
        }
    }

    fn spec(&mut self, spec: &MountSpec) {
        self.path(&spec.target);
        self.flag(spec.read_only);
        self.flag(spec.no_exec);
        match &spec.what {
            MountWhat::Overlay(overlay) => {
                self.0.push(b'o');
                self.list(&overlay.lowers, |out, path| out.path(path));
                for layer in [&overlay.upper, &overlay.work] {
                    self.flag(layer.is_some());
                    if let Some(path) = layer {
                        self.path(path);
                    }
                }
                for on in [overlay.user_xattr, overlay.volatile, overlay.redirect_dir, overlay.index] {
                    self.flag(on);
                }
            }
            MountWhat::Bind { source, recursive } => {
                self.0.push(b'b');
                self.path(source);
                self.flag(*recursive);
            }
            MountWhat::Tmpfs { mode, size } => {
                self.0.push(b't');
                self.number(u64::from(*mode));
                self.flag(size.is_some());
                if let Some(size) = size {
                    self.number(*size);
                }
            }
            MountWhat::Proc => self.0.push(b'p'),
            MountWhat::Devpts => self.0.push(b'y'),
            MountWhat::Mqueue => self.0.push(b'q'),
        }
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, n: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    fn tag(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn flag(&mut self) -> Option<bool> {
        match self.tag()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn mode(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    fn bytes(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.take(len)
    }

    fn path(&mut self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(self.bytes()?.to_vec())))
    }

    fn list<T>(&mut self, mut each: impl FnMut(&mut Reader<'b>) -> Option<T>) -> Option<Vec<T>> {
        let many = self.number()?;
        let mut items = Vec::new();
        for _ in 0..many {
            items.push(each(self)?);
        }
        Some(items)
    }

    fn walls(&mut self) -> Option<Walls> {
        let (emulate_rename, report_connects) = (self.flag()?, self.flag()?);
        let (nest, bare) = (self.flag()?, self.flag()?);
        let trace = Trace { refusals: self.flag()?, execs: self.flag()?, reads: self.flag()? };
        let (files, abstract_sockets, signals) = (self.flag()?, self.flag()?, self.flag()?);
        let rules = self.list(|from| {
            let path = from.path()?;
            let access = match from.tag()? {
                b'r' => Access::Read,
                b't' => Access::Touch,
                b'd' => Access::Devices,
                b'a' => Access::Add,
                b'w' => Access::Write,
                _ => return None,
            };
            Some((path, access))
        })?;
        let doors = self.list(|from| String::from_utf8(from.bytes()?.to_vec()).ok())?;
        let limits = self.list(|from| {
            let what = *WHATS.get(usize::from(from.tag()?))?;
            Some(Limit { what, most: from.number()?, means: *MEANS.get(usize::from(from.tag()?))? })
        })?;
        let fence = Domain { files, abstract_sockets, signals, rules };
        Some(Walls { emulate_rename, report_connects, nest, bare, trace, fence, doors, limits })
    }

    fn op(&mut self) -> Option<Op> {
        Some(match self.tag()? {
            b'd' => Op::Dir { at: self.path()?, mode: self.mode()? },
            b'l' => Op::Symlink { at: self.path()?, target: self.path()? },
            b'f' => Op::File { at: self.path()?, bytes: self.bytes()?.to_vec(), mode: self.mode()? },
            b'm' => Op::Mount(self.spec()?),
            b'a' => Op::Masked {
                mount: self.spec()?,
                absent: self.list(|from| {
                    let path = from.path()?;
                    let parents = from.list(|from| Some((from.path()?, from.mode()?)))?;
                    Some(Absent { path, parents })
                })?,
                in_memory: self.flag()?,
            },
            b'n' => Op::Device { name: String::from_utf8(self.bytes()?.to_vec()).ok()? },
            b'o' => Op::Over { from: self.path()?, at: self.path()? },
            b'h' => Op::Hide { at: self.path()? },
            b'r' => Op::ReadOnly { at: self.path()? },
            _ => return None,
        })
    }

    fn spec(&mut self) -> Option<MountSpec> {
        let (target, read_only, no_exec) = (self.path()?, self.flag()?, self.flag()?);
        let what = match self.tag()? {
            b'o' => {
                let lowers = self.list(Reader::path)?;
                let mut layer = || if self.flag()? { self.path().map(Some) } else { Some(None) };
                let (upper, work) = (layer()?, layer()?);
                MountWhat::Overlay(Overlay {
                    lowers,
                    upper,
                    work,
                    user_xattr: self.flag()?,
                    volatile: self.flag()?,
                    redirect_dir: self.flag()?,
                    index: self.flag()?,
                })
            }
            b'b' => MountWhat::Bind { source: self.path()?, recursive: self.flag()? },
            b't' => {
                let mode = self.mode()?;
                let size = if self.flag()? { Some(self.number()?) } else { None };
                MountWhat::Tmpfs { mode, size }
            }
            b'p' => MountWhat::Proc,
            b'y' => MountWhat::Devpts,
            b'q' => MountWhat::Mqueue,
            _ => return None,
        };
        Some(MountSpec { what, target, read_only, no_exec })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let mount = |what| MountSpec { what, target: "/t \n".into(), read_only: true, no_exec: false };
        let overlay = |upper: Option<&str>| {
            MountWhat::Overlay(Overlay {
                lowers: vec!["/a:b".into(), OsString::from_vec(b"/\xff".to_vec()).into()],
                upper: upper.map(PathBuf::from),
                work: upper.map(PathBuf::from),
                user_xattr: true,
                volatile: false,
                redirect_dir: true,
                index: false,
            })
        };
        let absent = Absent { path: "x/y".into(), parents: vec![("x".into(), 0o700)] };
        let whats = [
            overlay(None),
            overlay(Some("/u")),
            MountWhat::Bind { source: "/s".into(), recursive: true },
            MountWhat::Tmpfs { mode: 0o1777, size: None },
            MountWhat::Tmpfs { mode: 0, size: Some(7) },
            MountWhat::Proc,
            MountWhat::Devpts,
            MountWhat::Mqueue,
        ];
        let mut ops: Vec<Op> = whats.into_iter().map(|what| Op::Mount(mount(what))).collect();
        ops.extend([
            Op::Dir { at: "/d".into(), mode: 0o1777 },
            Op::Symlink { at: "/l".into(), target: "../x".into() },
            Op::File { at: "/f".into(), bytes: vec![0, 255], mode: 0o644 },
            Op::Masked { mount: mount(overlay(None)), absent: vec![absent], in_memory: true },
            Op::Device { name: "null".into() },
            Op::Over { from: "/a".into(), at: "/b".into() },
            Op::Hide { at: "/h".into() },
            Op::ReadOnly { at: "/r".into() },
        ]);
        let command = Command {
            argv: vec!["sh".into(), OsString::from_vec(b"\xfe".to_vec())],
            env: vec![("A".into(), "".into())],
            cwd: "/c".into(),
            secrets: vec![Secret { name: "KEY".into(), value: vec![0, 255] }],
        };
        let rules = [Access::Read, Access::Touch, Access::Devices, Access::Write];
        let rules = rules.into_iter().map(|access| (PathBuf::from("/r"), access)).collect();
        let fence = Domain { files: true, abstract_sockets: false, signals: true, rules };
        let trace = Trace { refusals: true, execs: false, reads: true };
        let limits = WHATS.iter().zip(MEANS.iter().cycle());
        let limits = limits.map(|(what, means)| Limit { what: *what, most: 7, means: *means }).collect();
        let walls = Walls {
            emulate_rename: true,
            report_connects: true,
            nest: false,
            bare: true,
            fence,
            trace,
            doors: vec!["x11".into()],
            limits,
        };
        Order { ops, walls, doors: Some(Doors { host_ports: vec![1, 65_535] }), command: Some(command) }
    }

    #[test]
    fn an_order_comes_back_as_it_was_given() {
        let order = order();
        assert_eq!(Order::decode(&order.encode()), Some(order.clone()));
        let without = Order { command: None, doors: None, ..order };
        assert_eq!(Order::from_file(&without.to_file().expect("written")).expect("read"), without);
        let ops = ops_from_file(&ops_to_file(&without.ops).expect("written")).expect("read");
        assert_eq!(ops, without.ops);
        let walls = walls_from_file(&walls_to_file(&without.walls).expect("written")).expect("read");
        assert_eq!(walls, without.walls);
    }

    #[test]
    fn a_cut_order_is_none_and_never_a_panic() {
        let whole = order().encode();
        for end in 0..whole.len() {
            assert_eq!(Order::decode(&whole[..end]), None);
        }
        assert_eq!(Order::decode(&[whole.as_slice(), b"x"].concat()), None);
    }
}
