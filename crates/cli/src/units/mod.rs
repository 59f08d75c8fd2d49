//! Numbers with units, read exactly and printed back.
//!
//! Reading never rounds: `1.5Mpps` is 1,500,000 packets per second, and `0.3ns` is an error. The
//! output of `Display` reads back as the same value. [`human`] prints measured figures, for which
//! three or four digits are enough.
//!
//! Not for the unusual spellings of the classic programs, which their commands parse.

pub mod human;
mod quantity;
mod rate;
mod scan;

pub use quantity::{ByteCount, Count, Ratio, TimeSpan};
pub use rate::{RateUnit, RateWithUnit};
pub use scan::{QuantityKind, UnitError, UnitErrorReason};

#[cfg(test)]
mod tests;
