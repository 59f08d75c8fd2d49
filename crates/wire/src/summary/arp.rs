//! Prints ARP, reverse ARP and inverse ARP.

use core::fmt;
use core::net::Ipv4Addr;

use super::text::{DecodeResult, HwText, SummaryLine, put, slice_at, u8_at, u16_at};
use crate::assigned::EtherType;

const HARDWARE: [(u16, &str); 5] =
    [(1, "Ethernet"), (6, "TokenRing"), (7, "ArcNet"), (15, "FrameRelay"), (24, "IEEE 1394")];

/// The addresses of an ARP packet.
struct ArpAddresses<'p> {
    hw: [&'p [u8]; 2],
    proto: [&'p [u8]; 2],
    is_ip: bool,
}

impl ArpAddresses<'_> {
    fn ip(&self, which: usize) -> ProtoText<'_> {
        ProtoText { bytes: self.proto[which], is_ip: self.is_ip }
    }

    fn mac(&self, which: usize) -> HwText<'_> {
        HwText(self.hw[which])
    }
}

pub(super) fn line(line: &mut SummaryLine<'_>, packet: &[u8], length: usize) -> DecodeResult {
    line.protocol = "arp";
    let (hw_type, proto) = (u16_at(packet, 0)?, u16_at(packet, 2)?);
    let (hw_len, proto_len) = (u8_at(packet, 4)?, u8_at(packet, 5)?);
    let operation = u16_at(packet, 6)?;
    let (h, p) = (usize::from(hw_len), usize::from(proto_len));
    slice_at(packet, 8, 2 * (h + p))?;
    let part = |at, len| slice_at(packet, at, len);
    let addresses = ArpAddresses {
        hw: [part(8, h)?, part(8 + h + p, h)?],
        proto: [part(8 + h, p)?, part(8 + 2 * h + p, p)?],
        is_ip: matches!(proto, 0x0800 | 0x1000),
    };
    if !line.link {
        put!(line, "ARP, ");
    }
    let plain = addresses.is_ip && proto_len == 4 && hw_len > 0;
    if !plain || line.is_verbose() {
        line.name(&HARDWARE, hw_type, format_args!("Unknown Hardware ({hw_type})"));
        put!(line, " (len {hw_len}), ");
        match EtherType(proto).name() {
            Some(name) => put!(line, "{name}"),
            None => put!(line, "Unknown Protocol (0x{proto:04x})"),
        }
        put!(line, " (len {proto_len})");
        if !line.is_verbose() {
            put!(line, ", length {length}");
            return Ok(());
        }
        put!(line, ", ");
    }
    if write_operation(line, operation, &addresses) {
        put!(line, ", length {length}");
    } else {
        line.bytes_always(packet);
    }
    Ok(())
}

/// Writes a request or reply. Returns `false` for a NACK and for an unknown operation, whose bytes
/// the caller prints.
fn write_operation(line: &mut SummaryLine<'_>, operation: u16, of: &ArpAddresses<'_>) -> bool {
    match operation {
        1 => {
            put!(line, "Request who-has {}", of.ip(1));
            if of.hw[1].iter().any(|&byte| byte != 0) {
                put!(line, " ({})", of.mac(1));
            }
            put!(line, " tell {}", of.ip(0));
        }
        2 => put!(line, "Reply {} is-at {}", of.ip(0), of.mac(0)),
        3 => put!(line, "Reverse Request who-is {} tell {}", of.mac(1), of.mac(0)),
        4 => put!(line, "Reverse Reply {} at {}", of.mac(1), of.ip(1)),
        8 => put!(line, "Inverse Request who-is {} tell {}", of.mac(1), of.mac(0)),
        9 => put!(line, "Inverse Reply {} at {}", of.mac(0), of.ip(0)),
        10 => {
            put!(line, "NACK Reply ");
            return false;
        }
        other => {
            put!(line, "Unknown ({other}) ");
            return false;
        }
    }
    true
}

struct ProtoText<'p> {
    bytes: &'p [u8],
    is_ip: bool,
}

impl fmt::Display for ProtoText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match <[u8; 4]>::try_from(self.bytes) {
            _ if !self.is_ip => f.write_str("<wrong proto type>"),
            Ok(bytes) => Ipv4Addr::from(bytes).fmt(f),
            Err(_) => f.write_str("<wrong len>"),
        }
    }
}
