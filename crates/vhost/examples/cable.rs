//! Connects two virtual machines like a cable: `cable SOCKET SOCKET`.

use std::path::Path;

use slipring_port::{Interest, OpenOptions, WaitStrategy, Waiter, forward};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_vhost::VhostRole;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let sockets: Vec<String> = std::env::args().skip(1).collect();
    let [a, b] = &sockets[..] else { return Err("two sockets, please".into()) };
    let options = OpenOptions::default();
    let needs = slipring_vhost::needs("vhost", 1, &options)? * 2;
    let geometry =
        Geometry { ring_bytes: needs.ring_bytes + 4096, bufs: needs.bufs + 2, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Never)?;
    let open = |socket: &String| {
        slipring_vhost::open(socket, Path::new(socket), VhostRole::Server, 1, &region, &options)
    };
    let (mut a, mut b) = (open(a)?, open(b)?);
    println!("{}\n{}", a.info, b.info);
    let mut waiter = Waiter::for_ports([&a, &b], WaitStrategy::default())?;
    loop {
        waiter.wait_ports(&mut [&mut a, &mut b], Interest::RX, None)?;
        while forward(&mut a, &mut b, 1024)? + forward(&mut b, &mut a, 1024)? > 0 {}
    }
}
