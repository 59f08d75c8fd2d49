//! Settings of queues.

use super::SpecError;
use super::error::{at_least, parameter_error};
use slipring_model::aqm;

/// The queue before the line. The frame on the line counts as waiting until it is finished.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkQueueSpec {
    /// Maximum bytes, without FCS.
    pub bytes: Option<u64>,
    /// Maximum packets.
    pub packets: Option<u64>,
    /// Maximum expected wait for the line, at arrival.
    pub delay_ns: Option<u64>,
    /// How the limits apply.
    pub admit: AdmitPolicy,
    /// Which frame leaves next, and which is dropped.
    pub discipline: Discipline,
    /// Whether to mark frames instead of dropping them, if they can carry a mark.
    pub ecn: bool,
    /// Marks frames that waited this long or longer, whatever the discipline decides.
    pub mark_above_ns: Option<u64>,
}

/// How the limits apply to an arriving frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmitPolicy {
    /// The queue must not exceed the limit with the frame.
    #[default]
    Strict,
    /// As in TLEM: the queue must not exceed the limit without the frame.
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
    /// The first invalid field.
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
