//! The ends of a link, by name.

use super::error::EmulationConfigError;
use super::section::{self, unknown_word};
use super::tree::ConfigNode;

/// The index in `names` of the name that is the value of the setting at `path`.
///
/// # Errors
/// [`EmulationConfigError`]: the value is not in `names`.
pub(super) fn endpoint_index(
    path: &str,
    node: &ConfigNode,
    names: &[String],
) -> Result<usize, EmulationConfigError> {
    let said = section::text(path, node)?;
    names.iter().position(|name| *name == said).ok_or_else(|| {
        if names.is_empty() {
            let error =
                EmulationConfigError::value(path, &said, "there are no ports").at(&node.location);
            return error.help(format!("add [ports.{said}]"));
        }
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        unknown_word(path, &said, &node.location, &names)
    })
}
