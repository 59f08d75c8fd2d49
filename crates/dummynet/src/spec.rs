//! Specifications of pipes, queues and schedulers.
//!
//! Numbers are stored with dummynet's precision (losses in 31 bits, RED in 16, gains of PIE in 13),
//! so that listings show the same digits and the same parameters have the same effect.
//!
//! Not for the text of commands (see [`crate::text`]).

use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::aqm::{CoDelSpec, FairSpec, PieSpec};
use slipring_model::format::DummynetProfile;

use crate::flow::FlowMask;

/// Number of a pipe, queue or scheduler: 1 to 65535.
pub type ObjectNumber = u16;

/// `pipe N config`: a link with a FIFO queue. As in dummynet, it consists of two schedulers: the
/// FIFO for `pipe N` rules, and scheduler N for queues. Each has the full link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeSpec {
    /// The link.
    pub link: PipeLinkSpec,
    /// The policy of its FIFO.
    pub policy: PolicySpec,
    /// Flows that this mask distinguishes each have a separate link.
    pub mask: FlowMask,
    /// `buckets`, only shown. Hash tables grow automatically.
    pub buckets: Option<u32>,
    /// `type` of the scheduler for queues; `None` keeps the current kind. As in dummynet, packets
    /// of `pipe N` rules always pass the FIFO.
    pub kind: Option<SchedKind>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeLinkSpec {
    /// Bandwidth in bit/s; 0 is unlimited.
    pub bits_per_sec: u64,
    /// Additional delay of every packet, in ns.
    pub delay_ns: u64,
    /// Bytes that an idle link sends at once.
    pub burst_bytes: u64,
    /// Random extra time on the link.
    pub profile: Option<PipeProfile>,
}

/// A parsed delay profile.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeProfile {
    /// Name of the profile, truncated to 31 bytes.
    pub name: String,
    /// Extra time in ms; all entries are equally likely.
    pub extra_ms: Vec<u32>,
    /// Index of the first entry that loses its packet.
    pub first_lost: u32,
}

impl PipeProfile {
    /// Maximum length of a name.
    pub(crate) const MAX_NAME_BYTES: usize = 31;
    /// Maximum number of entries, as in dummynet.
    pub(crate) const MAX_ENTRIES: usize = 1024;

    /// Converts a profile file. The caller applies its bandwidth ([`PipeSpec::load`]).
    #[must_use]
    pub fn new(file: &DummynetProfile) -> Self {
        let mut name = file.name.clone().unwrap_or_default();
        let end = (0..=Self::MAX_NAME_BYTES.min(name.len()))
            .rev()
            .find(|&end| name.is_char_boundary(end));
        name.truncate(end.unwrap_or(0));
        // Rounded down to a whole entry, as in dummynet: 0.86 of 10 entries are 8.
        let first_lost = (file.loss_level * file.extra_ms.len() as f64) as u32;
        Self { name, extra_ms: file.extra_ms.clone(), first_lost }
    }
}

impl PipeSpec {
    /// Applies a profile; a bandwidth in it overrides the pipe's.
    pub fn load(&mut self, file: &DummynetProfile) {
        if let Some(bits_per_sec) = file.bits_per_sec {
            self.link.bits_per_sec = bits_per_sec;
        }
        self.link.profile = Some(PipeProfile::new(file));
    }
}

/// `queue N config`: flows that share a scheduler with others, by weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShaperQueueSpec {
    /// The scheduler: `sched N`, or its synonym `pipe N`. `None` keeps the current one.
    pub parent: Option<ObjectNumber>,
    /// `weight`, `lmax`, `pri`.
    pub share: ShareSpec,
    /// Limits, losses, active queue management.
    pub policy: PolicySpec,
    /// Flows that this mask distinguishes each have a separate queue.
    pub mask: FlowMask,
    /// `buckets`, only shown.
    pub buckets: Option<u32>,
}

/// The scheduling parameters of a queue. Omitted parameters are kept, or get the scheduler's
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareSpec {
    /// The flow's share of a scheduler (`weight`).
    pub weight: Option<u32>,
    /// `lmax`, in bytes.
    pub lmax: Option<u32>,
    /// `pri`; lower is served first.
    pub priority: Option<u32>,
}

/// `sched N config`: how the queues of a link take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// The kind of scheduler; `None` keeps the current kind.
    pub kind: Option<SchedKind>,
    /// Flows that this mask distinguishes each have a separate link.
    pub mask: FlowMask,
    /// `buckets`, only shown.
    pub buckets: Option<u32>,
    /// Policy of the single queue of a FIFO scheduler.
    pub policy: PolicySpec,
}

/// The scheduling algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SchedKind {
    /// A single queue.
    Fifo,
    /// Worst-case fair weighted fair queueing: shares by `weight`, 1 to 100.
    #[default]
    Wf2q,
    /// Deficit round robin: `weight` times `lmax` bytes per turn.
    Rr,
    /// Quick fair queueing: shares by `weight`, 1 to 65536, at constant cost.
    Qfq,
    /// Strict priority by `pri`, or by `weight` without `pri`; 0 is served first.
    Prio,
    /// Flow queueing with CoDel.
    FqCodel(FairSpec, CoDelSpec),
    /// Flow queueing with PIE.
    FqPie(FairSpec, PieSpec),
}

impl SchedKind {
    /// Whether the kind has parameters of CoDel or PIE.
    #[must_use]
    pub(crate) const fn manages_queues(&self) -> bool {
        matches!(self, Self::FqCodel(..) | Self::FqPie(..))
    }

    /// The name in listings.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fifo => "FIFO",
            Self::Wf2q => "WF2Q+",
            Self::Rr => "RR",
            Self::Qfq => "QFQ",
            Self::Prio => "PRIO",
            Self::FqCodel(..) => "FQ_CODEL",
            Self::FqPie(..) => "FQ_PIE",
        }
    }
}

/// How a queue treats arriving packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicySpec {
    /// Limit of the queue.
    pub limit: QueueLimit,
    /// Random losses.
    pub loss: ShaperLoss,
    /// Active queue management.
    pub aqm: AqmSpec,
    /// Whether drops are reported to the sender as success.
    pub noerror: bool,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Maximum number of packets.
    Slots(u32),
    /// Number of bytes at which the queue is full; one packet may exceed it.
    Bytes(u32),
}

impl Default for QueueLimit {
    fn default() -> Self {
        Self::Slots(50)
    }
}

/// Random losses, as multiples of 1 / (2^31 - 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShaperLoss {
    /// No losses.
    #[default]
    None,
    /// Each packet is lost with this probability.
    Uniform(u32),
    /// The Gilbert–Elliott model, `K,p,H,r`. In the good state packets are lost with probability K,
    /// and the state turns bad with probability p. In the bad state packets are lost with
    /// probability H, and the state turns good with probability r.
    GilbertElliott {
        /// Loss probability in the good state.
        good: u32,
        /// Probability to go from good to bad.
        to_bad: u32,
        /// Loss probability in the bad state.
        bad: u32,
        /// Probability to go from bad to good.
        to_good: u32,
    },
}

impl ShaperLoss {
    /// The value that represents certain loss.
    pub const SCALE: u32 = 0x7fff_ffff;
}

/// Active queue management of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AqmSpec {
    /// No AQM.
    #[default]
    DropTail,
    /// `red` and `gred`.
    Red(ShaperRedSpec),
    /// CoDel, by the `codel` option.
    CoDel(CoDelSpec),
    /// `pie`. A `wake_bytes` other than 0 means `onoff`.
    Pie(PieSpec),
}

/// `red` and `gred` w_q/min/max/max_p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperRedSpec {
    /// Weight of the newest length in the average, in 1/65536.
    pub weight: u32,
    /// Average from which packets are hit: in packets, or in bytes if the queue's limit is in
    /// bytes.
    pub min: u32,
    /// Average from which all packets are hit.
    pub max: u32,
    /// Probability at `max`, in 1/65536.
    pub max_p: u32,
    /// `gred`: above `max` the probability rises to 1 at twice `max`.
    pub gentle: bool,
    /// Whether every packet above `min` is marked, or dropped if it cannot be marked, as in
    /// dummynet.
    pub ecn: bool,
}

impl AqmSpec {
    /// Whether this is CoDel or PIE, whose parameters extend to the end of a command.
    pub(crate) const fn takes_trailing_parameters(&self) -> bool {
        matches!(self, Self::CoDel(_) | Self::Pie(_))
    }
}

impl ShaperRedSpec {
    /// The value that represents 1.
    pub const SCALE: u32 = 1 << 16;
}
