//! What pipes, queues and schedulers are told to be.
//!
//! Numbers are kept as dummynet keeps them (losses in 31 bits, RED in 16, gains of PIE in 13), so
//! that listings show the same digits and the same parameters mean the same.
//!
//! Not for: text (see [`crate::text`]).

use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::aqm::{CoDelSpec, FairSpec, PieSpec};
use slipring_model::format::DummynetProfile;

use crate::flow::FlowMask;

/// Number of a pipe, queue or scheduler: 1 to 65535.
pub type ObjectNumber = u16;

/// `pipe N config`: a link with a FIFO queue. It stands for two schedulers, as in dummynet: the
/// FIFO that `pipe N` rules send to, and the scheduler N that queues attach to. Each has the link
/// to itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeSpec {
    /// The link.
    pub link: PipeLinkSpec,
    /// Its FIFO.
    pub policy: PolicySpec,
    /// What gets a link of its own.
    pub mask: FlowMask,
    /// `buckets`, as shown. Tables grow by themselves.
    pub buckets: Option<u32>,
    /// `type` of the scheduler that queues attach to; `None` keeps it. Packets of `pipe N` rules
    /// go through the FIFO whatever it is, as in dummynet.
    pub kind: Option<SchedKind>,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeLinkSpec {
    /// Bandwidth in bit/s; 0: without limit.
    pub bits_per_sec: u64,
    /// Time that every packet takes besides, in ns.
    pub delay_ns: u64,
    /// Bytes that an idle link sends at once.
    pub burst_bytes: u64,
    /// Extra time on the link, at random.
    pub profile: Option<PipeProfile>,
}

/// A profile, ready for use.
#[derive(Clone, Debug, PartialEq)]
pub struct PipeProfile {
    /// Its name, at most 31 bytes of it.
    pub name: String,
    /// Extra time in ms, every entry equally likely.
    pub extra_ms: Vec<u32>,
    /// The first entry that loses its packet.
    pub first_lost: u32,
}

impl PipeProfile {
    /// Longest name.
    pub(crate) const MAX_NAME_BYTES: usize = 31;
    /// Most entries, as in dummynet.
    pub(crate) const MAX_ENTRIES: usize = 1024;

    /// Takes over what a file says. Its bandwidth is the caller's to take ([`PipeSpec::load`]).
    #[must_use]
    pub fn new(file: &DummynetProfile) -> Self {
        let mut name = file.name.clone().unwrap_or_default();
        let end = (0..=Self::MAX_NAME_BYTES.min(name.len()))
            .rev()
            .find(|&end| name.is_char_boundary(end));
        name.truncate(end.unwrap_or(0));
        // Cut to a whole entry, as dummynet does: 0.86 of 10 entries are 8.
        let first_lost = (file.loss_level * file.extra_ms.len() as f64) as u32;
        Self { name, extra_ms: file.extra_ms.clone(), first_lost }
    }
}

impl PipeSpec {
    /// Takes over a profile; a bandwidth in it overrides the pipe's.
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
    /// The scheduler (`sched N`, or `pipe N`, which is the same one); `None` keeps it.
    pub parent: Option<ObjectNumber>,
    /// `weight`, `lmax`, `pri`.
    pub share: ShareSpec,
    /// Limits, losses, active queue management.
    pub policy: PolicySpec,
    /// What gets a queue of its own.
    pub mask: FlowMask,
    /// `buckets`, as shown.
    pub buckets: Option<u32>,
}

/// What schedulers tell queues apart by. What is not given stays, or is the scheduler's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareSpec {
    /// `weight`.
    pub weight: Option<u32>,
    /// `lmax`, in bytes.
    pub lmax: Option<u32>,
    /// `pri`; lower is served first.
    pub priority: Option<u32>,
}

/// `sched N config`: how the queues of a link take turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SchedSpec {
    /// How; `None` keeps it.
    pub kind: Option<SchedKind>,
    /// What gets a link of its own.
    pub mask: FlowMask,
    /// `buckets`, as shown.
    pub buckets: Option<u32>,
    /// Limits of the one queue of a scheduler that has no others.
    pub policy: PolicySpec,
}

/// Schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum SchedKind {
    /// One queue.
    Fifo,
    /// Worst-case fair weighted fair queueing: shares by `weight`, 1 to 100.
    #[default]
    Wf2q,
    /// Deficit round robin: `weight` times `lmax` bytes a turn.
    Rr,
    /// Quick fair queueing: shares by `weight`, 1 to 65536, at constant cost.
    Qfq,
    /// Strict priority: `pri`, or where it is not given `weight`; 0 goes first.
    Prio,
    /// Flow queueing with CoDel.
    FqCodel(FairSpec, CoDelSpec),
    /// Flow queueing with PIE.
    FqPie(FairSpec, PieSpec),
}

impl SchedKind {
    /// Whether it has parameters of CoDel or PIE.
    #[must_use]
    pub(crate) const fn manages_queues(&self) -> bool {
        matches!(self, Self::FqCodel(..) | Self::FqPie(..))
    }

    /// Its name in listings.
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

/// What a queue does to packets that come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PolicySpec {
    /// When it is full.
    pub limit: QueueLimit,
    /// Losses at random.
    pub loss: ShaperLoss,
    /// Active queue management.
    pub aqm: AqmSpec,
    /// Drops are reported to the sender as successes.
    pub noerror: bool,
}

/// The size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Most packets.
    Slots(u32),
    /// Bytes at which it is full; one packet may go beyond.
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
    /// None.
    #[default]
    None,
    /// Each packet with this probability.
    Uniform(u32),
    /// The model of Gilbert and Elliott: `K,p,H,r`. Lost with K in the good state, which turns
    /// bad with p; lost with H in the bad one, which turns good with r.
    GilbertElliott {
        /// Loss in the good state.
        good: u32,
        /// From good to bad.
        to_bad: u32,
        /// Loss in the bad state.
        bad: u32,
        /// From bad to good.
        to_good: u32,
    },
}

impl ShaperLoss {
    /// What stands for certain loss.
    pub const SCALE: u32 = 0x7fff_ffff;
}

/// Active queue management of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AqmSpec {
    /// None.
    #[default]
    DropTail,
    /// `red` and `gred`.
    Red(ShaperRedSpec),
    /// `codel`.
    CoDel(CoDelSpec),
    /// `pie`. `wake_bytes` other than 0 stands for `onoff`.
    Pie(PieSpec),
}

/// `red` and `gred` w_q/min/max/max_p.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaperRedSpec {
    /// Weight of the newest length in the average, in 1/65536.
    pub weight: u32,
    /// Average from which on packets are hit: packets, or bytes if the queue's limit is in bytes.
    pub min: u32,
    /// Average from which on all are.
    pub max: u32,
    /// Probability at `max`, in 1/65536.
    pub max_p: u32,
    /// `gred`: above `max` the probability rises to 1 at twice `max`.
    pub gentle: bool,
    /// Above `min` every packet is marked, or dropped if it cannot be, as dummynet does.
    pub ecn: bool,
}

impl AqmSpec {
    /// Whether it is CoDel or PIE.
    pub(crate) const fn takes_trailing_parameters(&self) -> bool {
        matches!(self, Self::CoDel(_) | Self::Pie(_))
    }
}

impl ShaperRedSpec {
    /// What stands for 1.
    pub const SCALE: u32 = 1 << 16;
}
