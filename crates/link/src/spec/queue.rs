//! Settings of queues.

use super::SpecError;
use super::error::{at_least, parameter_error};
use slipring_model::aqm;

/// The queue before the line. With disciplines of one FIFO, the frame on the line counts as waiting
/// until it is finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkQueueSpec {
    /// Maximum length of the queue in bytes, without FCS; `None` for no limit.
    pub bytes: Option<u64>,
    /// Maximum length of the queue in packets; `None` for no limit.
    pub packets: Option<u64>,
    /// Maximum expected wait for the line in ns, estimated when a frame arrives; `None` for no
    /// limit.
    pub delay_ns: Option<u64>,
    /// How the limits in bytes and packets apply to an arriving frame.
    pub admit: AdmitPolicy,
    /// Which frame leaves next, and which is dropped.
    pub discipline: Discipline,
    /// Whether the algorithm of the discipline may mark frames instead of dropping them, if they
    /// can carry a mark.
    pub ecn: bool,
    /// If a frame waits at least this long, in ns, it is marked, even if the discipline does not
    /// mark it. `None` if the wait alone marks no frame.
    pub mark_above_ns: Option<u64>,
}

/// How the limits in bytes and packets apply to an arriving frame. Disciplines of several queues
/// ignore this policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmitPolicy {
    /// A frame is admitted if the queue does not exceed the limit, counted with the new frame.
    #[default]
    Strict,
    /// As in TLEM: a frame is admitted if the queue does not exceed the limit, counted without the
    /// new frame.
    Tlem,
}

/// Which frame leaves next, and which is dropped. The parameters are those of the algorithms.
/// Limits in the [`LinkQueueSpec`] replace the algorithms' own limits, and its `ecn` enables
/// marking in all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// First in, first out; a full queue drops the arriving frame.
    #[default]
    DropTail,
    /// First in, first out; a full queue drops its oldest waiting frames until the new one fits,
    /// for every kind of limit. A frame that does not fit even alone is dropped.
    DropHead,
    /// Random early detection.
    Red(aqm::RedSpec),
    /// Controlled delay, RFC 8289.
    CoDel(aqm::CoDelSpec),
    /// Proportional integral controller enhanced, RFC 8033.
    Pie(aqm::PieSpec),
    /// Fair queues with controlled delay, RFC 8290.
    FqCoDel(aqm::FairSpec, aqm::CoDelSpec),
    /// Fair queues with proportional integral controllers.
    FqPie(aqm::FairSpec, aqm::PieSpec),
    /// Dual queue coupled AQM, RFC 9332.
    DualPi2(aqm::DualPi2Spec),
}

impl LinkQueueSpec {
    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field.
    pub fn check(&self) -> Result<(), SpecError> {
        let limits = [("bytes", self.bytes), ("packets", self.packets)];
        for (field, limit) in limits {
            limit.map_or(Ok(()), |limit| at_least(field, limit, 1, ""))?;
        }
        match &self.discipline {
            Discipline::DropTail | Discipline::DropHead => Ok(()),
            Discipline::Red(red) => red.validate(),
            Discipline::CoDel(codel) => codel.validate(),
            Discipline::Pie(pie) => pie.validate(),
            Discipline::FqCoDel(fair, codel) => fair.validate().and_then(|()| codel.validate()),
            Discipline::FqPie(fair, pie) => fair.validate().and_then(|()| pie.validate()),
            Discipline::DualPi2(dual) => dual.validate(),
        }
        .map_err(parameter_error)
    }
}
