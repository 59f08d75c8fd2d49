//! The device that the tests' programs open: serves the directory that is the first argument
//! until standard input ends.
//!
//! What `slipring daemon` serves, without flags and links; so that these tests need not build the
//! whole of slipring.
#![forbid(unsafe_code)]

use std::error::Error;
use std::io;

use slipring_door::{Config, Door};
use slipring_netmap::{Netmap, Params};
use slipring_nics::{Access, Nics};

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: device DIRECTORY")?;
    let config =
        Config { dir: dir.into(), mode: 0o666, gid: 0, workers: 2, params: Params::default() };
    let nics = Nics::new(Access { everybody: true, take_over: true });
    let door = Door::open(&config, Netmap::new(Box::new(nics)))?;
    println!("ready");
    io::stdin().read_line(&mut String::new())?;
    door.close();
    // A client that is still there must not keep the process.
    std::process::exit(0);
}
