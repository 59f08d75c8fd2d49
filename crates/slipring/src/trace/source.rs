//! Notes for the user about the source of a trace.

use slipring_dump::FrameOrigin;
use slipring_dump::source::DumpSource;

use crate::ports;

/// Returns notes on frames that the trace takes from other programs, and on frames that other
/// programs hide from it.
pub(super) fn notes(from: &FrameOrigin, source: &DumpSource) -> Vec<String> {
    if from.takes_frames() {
        let name = source.report().name;
        return vec![format!("# {name} is taken for this trace: its frames go no further")];
    }
    source.listens_on().map(hidden_from).unwrap_or_default()
}

/// Returns a note for each program that takes frames before they reach the trace.
fn hidden_from(interface: &str) -> Vec<String> {
    let rows = ports::list().unwrap_or_default();
    let row = rows.into_iter().find(|row| row.interface == interface);
    let owners = row.into_iter().flat_map(|row| row.owners);
    let note = |owner: ports::InterfaceOwner| {
        let ports::InterfaceOwner { process, pid, .. } = owner;
        format!("# frames that {process} ({pid}) takes by XDP are not seen here")
    };
    owners.map(note).collect()
}
