//! Whether requests come by io_uring, with a queue for each processor, or by the device alone.
//!
//! The kernel offers it where its module parameter says so at the moment of mounting, and asks for
//! it no more once both sides have agreed: so a parameter that we switch on is switched back at
//! once, and nothing is left behind. A store for restarts keeps to the device (`open_kept`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use rustix::fs::{FlockOperation, flock};

use slipring_netmap::Errno;

use crate::FuseError;

/// Whether to have requests by io_uring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UringMode {
    /// Where the kernel has it; its module parameter is switched on for as long as that takes, where
    /// this process may.
    #[default]
    Auto,
    /// The same, and nothing else will do.
    On,
    /// No.
    Off,
}

/// How requests come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTransport {
    /// By the device.
    Device {
        /// The kernel offers io_uring, but this process may not have it.
        refused: Option<Errno>,
    },
    /// By io_uring, but for what the kernel sends by the device only.
    Uring {
        /// Whether the module parameter was off, and is again.
        switched: bool,
    },
}

const PARAMETER_PATH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Root alone can open it, so nobody else can keep us from locking it; and it is there wherever the
/// parameter is, while FUSE's own has none where it is built into the kernel.
const LOCK_PATH: &str = "/sys/bus/platform/uevent";

/// The module parameter, as it is wanted until this is dropped.
#[derive(Debug)]
pub(crate) struct UringParameterGuard {
    /// Where it was switched: the file to switch it back.
    switched: Option<File>,
    /// All who switch it, or look at what it is, do so one after the other.
    _lock: Option<File>,
}

impl UringParameterGuard {
    /// Sees to it that the kernel offers what is wanted.
    pub(crate) fn apply(wanted: UringMode) -> Result<Self, FuseError> {
        let switched = None;
        match wanted {
            UringMode::Off => Ok(Self { switched, _lock: None }),
            UringMode::Auto => {
                let held = lock(FlockOperation::LockExclusive);
                // Where that is refused the kernel offers it if somebody else has switched it on.
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
            // Who could switch it on can switch it off.
            let _ = file.write_all(b"N");
        }
    }
}

fn lock(how: FlockOperation) -> Option<File> {
    // What cannot be opened has no parameter beside it either.
    let file = File::options().write(true).open(LOCK_PATH).ok()?;
    flock(&file, how).ok().map(|()| file)
}

/// The parameter's file, if it was off.
fn switch_on() -> io::Result<Option<File>> {
    // Where FUSE is a module, this loads it.
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
            return eprintln!("skipped: the parameter is root's");
        }
        let held = lock(FlockOperation::LockExclusive).expect("there is something to lock");
        let other = File::options().write(true).open(LOCK_PATH).unwrap();
        let look = || flock(&other, FlockOperation::NonBlockingLockShared);
        assert_eq!(look(), Err(rustix::io::Errno::WOULDBLOCK));
        drop(held);
        // Others may be about it at this moment.
        flock(&other, FlockOperation::LockShared).unwrap();
    }
}
