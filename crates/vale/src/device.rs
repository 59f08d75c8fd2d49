//! A client of the netmap device: requests by name and body.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use slipring_abi::*;
use slipring_cli::codes::SR0199;
use slipring_cli::{Diagnostic, Failure};
use slipring_port::kernel::control;

/// A descriptor of `/dev/netmap`, not bound to any port.
#[derive(Debug)]
pub(crate) struct NetmapDevice(File);

/// The answer to a request.
pub(crate) struct DeviceAnswer<T> {
    /// The name in the answer. The device fills it in for a list request.
    pub(crate) name: String,
    pub(crate) body: T,
}

impl NetmapDevice {
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        file.map(Self).map_err(|error| refused(path.to_owned(), &error).into())
    }

    /// Sends the request with type `kind` about the port or switch `name`, and returns the device's
    /// answer.
    pub(crate) fn request<T: PlainData>(
        &self,
        kind: u16,
        name: &str,
        body: &T,
    ) -> Result<DeviceAnswer<T>, Errno> {
        let mut nr_name = [0; NETMAP_REQ_IFNAMSIZ];
        let fits = nr_name.get_mut(..name.len()).filter(|_| name.len() < NETMAP_REQ_IFNAMSIZ);
        fits.ok_or(too_long(kind))?.copy_from_slice(name.as_bytes());
        let header =
            NmreqHeader { nr_version: NETMAP_API, nr_reqtype: kind, nr_name, ..Default::default() };
        let mut bytes = [0; NETMAP_REQ_MAXSIZE];
        body.write_to(&mut bytes[..T::SIZE]);
        let answered = control(self.0.as_fd(), &header, &mut bytes, T::SIZE > 0);
        let header = answered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        let end = header.nr_name.iter().position(|&byte| byte == 0);
        let name = &header.nr_name[..end.unwrap_or(header.nr_name.len())];
        let name = String::from_utf8_lossy(name).into_owned();
        Ok(DeviceAnswer { name, body: T::read_from(&bytes[..T::SIZE]).ok_or(Errno::INVAL)? })
    }
}

/// Returns the device's error for a name that is too long for a request. No port has such a name,
/// and no port can get one.
fn too_long(kind: u16) -> Errno {
    match kind {
        NETMAP_REQ_VALE_NEWIF | NETMAP_REQ_VALE_ATTACH => Errno::INVAL,
        _ => Errno::NXIO,
    }
}

fn refused(path: PathBuf, error: &std::io::Error) -> Diagnostic {
    let help = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "run it as root, or as a member of group netmap",
        _ => "start the daemon: slipring daemon; or name its device by --device",
    };
    Diagnostic::new(SR0199, format!("cannot open {}", path.display()))
        .with_cause(error.to_string())
        .with_help(help)
}
