//! Forwards frames between two ports, in both directions: `forward netmap:veth0 netmap:veth1`.

use slipring_port::{Interest, OpenOptions, WaitStrategy, Waiter, forward};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &names[..] else { return Err("two port names, please".into()) };
    let [mut a, mut b] =
        slipring_core::open_all([a.as_str(), b.as_str()], &OpenOptions::default())?;
    println!("{}\n{}", a.info, b.info);
    let mut waiter = Waiter::for_ports([&a, &b], WaitStrategy::default())?;
    loop {
        waiter.wait_ports(&mut [&mut a, &mut b], Interest::RX, None)?;
        while forward(&mut a, &mut b, 1024)? + forward(&mut b, &mut a, 1024)? > 0 {}
    }
}
