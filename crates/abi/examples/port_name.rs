//! Parses port names. If a name is invalid, points at the mistake:
//!
//! ```text
//! cargo run -p slipring-abi --example port_name -- netmap:eth0-2/x netmap:br-lan
//! ```

use slipring_abi::name::{PortName, PortNameError};

fn main() {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        println!("give me names of ports, such as netmap:eth0-2/x or vale0:a");
    }
    for name in names {
        match PortName::parse(&name) {
            Ok(port) => explain(&port),
            Err(error) => point_at(&error),
        }
    }
}

fn explain(port: &PortName) {
    println!("{port}\n  {:?} {:?}, rings: {:?}", port.kind, port.name, port.rings);
    if let Some(name) = port.request_name() {
        let register = port.to_register();
        println!(
            "  request: {name:?}, mode {}, ring {}, flags {:#x}",
            register.nr_mode, register.nr_ringid, register.nr_flags
        );
    }
}

fn point_at(error: &PortNameError) {
    println!("{}", error.input);
    println!("{:>column$} {}", '^', error.reason, column = error.column);
    if let Some(help) = error.help() {
        println!("  help: {help}");
    }
}
