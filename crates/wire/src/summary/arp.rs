//! ARP for Ethernet and IPv4.

use core::fmt;
use core::net::Ipv4Addr;

use super::Detail;
use crate::field::array;
use crate::mac::MacAddr;

const LEN: usize = 28;

pub(super) fn line(f: &mut fmt::Formatter<'_>, packet: &[u8], detail: Detail) -> fmt::Result {
    let Some(arp) = array::<LEN>(packet, 0) else {
        return f.write_str("[|arp]");
    };
    // Hardware type Ethernet, protocol IPv4, address lengths 6 and 4.
    if arp[..6] != [0, 1, 8, 0, 6, 4] {
        return write!(f, "ARP, hardware {}, length {}", arp[1], packet.len());
    }
    if !f.alternate() {
        f.write_str("ARP, ")?;
    }
    if matches!(detail, Detail::Full { .. }) {
        f.write_str("Ethernet (len 6), IPv4 (len 4), ")?;
    }
    let mac = |at| MacAddr(array(&arp, at).unwrap_or_default());
    let ip = |at| Ipv4Addr::from(array::<4>(&arp, at).unwrap_or_default());
    match u16::from_be_bytes([arp[6], arp[7]]) {
        1 => write!(f, "Request who-has {} tell {}", ip(24), ip(14)),
        2 => write!(f, "Reply {} is-at {}", ip(14), mac(8)),
        operation => write!(f, "operation {operation}"),
    }?;
    write!(f, ", length {}", packet.len())
}
