//! Prints packets of BFD (bidirectional forwarding detection).

use super::text::{
    DecodeResult, PrintableText, SummaryLine, bytes_from, hex, put, slice_at, u8_at, u32_at,
};

const LEN: usize = 24;
const FLAGS: [(u32, &str); 6] = [
    (0x20, "Poll"),
    (0x10, "Final"),
    (0x08, "Control Plane Independent"),
    (0x04, "Authentication Present"),
    (0x02, "Demand"),
    (0x01, "Reserved"),
];
const STATES: [&str; 4] = ["AdminDown", "Down", "Init", "Up"];
const DIAGNOSTICS: [&str; 9] = [
    "No Diagnostic",
    "Control Detection Time Expired",
    "Echo Function Failed",
    "Neighbor Signaled Session Down",
    "Forwarding Plane Reset",
    "Path Down",
    "Concatenated Path Down",
    "Administratively Down",
    "Reverse Concatenated Path Down",
];

/// Writes a control packet. `kind` is `Control` or `Multihop`.
pub(super) fn line(
    line: &mut SummaryLine<'_>,
    kind: &str,
    bytes: &[u8],
    length: usize,
) -> DecodeResult {
    line.protocol = "bfd";
    slice_at(bytes, 0, LEN)?;
    let (first, flags) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    let (multiplier, claimed) = (u8_at(bytes, 2)?, u8_at(bytes, 3)?);
    let version = first >> 5;
    if version != 1 {
        put!(line, "BFDv{version}, {kind}, length: {length}");
        if line.is_verbose() {
            hex(line, bytes, "\n\t");
        }
        return Ok(());
    }
    let state = STATES[usize::from(flags >> 6)];
    if !line.is_verbose() {
        put!(line, "BFDv1, {kind}, State {state}, Flags: [");
        line.bits(&FLAGS, u32::from(flags & 0x3f), ", ");
        put!(line, "], length: {length}");
        return Ok(());
    }
    put!(line, "BFDv1, length: {length}\n\t{kind}, State {state}, Flags: [");
    line.bits(&FLAGS, u32::from(flags & 0x3f), ", ");
    let diagnostic = first & 0x1f;
    let name = DIAGNOSTICS.get(usize::from(diagnostic)).copied().unwrap_or("unknown");
    put!(line, "], Diagnostic: {name} (0x{diagnostic:02x})");
    let min_tx = u32_at(bytes, 12)?;
    let detection = u64::from(multiplier) * u64::from(min_tx) / 1000;
    put!(line, "\n\tDetection Timer Multiplier: {multiplier} ({detection} ms Detection time)");
    put!(line, ", BFD Length: {claimed}");
    let (mine, yours) = (u32_at(bytes, 4)?, u32_at(bytes, 8)?);
    put!(line, "\n\tMy Discriminator: 0x{mine:08x}, Your Discriminator: 0x{yours:08x}");
    put!(line, "\n\t  Desired min Tx Interval:    {:4} ms", min_tx / 1000);
    put!(line, "\n\t  Required min Rx Interval:   {:4} ms", u32_at(bytes, 16)? / 1000);
    put!(line, "\n\t  Required min Echo Interval: {:4} ms", u32_at(bytes, 20)? / 1000);
    if flags & 0x04 != 0 { authentication(line, bytes_from(bytes, LEN)) } else { Ok(()) }
}

/// Writes an echo packet. Only the packet's sender can interpret its contents.
pub(super) fn echo(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) {
    line.protocol = "bfd";
    put!(line, "BFD, Echo, length: {length}");
    if line.is_verbose() {
        hex(line, bytes, "\n\t");
    }
}

fn authentication(line: &mut SummaryLine<'_>, bytes: &[u8]) -> DecodeResult {
    const SIMPLE: u8 = 1;
    const KINDS: [(u8, &str); 5] = [
        (SIMPLE, "Simple Password"),
        (2, "Keyed MD5"),
        (3, "Meticulous Keyed MD5"),
        (4, "Keyed SHA1"),
        (5, "Meticulous Keyed SHA1"),
    ];
    let (kind, len) = (u8_at(bytes, 0)?, u8_at(bytes, 1)?);
    put!(line, "\n\tAuthentication: ");
    line.name(&KINDS, kind, format_args!("Unknown"));
    put!(line, " ({kind}), length: {len}");
    put!(line, "\n\t  Auth Key ID: {}", u8_at(bytes, 2)?);
    if kind == SIMPLE && (4..=19).contains(&len) {
        put!(line, ", Password: {}", PrintableText(slice_at(bytes, 3, usize::from(len) - 3)?));
    }
    Ok(())
}
