//! The sections `[[vrf]]` of a file: a name for a table of the kernel, and the interfaces whose
//! packets are looked up in that table.
//!
//! The kernel's rules (`ip rule`) choose the table, because the kernel also forwards the packets
//! that the router leaves to it. The section states which table the rules must choose. If the
//! kernel has no rule for an interface and its table, the router refuses to start. While the rules
//! choose another table first, it leaves the packets to the kernel.

use std::io;

use slipring_cli::Diagnostic;
use slipring_cli::codes::SR0114;
use slipring_cli::sections::SettingsSection;
use slipring_rtnetlink::{RouteFamily, RoutingAction, RuleMessage, TABLE_LOCAL};

use crate::known_interfaces::check_known;
use crate::lookup_tables::each_rule;
use crate::port_settings::InterfaceVrf;

/// The section's name.
pub(crate) const SECTION: &str = "vrf";
/// Maximum length of a VRF's name, in bytes: the same as for names of interfaces.
const MAX_NAME_BYTES: usize = 15;

/// A section `[[vrf]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedVrf {
    pub(crate) name: String,
    pub(crate) table: u32,
    pub(crate) interfaces: Vec<String>,
}

impl NamedVrf {
    /// Reads a section. `known` contains the router's interfaces, if the file lists them.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub(crate) fn read(
        section: &mut SettingsSection<'_>,
        known: Option<&[String]>,
    ) -> Result<Self, Diagnostic> {
        let name = section.parsed("name", name)?;
        let table = section.number("table", 1..=u64::from(u32::MAX))?;
        let interfaces = section.texts("interfaces")?;
        let lacks = |key: &str, example: &str| {
            section.mistake(key, &format!("there is no {key}"), format!("add one: {example}"))
        };
        let name = name.ok_or_else(|| lacks("name", "name = \"red\""))?;
        let table = table.ok_or_else(|| lacks("table", "table = 100"))? as u32;
        if table == TABLE_LOCAL {
            let help = "choose a table of your own: table = 100";
            let what = "table 255 has the addresses of this machine, and is always the first";
            return Err(section.mistake("table", what, help));
        }
        let interfaces = interfaces.filter(|names| !names.is_empty());
        let interfaces = interfaces.ok_or_else(|| {
            let help = "name its interfaces: interfaces = [\"eth1\"]";
            section.mistake("interfaces", "there is no interface", help)
        })?;
        for interface in &interfaces {
            check_known(section, "interfaces", interface, known)?;
        }
        Ok(Self { name, table, interfaces })
    }

    /// The section as text.
    pub(crate) fn print(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let names: Vec<_> = self.interfaces.iter().map(|name| quoted(name)).collect();
        let (name, names, table) = (quoted(&self.name), names.join(", "), self.table);
        format!("\n[[{SECTION}]]\nname = {name}\ntable = {table}\ninterfaces = [{names}]\n")
    }
}

fn name(text: &str) -> Result<String, String> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = (1..=MAX_NAME_BYTES).contains(&text.len()) && text.bytes().all(is_allowed);
    let allowed = format!("letters, digits, - _ and ., {MAX_NAME_BYTES} at most");
    is_name.then(|| text.to_owned()).ok_or(allowed)
}

/// Checks that no two sections have the same name or the same interface.
///
/// # Errors
/// The name or interface that is in two sections, as text.
pub(crate) fn check_apart(vrfs: &[NamedVrf]) -> Result<(), String> {
    for (at, vrf) in vrfs.iter().enumerate() {
        for other in &vrfs[..at] {
            if other.name == vrf.name {
                return Err(format!("there are two VRFs {}", vrf.name));
            }
            if let Some(name) = vrf.interfaces.iter().find(|name| other.interfaces.contains(name)) {
                return Err(format!("{name} is in two VRFs, {} and {}", other.name, vrf.name));
            }
        }
    }
    Ok(())
}

/// The VRF of an interface; `None` if no section names the interface.
pub(crate) fn of_interface(vrfs: &[NamedVrf], interface: &str) -> Option<InterfaceVrf> {
    let vrf = vrfs.iter().find(|vrf| vrf.interfaces.iter().any(|name| name == interface))?;
    Some(InterfaceVrf { name: vrf.name.clone(), table: vrf.table })
}

/// Returns the commands that add the rules which the sections need and the kernel does not have.
///
/// # Errors
/// The kernel's error.
pub(crate) fn missing_rules(vrfs: &[NamedVrf]) -> io::Result<Vec<String>> {
    if vrfs.is_empty() {
        return Ok(Vec::new());
    }
    let (mut found, mut has_v6) = (Vec::new(), false);
    each_rule(|rule| {
        has_v6 |= rule.family == RouteFamily::V6;
        if selects_by_input(rule) {
            found.push((rule.family, rule.input.to_owned(), rule.table));
        }
    })?;
    let families: &[_] =
        if has_v6 { &[RouteFamily::V4, RouteFamily::V6] } else { &[RouteFamily::V4] };
    let mut missing = Vec::new();
    for vrf in vrfs {
        for interface in &vrf.interfaces {
            for family in families {
                if !found.contains(&(*family, interface.clone(), vrf.table)) {
                    missing.push(command(*family, interface, vrf.table));
                }
            }
        }
    }
    Ok(missing)
}

fn selects_by_input(rule: &RuleMessage<'_>) -> bool {
    let is_table = rule.action == RoutingAction::Table && !rule.is_vrf;
    is_table && !rule.input.is_empty() && rule.output.is_empty() && !rule.has_other_selectors
}

fn command(family: RouteFamily, interface: &str, table: u32) -> String {
    let flag = if family == RouteFamily::V6 { "-6 " } else { "" };
    format!("ip {flag}rule add iif {interface} table {table}")
}

/// The error for rules of the kernel that are missing.
pub(crate) fn refusal(missing: &[String]) -> Diagnostic {
    Diagnostic::new(SR0114, "the kernel would look packets up in other tables than [[vrf]] says")
        .with_cause(
            "it gets what the router does not forward, and its rules do not choose the table",
        )
        .with_help(missing.join("\n"))
}

#[cfg(test)]
mod tests {
    use slipring_cli::sections::SettingsFile;

    use super::*;

    fn read(text: &str) -> Result<Vec<NamedVrf>, String> {
        let read = SettingsFile::new("f", text)
            .read(|root| root.sections(SECTION, |it| NamedVrf::read(it, None)));
        read.map_err(|error| error.to_text(false))
    }

    const TEXT: &str = "\n[[vrf]]\nname = \"red\"\ntable = 100\ninterfaces = [\"e1\", \"e2.7\"]\n";

    #[test]
    fn a_vrf_is_read_as_it_is_printed() {
        let vrfs = read(TEXT).unwrap();
        assert_eq!(vrfs[0].print(), TEXT);
        let red = Some(InterfaceVrf { name: "red".to_owned(), table: 100 });
        assert_eq!(of_interface(&vrfs, "e2.7"), red);
        assert_eq!(of_interface(&vrfs, "e2"), None);
    }

    #[test]
    fn a_mistake_in_a_vrf_has_its_line() {
        for (keys, parts) in [
            ("table = 1", ["there is no name", "line 2"]),
            ("name = 'red'", ["there is no table", "table = 100"]),
            ("name = 'a b'\ntable = 1", ["vrf.name cannot be 'a b'", "line 2"]),
            ("name = 'red'\ntable = 0", ["vrf.table cannot be 0", "line 3"]),
            ("name = 'red'\ntable = 255", ["addresses of this machine", "line 3"]),
            ("name = 'red'\ntable = 1", ["there is no interface", "interfaces = [\"eth1\"]"]),
            ("nam = 'red'", ["line 2", "did you mean `name`?"]),
        ] {
            let error = read(&format!("[[vrf]]\n{keys}")).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{keys}: no `{part}` in {error}");
            }
        }
    }

    #[test]
    fn two_vrfs_share_neither_name_nor_interface() {
        let [red, blue] = [TEXT, &TEXT.replace("red", "blue")].map(|text| read(text).unwrap());
        let message = check_apart(&[red.clone(), red.clone()].concat()).unwrap_err();
        assert_eq!(message, "there are two VRFs red");
        let message = check_apart(&[red, blue].concat()).unwrap_err();
        assert_eq!(message, "e1 is in two VRFs, red and blue");
    }
}
