//! What waits for the line.

use super::SpecError;
use super::error::{at_least, model};
use slipring_model::aqm;

/// The queue before the line. The frame that occupies the line counts as waiting until it is
/// through.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkQueueSpec {
    /// Most bytes, without FCS.
    pub bytes: Option<u64>,
    /// Most packets.
    pub packets: Option<u64>,
    /// Longest wait for the line that a frame may expect when it arrives.
    pub delay_ns: Option<u64>,
    /// When a limit is reached.
    pub admit: AdmitPolicy,
    /// Which frame leaves next, and which is dropped.
    pub discipline: Discipline,
    /// Whether frames that can carry a mark are marked instead of dropped.
    pub ecn: bool,
    /// Frames that waited this long or longer are marked, whatever the discipline thinks.
    pub mark_above_ns: Option<u64>,
}

/// When a limit is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmitPolicy {
    /// The frame must fit below it.
    #[default]
    Strict,
    /// As TLEM: a frame may enter as long as the limit was not exceeded before it.
    Tlem,
}

/// Which frame leaves next, and which is dropped. The parameters are those of the algorithms;
/// limits given in the [`QueueSpec`] take the place of their own, and its `ecn` switches marking
/// on in all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Discipline {
    /// First in, first out; a full queue refuses.
    #[default]
    DropTail,
    /// First in, first out; a full queue drops its oldest frames that are not on the line yet until
    /// the new one fits, whatever the limit. One that would not fit alone is dropped itself.
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
    /// Judges the fields.
    ///
    /// # Errors
    /// The first field that no queue can have.
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
        .map_err(model)
    }
}
