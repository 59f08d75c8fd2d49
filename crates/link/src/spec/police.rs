//! Settings of policers.

use super::SpecError;
use super::error::at_least;
use super::frame_len::MIN_FRAME_LEN;

/// A policer: measures arrivals and acts on frames beyond its profile. It never delays frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoliceSpec {
    /// How arrivals are measured.
    pub meter: MeterSpec,
    /// Action for yellow frames: beyond the committed rate, but within the peak or excess rate.
    /// With a single token bucket, all frames beyond its rate are yellow.
    pub exceed: PoliceAction,
    /// Action for red frames: beyond the peak or excess rate, too. With a single token bucket, no
    /// frame is red.
    pub violate: PoliceAction,
}

/// How a policer measures. Buckets begin full and count frames without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterSpec {
    /// One token bucket.
    Bucket {
        /// Fill rate in bits per second.
        bps: u64,
        /// Capacity in bytes.
        burst: u64,
    },
    /// Two rates and three colours (RFC 2698): the peak rate includes the committed rate.
    Rfc2698 {
        /// Committed rate in bits per second.
        committed_bps: u64,
        /// Committed burst in bytes.
        committed_burst: u64,
        /// Peak rate in bits per second, at least the committed rate.
        peak_bps: u64,
        /// Peak burst in bytes.
        peak_burst: u64,
    },
    /// Two rates and three colours (RFC 4115): the excess rate is in addition to the committed
    /// rate.
    Rfc4115 {
        /// Committed rate in bits per second.
        committed_bps: u64,
        /// Committed burst in bytes.
        committed_burst: u64,
        /// Excess rate in bits per second.
        excess_bps: u64,
        /// Excess burst in bytes.
        excess_burst: u64,
    },
}

/// The action of a policer on a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoliceAction {
    /// Lets the frame pass.
    Pass,
    /// Marks the frame "congestion experienced"; drops the frame if it cannot carry the mark.
    Mark,
    /// Drops the frame.
    #[default]
    Drop,
}

impl PoliceSpec {
    /// One token bucket that drops excess frames.
    #[must_use]
    pub const fn bucket(bps: u64, burst: u64) -> Self {
        let meter = MeterSpec::Bucket { bps, burst };
        Self { meter, exceed: PoliceAction::Drop, violate: PoliceAction::Drop }
    }

    /// Validates the fields.
    ///
    /// # Errors
    /// [`SpecError`] that names the first invalid field; a burst smaller than the shortest frame
    /// is invalid.
    pub fn check(&self) -> Result<(), SpecError> {
        let holds_a_frame = |field: &str, bytes| {
            at_least(field, bytes, MIN_FRAME_LEN.into(), "bytes, the shortest frame,")
        };
        match self.meter {
            MeterSpec::Bucket { bps, burst } => {
                at_least("bps", bps, 1, "bit/s")?;
                holds_a_frame("burst", burst)
            }
            MeterSpec::Rfc2698 { committed_bps, committed_burst, peak_bps, peak_burst } => {
                at_least("committed_bps", committed_bps, 1, "bit/s")?;
                holds_a_frame("committed_burst", committed_burst)?;
                at_least("peak_bps", peak_bps, committed_bps, "bit/s, the committed rate,")?;
                holds_a_frame("peak_burst", peak_burst)
            }
            MeterSpec::Rfc4115 { committed_bps, committed_burst, excess_bps, excess_burst } => {
                at_least("committed_bps", committed_bps, 1, "bit/s")?;
                holds_a_frame("committed_burst", committed_burst)?;
                at_least("excess_bps", excess_bps, 1, "bit/s")?;
                holds_a_frame("excess_burst", excess_burst)
            }
        }
    }
}
