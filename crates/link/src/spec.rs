//! Specifications of links: plain data that configuration files, flags and control messages
//! produce.
//!
//! `check` validates every value; its error names the field and the allowed values. An engine is
//! only built from a valid specification.
//!
//! Times are in nanoseconds, rates in bits per second, frame lengths in bytes without FCS; the
//! names of times and rates carry the unit. Time-dependent settings are relative to the start of
//! the engine, or to the time at which a change took effect.

mod delay;
mod error;
mod frame_len;
mod loss;
mod mangle;
mod network;
mod police;
mod queue;
mod rate;
mod user_models;

use alloc::string::String;
use alloc::vec::Vec;

pub use delay::{DelayModel, DelaySpec, DelayStep, OrderPolicy};
pub use error::SpecError;
pub use frame_len::{MAX_FRAME_LEN, MIN_FRAME_LEN};
pub use loss::{LossModel, LossPosition, LossSpec, LossWindow};
pub use mangle::{BitErrorSpec, CorruptSpec, DuplicateSpec, HoldSpec, MangleEdit, MangleSpec};
pub use network::{ClassSpec, LinkSource, LinkTarget, NetworkLink, NetworkSpec};
pub use police::{MeterSpec, PoliceAction, PoliceSpec};
pub use queue::{AdmitPolicy, Discipline, LinkQueueSpec};
pub use rate::{
    Framing, LineCells, LinkProfile, MarkovState, RateSlot, RateSpec, RateStep, SerialisePoint,
    TraceEnd,
};

/// One link in one direction. The default is a wire: no delay, no loss, no rate limit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkSpec {
    /// Name of the link; its random streams are derived from it.
    pub name: String,
    /// The policer, which limits the frames that may enter; `None` if there is none.
    pub police: Option<PoliceSpec>,
    /// Losses before the queue or after the line.
    pub loss: Vec<LossSpec>,
    /// Which frames are held back before the queue; `None` if none are.
    pub hold: Option<HoldSpec>,
    /// The queue before the line.
    pub queue: LinkQueueSpec,
    /// The rate of the line.
    pub rate: RateSpec,
    /// How many bytes a frame of a given length occupies on the line.
    pub framing: Framing,
    /// How long each frame occupies the line in addition to its serialisation; `None` if it does
    /// not.
    pub profile: Option<LinkProfile>,
    /// Which bytes of frames are overwritten; `None` if none are.
    pub mangle: Option<MangleSpec>,
    /// Bit errors in frames that are still delivered; `None` if there are none.
    pub corrupt: Option<CorruptSpec>,
    /// How often frames are duplicated; `None` if they are not.
    pub duplicate: Option<DuplicateSpec>,
    /// How long a frame travels after the line.
    pub delay: DelaySpec,
    /// What happens to frames that would overtake earlier frames.
    pub order: OrderPolicy,
    /// Whether a frame's delay is measured from the start or from the end of its serialisation.
    pub serialise: SerialisePoint,
    /// Rate in bits per second of the physical port that sends the frames after the link; the
    /// serialisation time there is subtracted from the delay. `None` if no such time is subtracted.
    pub output_bps: Option<u64>,
    /// Fixed processing time of the emulating machine in ns, subtracted from every delay.
    pub offset_ns: u64,
}

impl LinkSpec {
    /// Returns a wire with the name `name`.
    #[must_use]
    pub fn wire(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Validates every part.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field; its path begins with `link.NAME`.
    pub fn check(&self) -> Result<(), SpecError> {
        self.check_parts().map_err(|error| error.within(&self.name).within("link"))
    }

    fn check_parts(&self) -> Result<(), SpecError> {
        let part = |name| move |error: SpecError| error.within(name);
        self.police.iter().try_for_each(PoliceSpec::check).map_err(part("police"))?;
        self.loss.iter().try_for_each(LossSpec::check).map_err(part("loss"))?;
        self.queue.check().map_err(part("queue"))?;
        self.rate.check().map_err(part("rate"))?;
        self.framing.check().map_err(part("framing"))?;
        self.profile.iter().try_for_each(LinkProfile::check).map_err(part("profile"))?;
        self.hold.iter().try_for_each(HoldSpec::check).map_err(part("hold"))?;
        self.mangle.iter().try_for_each(MangleSpec::check).map_err(part("mangle"))?;
        self.corrupt.iter().try_for_each(CorruptSpec::check).map_err(part("corrupt"))?;
        self.duplicate.iter().try_for_each(DuplicateSpec::check).map_err(part("duplicate"))?;
        self.delay.check().map_err(part("delay"))?;
        self.order.check(&self.delay)?;
        if self.output_bps == Some(0) {
            return Err(SpecError::new("output_bps", 0, "1 bit/s or more"));
        }
        Ok(())
    }

    /// Whether frames occupy a line, and so may have to wait for it.
    #[must_use]
    pub fn has_line(&self) -> bool {
        self.rate != RateSpec::Unlimited || self.profile.is_some()
    }
}
