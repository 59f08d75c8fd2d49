//! The list of ports that can be captured from.
//!
//! The caller provides the list: interfaces from the kernel; pipes, switch ports and monitors from
//! the daemon of a run directory. Each entry is a [`DumpInterface`].

use std::path::Path;

use serde::Serialize;

/// A port to capture from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DumpInterface {
    /// The port name to capture from. For an interface, this name only listens.
    pub port: String,
    /// The port name that takes the interface's frames from the host; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taking: Option<String>,
    /// The name that is shown to people.
    pub name: String,
    /// Further information: the interface's driver and best mode.
    pub about: String,
    /// Whether the interface is up.
    pub up: bool,
    /// Programs that take frames before they can be captured, such as `suricata (41)`.
    pub holders: Vec<String>,
}

/// Lists the ports that are available now, including ports of the daemon of this run directory;
/// omits sources that do not answer.
pub type ListInterfaces = fn(&Path) -> Vec<DumpInterface>;

/// Formats the lines of `-D`: a number, a name to open, a description.
#[must_use]
pub fn lines(interfaces: &[DumpInterface]) -> String {
    let line = |(at, interface): (usize, &DumpInterface)| {
        let DumpInterface { port, taking, about, up, .. } = interface;
        let state = if *up { " [Up, Running]" } else { "" };
        let taking = taking.as_ref().map(|taking| format!("; {taking} takes it from the host"));
        format!("{}.{port}{state} ({about}{})", at + 1, taking.unwrap_or_default())
    };
    interfaces.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_number_the_port_and_what_taking_it_would_mean() {
        let interface = DumpInterface {
            port: "packet:eth0".into(),
            taking: Some("netmap:eth0".into()),
            name: "eth0".into(),
            about: "ice, zero-copy".into(),
            up: true,
            holders: vec![],
        };
        let down =
            DumpInterface { up: false, taking: None, port: "x{1".into(), ..interface.clone() };
        assert_eq!(
            lines(&[interface, down]),
            "1.packet:eth0 [Up, Running] (ice, zero-copy; netmap:eth0 takes it from the host)\n\
             2.x{1 (ice, zero-copy)"
        );
    }
}
