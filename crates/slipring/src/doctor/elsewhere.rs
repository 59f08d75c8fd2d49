//! Ports that are no interfaces: files, sockets, pipes, and what a netmap device has.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Access, access};
use slipring_abi::name::{Kind, PortName};
use slipring_port::iface::Iface;

use super::finding::Finding;

const DEVICE: &str = "/dev/netmap";
const CHECK: &str = "port";

pub(super) fn examine(port: &PortName) -> Finding {
    match &port.kind {
        Kind::Vfio => {
            Finding::fail(CHECK, format!("{port}: native drivers are not part of this version"))
                .mend("slipring ports lists what can be opened; take netmap:IF of the NIC")
        }
        Kind::Kernel | Kind::Vale { .. } => of_device(port),
        Kind::Vhost { client } => socket(port, *client),
        Kind::Pcap => file(port),
        _ => Finding::ok(CHECK, format!("{port} needs no interface and no privilege")),
    }
}

/// A port of a netmap device. It is not bound, so that nothing is taken from anybody.
fn of_device(port: &PortName) -> Finding {
    let path = port.device.as_deref().unwrap_or(DEVICE);
    if let Err(error) = File::options().read(true).write(true).open(path) {
        let finding = Finding::fail(CHECK, format!("{port}: {path} cannot be opened: {error}"));
        return match error.kind() {
            io::ErrorKind::PermissionDenied => finding
                .mend("run as root, or have the daemon allow it: daemon.toml, docs/netmap.md"),
            _ if path == DEVICE => finding.mend("sudo slipring daemon"),
            _ => finding.mend(format!("sudo slipring daemon --link {path}")),
        };
    }
    let nic = port.kind == Kind::Kernel && port.pipe.is_none() && !port.name.contains(':');
    if nic && Iface::find(&port.name).is_err() {
        let text =
            format!("{port}: {path} is there, but there is no interface `{}` here", port.name);
        return Finding::fail(CHECK, text).mend("slipring ports");
    }
    Finding::ok(CHECK, format!("{port}: {path} can be opened"))
}

/// The socket by which a monitor of guests and the port meet.
fn socket(port: &PortName, client: bool) -> Finding {
    let path = Path::new(&port.name);
    let shown = path.display();
    let there = fs::symlink_metadata(path);
    match (&there, client) {
        (Ok(found), _) if !found.file_type().is_socket() => {
            Finding::fail(CHECK, format!("{port}: {shown} is there, and is no socket"))
                .mend("name another path")
        }
        (Err(error), true) => Finding::fail(CHECK, format!("{port}: no socket {shown}: {error}"))
            .mend(format!("start the guest first, or have it connect: vhost:{shown}")),
        _ => directory(port, path),
    }
}

fn file(port: &PortName) -> Finding {
    let path = Path::new(&port.name);
    match (port.name.as_str(), access(path, Access::READ_OK)) {
        ("-", _) | (_, Ok(())) => Finding::ok(CHECK, format!("{port} can be read")),
        (_, Err(rustix::io::Errno::NOENT)) => directory(port, path),
        (_, Err(error)) => Finding::fail(CHECK, format!("{port} cannot be read: {error}"))
            .mend(format!("ls -ld {}", path.display())),
    }
}

/// Where something new is to be made.
fn directory(port: &PortName, path: &Path) -> Finding {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if parent.is_dir() => Finding::ok(CHECK, format!("{port} can be made")),
        Ok(()) => Finding::fail(CHECK, format!("{port}: {} is no directory", parent.display()))
            .mend("name a path in a directory of yours"),
        Err(error) => Finding::fail(
            CHECK,
            format!("{port}: nothing can be made in {}: {error}", parent.display()),
        )
        .mend("name a path in a directory of yours"),
    }
}
