//! Checks of the socket between a guest's front-end and the port, for `doctor`.

use std::fs;
use std::path::Path;

use rustix::fs::{Access, access};
use slipring_abi::name::PortName;

use crate::kinds::Finding;
use crate::kinds::finding::FILE_CODE;
use crate::kinds::pcap::in_directory;

/// Reports on a socket that the guest's front-end will connect to.
pub(super) fn to_make(port: &PortName, path: &Path) -> Finding {
    if path.exists() && is_listened_to(path) {
        let text = format!("{port}: another program listens at {}", path.display());
        let finding = Finding::port_fail(text).with_code(FILE_CODE);
        return finding.with_fix("end that program, or name another path");
    }
    in_directory(port, path)
}

/// Reports on a socket that the guest's front-end creates. Never a failure: the port opens in any
/// case, and connects once the socket exists and may be connected to.
pub(super) fn to_connect_to(port: &PortName, path: &Path) -> Finding {
    let shown = path.display();
    if let Err(error) = fs::metadata(path) {
        return Finding::port_warn(format!("{port}: no socket {shown} yet: {error}"))
            .with_fix(format!("start the guest first, or have it connect: vhost:{shown}"));
    }
    match access(path, Access::WRITE_OK) {
        Ok(()) => Finding::port_ok(format!("{port}: {shown} can be connected to")),
        Err(error) => {
            Finding::port_warn(format!("{port}: {shown} cannot be connected to: {error}"))
                .with_fix(format!("ls -l {shown} shows whose it is: have its guest give it to you"))
        }
    }
}

/// Whether a process of this network namespace listens on the socket, according to the kernel. The
/// function does not connect, because the listener would take that for a guest.
fn is_listened_to(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    // The file shows the network namespace of the calling thread, which may differ from that of the
    // process's main thread.
    let sockets = fs::read_to_string("/proc/thread-self/net/unix").unwrap_or_default();
    // The columns are: Num RefCount Protocol Flags Type St Inode Path
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.nth(3) == Some(ACCEPTS) && line.ends_with(&format!(" {}", path.display()))
    };
    sockets.lines().any(is_it)
}
