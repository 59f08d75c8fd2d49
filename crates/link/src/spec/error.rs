//! Why a specification was refused.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Display;

use slipring_model::{Chance, ParameterError};

/// A value that no link can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not allowed, only {allowed}")]
pub struct SpecError {
    /// The path of the field, such as `link.up.rate.bps`.
    pub field: String,
    /// The value found there.
    pub value: String,
    /// What may stand there.
    pub allowed: String,
}

impl SpecError {
    /// Refuses `value` in `field`; `allowed` says what would do.
    pub fn new(field: &str, value: impl Display, allowed: &str) -> Self {
        Self { field: field.to_string(), value: value.to_string(), allowed: allowed.to_string() }
    }

    /// Puts the name of the part that holds the field in front of its path.
    #[must_use]
    pub fn within(self, part: &str) -> Self {
        Self { field: format!("{part}.{}", self.field), ..self }
    }
}

/// Checks that hold for many fields.
pub(super) fn at_least(field: &str, value: u64, least: u64, unit: &str) -> Result<(), SpecError> {
    if value >= least {
        return Ok(());
    }
    let space = if unit.is_empty() { "" } else { " " };
    Err(SpecError::new(field, value, &format!("{least}{space}{unit} or more")))
}

/// The other bound; `why` follows it.
pub(super) fn at_most(field: &str, value: u64, most: u64, why: &str) -> Result<(), SpecError> {
    if value <= most {
        return Ok(());
    }
    Err(SpecError::new(field, value, &format!("{most} or less, {why}")))
}

/// A real number within bounds; refuses NaN too.
pub(super) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(SpecError::new(field, value, &format!("a number from {low} to {high}")))
}

/// A probability that draws can tell from 0: [`Chance`] counts in steps of 2⁻⁶³.
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

/// A list that must not be empty.
pub(super) fn filled<T>(field: &str, list: &[T]) -> Result<(), SpecError> {
    if list.is_empty() {
        return Err(SpecError::new(field, "an empty list", "at least one entry"));
    }
    Ok(())
}

/// A parameter that a model refuses.
pub(super) fn model(error: ParameterError) -> SpecError {
    SpecError::new(error.parameter, error.value, error.must_be)
}
