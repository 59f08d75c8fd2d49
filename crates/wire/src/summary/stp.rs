//! Prints the spanning tree protocol, 802.1D and 802.1w.

use super::text::{DecodeResult, SummaryLine, mac_at, put, u8_at, u16_at, u32_at};

const TOPOLOGY_CHANGE: u8 = 0x80;
const VERSION_CLASSIC: u8 = 0;
const VERSION_RAPID: u8 = 2;

const FLAGS: [(u32, &str); 6] = [
    (0x01, "Topology change"),
    (0x02, "Proposal"),
    (0x10, "Learn"),
    (0x20, "Forward"),
    (0x40, "Agreement"),
    (0x80, "Topology change ACK"),
];
const ROLES: [(u8, &str); 4] = [(0, "Unknown"), (1, "Alternate"), (2, "Root"), (3, "Designated")];

pub(super) fn line(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "stp";
    if length < 4 {
        line.cut();
        return Ok(());
    }
    let (protocol, version, kind) = (u16_at(packet, 0)?, u8_at(packet, 2)?, u8_at(packet, 3)?);
    if protocol != 0 {
        put!(line, "STP unknown version, length {length}");
        return Ok(());
    }
    put!(line, "STP ");
    let names = [(0, "802.1d"), (2, "802.1w"), (3, "802.1s"), (4, "802.1aq")];
    line.name(&names, version, format_args!("Unknown STP protocol (0x{version:02x})"));
    if !names.iter().any(|(known, _)| *known == version) {
        return Ok(());
    }
    let kinds = [(0, "Config"), (2, "Rapid STP"), (TOPOLOGY_CHANGE, "Topology Change")];
    put!(line, ", ");
    line.name(&kinds, kind, format_args!("Unknown BPDU Type (0x{kind:02x})"));
    match (version, kind) {
        (VERSION_CLASSIC | VERSION_RAPID, 0 | 2) => config(line, packet, length, kind),
        _ => {
            put!(line, ", length {length}");
            Ok(())
        }
    }
}

fn config(line: &mut SummaryLine<'_>, packet: &[u8], length: usize, kind: u8) -> DecodeResult {
    let flags = u8_at(packet, 4)?;
    put!(line, ", Flags [");
    line.bits(&FLAGS, u32::from(flags), ", ");
    put!(line, "]");
    put!(
        line,
        ", bridge-id {:04x}.{}.{:04x}, length {length}",
        u16_at(packet, 17)?,
        mac_at(packet, 19)?,
        u16_at(packet, 25)?
    );
    if !line.is_verbose() {
        return Ok(());
    }
    let seconds = |at| u16_at(packet, at).map(|value| f64::from(value) / 256.0);
    put!(
        line,
        "\n\tmessage-age {:.2}s, max-age {:.2}s, hello-time {:.2}s, forwarding-delay {:.2}s",
        seconds(27)?,
        seconds(29)?,
        seconds(31)?,
        seconds(33)?
    );
    let (root, mac, cost) = (u16_at(packet, 5)?, mac_at(packet, 7)?, u32_at(packet, 13)?);
    put!(line, "\n\troot-id {root:04x}.{mac}, root-pathcost {cost}");
    if kind == 2 {
        let role = flags >> 2 & 3;
        put!(line, ", port-role ");
        line.name(&ROLES, role, format_args!(""));
    }
    Ok(())
}
