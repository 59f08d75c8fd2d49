//! The section `[urpf]` of a file: how the sources of packets from interfaces are checked (RFC
//! 3704).
//!
//! For IPv4, the kernel's `rp_filter` counts as well, and the stricter of both checks is in force.
//! For IPv6, the kernel has no such setting.

use slipring_cli::Diagnostic;
use slipring_cli::sections::SettingsSection;
use slipring_fib::ReversePathMode;

use crate::known_interfaces::check_known;

/// The name of the section.
pub(crate) const SECTION: &str = "urpf";
/// The values of the section's keys. Each key is the name of an interface.
const WORDS: [&str; 3] = ["off", "loose", "strict"];

/// The source check of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceCheck {
    pub(crate) interface: String,
    pub(crate) mode: ReversePathMode,
}

impl SourceCheck {
    /// Reads the section. `known` contains the router's interfaces, if the file lists them.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub(crate) fn read(
        section: &mut SettingsSection<'_>,
        known: Option<&[String]>,
    ) -> Result<Vec<Self>, Diagnostic> {
        let checks = section.words_by_key(&WORDS, "100")?;
        for (interface, _) in &checks {
            check_known(section, interface, interface, known)?;
        }
        let checks = checks.into_iter();
        Ok(checks.map(|(interface, word)| Self { interface, mode: mode(word) }).collect())
    }

    /// Returns the key and its value.
    pub(crate) fn print(&self) -> (&str, &'static str) {
        (&self.interface, WORDS[self.mode as usize])
    }
}

fn mode(word: &str) -> ReversePathMode {
    match word {
        "strict" => ReversePathMode::Strict,
        "loose" => ReversePathMode::Loose,
        _ => ReversePathMode::Off,
    }
}

#[cfg(test)]
mod tests {
    use slipring_cli::sections::SettingsFile;

    use super::*;

    fn read(text: &str) -> Result<Vec<SourceCheck>, String> {
        let read = SettingsFile::new("f", text)
            .read(|root| root.section(SECTION, |it| SourceCheck::read(it, None)));
        read.map_err(|error| error.to_text(false))
    }

    #[test]
    fn checks_are_read_as_they_are_printed() {
        use ReversePathMode::{Loose, Off, Strict};
        let checks = read("[urpf]\neth0 = 'loose'\n'eth1.100' = 'strict'\neth2 = 'off'").unwrap();
        let printed: Vec<_> = checks.iter().map(SourceCheck::print).collect();
        assert_eq!(printed, [("eth0", "loose"), ("eth1.100", "strict"), ("eth2", "off")]);
        let modes: Vec<_> = checks.iter().map(|check| check.mode).collect();
        assert_eq!(modes, [Loose, Strict, Off]);
    }

    #[test]
    fn a_mistake_has_its_line_and_what_is_allowed() {
        for (keys, parts) in [
            ("eth0 = 'stric'", ["urpf.eth0 cannot be 'stric'", "line 2", "did you mean `strict`?"]),
            ("eth0 = true", ["urpf.eth0 cannot be true", "line 2", "off, loose, strict"]),
            ("eth1.100 = 'loose'", ["urpf.eth1", "line 2", "\"eth1.100\" = \"off\""]),
        ] {
            let error = read(&format!("[urpf]\n{keys}")).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{keys}: no `{part}` in {error}");
            }
        }
    }
}
