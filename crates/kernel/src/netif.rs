//! Network interfaces: brings `lo` up in a new network namespace (netdevice(7)).

use std::os::fd::AsRawFd as _;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::{Asked as _, Result};
use crate::process::last;

/// Brings the loopback interface of this network namespace up.
pub fn loopback_up() -> Result<()> {
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .asked("socket", "AF_INET")?;
    // SAFETY: ifreq is plain data for which all-zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the ioctl reads one ifreq that outlives the call.
    let answer =
        unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::c_ulong, &raw const request) };
    if answer == 0 { Ok(()) } else { Err(last("ioctl", "SIOCSIFFLAGS lo")) }
}
