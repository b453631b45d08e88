//! Sockets that hear nothing: every packet for them is dropped, so that whoever connects to one waits until somebody
//! answers in its place (SO_ATTACH_FILTER, socket(7)). Some kernels want CAP_NET_ADMIN for it.

use std::os::fd::{AsFd, AsRawFd as _};

use crate::error::Result;
use crate::process::last;

/// Has the kernel drop whatever is sent to this socket.
pub fn drop_everything(socket: impl AsFd) -> Result<()> {
    let program = [libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: 0 }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_ptr().cast_mut() };
    // SAFETY: the kernel reads one sock_fprog and its one instruction, which outlive the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(last("setsockopt", "SO_ATTACH_FILTER")) }
}
