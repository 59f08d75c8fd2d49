//! Prints UDP, and passes the payload on to the decoder that its ports select.

use super::ip_carrier::{IpCarrier, checked};
use super::text::{DecodeResult, SummaryLine, TruncatedHeader, bytes_from, put, u16_at, upto};
use super::{bfd, dhcp, dns, ntp, vxlan};
use crate::assigned::IpProto;

const LEN: usize = 8;

pub(super) fn line(
    line: &mut SummaryLine<'_>,
    bytes: &[u8],
    length: usize,
    carrier: &IpCarrier,
) -> DecodeResult {
    line.protocol = "udp";
    let Ok(ports) = u16_at(bytes, 0).and_then(|from| Ok((from, u16_at(bytes, 2)?))) else {
        carrier.write_endpoints(line, IpProto::UDP, None);
        return Err(TruncatedHeader);
    };
    carrier.write_endpoints(line, IpProto::UDP, Some(ports));
    if length < LEN {
        put!(line, "truncated-udp {length}");
        return Ok(());
    }
    let claimed = usize::from(u16_at(bytes, 4)?);
    if claimed < LEN {
        put!(line, "truncated-udplength {claimed}");
        return Ok(());
    }
    let (payload_len, left) = (claimed - LEN, (length - LEN).min(claimed - LEN));
    if bytes.len() < LEN {
        return Err(TruncatedHeader);
    }
    if line.is_verbose() && !line.detail.is_quick && line.detail.checksums && !carrier.is_fragment {
        checksum(line, bytes, left + LEN, carrier);
    }
    let payload = upto(bytes_from(bytes, LEN), left);
    if !line.detail.is_quick && upper_layer(line, ports, payload, left)? {
        return Ok(());
    }
    // Only in a first fragment may the UDP length be larger than the bytes that follow: the rest of
    // the payload is in later fragments.
    match payload_len > left && !carrier.is_fragment {
        true => put!(line, "UDP, bad length {payload_len} > {left}"),
        false => put!(line, "UDP, length {payload_len}"),
    }
    Ok(())
}

/// Writes the result of verifying the checksum. Over IPv4, it is written only if `-v` was given at
/// least twice, and a checksum of 0 means that there is none.
fn checksum(line: &mut SummaryLine<'_>, bytes: &[u8], length: usize, carrier: &IpCarrier) {
    if !carrier.is_v6() && line.detail.verbose < 2 {
        return;
    }
    if !carrier.is_v6() && u16_at(bytes, 6).is_ok_and(|found| found == 0) {
        put!(line, "[no cksum] ");
        return;
    }
    let sum = carrier.pseudo(IpProto::UDP, length);
    let Some((found, right)) = checked(sum, bytes, length, 6) else { return };
    let right = if right == 0 { 0xffff } else { right };
    match found == right {
        true => put!(line, "[udp sum ok] "),
        false => put!(line, "[bad udp cksum 0x{found:04x} -> 0x{right:04x}!] "),
    }
}

/// Writes the payload. Returns `false` if there is no decoder for these ports.
fn upper_layer(
    line: &mut SummaryLine<'_>,
    (from, to): (u16, u16),
    payload: &[u8],
    length: usize,
) -> Result<bool, TruncatedHeader> {
    let is = |port: u16| from == port || to == port;
    match () {
        () if is(53) => dns::line(line, payload, length, false)?,
        () if is(67) || is(68) => dhcp::line(line, payload, length)?,
        () if is(123) => ntp::line(line, payload, length)?,
        () if is(3784) => bfd::line(line, "Control", payload, length)?,
        () if is(3785) => bfd::echo(line, payload, length),
        () if is(4784) => bfd::line(line, "Multihop", payload, length)?,
        () if is(4789) => vxlan::line(line, payload, length)?,
        () if is(5353) => dns::line(line, payload, length, true)?,
        () => return Ok(false),
    }
    Ok(true)
}
