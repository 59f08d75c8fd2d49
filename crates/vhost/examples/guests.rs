//! How many frames a second pass from one guest to another through two ports, both guests without
//! machines: `cargo run --release -p slipring-vhost --example guests [BYTES]`.
//!
//! One thread forwards; each guest has a thread of its own, which does no more than offer buffers.
#![allow(dead_code, clippy::unwrap_used, reason = "the guest is that of the tests")]

#[path = "../tests/vhost/guest.rs"]
mod guest;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use guest::{Guest, Ring, SIZE, Setup, WRITE};
use slipring_port::{OpenOptions, Port, forward};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_vhost::Role;

const SECONDS: u64 = 3;

fn main() {
    let bytes = std::env::args().nth(1).map_or(60, |arg| arg.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| dir.path().join(name));
    let [mut from, mut to] = open(&sockets);
    let [sender, receiver] = sockets.map(|path| Guest::plug(&path, Setup::default()).unwrap());
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let took = thread::scope(|scope| {
        scope.spawn(|| send(sender, bytes, &stop));
        scope.spawn(|| receive(receiver, &stop, &received));
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(SECONDS) {
            for _ in 0..100 {
                forward(&mut from, &mut to, 1024).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        start.elapsed()
    });
    let frames = received.load(Ordering::Relaxed);
    let drops: u64 = to.stats().drops().map(|(_, count)| count).sum();
    let rate = frames as f64 / took.as_secs_f64() / 1e6;
    println!("{bytes} B: {rate:.2} Mpps, {frames} frames, {drops} dropped");
}

fn open(sockets: &[std::path::PathBuf; 2]) -> [Port; 2] {
    let options = OpenOptions::default();
    let mut needs = slipring_vhost::needs(1, &options);
    needs += slipring_vhost::needs(1, &options);
    let geometry =
        Geometry { ring_bytes: needs.ring_bytes + 4096, bufs: needs.bufs + 2, buf_size: 2048 };
    let region: Arc<Region> = Region::create(geometry, HugePages::Try).unwrap();
    sockets.each_ref().map(|path| {
        slipring_vhost::open("vhost", path, Role::Server, 1, &region, &options).unwrap()
    })
}

/// Describes a buffer in each descriptor and offers them all.
fn fill(ring: &mut Ring, len: u32, flags: u16) {
    for i in 0..SIZE {
        ring.describe(i, ring.buffer(i), len, flags, 0);
        ring.offer(i);
    }
    ring.tell();
}

/// Offers what comes back again, at once; how many.
fn recycle(ring: &mut Ring) -> u64 {
    let mut count = 0;
    while let Some((head, _)) = ring.take() {
        ring.offer(head);
        count += 1;
    }
    count
}

fn send(mut guest: Guest, bytes: u32, stop: &AtomicBool) {
    let ring = guest.tx();
    fill(ring, 12 + bytes, 0);
    while !stop.load(Ordering::Relaxed) {
        recycle(ring);
    }
}

fn receive(mut guest: Guest, stop: &AtomicBool, received: &AtomicU64) {
    let ring = guest.rx();
    fill(ring, 2048, WRITE);
    while !stop.load(Ordering::Relaxed) {
        received.fetch_add(recycle(ring), Ordering::Relaxed);
    }
}
