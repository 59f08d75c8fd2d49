//! Names of interfaces in a file, compared with those of the router.

use slipring_cli::Diagnostic;
use slipring_cli::sections::SettingsSection;

/// Refuses an interface name in a file if the file's list of interfaces does not contain it.
///
/// # Errors
/// The mistake, with the name that was probably meant.
pub(crate) fn check_known(
    section: &SettingsSection<'_>,
    key: &str,
    name: &str,
    known: Option<&[String]>,
) -> Result<(), Diagnostic> {
    let Some(known) = known.filter(|known| !known.iter().any(|other| other == name)) else {
        return Ok(());
    };
    let known: Vec<_> = known.iter().map(String::as_str).collect();
    Err(section.not_one_of(key, &format!("{name} is not among the interfaces"), name, &known))
}
