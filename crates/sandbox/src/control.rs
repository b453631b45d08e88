//! The control socket of a live lane: hands the namespaces to a command that joins, takes its listener, and
//! takes the wish to stop. Lies in the lane's directory on the host, which is absent inside.
//!
//! Invariant: only the lane's own user is heard (SO_PEERCRED). The socket's path never grows past the limit
//! of a unix address: it is named through a directory descriptor.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use kernel::process::Namespaces;
use kernel::{Errno, fdpass};
use rustix::fs::AtFlags;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{Error, Result, Stage, Step as _};
use crate::order;
use crate::plan::{Mode, Walls};
use crate::spawn::Handles;

const NAME: &str = "s";

/// What a client asks.
#[derive(Debug)]
pub enum Request {
    /// The namespaces of the lane.
    Join,
    /// One more listener for the notifier.
    Listener(OwnedFd),
    /// A word when everything that was told so far was passed on.
    Settle,
    /// The lane is to end.
    Stop,
    /// The connection is over.
    Gone,
}

/// A live lane, as a client got it.
#[derive(Debug)]
pub struct Joined {
    /// Its namespaces.
    pub handles: Handles,
    /// User or root.
    pub mode: Mode,
    /// What each command takes on.
    pub walls: Walls,
    /// The lane's lock. Who stands in its mounts holds it, so that nobody mounts its layers a second time.
    pub hold: OwnedFd,
    /// The connection, for the listener.
    pub connection: OwnedFd,
}

fn address(dir: BorrowedFd<'_>) -> kernel::Result<SocketAddrUnix> {
    let path = format!("/proc/self/fd/{}/{NAME}", dir.as_raw_fd());
    SocketAddrUnix::new(&path).map_err(|errno| kernel::Error::new("bind", path, errno))
}

fn socket() -> kernel::Result<OwnedFd> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|errno| kernel::Error::new("socket", "AF_UNIX", errno))
}

/// Listens in the lane's directory; a socket that a killed supervisor left is replaced. The caller holds
/// the lane's lock.
pub fn listen(dir: BorrowedFd<'_>) -> Result<OwnedFd> {
    let listening: kernel::Result<OwnedFd> = (|| {
        let socket = socket()?;
        let address = address(dir)?;
        let bind = || rustix::net::bind(&socket, &address);
        match bind() {
            Err(Errno::ADDRINUSE) => {
                remove(dir);
                bind()
            }
            other => other,
        }
        .map_err(|errno| kernel::Error::new("bind", NAME, errno))?;
        rustix::net::listen(&socket, 64).map_err(|errno| kernel::Error::new("listen", NAME, errno))?;
        Ok(socket)
    })();
    listening.step(Stage::Supervise, "listen on the control socket")
}

/// Removes the socket's name.
pub fn remove(dir: BorrowedFd<'_>) {
    let _ = rustix::fs::unlinkat(dir, NAME, AtFlags::empty());
}

/// Takes a connection of the same user; `None` for a stranger's, which is closed.
pub fn accept(listening: &OwnedFd) -> Option<OwnedFd> {
    let connection = rustix::net::accept_with(listening, SocketFlags::CLOEXEC).ok()?;
    let own = rustix::process::geteuid().as_raw();
    (fdpass::peer_uid(&connection).ok()? == own).then_some(connection)
}

/// The next request on a connection.
pub fn hear(connection: &OwnedFd) -> Request {
    let mut buffer = [0u8; 16];
    match fdpass::receive(connection, &mut buffer) {
        Ok(Some((n, mut fds))) => match (&buffer[..n], fds.pop()) {
            (b"J", None) => Request::Join,
            (b"L", Some(fd)) => Request::Listener(fd),
            (b"W", None) => Request::Settle,
            (b"S", None) => Request::Stop,
            _ => Request::Gone,
        },
        _ => Request::Gone,
    }
}

/// Answers [`Request::Join`]: the namespaces, and the lane's lock for as long as somebody stands in them.
pub fn hand_out(connection: &OwnedFd, handles: &Handles, hold: BorrowedFd<'_>, mode: Mode, walls: &Walls) {
    // Who asked is told nothing where there is no memory for it, and says that the lane gave none.
    let Ok(walls) = order::walls_to_file(walls) else { return };
    let mut bytes = vec![b'H', u8::from(mode == Mode::Root)];
    for (kind, _) in &handles.fds {
        bytes.extend_from_slice(&kind.0.to_le_bytes());
    }
    let fds: Vec<BorrowedFd<'_>> =
        handles.fds.iter().map(|(_, fd)| fd.as_fd()).chain([walls.as_fd(), hold]).collect();
    let _ = fdpass::send(connection, &bytes, &fds);
}

fn connect(dir: BorrowedFd<'_>) -> kernel::Result<Option<OwnedFd>> {
    let socket = socket()?;
    match rustix::net::connect(&socket, &address(dir)?) {
        Ok(()) => Ok(Some(socket)),
        Err(Errno::NOENT | Errno::CONNREFUSED) => Ok(None),
        Err(errno) => Err(kernel::Error::new("connect", NAME, errno)),
    }
}

/// True where somebody listens for a lane, or was killed while he did.
pub fn is_there(dir: BorrowedFd<'_>) -> bool {
    kernel::meta::stat_at_if_there(dir, NAME.as_bytes()).is_ok_and(|found| found.is_some())
}

/// Asks a live lane for its namespaces; `None` where nobody listens.
pub fn join(dir: BorrowedFd<'_>) -> Result<Option<Joined>> {
    let Some(connection) = connect(dir).step(Stage::Supervise, "reach the live lane")? else {
        return Ok(None);
    };
    if fdpass::send(&connection, b"J", &[]).is_err() {
        return Ok(None);
    }
    let mut buffer = [0u8; 64];
    let Ok(Some((n, mut fds))) = fdpass::receive(&connection, &mut buffer) else { return Ok(None) };
    let kinds = buffer[..n].get(2..).unwrap_or_default().chunks_exact(4);
    let kinds =
        kinds.filter_map(|four| four.try_into().ok()).map(|four| Namespaces(i32::from_le_bytes(four)));
    let (hold, walls) = (fds.pop(), fds.pop());
    let (Some(&b'H'), Some(hold), Some(walls), false) = (buffer.first(), hold, walls, fds.is_empty()) else {
        return Err(Error::Vanished("the live lane gave no namespaces".into()));
    };
    Ok(Some(Joined {
        handles: Handles { fds: kinds.zip(fds).collect(), doors: Vec::new() },
        mode: if buffer[1] == 1 { Mode::Root } else { Mode::User },
        walls: order::walls_from_file(&walls)?,
        hold,
        connection,
    }))
}

/// Passes a joined command's listener on to the lane's notifier.
pub fn give_listener(connection: &OwnedFd, listener: &OwnedFd) -> Result<()> {
    fdpass::send(connection, b"L", &[listener.as_fd()])
        .step(Stage::Supervise, "hand the listener to the lane")
}

/// Answers [`Request::Settle`].
pub(crate) fn settled(connection: &OwnedFd) {
    let _ = fdpass::send(connection, b"w", &[]);
}

/// Passes on to a command that joined what the lane's gate tells. Who does not listen hears nothing.
pub(crate) fn pass_on(connection: &OwnedFd, told: &[u8]) {
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    let _ = rustix::net::send(connection, &[b"N", told].concat(), flags);
}

/// What the lane's supervisor says to a command that joined.
pub(crate) enum Word {
    /// What its gate tells.
    Told(Vec<u8>),
    /// That is all so far.
    Settled,
    /// It is gone.
    Gone,
}

/// The next word of the lane's supervisor.
pub(crate) fn word(connection: &OwnedFd) -> Word {
    let mut buffer = vec![0u8; 64 << 10];
    match fdpass::receive(connection, &mut buffer) {
        Ok(Some((n, _))) if n > 1 && buffer[0] == b'N' => Word::Told(buffer[1..n].to_vec()),
        Ok(Some((1, _))) if buffer[0] == b'w' => Word::Settled,
        _ => Word::Gone,
    }
}

/// Hears all that the lane's supervisor was told so far.
pub(crate) fn settle(connection: &OwnedFd, mut told: impl FnMut(&[u8])) {
    if fdpass::send(connection, b"W", &[]).is_err() {
        return;
    }
    let patience = rustix::event::Timespec { tv_sec: 2, tv_nsec: 0 };
    loop {
        let mut fds = [rustix::event::PollFd::new(connection, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&patience)) != Ok(1) {
            return;
        }
        match word(connection) {
            Word::Told(bytes) => told(&bytes),
            Word::Settled | Word::Gone => return,
        }
    }
}

/// Asks a live lane to end; false where nobody listens. Returns when the connection closes, which is when
/// the lane has ended, or after `patience`.
pub fn stop(dir: BorrowedFd<'_>, patience: std::time::Duration) -> Result<bool> {
    let Some(connection) = connect(dir).step(Stage::Supervise, "reach the live lane")? else {
        return Ok(false);
    };
    if fdpass::send(&connection, b"S", &[]).is_err() {
        return Ok(false);
    }
    let timeout = rustix::event::Timespec {
        tv_sec: patience.as_secs() as i64,
        tv_nsec: i64::from(patience.subsec_nanos()),
    };
    let mut fds = [rustix::event::PollFd::new(&connection, rustix::event::PollFlags::IN)];
    let _ = rustix::event::poll(&mut fds, Some(&timeout));
    Ok(true)
}
