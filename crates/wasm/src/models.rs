//! The models of the link crate, asked of a module.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use slipring_link::Cause;
use slipring_link::user::{Delay, Loss, Moment, Packet, Rate, Verdict};
use slipring_model::Stream;

use crate::machine::{Call, Machine};

/// Why a model had no answer for the first time; all models of one maker share it.
pub(crate) type Trouble = Arc<OnceLock<String>>;

/// A module that is asked, or why it cannot be.
pub(crate) struct Asked {
    machine: Option<Machine>,
    trouble: Trouble,
}

/// A delay.
pub(crate) struct DelayModel(pub(crate) Asked);

/// A loss.
pub(crate) struct LossModel(pub(crate) Asked);

/// A rate.
pub(crate) struct RateModel(pub(crate) Asked);

impl Asked {
    /// Asks this machine; a machine that could not be started has no answers.
    pub(crate) fn new(machine: Result<Machine, impl Display>, trouble: Trouble) -> Self {
        if let Err(error) = &machine {
            trouble.get_or_init(|| format!("its model could not be started again: {error}"));
        }
        Self { machine: machine.ok(), trouble }
    }

    /// The answer, if it is one: `fit` says in words why it is none.
    fn ask<T>(
        &mut self,
        mut call: Call<'_>,
        stream: &mut Stream,
        fit: impl FnOnce(i64) -> Result<T, String>,
    ) -> Option<T> {
        let answer = self.machine.as_mut()?.call(&mut call, stream);
        let failed = match answer.map_err(|failure| failure.to_string()).and_then(fit) {
            Ok(answer) => return Some(answer),
            Err(failed) => failed,
        };
        let Call { number, len, .. } = call;
        self.trouble.get_or_init(|| format!("{failed}; first for its frame {number}, of {len} B"));
        None
    }
}

impl Delay for DelayModel {
    fn delay_ns(&mut self, packet: &mut Packet<'_>, stream: &mut Stream) -> Option<u64> {
        let fit = |answer| {
            u64::try_from(answer).map_err(|_| format!("it answered a delay of {answer} ns"))
        };
        self.0.ask(of(packet), stream, fit)
    }
}

impl Loss for LossModel {
    fn judge(&mut self, packet: &mut Packet<'_>, stream: &mut Stream) -> Verdict {
        let fit = |answer| match answer {
            0 => Ok(Verdict::Keep),
            1 => Ok(Verdict::Drop(Cause::Loss)),
            2 => Ok(Verdict::Mark),
            other => Err(format!("it answered {other}, which is none of 0, 1 and 2")),
        };
        self.0.ask(of(packet), stream, fit).unwrap_or(Verdict::Drop(Cause::Model))
    }
}

impl Rate for RateModel {
    /// Modules know whole nanoseconds: a line is free from the next one on.
    fn finish(
        &mut self,
        start: Moment,
        wire_bytes: u64,
        number: u64,
        stream: &mut Stream,
    ) -> Option<Moment> {
        let start_ns = start.ceil_ns();
        let len = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
        let call = Call { at_ns: start_ns, len, number, frame: &mut [] };
        let fit = |answer| {
            let ns = u64::try_from(answer).ok().filter(|ns| *ns >= start_ns);
            ns.ok_or_else(|| format!("it answered {answer} ns, before its start at {start_ns} ns"))
        };
        self.0.ask(call, stream, fit).map(|ns| Moment { ns, fraction: 0 })
    }
}

fn of<'p>(packet: &'p mut Packet<'_>) -> Call<'p> {
    Call { at_ns: packet.at_ns, len: packet.len, number: packet.number, frame: packet.data }
}
