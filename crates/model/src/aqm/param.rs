//! Parameter checks that several algorithms share.

use crate::ParameterError;

/// Longest accepted time constant in ns: one hour. The sum of a few such times cannot overflow.
const MAX_TIME_NS: u64 = 3_600_000_000_000;
/// Largest accepted gain, per second of delay. With this integral gain, an update adds 1 to the
/// probability if the delay is 1 ms above the target (before PIE scales the gain).
const MAX_GAIN: f64 = 1000.0;

/// Returns an error unless `ok` is true.
pub(super) fn check(
    ok: bool,
    parameter: &'static str,
    value: f64,
    must_be: &'static str,
) -> Result<(), ParameterError> {
    ParameterError::unless(ok, parameter, must_be, value).map(drop)
}

/// Checks a time constant in ns that must not be zero.
pub(super) fn time(parameter: &'static str, ns: u64) -> Result<(), ParameterError> {
    check((1..=MAX_TIME_NS).contains(&ns), parameter, ns as f64, "from 1 ns to 1 h")
}

/// Checks a time constant in ns that may be zero.
pub(super) fn time_or_zero(parameter: &'static str, ns: u64) -> Result<(), ParameterError> {
    check(ns <= MAX_TIME_NS, parameter, ns as f64, "from 0 to 1 h")
}

/// Checks a gain of a controller, per second of delay.
pub(super) fn gain(parameter: &'static str, gain: f64) -> Result<(), ParameterError> {
    check((0.0..=MAX_GAIN).contains(&gain), parameter, gain, "from 0 to 1000")
}

/// Checks a probability or share that may be zero.
pub(super) fn share_or_zero(parameter: &'static str, p: f64) -> Result<(), ParameterError> {
    check((0.0..=1.0).contains(&p), parameter, p, "from 0 to 1")
}

/// Checks a probability or share that must be above zero.
pub(super) fn share(parameter: &'static str, p: f64) -> Result<(), ParameterError> {
    check(p > 0.0 && p <= 1.0, parameter, p, "above 0 and at most 1")
}

/// Checks a limit in packets.
pub(super) fn packets(parameter: &'static str, packets: u32) -> Result<(), ParameterError> {
    check(packets > 0, parameter, f64::from(packets), "at least 1 packet")
}

/// Checks a limit in bytes.
pub(super) fn bytes(parameter: &'static str, bytes: u64) -> Result<(), ParameterError> {
    check(bytes > 0, parameter, bytes as f64, "at least 1 byte")
}
