//! The parameters of pipes, queues and schedulers.
//!
//! Numbers are stored with dummynet's precision: losses in 31 bits, RED's parameters in 16, PIE's
//! gains in 13. So listings show the same digits as dummynet, and the same parameters have the same
//! effect.
//!
//! Not for the text of commands (see [`crate::text`]).

use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::aqm::{CoDelSpec, FairSpec, PieSpec};
use slipring_model::format::DummynetProfile;

use crate::flow::FlowMask;

/// The number of a pipe, queue or scheduler: 1 to 65535.
pub type ObjectNumber = u16;

/// The parameters of `pipe N config`: a link with a FIFO queue. As in dummynet, a pipe consists of
/// two schedulers: the FIFO for `pipe N` rules, and scheduler N for queues. Each of them has the
/// full link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeSpec {
    /// The parameters of the pipe's link.
    pub link: PipeLinkSpec,
    /// How the pipe's FIFO queue treats arriving packets.
    pub policy: PolicySpec,
    /// The mask of the pipe. Each flow that it distinguishes has its own link.
    pub mask: FlowMask,
    /// `buckets`, which only listings show: hash tables grow automatically. `None` means the
    /// default.
    pub buckets: Option<u32>,
    /// `type`: the scheduling algorithm for queues; `None` keeps the current one. As in dummynet,
    /// packets of `pipe N` rules always go through the FIFO.
    pub kind: Option<SchedKind>,
}

/// The parameters of a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeLinkSpec {
    /// Bandwidth in bit/s; 0 means unlimited.
    pub bits_per_sec: u64,
    /// Additional delay of every packet, in ns.
    pub delay_ns: u64,
    /// Maximum number of bytes that the link sends immediately after it was idle.
    pub burst_bytes: u64,
    /// Random extra time that each packet takes on the link; `None` if there is none.
    pub profile: Option<PipeProfile>,
}

/// A profile: the extra times that packets take on the link, and which packets it loses.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeProfile {
    /// Name of the profile, shortened to 31 bytes.
    pub name: String,
    /// Extra times in ms. For each packet, one of them is drawn; all are equally likely.
    pub extra_ms: Vec<u32>,
    /// Index of the first entry in `extra_ms` whose packets are lost. The packets of all later
    /// entries are lost too.
    pub first_lost: u32,
}

impl PipeProfile {
    /// Maximum length of a profile's name, in bytes.
    pub(crate) const MAX_NAME_BYTES: usize = 31;
    /// Maximum number of entries in a profile, as in dummynet.
    pub(crate) const MAX_ENTRIES: usize = 1024;

    /// Converts the contents of a profile file. The result does not include the bandwidth in the
    /// file, which [`PipeSpec::load`] applies.
    #[must_use]
    pub fn new(file: &DummynetProfile) -> Self {
        let mut name = file.name.clone().unwrap_or_default();
        let end = (0..=Self::MAX_NAME_BYTES.min(name.len()))
            .rev()
            .find(|&end| name.is_char_boundary(end));
        name.truncate(end.unwrap_or(0));
        // The product is rounded down to whole entries, as in dummynet: 0.86 × 10 entries are 8
        // entries.
        let first_lost = (file.loss_level * file.extra_ms.len() as f64) as u32;
        Self { name, extra_ms: file.extra_ms.clone(), first_lost }
    }
}

impl PipeSpec {
    /// Applies a profile file to the pipe. A bandwidth in the file replaces the pipe's bandwidth.
    pub fn load(&mut self, file: &DummynetProfile) {
        if let Some(bits_per_sec) = file.bits_per_sec {
            self.link.bits_per_sec = bits_per_sec;
        }
        self.link.profile = Some(PipeProfile::new(file));
    }
}

/// The parameters of `queue N config`: a set of flows. They share a scheduler with the flows of
/// other queues, by weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShaperQueueSpec {
    /// Number of the scheduler, which the command gives as `sched N` or as its synonym `pipe N`.
    /// `None` keeps the current scheduler.
    pub parent: Option<ObjectNumber>,
    /// The parameters `weight`, `lmax` and `pri`.
    pub share: ShareSpec,
    /// How the queue treats arriving packets: limits, losses and active queue management.
    pub policy: PolicySpec,
    /// The mask of the queue. Each flow that it distinguishes has its own queue.
    pub mask: FlowMask,
    /// `buckets`, which only listings show. `None` means the default.
    pub buckets: Option<u32>,
}

/// The scheduling parameters of a queue. `None` keeps the current value, or in a new queue, means
/// the scheduler's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareSpec {
    /// `weight`: the share of the scheduler's link for each flow of the queue, relative to other
    /// flows.
    pub weight: Option<u32>,
    /// `lmax`: the maximum length of a packet in bytes.
    pub lmax: Option<u32>,
    /// `pri`: the priority. The lowest number is served first.
    pub priority: Option<u32>,
}

/// The parameters of `sched N config`: how the queues of a link take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// The scheduling algorithm; `None` keeps the current one.
    pub kind: Option<SchedKind>,
    /// The mask of the scheduler. Each flow that it distinguishes has its own link.
    pub mask: FlowMask,
    /// `buckets`, which only listings show. `None` means the default.
    pub buckets: Option<u32>,
    /// How the single queue of a FIFO scheduler treats arriving packets.
    pub policy: PolicySpec,
}

/// The scheduling algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SchedKind {
    /// FIFO: a single queue.
    Fifo,
    /// Worst-case fair weighted fair queueing (WF2Q+). Shares are by `weight`, which is 1 to 100.
    #[default]
    Wf2q,
    /// Deficit round robin: `weight` times `lmax` bytes per turn.
    Rr,
    /// Quick fair queueing, whose cost per packet is constant. Shares are by `weight`, which is 1
    /// to 65536.
    Qfq,
    /// Strict priority by `pri`, or by `weight` if the queue has no `pri`. Priority 0 is served
    /// first.
    Prio,
    /// FQ-CoDel: flow queueing with CoDel in each queue.
    FqCodel(FairSpec, CoDelSpec),
    /// FQ-PIE: flow queueing with PIE in each queue.
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
    /// The maximum size of the queue.
    pub limit: QueueLimit,
    /// Which packets are lost at random.
    pub loss: ShaperLoss,
    /// The active queue management algorithm.
    pub aqm: AqmSpec,
    /// `noerror`: whether a dropped packet is reported as accepted to its sender.
    pub noerror: bool,
}

/// The maximum size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// The limit is a number of packets: a queue with this many packets is full.
    Slots(u32),
    /// The limit is a number of bytes. A queue is full when it has more bytes than this, so the
    /// last packet may exceed the limit.
    Bytes(u32),
}

impl Default for QueueLimit {
    fn default() -> Self {
        Self::Slots(50)
    }
}

/// Random losses. Probabilities are in units of 1 / (2^31 - 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShaperLoss {
    /// No packets are lost at random.
    #[default]
    None,
    /// Each packet is lost with this probability.
    Uniform(u32),
    /// The Gilbert–Elliott model, written as `K,p,H,r`. In the good state, packets are lost with
    /// probability K, and the state becomes bad with probability p. In the bad state, packets are
    /// lost with probability H, and the state becomes good with probability r.
    GilbertElliott {
        /// K: loss probability in the good state.
        good: u32,
        /// p: probability of the change from good to bad.
        to_bad: u32,
        /// H: loss probability in the bad state.
        bad: u32,
        /// r: probability of the change from bad to good.
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
    /// None: packets are dropped only when the queue is full.
    #[default]
    DropTail,
    /// RED, by the options `red` and `gred`.
    Red(ShaperRedSpec),
    /// CoDel, by the option `codel`.
    CoDel(CoDelSpec),
    /// PIE, by the option `pie`. With `onoff`, `wake_bytes` is not 0.
    Pie(PieSpec),
}

/// The parameters of `red` and `gred`, which are written as w_q/min/max/max_p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperRedSpec {
    /// w_q: the weight of the newest queue length in the average, in units of 1/65536.
    pub weight: u32,
    /// The average queue length above which packets may be dropped or marked. It is in packets, or
    /// in bytes if the queue's limit is in bytes.
    pub min: u32,
    /// The average queue length above which all packets are dropped or marked, unless `gentle` is
    /// set. It has the same unit as `min`.
    pub max: u32,
    /// The probability, in units of 1/65536, that a packet is dropped or marked when the average is
    /// `max`.
    pub max_p: u32,
    /// `gred`: above `max`, the probability rises to 1 at twice `max`.
    pub gentle: bool,
    /// `ecn`: when the average is above `min`, every packet is marked, as in dummynet. Packets that
    /// cannot be marked are dropped.
    pub ecn: bool,
}

impl AqmSpec {
    /// Returns whether this is CoDel or PIE. In a command, all words after such a parameter are
    /// further parameters of CoDel or PIE.
    pub(crate) const fn takes_trailing_parameters(&self) -> bool {
        matches!(self, Self::CoDel(_) | Self::Pie(_))
    }
}

impl ShaperRedSpec {
    /// The value of `weight` and `max_p` that means 1.
    pub const SCALE: u32 = 1 << 16;
}
