//! Numbers with units, read exactly and printed back.
//!
//! Reading never rounds: `1.5Mpps` is 1,500,000 packets per second, and `0.3ns` is an error. What
//! is printed by `Display` reads back as the same value. Measured figures, where three or four
//! digits say enough, are printed by [`human`].
//!
//! Not for: the classic programs' own odd spellings; their verbs read those.

pub mod human;
mod quantity;
mod rate;
mod scan;

pub use quantity::{ByteCount, Count, ShareOfWhole, TimeSpan};
pub use rate::{RateUnit, RateWithUnit};
pub use scan::{QuantityKind, UnitError, UnitErrorReason};

#[cfg(test)]
mod tests;
