//! Opens a `vhost:` port.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use slipring_port::{
    OpenCause, OpenError, OpenOptions, Port, PortCaps, PortInfo, PortMode, Queue, RegionNeeds,
};
use slipring_ring::Region;

use crate::queue::VhostQueue;
use crate::server::{VhostRole, VhostServer};

/// Maximum number of ring pairs of a port.
pub const MAX_PAIRS: u32 = 16;

/// Returns the memory that a port with `pairs` ring pairs needs from a region. 0 means one pair.
///
/// # Errors
/// [`OpenError`] if there are more than [`MAX_PAIRS`] ring pairs.
pub fn needs(name: &str, pairs: u32, options: &OpenOptions) -> Result<RegionNeeds, OpenError> {
    check_pairs(pairs).map_err(|cause| OpenError::new(name, cause))?;
    Ok(RegionNeeds::pairs(pairs.max(1), options.slots))
}

/// Refuses a path through which the port and a front-end cannot connect. [`open`] begins with this
/// check.
///
/// # Errors
/// [`OpenError`] for a path that no socket can have, and for a file that is not a socket.
pub fn check_socket(name: &str, socket: &Path, role: VhostRole) -> Result<(), OpenError> {
    check_path(socket, role).map_err(|cause| OpenError::new(name, cause))
}

fn check_path(socket: &Path, role: VhostRole) -> Result<(), OpenCause> {
    let refused = |reason, help: &str| Err(OpenCause::Setting { reason, help: help.to_owned() });
    if let Err(error) = SocketAddr::from_pathname(socket) {
        let reason = format!("a path of {} bytes: {error}", socket.as_os_str().len());
        let help = "name a shorter path, of 107 bytes at most, such as vhost:/run/guest.sock";
        return refused(reason, help);
    }
    // connect(2) follows symbolic links, bind(2) does not. So this examines the file that the
    // socket would use.
    let found = match role {
        VhostRole::Server => fs::symlink_metadata(socket),
        VhostRole::Client => fs::metadata(socket),
    };
    match found {
        Ok(found) if !found.file_type().is_socket() => {
            let reason = format!("`{}` exists, and is not a socket", socket.display());
            refused(reason, "name another path")
        }
        _ => Ok(()),
    }
}

fn check_pairs(pairs: u32) -> Result<(), OpenCause> {
    if pairs <= MAX_PAIRS {
        return Ok(());
    }
    Err(OpenCause::Setting {
        reason: format!("a guest's device has at most {MAX_PAIRS} ring pairs, not {pairs}"),
        help: "ask for fewer, or leave rings out".into(),
    })
}

/// Opens a port with `pairs` ring pairs. It is for the guest whose front-end connects through
/// `socket`. The port is open whether or not a guest is connected.
///
/// # Errors
/// [`OpenError`] if the socket cannot be created or is in use, if the path is not that of a socket,
/// if there are too many ring pairs, or if the region is too small.
pub fn open(
    name: &str,
    socket: &Path,
    role: VhostRole,
    pairs: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenError> {
    open_pairs(name, socket, role, pairs.max(1), region, options)
        .map_err(|cause| OpenError::new(name, cause))
}

fn open_pairs(
    name: &str,
    socket: &Path,
    role: VhostRole,
    pairs: u32,
    region: &Arc<Region>,
    options: &OpenOptions,
) -> Result<Port, OpenCause> {
    check_pairs(pairs)?;
    check_path(socket, role)?;
    let server = Arc::new(VhostServer::start(name, socket, role, pairs)?);
    let open = |i| VhostQueue::new(name, i, region, options, &server);
    let queues = (0..pairs as u16).map(open).collect::<Result<Vec<_>, _>>()?;
    let info = PortInfo {
        name: name.to_owned(),
        kind: "vhost",
        mode: PortMode::new()
            .with("role", role.name())
            .with("mode", "copy")
            .with("offload", "off")
            .with("queues", pairs)
            .with("slots", options.slots),
        caps: PortCaps {
            rx: true,
            tx: true,
            max_packet: region.buf_size() * 64,
            max_slot: region.buf_size(),
        },
        mac: None,
        mtu: None,
    };
    let queues = queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Queue>).collect();
    Ok(Port { info, queues })
}
