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
    /// Policy of the pipe's FIFO queue.
    pub policy: PolicySpec,
    /// The mask of the pipe: each flow that it distinguishes has a separate link.
    pub mask: FlowMask,
    /// `buckets`: only shown in listings. Hash tables grow automatically.
    pub buckets: Option<u32>,
    /// `type`: the kind of the scheduler for queues; `None` keeps the current kind. As in dummynet,
    /// packets of `pipe N` rules always pass the FIFO.
    pub kind: Option<SchedKind>,
}

/// Parameters of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeLinkSpec {
    /// Bandwidth in bit/s; 0 is unlimited.
    pub bits_per_sec: u64,
    /// Additional delay of every packet, in ns.
    pub delay_ns: u64,
    /// Bytes that a link sends at once after it was idle.
    pub burst_bytes: u64,
    /// Random extra time of each packet on the link.
    pub profile: Option<PipeProfile>,
}

/// A parsed profile of extra transmission time.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeProfile {
    /// Name of the profile, truncated to 31 bytes.
    pub name: String,
    /// Extra transmission times in ms, one of which is drawn for each packet; all are equally
    /// likely.
    pub extra_ms: Vec<u32>,
    /// Index in `extra_ms` of the first entry that loses its packet; all later entries lose theirs
    /// too.
    pub first_lost: u32,
}

impl PipeProfile {
    /// Maximum length of a profile's name, in bytes.
    pub(crate) const MAX_NAME_BYTES: usize = 31;
    /// Maximum number of entries in a profile, as in dummynet.
    pub(crate) const MAX_ENTRIES: usize = 1024;

    /// Converts the contents of a profile file. The bandwidth in it is not part of the result;
    /// [`PipeSpec::load`] applies it.
    #[must_use]
    pub fn new(file: &DummynetProfile) -> Self {
        let mut name = file.name.clone().unwrap_or_default();
        let end = (0..=Self::MAX_NAME_BYTES.min(name.len()))
            .rev()
            .find(|&end| name.is_char_boundary(end));
        name.truncate(end.unwrap_or(0));
        // The product is rounded down to a whole entry, as in dummynet: 0.86 of 10 entries are 8
        // entries.
        let first_lost = (file.loss_level * file.extra_ms.len() as f64) as u32;
        Self { name, extra_ms: file.extra_ms.clone(), first_lost }
    }
}

impl PipeSpec {
    /// Loads a profile file into the pipe; a bandwidth in the file replaces the pipe's bandwidth.
    pub fn load(&mut self, file: &DummynetProfile) {
        if let Some(bits_per_sec) = file.bits_per_sec {
            self.link.bits_per_sec = bits_per_sec;
        }
        self.link.profile = Some(PipeProfile::new(file));
    }
}

/// `queue N config`: a set of flows that share a scheduler with the flows of other queues, by
/// weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShaperQueueSpec {
    /// Number of the scheduler, by `sched N` or its synonym `pipe N`. `None` keeps the current
    /// scheduler.
    pub parent: Option<ObjectNumber>,
    /// `weight`, `lmax`, `pri`.
    pub share: ShareSpec,
    /// Limits, losses and active queue management.
    pub policy: PolicySpec,
    /// The mask of the queue: each flow that it distinguishes has a separate queue.
    pub mask: FlowMask,
    /// `buckets`: only shown in listings.
    pub buckets: Option<u32>,
}

/// The scheduling parameters of a queue. A parameter that is `None` keeps its value; in a new queue
/// it gets the scheduler's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareSpec {
    /// `weight`: the share that each flow of the queue gets of the scheduler's link, relative to
    /// the other flows.
    pub weight: Option<u32>,
    /// `lmax`: the maximum packet length in bytes.
    pub lmax: Option<u32>,
    /// `pri`: the priority; the lowest number is served first.
    pub priority: Option<u32>,
}

/// `sched N config`: how the queues of a link take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// The kind of scheduler; `None` keeps the current kind.
    pub kind: Option<SchedKind>,
    /// The mask of the scheduler: each flow that it distinguishes has a separate link.
    pub mask: FlowMask,
    /// `buckets`: only shown in listings.
    pub buckets: Option<u32>,
    /// Policy of the single queue of a FIFO scheduler.
    pub policy: PolicySpec,
}

/// The scheduling algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SchedKind {
    /// A single FIFO queue.
    Fifo,
    /// Worst-case fair weighted fair queueing: shares by `weight`, 1 to 100.
    #[default]
    Wf2q,
    /// Deficit round robin: `weight` times `lmax` bytes per turn.
    Rr,
    /// Quick fair queueing: shares by `weight`, 1 to 65536, at constant cost.
    Qfq,
    /// Strict priority by `pri`, or by `weight` in a queue without `pri`; priority 0 is served
    /// first.
    Prio,
    /// Flow queueing with CoDel.
    FqCodel(FairSpec, CoDelSpec),
    /// Flow queueing with PIE.
    FqPie(FairSpec, PieSpec),
}

impl SchedKind {
    /// Returns whether the kind has parameters of CoDel or PIE.
    #[must_use]
    pub(crate) const fn manages_queues(&self) -> bool {
        matches!(self, Self::FqCodel(..) | Self::FqPie(..))
    }

    /// The name of the kind in listings.
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
    /// `noerror`: whether drops are reported to the sender as success.
    pub noerror: bool,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Maximum number of packets.
    Slots(u32),
    /// Number of bytes; a queue is full when it holds more, so the last packet may exceed
    /// the limit.
    Bytes(u32),
}

impl Default for QueueLimit {
    fn default() -> Self {
        Self::Slots(50)
    }
}

/// Random losses; probabilities are in units of 1 / (2^31 - 1).
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
        /// Probability of the change from good to bad.
        to_bad: u32,
        /// Loss probability in the bad state.
        bad: u32,
        /// Probability of the change from bad to good.
        to_good: u32,
    },
}

impl ShaperLoss {
    /// The value that means probability 1.
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
    /// `pie`; with `onoff`, `wake_bytes` is not 0.
    Pie(PieSpec),
}

/// `red` and `gred` w_q/min/max/max_p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperRedSpec {
    /// Weight of the newest length in the average, in 1/65536.
    pub weight: u32,
    /// Average queue length from which packets may be hit: in packets, or in bytes if the queue's
    /// limit is in bytes.
    pub min: u32,
    /// Average queue length from which all packets are hit, in the unit of `min`; with `gentle` see
    /// below.
    pub max: u32,
    /// Probability at `max`, in 1/65536.
    pub max_p: u32,
    /// `gred`: above `max` the probability rises to 1 at twice `max`.
    pub gentle: bool,
    /// `ecn`: as in dummynet, every packet above `min` is marked, or dropped if it cannot be
    /// marked.
    pub ecn: bool,
}

impl AqmSpec {
    /// Returns whether this is CoDel or PIE, whose parameters extend to the end of a command.
    pub(crate) const fn takes_trailing_parameters(&self) -> bool {
        matches!(self, Self::CoDel(_) | Self::Pie(_))
    }
}

impl ShaperRedSpec {
    /// The value of `weight` and `max_p` that means 1.
    pub const SCALE: u32 = 1 << 16;
}
