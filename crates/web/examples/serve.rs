//! Serves the page of all runs in a directory: `serve 127.0.0.1:8086 /run/slipring`.

use std::path::Path;

use slipring_web::{WebGateway, WebOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [listen, run_dir] = &args[..] else {
        return Err("an address and a directory, please".into());
    };
    let mut options = WebOptions::on(listen.parse()?, Path::new(run_dir));
    let link = serde_json::json!({ "rate": "1Mbit", "delay": "100ms" });
    options.presets = serde_json::json!([{
        "name": "slow", "title": "Slow", "about": "1 Mbit/s and 100 ms each way", "up": link, "down": link,
    }]);
    let gateway = WebGateway::open(options).map_err(|error| error.to_string())?;
    println!("http://{}/", gateway.address());
    loop {
        std::thread::park();
    }
}
