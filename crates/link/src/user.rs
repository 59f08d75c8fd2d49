//! User models: three traits, and how a specification carries them.
//!
//! A specification is plain data that is copied and compared; a model has state. So a specification
//! holds a shared *factory*, which makes a fresh model for each link. Two such specifications are
//! equal if they share the factory, or if their factories have the same identity. A change to other
//! parts of a link then keeps the running model.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use slipring_model::Stream;

use crate::carrier::LinkDropCause;

/// The frame as a user model sees it.
#[derive(Debug)]
pub struct ModelPacket<'a> {
    /// The stored bytes; changes are kept.
    pub data: &'a mut [u8],
    /// The frame's length in bytes, without FCS.
    pub len: u32,
    /// When the frame reached this stage; for a delay model, the time from which its delay is
    /// measured.
    pub at_ns: u64,
    /// The frame's number: how many frames entered the network before it through the same link. A
    /// copy has the number of its original.
    pub number: u64,
}

/// The decision of a loss model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossVerdict {
    /// The frame continues.
    Keep,
    /// The frame is lost.
    Drop(LinkDropCause),
    /// The frame is marked "congestion experienced", and lost if it cannot carry the mark.
    Mark,
}

/// A time finer than a nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreciseTime {
    /// Whole nanoseconds.
    pub ns: u64,
    /// The fractional part in units of 2⁻³² ns.
    pub fraction: u32,
}

impl PreciseTime {
    /// Rounds up to the next nanosecond.
    #[must_use]
    pub const fn ceil_ns(self) -> u64 {
        self.ns.saturating_add((self.fraction > 0) as u64)
    }
}

/// A rate model: decides how long the line needs for each frame.
pub trait UserRateModel: Send {
    /// Returns when the line finishes `wire_bytes` that begin at `start`. A result before `start`
    /// counts as `start`. `None` loses the frame ([`LinkDropCause::Model`]), as if its bytes took
    /// no time. `number` is that of the frame ([`ModelPacket::number`]).
    fn finish(
        &mut self,
        start: PreciseTime,
        wire_bytes: u64,
        number: u64,
        stream: &mut Stream,
    ) -> Option<PreciseTime>;
}

/// A loss model: decides which frames are lost.
pub trait UserLossModel: Send {
    /// Judges a frame.
    fn judge(&mut self, packet: &mut ModelPacket<'_>, stream: &mut Stream) -> LossVerdict;
}

/// A delay model: decides how long each frame travels.
pub trait UserDelayModel: Send {
    /// Returns the delay of a frame in ns; `None` loses the frame ([`LinkDropCause::Model`]).
    fn delay_ns(&mut self, packet: &mut ModelPacket<'_>, stream: &mut Stream) -> Option<u64>;
}

/// A shared factory of models.
pub struct ModelFactory<M: ?Sized> {
    make: Arc<dyn Fn() -> Box<M> + Send + Sync>,
    identity: Option<Arc<str>>,
    first_error: Option<Arc<FirstErrorFn>>,
}

/// Returns the first error of the models; `None` if there was none.
type FirstErrorFn = dyn Fn() -> Option<String> + Send + Sync;

/// Makes rate models.
pub type RateFactory = ModelFactory<dyn UserRateModel>;
/// Makes loss models.
pub type LossFactory = ModelFactory<dyn UserLossModel>;
/// Makes delay models.
pub type DelayFactory = ModelFactory<dyn UserDelayModel>;

impl<M: ?Sized> ModelFactory<M> {
    /// Wraps a function that makes a fresh model.
    pub fn new(make: impl Fn() -> Box<M> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), identity: None, first_error: None }
    }

    /// Sets an identity: factories with the same identity are equal. It must cover everything that
    /// the models depend on.
    #[must_use]
    pub fn identified(self, identity: &str) -> Self {
        Self { identity: Some(identity.into()), ..self }
    }

    /// Sets a function that returns the first error of the models; `None` if there was none.
    #[must_use]
    pub fn reporting(self, trouble: impl Fn() -> Option<String> + Send + Sync + 'static) -> Self {
        Self { first_error: Some(Arc::new(trouble)), ..self }
    }

    /// Returns the first error of the models; `None` if there was none or they do not report
    /// errors.
    #[must_use]
    pub fn first_error(&self) -> Option<String> {
        self.first_error.as_ref()?()
    }

    pub(crate) fn make(&self) -> Box<M> {
        (self.make)()
    }
}

impl<M: ?Sized> Clone for ModelFactory<M> {
    fn clone(&self) -> Self {
        let (make, identity) = (Arc::clone(&self.make), self.identity.clone());
        Self { make, identity, first_error: self.first_error.clone() }
    }
}

impl<M: ?Sized> PartialEq for ModelFactory<M> {
    fn eq(&self, other: &Self) -> bool {
        let same = self.identity.is_some() && self.identity == other.identity;
        same || Arc::ptr_eq(&self.make, &other.make)
    }
}

impl<M: ?Sized> fmt::Debug for ModelFactory<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a model of the user's")
    }
}
