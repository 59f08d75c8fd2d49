//! The output of the plug-in: one sentence per line, made of a word and values in braces.
//!
//! A value ends at its first closing brace, but names of pipes contain braces. These are encoded as
//! `%7B` and `%7D`, and `%` as `%25`.

use std::fmt::Write;

use crate::listing::DumpInterface;

/// The name of the interface for which the user enters a port name in the dialog.
pub(super) const ANY_PORT_INTERFACE: &str = "slipring-port";
/// Prefix of the names of all other interfaces.
const INTERFACE_PREFIX: &str = "slipring:";

/// Returns the version of the plug-in, a line for each interface that is up, and a line for the
/// interface for which the user enters a port name.
pub(super) fn interfaces(interfaces: &[DumpInterface]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("extcap {{version={version}}}{{display=slipring}}\n");
    for interface in interfaces.iter().filter(|interface| interface.up) {
        let DumpInterface { port, name, about, .. } = interface;
        let (value, name, about) = (encoded(port), shown(name), shown(about));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "interface {{value={value}}}{{display=slipring: {name} ({about})}}");
    }
    text + &format!(
        "interface {{value={ANY_PORT_INTERFACE}}}{{display=slipring: a port by its name}}\n"
    )
}

/// Returns the link type, which is Ethernet for every port.
pub(super) fn link_types() -> String {
    "dlt {number=1}{name=EN10MB}{display=Ethernet}\n".to_owned()
}

/// Returns the settings of the dialog. `any` is true for the interface for which the user enters a
/// port name.
pub(super) fn settings(any: bool) -> String {
    let first = match any {
        true => {
            "{call=--port}{display=Port}{type=string}{required=true}\
             {tooltip=Any port of slipring: netmap:eth0, packet:eth0, tap:t0, pcap:FILE, kernel:x}"
        }
        false => {
            "{call=--take}{display=Take the frames from the host}{type=boolflag}{default=false}\
             {tooltip=Opens the interface by netmap: the host gets none of what arrives}"
        }
    };
    let others = [
        "{call=--take-over}{display=Also on the default route}{type=boolflag}{default=false}\
         {tooltip=Taking the interface that carries the default route cuts this machine off}",
        "{call=--snaplen}{display=Snapshot length}{type=unsigned}{range=1,262144}\
         {default=262144}{tooltip=Maximum number of bytes kept of a frame}",
    ];
    let all = [first].into_iter().chain(others).enumerate();
    all.map(|(number, setting)| format!("arg {{number={number}}}{setting}\n")).collect()
}

fn encoded(port: &str) -> String {
    let port = port.replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
    format!("{INTERFACE_PREFIX}{port}")
}

/// Returns the port name that an encoded interface name stands for; `None` if the prefix is
/// missing.
pub(super) fn decoded(value: &str) -> Option<String> {
    let port = value.strip_prefix(INTERFACE_PREFIX)?;
    Some(port.replace("%7B", "{").replace("%7D", "}").replace("%25", "%"))
}

/// Replaces braces in a text, so that the text can be put in braces.
fn shown(text: &str) -> String {
    text.replace(['{', '}'], "|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_pipes_come_back_though_braces_end_values() {
        for port in ["packet:eth0", "x{1", "x}1", "vale0:x%7B1", "vale0:%25", "netmap:br--lan"] {
            let value = encoded(port);
            assert!(!value.contains(['{', '}']), "{value}");
            assert_eq!(decoded(&value).as_deref(), Some(port));
        }
        assert_eq!(decoded("eth0"), None);
    }
}
