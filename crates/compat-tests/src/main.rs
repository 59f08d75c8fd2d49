//! Serves the device that the programs of the tests open. The device is in the directory that is
//! the first argument. This program ends when standard input has a line, or ends.
//!
//! This program serves the same device as `slipring daemon`, but has no flags and makes no links.
//! So these tests need not build all of slipring.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io;
use std::sync::Arc;

use slipring_fuse::{FuseConfig, FuseDevice, Permissions};
use slipring_netmap::{MemoryParams, Netmap, Parameters};
use slipring_nic_provider::{NicAccess, Nics};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: device DIRECTORY")?;
    let permissions = Arc::new(Permissions::default());
    permissions.set(0o666, 0, 0);
    let config = FuseConfig {
        dir: dir.into(),
        permissions,
        workers: 2,
        uring: slipring_fuse::UringMode::Off,
        parameters: Parameters::new(&MemoryParams::default()),
    };
    let nics = Nics::new(NicAccess { all_users: true, take_over: true });
    let mut device = FuseDevice::open(&config, Netmap::new(Box::new(nics)))?;
    device.open_native(&config.dir.with_file_name("native.sock"))?;
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    device.close();
    // A client may still have the device open. It must not keep this process alive.
    std::process::exit(0);
}
