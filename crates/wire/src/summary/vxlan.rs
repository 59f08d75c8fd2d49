//! Prints the VXLAN header and the frame after it.

use super::text::{DecodeResult, Encapsulated, SummaryLine, bytes_from, put, u8_at, u24_at};

const LEN: usize = 8;
const FLAGS: [(u32, &str); 1] = [(0x08, "I")];

pub(super) fn line(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize) -> DecodeResult {
    line.protocol = "vxlan";
    if !line.enter() {
        put!(line, "[too many headers]");
        return Ok(());
    }
    put!(line, "VXLAN");
    if length < LEN {
        put!(line, " (invalid)");
        return Ok(());
    }
    let flags = u8_at(bytes, 0)?;
    put!(line, ", flags [");
    match flags & 0x08 {
        0 => put!(line, "."),
        _ => line.bits(&FLAGS, u32::from(flags), ""),
    }
    put!(line, "] (0x{flags:02x}), ");
    put!(line, "vni {}\n", u24_at(bytes, 4)?);
    line.inner(Encapsulated::Ethernet, bytes_from(bytes, LEN), length - LEN)
}
