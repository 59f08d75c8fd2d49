//! Checks of the socket between a guest's front-end and the port, for `doctor`.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use rustix::fs::{Access, access};
use slipring_abi::name::PortName;

use crate::kinds::Finding;
use crate::kinds::pcap::in_directory;

/// Reports why neither side can create a socket at `path`, if so.
pub(super) fn unusable(
    port: &PortName,
    path: &Path,
    metadata: &io::Result<Metadata>,
) -> Option<Finding> {
    // Errors of bind and connect: a path that is empty or longer than 107 bytes.
    if let Err(error) = SocketAddr::from_pathname(path) {
        let bytes = port.name.len();
        let text = format!("{port}: a path of {bytes} bytes: {error}");
        let mend = "name a shorter path, of 107 bytes at most, such as vhost:/run/guest.sock";
        return Some(Finding::port_fail(text).with_fix(mend));
    }
    metadata.as_ref().ok().filter(|found| !found.file_type().is_socket()).map(|_| {
        let text = format!("{port}: {} is there, and is no socket", path.display());
        Finding::port_fail(text).with_fix("name another path")
    })
}

/// Reports on a socket that the guest's front-end will connect to.
pub(super) fn to_make(port: &PortName, path: &Path, is_there: bool) -> Finding {
    if is_there && is_listened_to(path) {
        let text = format!("{port}: another program listens at {}", path.display());
        return Finding::port_fail(text).with_fix("end that program, or name another path");
    }
    in_directory(port, path)
}

/// Reports on a socket that the guest's front-end creates; `absent` is the error if there is no
/// socket. The port opens without the socket, and connects once the socket exists.
pub(super) fn to_connect_to(port: &PortName, path: &Path, absent: Option<io::Error>) -> Finding {
    let shown = path.display();
    if let Some(error) = absent {
        return Finding::port_warn(format!("{port}: no socket {shown} yet: {error}"))
            .with_fix(format!("start the guest first, or have it connect: vhost:{shown}"));
    }
    match access(path, Access::WRITE_OK) {
        Ok(()) => Finding::port_ok(format!("{port}: {shown} can be connected to")),
        Err(error) => Finding::port_fail(format!("{port}: {shown}: {error}"))
            .with_fix(format!("ls -l {shown} shows whose it is: have its guest give it to you")),
    }
}

/// Whether a process of this network namespace listens on the socket, according to the kernel. The
/// function does not connect, because the listener would take that for a guest.
fn is_listened_to(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    // The file shows the network namespace of the calling thread, which may differ from that of the
    // process's main thread.
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    // Num RefCount Protocol Flags Type St Inode Path
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.nth(3) == Some(ACCEPTS) && line.ends_with(&format!(" {}", path.display()))
    };
    sockets.lines().any(is_it)
}
