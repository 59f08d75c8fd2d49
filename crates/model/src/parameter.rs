//! Errors in parameters, in words that help users to correct the values.

/// Why a parameter was rejected.
///
/// ```
/// use slipring_model::Dist;
/// let error = Dist::normal(5e6, -1.0).unwrap_err();
/// assert_eq!(error.parameter, "sd");
/// assert_eq!(error.to_string(), "sd must be greater than 0, and is -1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{parameter} must be {must_be}, and is {value}")]
pub struct ParameterError {
    /// The name of the parameter in the user's terms.
    pub parameter: &'static str,
    /// The allowed values, in words that follow "must be".
    pub must_be: &'static str,
    /// The rejected value.
    pub value: f64,
}

impl ParameterError {
    /// Returns `value` if `allowed` is true and `value` is not NaN; otherwise an error.
    pub(crate) fn unless(
        allowed: bool,
        parameter: &'static str,
        must_be: &'static str,
        value: f64,
    ) -> Result<f64, Self> {
        if allowed && !value.is_nan() {
            return Ok(value);
        }
        Err(Self { parameter, must_be, value })
    }

    /// Returns `value` if it is finite and greater than zero; otherwise an error.
    pub(crate) fn positive(parameter: &'static str, value: f64) -> Result<f64, Self> {
        let allowed = value > 0.0 && value.is_finite();
        Self::unless(allowed, parameter, "greater than 0", value)
    }

    /// Returns `value` if it is finite and at least zero; otherwise an error.
    pub(crate) fn not_negative(parameter: &'static str, value: f64) -> Result<f64, Self> {
        let allowed = value >= 0.0 && value.is_finite();
        Self::unless(allowed, parameter, "0 or more", value)
    }
}
