//! Why a specification was refused.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;

use slipring_model::{Chance, ParameterError};

/// An invalid value of a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed, only {allowed}")]
pub struct SpecError {
    /// The path of the field, such as `link.up.rate.bps`.
    pub field: String,
    /// The invalid value.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
}

impl SpecError {
    /// Builds an error for `value` in `field`; `allowed` describes valid values.
    pub fn new(field: &str, value: impl Display, allowed: &str) -> Self {
        Self { field: field.to_string(), value: value.to_string(), allowed: allowed.to_string() }
    }

    /// Puts the name of the enclosing part in front of the path.
    #[must_use]
    pub fn within(self, part: &str) -> Self {
        Self { field: format!("{part}.{}", self.field), ..self }
    }
}

/// Checks a lower bound.
pub(super) fn at_least(field: &str, value: u64, least: u64, unit: &str) -> Result<(), SpecError> {
    if value >= least {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(SpecError::new(field, value, &format!("{least}{space}{unit} or more")))
}

/// Checks that `value` exceeds `low`.
pub(super) fn above(field: &str, value: u64, low: u64, unit: &str) -> Result<(), SpecError> {
    if value > low {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(SpecError::new(field, value, &format!("more than {low}{space}{unit}")))
}

/// Checks an upper bound; `why` is appended to the message.
pub(super) fn at_most(field: &str, value: u64, most: u64, why: &str) -> Result<(), SpecError> {
    if value <= most {
        return Ok(());
    }
    Err(SpecError::new(field, value, &format!("{most} or less, {why}")))
}

/// Checks that `value` is within `low..=high`; refuses NaN.
pub(super) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(SpecError::new(field, value, &format!("a number from {low} to {high}")))
}

/// Checks a probability; refuses a probability too small for [`Chance`], which counts in steps of
/// 2⁻⁶³.
pub(super) fn probability(field: &str, value: f64) -> Result<(), SpecError> {
    within(field, value, 0.0, 1.0)?;
    if value > 0.0 && Chance::from_f64(value) == Some(Chance::NEVER) {
        return Err(SpecError::new(
            field,
            format_args!("{value:e}"),
            "0, or 1.1e-19 (2^-63) and more",
        ));
    }
    Ok(())
}

/// Checks that a list is not empty.
pub(super) fn filled<T>(field: &str, list: &[T]) -> Result<(), SpecError> {
    if list.is_empty() {
        return Err(SpecError::new(field, "an empty list", "at least one entry"));
    }
    Ok(())
}

/// Converts an error in a parameter of a model.
pub(super) fn parameter_error(error: ParameterError) -> SpecError {
    SpecError::new(error.parameter, error.value, error.must_be)
}
