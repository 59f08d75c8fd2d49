//! Decides whether requests arrive by io_uring, with a queue for each processor, or through the
//! device.
//!
//! The kernel offers io_uring if its module parameter is on at the moment of mounting. Once both
//! sides have agreed, the kernel does not read the parameter again. So if this process switches the
//! parameter on, it switches it off again as soon as both sides have agreed. With a store for
//! restarts, requests always arrive through the device
//! ([`FuseDevice::open_persistent`](crate::FuseDevice::open_persistent)).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use rustix::fs::{FlockOperation, flock};
use slipring_netmap::Errno;

use crate::error::FuseError;

/// Whether requests arrive by io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UringMode {
    /// Requests arrive by io_uring if the kernel supports it. If this process may change the
    /// kernel's module parameter, it switches the parameter on while it mounts the device.
    #[default]
    Auto,
    /// Requests arrive by io_uring. If that is not possible, the device cannot be opened.
    On,
    /// Requests never arrive by io_uring, but through the device.
    Off,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTransport {
    /// Requests are read from the FUSE device.
    Device {
        /// The error with which the kernel refused a ring to this process. `None` if no ring was
        /// requested: the kernel offers no io_uring, the mode is [`UringMode::Off`], or the device
        /// keeps its requests for a restart.
        refused: Option<Errno>,
    },
    /// Requests arrive by io_uring, except those that the kernel only sends through the device.
    Uring {
        /// Whether this process switched the module parameter on, and off again.
        switched: bool,
    },
}

const PARAMETER_PATH: &str = "/sys/module/fuse/parameters/enable_uring";
/// The file that processes lock to switch the parameter. Only root can open it, so no other user
/// can block slipring by locking it. It exists wherever the parameter exists, in contrast to FUSE's
/// own uevent file, which is missing in kernels without loadable modules.
const LOCK_PATH: &str = "/sys/bus/platform/uevent";

/// Keeps the module parameter in the requested state until this value is dropped.
#[derive(Debug)]
pub(crate) struct UringParameterGuard {
    /// The parameter's file, if this process has switched the parameter on and must switch it off
    /// again.
    switched: Option<File>,
    /// The lock that allows only one process at a time to switch or read the parameter.
    _lock: Option<File>,
}

impl UringParameterGuard {
    /// Switches the parameter as mode `wanted` requires.
    pub(crate) fn apply(wanted: UringMode) -> Result<Self, FuseError> {
        let switched = None;
        match wanted {
            UringMode::Off => Ok(Self { switched, _lock: None }),
            UringMode::Auto => {
                let held = lock(FlockOperation::LockExclusive);
                // If the parameter cannot be switched on, it may be on already. Then the kernel
                // still offers io_uring.
                Ok(Self { switched: switch_on().unwrap_or_default(), _lock: held })
            }
            UringMode::On => {
                let held = lock(FlockOperation::LockExclusive);
                let switched = switch_on().map_err(|source| match source.kind() {
                    io::ErrorKind::NotFound => FuseError::NoUring,
                    _ => FuseError::Step { step: "switch FUSE over io_uring on", source },
                })?;
                Ok(Self { switched, _lock: held })
            }
        }
    }

    pub(crate) fn has_switched(&self) -> bool {
        self.switched.is_some()
    }
}

impl Drop for UringParameterGuard {
    fn drop(&mut self) {
        if let Some(file) = &mut self.switched {
            // This cannot fail, because a process that could switch the parameter on can also
            // switch it off.
            let _ = file.write_all(b"N");
        }
    }
}

fn lock(how: FlockOperation) -> Option<File> {
    // If this file cannot be opened, this process has no right to switch the parameter either.
    let file = File::options().write(true).open(LOCK_PATH).ok()?;
    flock(&file, how).ok().map(|()| file)
}

/// Switches the parameter on. Returns its file if the parameter was off.
fn switch_on() -> io::Result<Option<File>> {
    // If FUSE is a module of the kernel, this loads it.
    drop(File::open("/dev/fuse"));
    let mut file = File::options().read(true).write(true).open(PARAMETER_PATH)?;
    let mut value = String::new();
    file.read_to_string(&mut value)?;
    if value.starts_with('Y') {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0))?;
    file.write_all(b"Y")?;
    file.seek(SeekFrom::Start(0))?;
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_at_the_parameter_waits_for_who_has_switched_it() {
        if !rustix::process::geteuid().is_root() {
            return slipring_test_support::skip!("the parameter is root's");
        }
        let held = lock(FlockOperation::LockExclusive).expect("there is something to lock");
        let other = File::options().write(true).open(LOCK_PATH).unwrap();
        let try_lock = || flock(&other, FlockOperation::NonBlockingLockShared);
        assert_eq!(try_lock(), Err(rustix::io::Errno::WOULDBLOCK));
        drop(held);
        // Another test may have the lock at this moment.
        flock(&other, FlockOperation::LockShared).unwrap();
    }
}
