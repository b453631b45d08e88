//! Network interfaces: brings `lo` up in a new network namespace (netdevice(7)).

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Brings the loopback interface of this network namespace up. Makes system calls and nothing else: neither the
/// allocator nor the C library's errno is touched.
pub(crate) fn raise_loopback() -> rustix::io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: ifreq is plain data for which all-zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as i16;
    // SAFETY: the ioctl reads one ifreq (netdevice(7)), which this setter hands over whole.
    unsafe {
        const SET_FLAGS: rustix::ioctl::Opcode = libc::SIOCSIFFLAGS as rustix::ioctl::Opcode;
        rustix::ioctl::ioctl(&socket, rustix::ioctl::Setter::<SET_FLAGS, libc::ifreq>::new(request))
    }
}
