//! Serves the netmap device in the directory that is the first argument, until standard input ends.
//! If the second argument is `uring`, requests arrive by io_uring.
//!
//! This example has everything that a server needs. `slipring daemon` adds flags, a link and
//! signals.

use std::io::{self, Read};
use std::sync::Arc;

use slipring_fuse::{FuseConfig, FuseDevice, Permissions, UringMode};
use slipring_netmap::{Adapter, AdapterRequest, Errno, MemoryParams, Netmap, Parameters, Provider};

/// Provides neither NICs nor switches, because pipes need none.
#[derive(Debug)]
struct PipesOnly;

impl Provider for PipesOnly {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: device DIRECTORY [uring]")?;
    let by_uring = std::env::args_os().nth(2).is_some_and(|word| word == "uring");
    let permissions = Arc::new(Permissions::default());
    permissions.set(0o666, 0, 0);
    let config = FuseConfig {
        dir: dir.into(),
        permissions,
        workers: 2,
        uring: if by_uring { UringMode::On } else { UringMode::Off },
        parameters: Parameters::new(&MemoryParams::default()),
    };
    let device = FuseDevice::open(&config, Netmap::new(Box::new(PipesOnly)))?;
    println!("{}", device.path().display());
    io::stdin().read_to_end(&mut Vec::new())?;
    device.close();
    // A client that still has the device open must not keep the process alive.
    std::process::exit(0);
}
