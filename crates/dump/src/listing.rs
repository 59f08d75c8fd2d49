//! What can be captured from here, as whoever calls this crate knows it.
//!
//! Interfaces come from the caller, who asks the kernel; pipes, switch ports and monitors from the
//! daemon of a run directory. Both arrive as [`Interface`]s.

use std::path::Path;

use serde::Serialize;

/// Something to capture from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DumpInterface {
    /// The name that only listens, or the only name there is.
    pub port: String,
    /// The name that takes the frames from the host, where that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taking: Option<String>,
    /// What people call it.
    pub name: String,
    /// What else is worth knowing: its driver, the best way into it.
    pub about: String,
    /// Whether it is up.
    pub up: bool,
    /// Programs that take frames before they can be heard, as `suricata (41)`.
    pub holders: Vec<String>,
}

/// Lists what there is now, also by the daemon of this run directory; nothing where they do not say.
pub type ListInterfaces = fn(&Path) -> Vec<DumpInterface>;

/// The lines of `-D`: a number, a name to open, what it is.
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
