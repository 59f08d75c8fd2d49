//! Tells the service manager that a program is ready, as sd_notify(3) does: with one datagram, if
//! there is a service manager.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::{Failure, Session};

/// Tells the service manager that the program is at work and that clients can send it commands. If
/// the manager cannot be reached, prints a warning.
///
/// # Errors
/// If the warning cannot be written.
pub fn ready(session: &mut Session<'_>) -> Result<(), Failure> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    match notify_manager(&name, b"READY=1") {
        Ok(()) => Ok(()),
        Err(error) => session.reporter.warn(format_args!(
            "the service manager cannot be told that it is ready: see NOTIFY_SOCKET: {error}"
        )),
    }
}

/// Sends a datagram to the socket `name`. A leading `@` marks an abstract name.
fn notify_manager(name: &OsStr, message: &[u8]) -> io::Result<()> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(message, &to).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_told_at_a_path_and_at_a_name_without_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("slipring-manager-test-{}", std::process::id());
        let at_path = UnixDatagram::bind(&path).unwrap();
        let unnamed = SocketAddr::from_abstract_name(&name).unwrap();
        let at_name = UnixDatagram::bind_addr(&unnamed).unwrap();
        for (socket, to) in [(at_path, path.into_os_string()), (at_name, format!("@{name}").into())]
        {
            notify_manager(&to, b"READY=1").unwrap();
            let mut message = [0; 16];
            let length = socket.recv(&mut message).unwrap();
            assert_eq!(&message[..length], b"READY=1");
        }
        assert!(notify_manager(dir.path().join("nobody").as_os_str(), b"READY=1").is_err());
    }
}
