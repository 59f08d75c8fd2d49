//! Two-rate three-colour meters: RFC 2698 and RFC 4115.
//!
//! | kind | a packet is green if within the | yellow if within the | red |
//! |---|---|---|---|
//! | RFC 2698 | peak and committed bucket: takes from both | peak bucket: takes from it | else |
//! | RFC 4115 | committed bucket: takes from it | excess bucket: takes from it | else |
//!
//! A colour-aware meter never gives a packet a better colour than the one it arrived with.

use super::{TokenBucket, cost};
use crate::ParameterError;

/// The colour of a packet, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Colour {
    /// Within the committed rate.
    Green,
    /// Above the committed rate, but within the peak or excess rate.
    Yellow,
    /// Above the peak or excess rate.
    Red,
}

/// Which standard a meter follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterKind {
    /// Committed and *peak* rate: RFC 2698. The peak rate includes the committed one.
    Rfc2698,
    /// Committed and *excess* rate: RFC 4115. The excess rate is added to the committed one.
    Rfc4115,
}

/// Whether a meter uses the colour that a packet arrived with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColourMode {
    /// The meter ignores the colour: all packets count as green.
    Blind,
    /// A packet keeps the colour it arrived with or gets a worse one.
    Aware,
}

/// Parameters of [`TwoRateThreeColour`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TwoRateSpec {
    /// The standard that the meter follows.
    pub kind: MeterKind,
    /// Whether the meter uses the colours that packets arrive with.
    pub mode: ColourMode,
    /// Committed rate in bits per second.
    pub committed_bps: u64,
    /// Committed burst in bytes.
    pub committed_bytes: u64,
    /// Peak (RFC 2698) or excess (RFC 4115) rate in bits per second.
    pub other_bps: u64,
    /// Peak (RFC 2698) or excess (RFC 4115) burst in bytes.
    pub other_bytes: u64,
}

/// A two-rate three-colour meter.
///
/// ```
/// use slipring_model::bucket::{Colour, ColourMode, MeterKind, TwoRateSpec, TwoRateThreeColour};
///
/// let spec = TwoRateSpec {
///     kind: MeterKind::Rfc2698,
///     mode: ColourMode::Blind,
///     committed_bps: 1_000_000,
///     committed_bytes: 1500,
///     other_bps: 2_000_000,
///     other_bytes: 3000,
/// };
/// let mut meter = TwoRateThreeColour::new(&spec, 0)?;
/// let colours = [(); 3].map(|()| meter.colour(0, 1500, Colour::Green));
/// assert_eq!(colours, [Colour::Green, Colour::Yellow, Colour::Red]);
/// # Ok::<(), slipring_model::ParameterError>(())
/// ```
#[derive(Clone, Debug)]
pub struct TwoRateThreeColour {
    kind: MeterKind,
    mode: ColourMode,
    committed: TokenBucket,
    other: TokenBucket,
}

impl TwoRateThreeColour {
    /// Creates a meter whose buckets are full at `now_ns`.
    ///
    /// # Errors
    /// [`ParameterError`] if a burst is zero, or the peak rate below the committed one.
    pub fn new(spec: &TwoRateSpec, now_ns: u64) -> Result<Self, ParameterError> {
        let named = |parameter| move |error| ParameterError { parameter, ..error };
        let peak_ok = spec.kind == MeterKind::Rfc4115 || spec.other_bps >= spec.committed_bps;
        let at_least = "at least committed_bps for a peak rate";
        ParameterError::unless(peak_ok, "other_bps", at_least, spec.other_bps as f64)?;
        let committed = TokenBucket::new(spec.committed_bps, spec.committed_bytes, now_ns)
            .map_err(named("committed_bytes"))?;
        let other = TokenBucket::new(spec.other_bps, spec.other_bytes, now_ns)
            .map_err(named("other_bytes"))?;
        Ok(Self { kind: spec.kind, mode: spec.mode, committed, other })
    }

    /// Returns the colour of a packet of `bytes` that arrived with the colour `came`, and takes its
    /// tokens.
    pub fn colour(&mut self, now_ns: u64, bytes: u32, came: Colour) -> Colour {
        let came = match self.mode {
            ColourMode::Blind => Colour::Green,
            ColourMode::Aware => came,
        };
        self.committed.fill(now_ns);
        self.other.fill(now_ns);
        match self.kind {
            MeterKind::Rfc2698 => self.within_peak(cost(bytes), came),
            MeterKind::Rfc4115 => self.within_excess(cost(bytes), came),
        }
    }

    /// Colours a packet by RFC 2698, section 3; takes its tokens.
    fn within_peak(&mut self, cost: u128, came: Colour) -> Colour {
        if came == Colour::Red || !self.other.spend(cost) {
            return Colour::Red;
        }
        if came == Colour::Green && self.committed.spend(cost) {
            return Colour::Green;
        }
        Colour::Yellow
    }

    /// Colours a packet by RFC 4115; takes its tokens.
    fn within_excess(&mut self, cost: u128, came: Colour) -> Colour {
        if came == Colour::Green && self.committed.spend(cost) {
            return Colour::Green;
        }
        if came != Colour::Red && self.other.spend(cost) {
            return Colour::Yellow;
        }
        Colour::Red
    }
}

#[cfg(test)]
mod tests;
