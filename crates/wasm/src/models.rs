//! Implements the model traits of the link crate by calling WebAssembly modules.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use slipring_link::LinkDropCause;
use slipring_link::user::{
    LossVerdict, ModelPacket, PreciseTime, UserDelayModel, UserLossModel, UserRateModel,
};
use slipring_model::Stream;

use crate::machine::{ModelCall, ModuleInstance};

/// The first error of a model. All models of one factory share it.
pub(crate) type FirstError = Arc<OnceLock<String>>;

/// An instance of a module, or `None` if it could not be started. Also has the place in which the
/// model's first error is stored.
pub(crate) struct ModelInstance {
    instance: Option<ModuleInstance>,
    first_error: FirstError,
}

/// A delay model that calls a module.
pub(crate) struct WasmDelayModel(pub(crate) ModelInstance);

/// A loss model that calls a module.
pub(crate) struct WasmLossModel(pub(crate) ModelInstance);

/// A rate model that calls a module.
pub(crate) struct WasmRateModel(pub(crate) ModelInstance);

impl ModelInstance {
    /// Wraps an instance. If it could not be started, no call returns a value.
    pub(crate) fn new(
        machine: Result<ModuleInstance, impl Display>,
        first_error: FirstError,
    ) -> Self {
        if let Err(error) = &machine {
            first_error.get_or_init(|| format!("its model could not be started again: {error}"));
        }
        Self { instance: machine.ok(), first_error }
    }

    /// Calls the module, and converts its result with `fit`. If the call fails or `fit` rejects the
    /// result, returns `None`. If this is the first error, stores it.
    fn call<T>(
        &mut self,
        mut call: ModelCall<'_>,
        stream: &mut Stream,
        fit: impl FnOnce(i64) -> Result<T, String>,
    ) -> Option<T> {
        let answer = self.instance.as_mut()?.call(&mut call, stream);
        let failed = match answer.map_err(|failure| failure.to_string()).and_then(fit) {
            Ok(answer) => return Some(answer),
            Err(failed) => failed,
        };
        let ModelCall { number, len, .. } = call;
        self.first_error
            .get_or_init(|| format!("{failed}; first for its frame {number}, of {len} B"));
        None
    }
}

impl UserDelayModel for WasmDelayModel {
    fn delay_ns(&mut self, packet: &mut ModelPacket<'_>, stream: &mut Stream) -> Option<u64> {
        let fit = |answer| {
            u64::try_from(answer).map_err(|_| format!("it answered a delay of {answer} ns"))
        };
        self.0.call(of(packet), stream, fit)
    }
}

impl UserLossModel for WasmLossModel {
    fn judge(&mut self, packet: &mut ModelPacket<'_>, stream: &mut Stream) -> LossVerdict {
        let fit = |answer| match answer {
            0 => Ok(LossVerdict::Keep),
            1 => Ok(LossVerdict::Drop(LinkDropCause::Loss)),
            2 => Ok(LossVerdict::Mark),
            other => Err(format!("it answered {other}, which is none of 0, 1 and 2")),
        };
        self.0.call(of(packet), stream, fit).unwrap_or(LossVerdict::Drop(LinkDropCause::Model))
    }
}

impl UserRateModel for WasmRateModel {
    /// Modules count in whole nanoseconds. So the start time is rounded up to the next nanosecond.
    fn finish(
        &mut self,
        start: PreciseTime,
        wire_bytes: u64,
        number: u64,
        stream: &mut Stream,
    ) -> Option<PreciseTime> {
        let start_ns = start.ceil_ns();
        let len = u32::try_from(wire_bytes).unwrap_or(u32::MAX);
        let call = ModelCall { at_ns: start_ns, len, number, frame: &mut [] };
        let fit = |answer| {
            let ns = u64::try_from(answer).ok().filter(|ns| *ns >= start_ns);
            ns.ok_or_else(|| format!("it answered {answer} ns, before its start at {start_ns} ns"))
        };
        self.0.call(call, stream, fit).map(|ns| PreciseTime { ns, fraction: 0 })
    }
}

fn of<'p>(packet: &'p mut ModelPacket<'_>) -> ModelCall<'p> {
    ModelCall { at_ns: packet.at_ns, len: packet.len, number: packet.number, frame: packet.data }
}
