//! The device that the tests' programs open: serves it on the directory given as first argument
//! until standard input ends.
//!
//! This program serves what `slipring daemon` serves without flags and links, so that these tests
//! need not build all of slipring.
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
    // A client that still has the device open must not keep the process alive.
    std::process::exit(0);
}
