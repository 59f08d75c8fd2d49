//! A sender of frames and a listener.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use slipring_core::listen::InterfaceListener;
use slipring_port::{Interest, OpenOptions, Port, WaitOutcome, WaitStrategy, Waiter, packet};
use slipring_ring::{Geometry, HugePages, Region};
use slipring_test_support::frames::is_numbered;
use slipring_test_support::{Namespace, TIMEOUT, eventually};

/// Frames sent before waiting for their arrival: few enough for every ring and queue, so that the
/// sender never exceeds what the path can carry.
const WINDOW: usize = 64;
/// Sends `frames` from `e0` of one namespace; returns those that arrive at `e0` of the other. Waits
/// for each window to arrive before it sends the next.
///
/// # Panics
/// If a window does not arrive completely, or the listener loses frames.
pub(crate) fn cross(from: &Namespace, to: &Namespace, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut sender = Sender::open(from, "e0");
    let mut listener = FrameListener::open(to, "e0");
    let mut received = Vec::new();
    for window in frames.chunks(WINDOW) {
        sender.send(window);
        let want = received.len() + window.len();
        listener.hear(&mut received, want);
    }
    assert_eq!(listener.listener.dropped().unwrap(), 0, "the witness itself lost frames");
    received
}

/// Sends frames as any program would, through the queueing discipline, where tcpdump sees them.
pub(crate) struct Sender {
    port: Port,
}

impl Sender {
    pub(crate) fn open(namespace: &Namespace, ifname: &'static str) -> Self {
        let port = namespace.run(move || {
            let options = OpenOptions {
                shared: true,
                qdisc_bypass: false,
                slots: 256,
                ..OpenOptions::default()
            };
            let region =
                Region::create(Geometry { bufs: 4096, ..Geometry::default() }, HugePages::Never);
            packet::open(&format!("packet:{ifname}"), ifname, None, &region.unwrap(), &options)
                .unwrap()
        });
        Self { port }
    }

    /// Sends all frames and waits until they have left.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        for frame in frames {
            while !self.port.queues[0].rings().tx.push(frame) {
                let woken = waiter.wait_ports(&mut [&mut self.port], Interest::TX, Some(TIMEOUT));
                assert_ne!(woken.unwrap(), WaitOutcome::Timeout);
            }
        }
        eventually("frames to leave", || {
            self.port.tx_sync().unwrap();
            (self.port.stats().in_flight == 0).then_some(())
        });
    }
}

/// Listens for frames.
pub(crate) struct FrameListener {
    listener: InterfaceListener,
    wanted: fn(&[u8]) -> bool,
}

impl FrameListener {
    /// Creates a listener for our numbered frames.
    pub(crate) fn open(namespace: &Namespace, ifname: &'static str) -> Self {
        Self::choosy(namespace, ifname, is_numbered)
    }

    /// Creates a listener for frames that match `wanted`.
    pub(crate) fn choosy(
        namespace: &Namespace,
        ifname: &'static str,
        wanted: fn(&[u8]) -> bool,
    ) -> Self {
        Self { listener: namespace.run(move || InterfaceListener::open(ifname).unwrap()), wanted }
    }

    /// Listens until `received` has at least `count` frames.
    pub(crate) fn hear(&mut self, received: &mut Vec<Vec<u8>>, count: usize) {
        let start = Instant::now();
        while received.len() < count {
            let progress = self.hear_some(received);
            assert!(
                progress || start.elapsed() < TIMEOUT,
                "{} of {count} frames arrived",
                received.len()
            );
        }
    }

    /// Collects the wanted frames that have arrived; returns whether there were any. If there were
    /// none, waits up to 200 ms for a frame before it returns; the next call collects this frame.
    pub(crate) fn hear_some(&mut self, received: &mut Vec<Vec<u8>>) -> bool {
        let before = received.len();
        while let Some(frame) = self.listener.recv().unwrap() {
            if !frame.outgoing && (self.wanted)(frame.frame) {
                received.push(frame.frame.to_vec());
            }
        }
        if received.len() == before {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let short = Timespec::try_from(Duration::from_millis(200)).unwrap();
            let _ = poll(&mut fds, Some(&short));
        }
        received.len() > before
    }
}
