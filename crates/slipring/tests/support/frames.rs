//! Numbered frames of many sizes, plain and tagged, with a sender and a listener.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use slipring_core::listen::InterfaceListener;
use slipring_port::{Interest, OpenOptions, Port, WaitOutcome, WaitStrategy, Waiter, packet};
use slipring_ring::{Geometry, HugePages, Region};

use super::PATIENCE;
use super::namespace::Namespace;

/// Frames sent before waiting for their arrival: few enough for every ring and queue, so that the
/// sender never exceeds what the path can carry.
const WINDOW: usize = 64;
/// The EtherType of our frames, which no stack answers.
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const MARK: &[u8; 4] = b"slip";

/// Returns frame `number`: 60 to 1514 bytes, every third with one tag, every seventh with two.
pub(crate) fn frame(number: u32) -> Vec<u8> {
    let mut random = Random(u64::from(number) + 1);
    let tags: &[[u8; 4]] = match number {
        n if n % 7 == 3 => &[[0x88, 0xa8, 0, 5], [0x81, 0, 0xe0, 7]],
        n if n % 3 == 1 => &[[0x81, 0, 0x60, 9]],
        _ => &[],
    };
    let len = match number % 16 {
        0 => 60,
        1 => 1514,
        _ => 60 + (random.next() % 1455) as usize,
    };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    tags.iter().for_each(|tag| frame.extend(tag));
    frame.extend(ETHERTYPE);
    frame.extend(MARK);
    frame.extend(number.to_be_bytes());
    frame.resize_with(len, || random.next() as u8);
    frame
}

/// Whether a frame is one of ours, by its EtherType after any tags.
pub(crate) fn is_ours(frame: &[u8]) -> bool {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    frame.get(at..at + 2) == Some(&ETHERTYPE) && frame.get(at + 2..at + 6) == Some(MARK)
}

/// Sends `frames` from `e0` of one namespace; returns those that arrive at `e0` of the other. Waits
/// for each window to arrive before it sends the next.
///
/// # Panics
/// If a window does not arrive completely.
pub(crate) fn cross(from: &Namespace, to: &Namespace, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut sender = Sender::open(from, "e0");
    let mut ear = Ear::open(to, "e0");
    let mut heard = Vec::new();
    for window in frames.chunks(WINDOW) {
        sender.send(window);
        let want = heard.len() + window.len();
        ear.hear(&mut heard, want);
    }
    assert_eq!(ear.listener.dropped().unwrap(), 0, "the witness itself lost frames");
    heard
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
            packet::open("packet:e0", ifname, None, &region.unwrap(), &options).unwrap()
        });
        Self { port }
    }

    /// Sends all frames and waits until they have left.
    pub(crate) fn send(&mut self, frames: &[Vec<u8>]) {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        for frame in frames {
            while !self.port.queues[0].rings().tx.push(frame) {
                let woken = waiter.wait_ports(&mut [&mut self.port], Interest::TX, Some(PATIENCE));
                assert_eq!(woken.unwrap(), WaitOutcome::Ready);
            }
        }
        super::eventually("frames to leave", || {
            self.port.tx_sync().unwrap();
            (self.port.stats().in_flight == 0).then_some(())
        });
    }
}

/// Listens for frames.
pub(crate) struct Ear {
    listener: InterfaceListener,
    wanted: fn(&[u8]) -> bool,
}

impl Ear {
    /// Creates a listener for our numbered frames.
    pub(crate) fn open(namespace: &Namespace, ifname: &'static str) -> Self {
        Self::choosy(namespace, ifname, is_ours)
    }

    /// Creates a listener for frames that match `wanted`.
    pub(crate) fn choosy(
        namespace: &Namespace,
        ifname: &'static str,
        wanted: fn(&[u8]) -> bool,
    ) -> Self {
        Self { listener: namespace.run(move || InterfaceListener::open(ifname).unwrap()), wanted }
    }

    /// Listens until `heard` has `count` frames.
    pub(crate) fn hear(&mut self, heard: &mut Vec<Vec<u8>>, count: usize) {
        let start = Instant::now();
        while heard.len() < count {
            let progress = self.hear_some(heard);
            assert!(
                progress || start.elapsed() < PATIENCE,
                "{} of {count} frames arrived",
                heard.len()
            );
        }
    }

    /// Collects what has arrived, waiting for the first frame; returns whether there was any.
    pub(crate) fn hear_some(&mut self, heard: &mut Vec<Vec<u8>>) -> bool {
        let before = heard.len();
        while let Some(frame) = self.listener.recv().unwrap() {
            if !frame.outgoing && (self.wanted)(frame.frame) {
                heard.push(frame.frame.to_vec());
            }
        }
        if heard.len() == before {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            let short = Timespec::try_from(Duration::from_millis(200)).unwrap();
            let _ = poll(&mut fds, Some(&short));
        }
        heard.len() > before
    }
}

/// Asserts that both are the same frames in the same order, and reports the first difference.
pub(crate) fn assert_same(who: &str, got: &[Vec<u8>], sent: &[Vec<u8>]) {
    for (at, (got, sent)) in got.iter().zip(sent).enumerate() {
        assert!(got == sent, "{who}: frame {at} is\n{got:02x?}\n instead of\n{sent:02x?}");
    }
    assert_eq!(got.len(), sent.len(), "{who}: number of frames");
}

/// A small generator of reproducible bytes (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        let Self(state) = self;
        *state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        *state ^= *state >> 29;
        *state ^= *state << 17;
        *state >> 8
    }
}
