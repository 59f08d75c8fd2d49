//! Tests of ports with simulated guests, without virtual machines.
#![allow(clippy::unwrap_used)]

mod frames;
mod guest;
mod hostile;
mod plugs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use slipring_port::{
    DropCause, Interest, OpenOptions, Port, QueueSnapshot, WaitOutcome, WaitStrategy, Waiter,
};
use slipring_ring::{Geometry, HugePages, Region, SlotFlags};
use slipring_test_support::frames::pattern as frame;
use slipring_test_support::{TIMEOUT, eventually};
use slipring_vhost::VhostRole;
use tempfile::TempDir;

use guest::{Guest, Setup};

const SLOTS: u32 = 64;

/// A port with its own socket.
struct Rig {
    port: Port,
    socket: PathBuf,
    _dir: TempDir,
}

fn open(socket: &Path, role: VhostRole, pairs: u32) -> Result<Port, slipring_port::OpenError> {
    let options = OpenOptions { slots: SLOTS, ..OpenOptions::default() };
    let needs = slipring_vhost::needs("vhost:test", pairs, &options)?;
    let geometry =
        Geometry { ring_bytes: needs.ring_bytes + 4096, bufs: needs.bufs + 2, buf_size: 2048 };
    let region = Region::create(geometry, HugePages::Never).unwrap();
    slipring_vhost::open("vhost:test", socket, role, pairs, &Arc::clone(&region), &options)
}

impl Rig {
    fn new() -> Self {
        Self::with_pairs(1)
    }

    fn with_pairs(pairs: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("guest.sock");
        let port = open(&socket, VhostRole::Server, pairs).unwrap();
        Self { port, socket, _dir: dir }
    }

    fn plug(&self) -> Guest {
        Guest::plug(&self.socket, Setup::default()).unwrap()
    }

    /// Queues a frame on a pair, in as many slots as it needs.
    fn queue(&mut self, pair: usize, frame: &[u8]) {
        let tx = self.port.queues[pair].rings().tx;
        let parts = frame.chunks(2048);
        let last = parts.len() - 1;
        for (i, part) in parts.enumerate() {
            assert!(tx.avail() > 0, "the tx ring has room");
            tx.buffer(0).unwrap()[..part.len()].copy_from_slice(part);
            let flags = if i < last { SlotFlags::MOREFRAG } else { SlotFlags::default() };
            tx.set(0, part.len(), flags);
            tx.advance(1);
        }
    }

    fn send(&mut self, frame: &[u8]) {
        self.queue(0, frame);
        self.port.tx_sync().unwrap();
    }

    /// Receives all pending frames of all pairs.
    fn receive(&mut self) -> Vec<Vec<u8>> {
        self.port.rx_sync().unwrap();
        let mut frames = Vec::new();
        for queue in &mut self.port.queues {
            queue.rings().rx.drain(SLOTS, |frame, _| frames.push(frame.to_vec()));
        }
        frames
    }

    /// Sleeps until a frame arrives, at most [`TIMEOUT`].
    fn wait(&mut self) -> WaitOutcome {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        loop {
            let woken = waiter.wait_ports(&mut [&mut self.port], Interest::RX, Some(TIMEOUT));
            let woken = woken.unwrap();
            // SIGCHLD may interrupt a wait, even where it is ignored.
            if woken != WaitOutcome::Interrupted {
                return woken;
            }
        }
    }

    /// Calls `done` again and again until it returns true, which depends on another thread.
    fn until(&mut self, mut done: impl FnMut(&mut Self) -> bool) {
        eventually("another thread", || done(self).then_some(()));
    }

    fn dropped(&mut self, cause: DropCause) -> u64 {
        self.stats().dropped(cause)
    }

    fn stats(&mut self) -> QueueSnapshot {
        self.port.stats()
    }
}
