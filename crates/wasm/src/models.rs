//! The models of the link crate, asked of a module.

use slipring_link::Cause;
use slipring_link::user::{Delay, Loss, Moment, Packet, Rate, Verdict};
use slipring_model::Stream;

use crate::machine::{Call, Machine};

/// A delay. Without a machine it has no answer.
pub(crate) struct DelayModel(Option<Machine>);

/// A loss.
pub(crate) struct LossModel(Option<Machine>);

/// A rate, and how many frames it saw.
pub(crate) struct RateModel {
    machine: Option<Machine>,
    number: u64,
}

impl DelayModel {
    pub(crate) fn new(machine: Option<Machine>) -> Self {
        Self(machine)
    }
}

impl LossModel {
    pub(crate) fn new(machine: Option<Machine>) -> Self {
        Self(machine)
    }
}

impl RateModel {
    pub(crate) fn new(machine: Option<Machine>) -> Self {
        Self { machine, number: 0 }
    }
}

impl Delay for DelayModel {
    fn delay_ns(&mut self, packet: &mut Packet<'_>, stream: &mut Stream) -> Option<u64> {
        let answer = self.0.as_mut()?.call(&of(packet), stream)?;
        u64::try_from(answer).ok()
    }
}

impl Loss for LossModel {
    fn judge(&mut self, packet: &mut Packet<'_>, stream: &mut Stream) -> Verdict {
        match self.0.as_mut().and_then(|machine| machine.call(&of(packet), stream)) {
            Some(0) => Verdict::Keep,
            Some(1) => Verdict::Drop(Cause::Loss),
            Some(2) => Verdict::Mark,
            _ => Verdict::Drop(Cause::Model),
        }
    }
}

impl Rate for RateModel {
    /// Modules know whole nanoseconds: a line is free from the next one on.
    fn finish(&mut self, start: Moment, wire_bytes: u64, stream: &mut Stream) -> Option<Moment> {
        let start_ns = start.ceil_ns();
        let len = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
        let call = Call { at_ns: start_ns, len, number: self.number, header: &[] };
        self.number += 1;
        let answer = self.machine.as_mut()?.call(&call, stream)?;
        let ns = u64::try_from(answer).ok().filter(|ns| *ns >= start_ns)?;
        Some(Moment { ns, fraction: 0 })
    }
}

fn of<'p>(packet: &'p Packet<'_>) -> Call<'p> {
    Call { at_ns: packet.at_ns, len: packet.len, number: packet.number, header: packet.data }
}
