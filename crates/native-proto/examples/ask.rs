//! Asks a daemon for the size of its user's netmap memory: `ask /run/slipring/native.sock`.

use std::path::Path;

use slipring_native_proto::NativeClient;

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/run/slipring/native.sock".to_owned());
    let client = NativeClient::connect(Path::new(&path))?;
    let (_file, bytes) = client.memory()?;
    println!("{bytes} bytes can be mapped");
    Ok(())
}
