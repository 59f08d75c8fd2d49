//! What the engine asks of its caller: the storage of frames, and where frames go.

use alloc::vec::Vec;
use core::fmt;

use crate::burst::{Burst, BurstItem};
use crate::frame_id::FrameId;

/// A frame of the caller's; the engine only passes it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameHandle(pub u32);

/// A link of a network, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

/// A place where frames enter a network, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub u16);

/// A place where frames leave a network, by its place in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitId(pub u16);

/// A frame that reaches a network or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameArrival {
    /// When, on the caller's clock.
    pub arrival_ns: u64,
    /// Which.
    pub handle: FrameHandle,
    /// Its length in bytes, without FCS.
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

/// A frame that leaves the network, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When it is to leave: never before this.
    pub release_ns: u64,
    /// Which.
    pub handle: FrameHandle,
    /// Its length in bytes, without FCS.
    pub len: u32,
    /// Where to.
    pub exit: ExitId,
    /// The last link that it passed.
    pub link: LinkId,
}

/// A frame on its way to the end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightFrame {
    /// When it is to leave: never before this.
    pub release_ns: u64,
    /// Which.
    pub handle: FrameHandle,
    /// Its length in bytes, without FCS.
    pub len: u32,
}

impl InFlightFrame {
    /// Its delivery at the end of the last link.
    #[must_use]
    #[inline(always)]
    pub const fn to_delivery(self, exit: ExitId, link: LinkId) -> Delivery {
        let Self { release_ns, handle, len } = self;
        Delivery { release_ns, handle, len, exit, link }
    }

    /// Its arrival at a node.
    pub(crate) const fn to_arrival(self) -> FrameArrival {
        FrameArrival { arrival_ns: self.release_ns, handle: self.handle, len: self.len }
    }
}

/// A frame that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostFrame {
    /// When; for frames lost after they occupied the link, the end of that.
    pub at_ns: u64,
    /// Which.
    pub handle: FrameHandle,
    /// Its length in bytes, without FCS.
    pub len: u32,
    /// Why.
    pub cause: LinkDropCause,
    /// By which link; `None` when no link wanted it ([`Cause::Route`]).
    pub link: Option<LinkId>,
}

/// A frame that left a queue towards the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeparture {
    /// The queue of which link.
    pub link: LinkId,
    /// When the frame began to occupy the line, rounded up.
    pub at_ns: u64,
    /// How long it had waited by then.
    pub delay_ns: u64,
    /// Its length in bytes, without FCS.
    pub len: u32,
    /// Bytes that it takes on the line, with framing.
    pub wire_bytes: u64,
}

/// A frame that joined a queue, and how deep that is with it. As for limits, the frame on the line
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueArrival {
    /// The queue of which link.
    pub link: LinkId,
    /// When.
    pub at_ns: u64,
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// What a network runs on.
///
/// Frames stay with the caller; the engine reads and changes bytes only in stages that need them
/// (classes, ECN marks, corruption, models of the user), never on the plain path.
pub trait Carrier {
    /// The stored bytes of a frame, possibly fewer than its length. Marks and bit errors are
    /// written in place.
    fn frame(&mut self, handle: FrameHandle) -> &mut [u8];

    /// Stores a second copy of a frame; `None` when there is no room for it, which is counted as
    /// [`Cause::Buffer`].
    fn copy(&mut self, handle: FrameHandle) -> Option<FrameHandle>;

    /// Takes a frame that leaves the network. Its storage is the caller's again once it was sent.
    fn deliver(&mut self, delivery: Delivery);

    /// Takes frames that leave by one link at one exit, in this order: the same as
    /// [`Self::deliver`] for each of them.
    #[inline]
    fn deliver_all(&mut self, exit: ExitId, link: LinkId, frames: &[InFlightFrame]) {
        frames.iter().for_each(|frame| self.deliver(frame.to_delivery(exit, link)));
    }

    /// A frame of a train, as it was pushed. Only those who push [trains](Train) are asked.
    fn burst_item(&mut self, _handle: FrameHandle) -> Option<BurstItem> {
        None
    }

    /// Adds all frames of a train to `frames`.
    fn split_burst(&mut self, train: &Burst, frames: &mut Vec<FrameArrival>)
    where
        Self: Sized,
    {
        let mut train = *train;
        frames.extend(core::iter::from_fn(|| train.pop_front(self)));
    }

    /// Takes frames that leave by one link at one exit, each `delay_ns` after it arrived: the same
    /// as [`Self::deliver`] for each of them.
    fn deliver_burst(&mut self, exit: ExitId, link: LinkId, delay_ns: u64, train: Burst)
    where
        Self: Sized,
    {
        let mut train = train;
        while let Some(FrameArrival { arrival_ns, handle, len }) = train.pop_front(self) {
            let release_ns = arrival_ns.saturating_add(delay_ns);
            self.deliver(Delivery { release_ns, handle, len, exit, link });
        }
    }

    /// Learns that a frame has come to the end of a link at a node, where it enters another link
    /// or is lost. Never called for frames that leave the network.
    fn on_hop(&mut self, _link: LinkId, _frame: &InFlightFrame) {}

    /// Takes back a frame that is lost.
    fn lose(&mut self, lost: LostFrame);

    /// Learns that a frame joined a queue, for histograms.
    fn on_enqueue(&mut self, _joined: QueueArrival) {}

    /// Learns that a frame left a queue, for histograms.
    fn on_dequeue(&mut self, _queued: QueueDeparture) {}

    /// Learns that frames found the line free one after another, each of which takes so many bytes
    /// there: the same as [`Self::joined`] and [`Self::queued`] for each of them.
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
    /// A loss model took it.
    Loss,
    /// A bit error of the loss model `ber` hit it.
    Ber,
    /// The policer found it beyond its profile.
    Police,
    /// The queue was full.
    Queue,
    /// Active queue management took it.
    Aqm,
    /// There was no storage for it.
    Buffer,
    /// It was too late to send.
    Late,
    /// The receiving port overran.
    RxOverrun,
    /// The sending port was full.
    TxFull,
    /// It was not a frame.
    Malformed,
    /// No class, and so no link, wanted it.
    Route,
    /// It would have overtaken another, and the order policy is `drop`.
    Order,
    /// A link profile gave it up after it had occupied the link.
    Profile,
    /// A model of the user's had no answer for it.
    Model,
}

impl LinkDropCause {
    /// How many causes there are.
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

    /// The name under which it is counted everywhere.
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
