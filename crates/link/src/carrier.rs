//! The services that the engine needs from its caller: frame storage, and a destination for frames.

use alloc::vec::Vec;
use core::fmt;

use crate::burst::{Burst, BurstItem};
use crate::frame_id::FrameId;

/// Names a frame that the caller stores; the engine passes the handle on and never interprets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameHandle(pub u32);

/// A link of a network: its index in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A point where frames enter a network: its index in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u16);

/// A point where frames leave a network: its index in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitId(pub u16);

/// A frame that arrives at a network or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameArrival {
    /// Arrival time on the caller's clock.
    pub arrival_ns: u64,
    /// The caller's handle of the frame.
    pub handle: FrameHandle,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
}

/// A frame inside a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkFrame {
    pub(crate) arrival_ns: u64,
    pub(crate) handle: FrameHandle,
    pub(crate) len: u32,
    pub(crate) id: FrameId,
}

impl FrameArrival {
    pub(crate) const fn with_id(self, id: FrameId) -> LinkFrame {
        let Self { arrival_ns, handle, len } = self;
        LinkFrame { arrival_ns, handle, len, id }
    }
}

impl From<LinkFrame> for FrameArrival {
    fn from(frame: LinkFrame) -> Self {
        let LinkFrame { arrival_ns, handle, len, .. } = frame;
        Self { arrival_ns, handle, len }
    }
}

/// A frame that leaves the network, and its release time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Release time: the frame must not leave earlier.
    pub release_ns: u64,
    /// The caller's handle of the frame.
    pub handle: FrameHandle,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// The exit by which the frame leaves.
    pub exit: ExitId,
    /// The last link that the frame passed.
    pub link: LinkId,
}

/// A frame that travels to the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightFrame {
    /// Release time: the frame must not leave earlier.
    pub release_ns: u64,
    /// The caller's handle of the frame.
    pub handle: FrameHandle,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
}

impl InFlightFrame {
    /// Converts the frame to a delivery at the end of the last link.
    #[must_use]
    #[inline(always)]
    pub const fn to_delivery(self, exit: ExitId, link: LinkId) -> Delivery {
        let Self { release_ns, handle, len } = self;
        Delivery { release_ns, handle, len, exit, link }
    }

    /// Converts the frame to an arrival at a node.
    pub(crate) const fn to_arrival(self) -> FrameArrival {
        FrameArrival { arrival_ns: self.release_ns, handle: self.handle, len: self.len }
    }
}

/// A lost frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame {
    /// Time of the loss. If the frame was lost after the line, the time at which it left the line.
    /// If the delay model or the order policy lost the frame, the time from which the frame's delay
    /// is measured.
    pub at_ns: u64,
    /// The caller's handle of the frame.
    pub handle: FrameHandle,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// Cause of the loss.
    pub cause: LinkDropCause,
    /// The link that lost the frame; `None` if no link accepted the frame
    /// ([`LinkDropCause::Route`]).
    pub link: Option<LinkId>,
}

/// A frame that left a queue and goes on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeparture {
    /// The link that the queue belongs to.
    pub link: LinkId,
    /// When the frame began to occupy the line, in ns, rounded up.
    pub at_ns: u64,
    /// How long the frame waited in the queue, in ns.
    pub delay_ns: u64,
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// Bytes that the frame occupies on the line, with framing.
    pub wire_bytes: u64,
}

/// A frame that joined a queue, and the queue length afterwards. The length includes the frame
/// itself and the frame on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueArrival {
    /// The link that the queue belongs to.
    pub link: LinkId,
    /// Arrival time in ns.
    pub at_ns: u64,
    /// Queue length in bytes.
    pub bytes: u64,
    /// Queue length in packets.
    pub packets: u64,
}

/// The services that a network needs from its caller.
///
/// The caller stores the frames. The engine reads and changes bytes only in stages that need them
/// (classes, queues per flow, ECN, mangling, corruption, user models), never on the plain path.
pub trait Carrier {
    /// Returns the stored bytes of a frame, which may be fewer than its length. The engine makes
    /// all its changes in place.
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8];

    /// Stores a copy of a frame and returns the handle of the copy; `None` if there is no space.
    /// The engine then counts the copy as lost ([`LinkDropCause::Buffer`]).
    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle>;

    /// Takes over a frame that leaves the network. From then on its storage belongs to the caller.
    fn deliver(&mut self, delivery: Delivery);

    /// Takes over frames that leave one link at one exit, in the order of `frames`. Equivalent to
    /// [`Self::deliver`] for each frame.
    #[inline]
    fn deliver_all(&mut self, exit: ExitId, link: LinkId, frames: &[InFlightFrame]) {
        frames.iter().for_each(|frame| self.deliver(frame.to_delivery(exit, link)));
    }

    /// Returns a frame of a burst, as the caller pushed it. Only carriers whose callers push
    /// [bursts](Burst) implement this method; for all others, it returns `None`.
    fn burst_item(&mut self, _handle: FrameHandle) -> Option<BurstItem> {
        None
    }

    /// Appends all frames of a burst to `frames`.
    fn split_burst(&mut self, burst: &Burst, frames: &mut Vec<FrameArrival>)
    where
        Self: Sized,
    {
        let mut burst = *burst;
        frames.extend(core::iter::from_fn(|| burst.pop_front(self)));
    }

    /// Takes over frames that leave one link at one exit, each `delay_ns` after its arrival.
    /// Equivalent to [`Self::deliver`] for each frame.
    fn deliver_burst(&mut self, exit: ExitId, link: LinkId, delay_ns: u64, burst: Burst)
    where
        Self: Sized,
    {
        let mut burst = burst;
        while let Some(FrameArrival { arrival_ns, handle, len }) = burst.pop_front(self) {
            let release_ns = arrival_ns.saturating_add(delay_ns);
            self.deliver(Delivery { release_ns, handle, len, exit, link });
        }
    }

    /// Reports that a frame reached the node at the end of a link. There it enters another link or
    /// is lost. Never called for frames that leave the network.
    fn on_hop(&mut self, _link: LinkId, _frame: &InFlightFrame) {}

    /// Takes back the storage of a frame that was lost.
    fn lose(&mut self, lost: LostFrame);

    /// Reports that a frame joined a queue; used for histograms.
    fn on_enqueue(&mut self, _joined: QueueArrival) {}

    /// Reports that a frame left a queue; used for histograms.
    fn on_dequeue(&mut self, _queued: QueueDeparture) {}

    /// Reports that a sequence of frames found the line free. `wire_bytes` holds, for each frame,
    /// the bytes that it occupies on the line. Equivalent to [`Self::on_enqueue`] and
    /// [`Self::on_dequeue`] for each frame.
    #[inline]
    fn on_bypass(&mut self, link: LinkId, frames: &[FrameArrival], wire_bytes: &[u64]) {
        for (&FrameArrival { arrival_ns: at_ns, len, .. }, &wire_bytes) in
            frames.iter().zip(wire_bytes)
        {
            self.on_enqueue(QueueArrival { link, at_ns, bytes: len.into(), packets: 1 });
            self.on_dequeue(QueueDeparture { link, at_ns, delay_ns: 0, len, wire_bytes });
        }
    }
}

/// Why a frame was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LinkDropCause {
    /// A loss model dropped the frame.
    Loss,
    /// A bit error of the loss model `ber` hit the frame.
    Ber,
    /// The frame exceeded the policer's profile.
    Police,
    /// The queue was full.
    Queue,
    /// Active queue management dropped the frame.
    Aqm,
    /// The carrier had no storage for the frame.
    Buffer,
    /// The frame was too late to send.
    Late,
    /// The receiving port overran.
    RxOverrun,
    /// The sending port was full.
    TxFull,
    /// The bytes were not a frame.
    Malformed,
    /// No link accepted the frame: no class matched it, or no link begins at this entry or node.
    Route,
    /// The frame would have overtaken another, and the order policy is `drop`.
    Order,
    /// A link profile dropped the frame after it had occupied the line.
    Profile,
    /// A user model returned no result for the frame.
    Model,
}

impl LinkDropCause {
    /// Number of causes.
    pub const COUNT: usize = Self::ALL.len();

    /// All causes, in the order of their numbers.
    pub const ALL: [Self; 14] = [
        Self::Loss,
        Self::Ber,
        Self::Police,
        Self::Queue,
        Self::Aqm,
        Self::Buffer,
        Self::Late,
        Self::RxOverrun,
        Self::TxFull,
        Self::Malformed,
        Self::Route,
        Self::Order,
        Self::Profile,
        Self::Model,
    ];

    /// The name under which the cause is counted everywhere.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Loss => "loss",
            Self::Ber => "ber",
            Self::Police => "police",
            Self::Queue => "queue",
            Self::Aqm => "aqm",
            Self::Buffer => "buffer",
            Self::Late => "late",
            Self::RxOverrun => "rx_overrun",
            Self::TxFull => "tx_full",
            Self::Malformed => "malformed",
            Self::Route => "route",
            Self::Order => "order",
            Self::Profile => "profile",
            Self::Model => "model",
        }
    }
}

impl fmt::Display for LinkDropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
