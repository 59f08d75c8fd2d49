//! Ports that are not interfaces: files, sockets, pipes, and ports of a netmap device.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use slipring_abi::name::{PortName, PortNameKind};
use slipring_port::capture::FileReader;
use slipring_port::{OpenCause, OpenError, kernel};

use super::finding::Finding;

const CHECK_NAME: &str = "port";

pub(super) fn examine(port: &PortName, run_dir: &Path) -> Finding {
    match &port.kind {
        PortNameKind::Vfio => Finding::fail(
            CHECK_NAME,
            format!("{port}: native drivers are not part of this version"),
        )
        .with_fix("slipring ports lists what can be opened; take netmap:IF of the NIC"),
        PortNameKind::Kernel | PortNameKind::Vale { .. } => of_device(port, run_dir),
        PortNameKind::Vhost { client } => socket(port, *client),
        PortNameKind::Pcap => file(port),
        _ => Finding::ok(CHECK_NAME, format!("{port} needs no interface and no privilege")),
    }
}

/// Asks a netmap device about a port. The port is not bound, so that nothing is taken from other
/// programs.
fn of_device(port: &PortName, run_dir: &Path) -> Finding {
    let named = port.device.as_deref().map(PathBuf::from);
    let device = named.unwrap_or_else(|| kernel::default_device(run_dir));
    match kernel::probe(&port.to_string(), port, &device) {
        Ok(()) => Finding::ok(CHECK_NAME, format!("{port}: {} gives it", device.display())),
        Err(error) => refused(&error),
    }
}

/// Returns the finding for an error of opening the port.
pub(super) fn refused(error: &OpenError) -> Finding {
    let finding = Finding::fail(CHECK_NAME, error.to_string());
    finding.with_fix(error.help().unwrap_or_else(|| format!("slipring explain {}", error.code())))
}

/// Checks the socket on which the VMM and the port meet.
fn socket(port: &PortName, client: bool) -> Finding {
    let path = Path::new(&port.name);
    let shown = path.display();
    // bind and connect refuse such a path: empty or longer than 107 bytes.
    if let Err(error) = SocketAddr::from_pathname(path) {
        let bytes = port.name.len();
        return Finding::fail(CHECK_NAME, format!("{port}: a path of {bytes} bytes: {error}"))
            .with_fix("name a shorter path, of 107 bytes at most, such as vhost:/run/guest.sock");
    }
    let there = fs::symlink_metadata(path);
    match (&there, client) {
        (Ok(found), _) if !found.file_type().is_socket() => {
            Finding::fail(CHECK_NAME, format!("{port}: {shown} is there, and is no socket"))
                .with_fix("name another path")
        }
        (Err(error), true) => {
            Finding::fail(CHECK_NAME, format!("{port}: no socket {shown}: {error}"))
                .with_fix(format!("start the guest first, or have it connect: vhost:{shown}"))
        }
        (Ok(_), true) => match access(path, Access::WRITE_OK) {
            Ok(()) => Finding::ok(CHECK_NAME, format!("{port}: {shown} can be connected to")),
            Err(error) => Finding::fail(CHECK_NAME, format!("{port}: {shown}: {error}")).with_fix(
                format!("ls -l {shown} shows whose it is: have its guest give it to you"),
            ),
        },
        (Ok(_), false) if is_listened_to(path) => {
            Finding::fail(CHECK_NAME, format!("{port}: another program listens at {shown}"))
                .with_fix("end that program, or name another path")
        }
        _ => directory(port, path),
    }
}

/// Whether the kernel lists a listening socket of this network namespace at `path`. We do not
/// connect: the listener would take us for a guest.
fn is_listened_to(path: &Path) -> bool {
    const ACCEPTS: &str = "00010000";
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    // Num RefCount Protocol Flags Type St Inode Path
    let is_it = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.nth(3) == Some(ACCEPTS) && line.ends_with(&format!(" {}", path.display()))
    };
    sockets.lines().any(is_it)
}

/// Checks a capture: an existing file is opened for reading, a new one must be creatable.
fn file(port: &PortName) -> Finding {
    if port.name == "-" {
        return Finding::ok(CHECK_NAME, format!("{port}: the standard input or output"));
    }
    let path = Path::new(&port.name);
    match fs::metadata(path) {
        // Opening a pipe would wait for its other end.
        Ok(found) if !found.is_file() && !found.is_dir() => special(port, path),
        Ok(_) => match FileReader::open(&port.name) {
            Ok(_) => Finding::ok(
                CHECK_NAME,
                format!("{port} can be read; written over only by --overwrite"),
            ),
            Err(cause) => refused(&OpenError::new(port, cause)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory(port, path),
        Err(source) => {
            let cause = OpenCause::File { path: port.name.clone(), source };
            refused(&OpenError::new(port, cause))
        }
    }
}

/// Checks a pipe or a device.
fn special(port: &PortName, path: &Path) -> Finding {
    let can = |rights| access(path, rights);
    match (can(Access::READ_OK), can(Access::WRITE_OK)) {
        (Ok(()), Ok(())) => Finding::ok(CHECK_NAME, format!("{port} can be read and written")),
        (Ok(()), _) => Finding::ok(CHECK_NAME, format!("{port} can be read")),
        (_, Ok(())) => Finding::ok(CHECK_NAME, format!("{port} can be written")),
        (Err(errno), _) => {
            let cause = OpenCause::File { path: port.name.clone(), source: errno.into() };
            refused(&OpenError::new(port, cause))
        }
    }
}

/// Checks the directory of a new file.
fn directory(port: &PortName, path: &Path) -> Finding {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match access(parent, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if parent.is_dir() => Finding::ok(CHECK_NAME, format!("{port} can be made")),
        Ok(()) => {
            Finding::fail(CHECK_NAME, format!("{port}: {} is no directory", parent.display()))
                .with_fix("name a path in a directory of yours")
        }
        Err(error) => Finding::fail(
            CHECK_NAME,
            format!("{port}: nothing can be made in {}: {error}", parent.display()),
        )
        .with_fix("name a path in a directory of yours"),
    }
}
