//! The ends of a link, by name.

use super::error::EmulationConfigError;
use super::section::{self, unknown_word};
use super::tree::ConfigNode;

/// Returns the index in `names` of the name that is the value of the setting at `path`.
///
/// # Errors
/// [`EmulationConfigError`] if the value is not one of `names`.
pub(super) fn endpoint_index(
    path: &str,
    node: &ConfigNode,
    names: &[String],
) -> Result<usize, EmulationConfigError> {
    let text = section::text(path, node)?;
    names.iter().position(|name| *name == text).ok_or_else(|| {
        if names.is_empty() {
            let error =
                EmulationConfigError::value(path, &text, "there are no ports").at(&node.location);
            return error.help(format!("add [ports.{text}]"));
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        unknown_word(path, &text, &node.location, &names)
    })
}
