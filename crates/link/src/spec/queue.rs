//! What waits for the line.

use super::SpecError;
use super::error::{at_least, within};

/// The queue before the line. The frame that occupies the line counts as waiting until it is
/// through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    /// Most bytes, without FCS.
    pub bytes: Option<u64>,
    /// Most packets.
    pub packets: Option<u64>,
    /// Longest wait for the line that a frame may expect when it arrives.
    pub delay_ns: Option<u64>,
    /// When a limit is reached.
    pub admit: Admit,
    /// Which frame leaves next, and which is dropped.
    pub discipline: Discipline,
    /// Whether frames that can carry a mark are marked instead of dropped.
    pub ecn: bool,
    /// Frames that waited this long or longer are marked, whatever the discipline thinks.
    pub mark_above_ns: Option<u64>,
}

/// When a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admit {
    /// The frame must fit below it.
    #[default]
    Strict,
    /// As TLEM: a frame may enter as long as the limit was not exceeded before it.
    Tlem,
}

/// Which frame leaves next, and which is dropped.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// First in, first out; a full queue refuses.
    #[default]
    DropTail,
    /// First in, first out; a full queue drops its oldest frame that is not on the line yet.
    DropHead,
    /// Random early detection.
    Red(RedSpec),
    /// Controlled delay, RFC 8289.
    CoDel(CoDelSpec),
    /// Proportional integral controller enhanced, RFC 8033.
    Pie(PieSpec),
    /// Fair queues with controlled delay, RFC 8290.
    FqCoDel(FqCoDelSpec),
    /// Dual queue coupled AQM, RFC 9332.
    DualPi2(DualPi2Spec),
}

/// Random early detection: parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedSpec {
    /// Average queue in bytes below which nothing is dropped.
    pub min_bytes: u64,
    /// Average queue in bytes above which everything is, or is dropped ever more (`gentle`).
    pub max_bytes: u64,
    /// Chance of a drop at `max_bytes`.
    pub max_chance: f64,
    /// Weight of the newest sample in the average.
    pub weight: f64,
    /// Whether the chance rises to 1 between once and twice `max_bytes` instead of at once.
    pub gentle: bool,
}

impl Default for RedSpec {
    fn default() -> Self {
        Self { min_bytes: 30_000, max_bytes: 90_000, max_chance: 0.1, weight: 0.002, gentle: true }
    }
}

/// Controlled delay: parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoDelSpec {
    /// Wait that is tolerated for good.
    pub target_ns: u64,
    /// For how long a longer wait is tolerated.
    pub interval_ns: u64,
}

impl Default for CoDelSpec {
    fn default() -> Self {
        Self { target_ns: 5_000_000, interval_ns: 100_000_000 }
    }
}

/// Proportional integral controller: parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieSpec {
    /// Wait that is aimed at.
    pub target_ns: u64,
    /// How often the chance of a drop is updated.
    pub update_ns: u64,
    /// Weight of the deviation from the target, in Hz.
    pub alpha: f64,
    /// Weight of the trend, in Hz.
    pub beta: f64,
    /// For how long a burst passes unharmed.
    pub max_burst_ns: u64,
}

impl Default for PieSpec {
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 15_000_000,
            alpha: 0.125,
            beta: 1.25,
            max_burst_ns: 150_000_000,
        }
    }
}

/// Fair queues with controlled delay: parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCoDelSpec {
    /// Of each queue.
    pub codel: CoDelSpec,
    /// Number of queues that flows are hashed to.
    pub queues: u32,
    /// Bytes that a queue sends in its turn.
    pub quantum: u32,
}

impl Default for FqCoDelSpec {
    fn default() -> Self {
        Self { codel: CoDelSpec::default(), queues: 1024, quantum: 1514 }
    }
}

/// Dual queue coupled AQM: parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualPi2Spec {
    /// Wait that is aimed at in the classic queue.
    pub target_ns: u64,
    /// How often the probability is updated.
    pub update_ns: u64,
    /// Weight of the deviation from the target, in Hz.
    pub alpha: f64,
    /// Weight of the trend, in Hz.
    pub beta: f64,
    /// Wait in the low-latency queue from which its frames are marked.
    pub step_ns: u64,
    /// How much stronger low-latency flows are marked.
    pub coupling: f64,
}

impl Default for DualPi2Spec {
    fn default() -> Self {
        Self {
            target_ns: 15_000_000,
            update_ns: 16_000_000,
            alpha: 0.16,
            beta: 3.2,
            step_ns: 1_000_000,
            coupling: 2.0,
        }
    }
}

impl QueueSpec {
    /// Judges the fields.
    ///
    /// # Errors
    /// The first field that no queue can have.
    pub fn check(&self) -> Result<(), SpecError> {
        let limits = [("bytes", self.bytes), ("packets", self.packets)];
        for (field, limit) in limits {
            limit.map_or(Ok(()), |limit| at_least(field, limit, 1, "or left out; 1"))?;
        }
        match &self.discipline {
            Discipline::DropTail | Discipline::DropHead => Ok(()),
            Discipline::Red(red) => red.check(),
            Discipline::CoDel(codel) => codel.check(),
            Discipline::Pie(pie) => pie.check(),
            Discipline::FqCoDel(fair) => fair.check(),
            Discipline::DualPi2(dual) => dual.check(),
        }
    }
}

impl RedSpec {
    fn check(&self) -> Result<(), SpecError> {
        at_least("min_bytes", self.min_bytes, 1, "byte")?;
        at_least("max_bytes", self.max_bytes, self.min_bytes + 1, "bytes, more than the minimum,")?;
        within("max_chance", self.max_chance, 0.0, 1.0)?;
        within("weight", self.weight, 1e-9, 1.0)
    }
}

impl CoDelSpec {
    fn check(&self) -> Result<(), SpecError> {
        at_least("target_ns", self.target_ns, 1, "ns")?;
        at_least("interval_ns", self.interval_ns, self.target_ns, "ns, the target,")
    }
}

impl PieSpec {
    fn check(&self) -> Result<(), SpecError> {
        at_least("target_ns", self.target_ns, 1, "ns")?;
        at_least("update_ns", self.update_ns, 1, "ns")?;
        check_gains(self.alpha, self.beta)
    }
}

impl FqCoDelSpec {
    fn check(&self) -> Result<(), SpecError> {
        self.codel.check()?;
        at_least("queues", u64::from(self.queues), 1, "queue")?;
        at_least("quantum", u64::from(self.quantum), 1, "byte")
    }
}

impl DualPi2Spec {
    fn check(&self) -> Result<(), SpecError> {
        at_least("target_ns", self.target_ns, 1, "ns")?;
        at_least("update_ns", self.update_ns, 1, "ns")?;
        within("coupling", self.coupling, 0.0, 1000.0)?;
        check_gains(self.alpha, self.beta)
    }
}

fn check_gains(alpha: f64, beta: f64) -> Result<(), SpecError> {
    within("alpha", alpha, 0.0, 1e6)?;
    within("beta", beta, 0.0, 1e6)
}
