//! Parameter checks that several algorithms share.

use crate::ParameterError;

/// Longest accepted time constant in ns: one hour. Sums of a few such times cannot overflow.
const MAX_TIME_NS: u64 = 3_600_000_000_000;
/// Largest accepted gain: 1 ms above the target then means a drop with certainty.
const MAX_GAIN: f64 = 1000.0;

/// Returns an error unless `ok`.
pub(super) fn check(
    ok: bool,
    parameter: &'static str,
    value: f64,
    must_be: &'static str,
) -> Result<(), ParameterError> {
    ParameterError::unless(ok, parameter, must_be, value).map(drop)
}

/// A time constant in ns that cannot be zero.
pub(super) fn time(parameter: &'static str, ns: u64) -> Result<(), ParameterError> {
    check((1..=MAX_TIME_NS).contains(&ns), parameter, ns as f64, "from 1 ns to 1 h")
}

/// A time constant in ns that may be zero.
pub(super) fn time_or_zero(parameter: &'static str, ns: u64) -> Result<(), ParameterError> {
    check(ns <= MAX_TIME_NS, parameter, ns as f64, "from 0 to 1 h")
}

/// A gain of a controller, per second of delay.
pub(super) fn gain(parameter: &'static str, gain: f64) -> Result<(), ParameterError> {
    check((0.0..=MAX_GAIN).contains(&gain), parameter, gain, "from 0 to 1000")
}

/// A probability or share that may be zero.
pub(super) fn share_or_zero(parameter: &'static str, p: f64) -> Result<(), ParameterError> {
    check((0.0..=1.0).contains(&p), parameter, p, "from 0 to 1")
}

/// A probability or share above zero.
pub(super) fn share(parameter: &'static str, p: f64) -> Result<(), ParameterError> {
    check(p > 0.0 && p <= 1.0, parameter, p, "above 0 and at most 1")
}

/// A limit in packets.
pub(super) fn packets(parameter: &'static str, packets: u32) -> Result<(), ParameterError> {
    check(packets > 0, parameter, f64::from(packets), "at least 1 packet")
}

/// A limit in bytes.
pub(super) fn bytes(parameter: &'static str, bytes: u64) -> Result<(), ParameterError> {
    check(bytes > 0, parameter, bytes as f64, "at least 1 byte")
}
