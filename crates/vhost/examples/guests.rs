//! Measures what it costs to pass frames from one guest to another through two ports: `cargo run
//! --release -p slipring-vhost --example guests [BYTES]`.
//!
//! The guests are simulated. They take turns with the ports, in one thread. Only the turns of the
//! ports are measured. The result is the median of many turns, so other programs hardly affect it.
#![allow(dead_code, clippy::unwrap_used, reason = "the guest is that of the tests")]

#[path = "../tests/vhost/guest.rs"]
mod guest;

use std::path::PathBuf;
use std::time::Instant;

use guest::{Guest, Ring, SIZE, Setup, WRITE};
use slipring_port::{OpenOptions, Port, forward};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_vhost::VhostRole;

const TURNS: usize = 20_000;

fn main() {
    let bytes = std::env::args().nth(1).map_or(60, |arg| arg.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let [mut from, mut to] = open(&sockets);
    let [mut sender, mut receiver] =
        sockets.map(|path| Guest::plug(&path, Setup::default()).unwrap());
    fill(sender.tx(), 12 + bytes, 0);
    fill(receiver.rx(), 2048, WRITE);
    let mut costs: Vec<f64> = (0..TURNS)
        .map(|_| {
            let start = Instant::now();
            let moved = forward(&mut from, &mut to, 1024).unwrap();
            let took = start.elapsed();
            assert_eq!((recycle(sender.tx()), recycle(receiver.rx())), (moved, moved));
            took.as_secs_f64() * 1e9 / f64::from(moved)
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    let cost = costs[TURNS / 2];
    println!("{bytes} B: {cost:.1} ns a frame, {:.2} Mpps; {SIZE} frames a turn", 1e3 / cost);
}

fn open(sockets: &[PathBuf; 2]) -> [Port; 2] {
    let options = OpenOptions::default();
    let needs = slipring_vhost::needs("vhost", 1, &options).unwrap() * 2;
    let geometry =
        Geometry { ring_bytes: needs.ring_bytes + 4096, bufs: needs.bufs + 2, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Try).unwrap();
    sockets.each_ref().map(|path| {
        slipring_vhost::open("vhost", path, VhostRole::Server, 1, &region, &options).unwrap()
    })
}

/// Describes a buffer in each descriptor and offers all buffers.
fn fill(ring: &mut Ring, len: u32, flags: u16) {
    for i in 0..SIZE {
        ring.describe(i, ring.buffer(i), len, flags, 0);
        ring.offer(i);
    }
}

/// Offers all returned buffers again. Returns how many were returned.
fn recycle(ring: &mut Ring) -> u32 {
    let mut count = 0;
    while let Some((head, _)) = ring.take() {
        ring.offer(head);
        count += 1;
    }
    count
}
