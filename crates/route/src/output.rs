//! Packets in buffers of the engine: ICMP errors, redirects and fragments, packets of
//! `RouteEngine::originate`, and copies by `RouteEngine::emit`.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use slipring_fib::FibPortIndex;

use crate::verdict::HeldPacket;

/// Maximum number of packets in the queue. If the queue is full, no ICMP errors are sent, and
/// packets that need fragmentation are dropped.
const MAX_OUTPUTS: usize = 1024;
/// Maximum number of buffers that are kept for reuse.
const MAX_SPARE_BUFFERS: usize = 64;

/// A packet in a buffer of the engine: created by the router itself, or a copy by
/// [`RouteEngine::emit`](crate::RouteEngine::emit).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteOutput {
    /// A frame to send.
    Send {
        /// The egress port.
        port: FibPortIndex,
        /// The whole frame with its tags.
        frame: Vec<u8>,
    },
    /// A frame whose next hop has no MAC address yet. The program must hold it like a frame whose
    /// verdict is `Hold`.
    Hold {
        /// The value that must be passed back with the frame.
        held: HeldPacket,
        /// The frame, whose link header is not valid yet.
        frame: Vec<u8>,
    },
}

/// The packets that the program has not taken yet, first in, first out.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputQueue {
    queue: VecDeque<RouteOutput>,
    spare: Vec<Vec<u8>>,
}

impl OutputQueue {
    /// Returns whether `count` more packets fit.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.queue.len() + count <= MAX_OUTPUTS
    }

    /// Appends a packet. The caller has checked that there is room.
    pub(crate) fn push(&mut self, output: RouteOutput) {
        self.queue.push_back(output);
    }

    /// Takes the first packet; `None` if the queue is empty.
    pub(crate) fn pop(&mut self) -> Option<RouteOutput> {
        self.queue.pop_front()
    }

    /// An empty buffer.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for reuse.
    pub(crate) fn recycle(&mut self, mut buffer: Vec<u8>) {
        if self.spare.len() < MAX_SPARE_BUFFERS {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}
