//! Builds frames from the parts in which they differ.

/// Destination and source of all frames except [`TestFrame::Raw`].
const MACS: &str = "020000000002020000000001";

/// A frame, described by the parts in which it differs from others.
pub(crate) enum TestFrame {
    /// The bytes from the EtherType on, as hex. The MAC addresses are those of [`MACS`].
    Eth(&'static str),
    /// All bytes, as hex.
    Raw(&'static str),
    /// A protocol over IPv4 from 10.0.0.1 to 10.0.0.2.
    Ip4(u8, &'static str),
    /// A protocol over IPv4 from 10.0.0.2 to 10.0.0.1.
    Back(u8, &'static str),
    /// A protocol over IPv4 from 10.0.0.1 to 10.0.0.2, with this TTL.
    Ttl(u8, u8, &'static str),
    /// A protocol over IPv6 between two neighbours.
    Ip6(u8, &'static str),
}

impl TestFrame {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match *self {
            Self::Eth(rest) => hex(&[MACS, rest].concat()),
            Self::Raw(all) => hex(all),
            Self::Ip4(proto, payload) => ip4(64, proto, [1, 2], &hex(payload)),
            Self::Back(proto, payload) => ip4(64, proto, [2, 1], &hex(payload)),
            Self::Ttl(ttl, proto, payload) => ip4(ttl, proto, [1, 2], &hex(payload)),
            Self::Ip6(next, payload) => ip6(next, &hex(payload)),
        }
    }
}

fn ip4(ttl: u8, proto: u8, [src, dst]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let [high, low] = (20 + payload.len() as u16).to_be_bytes();
    let mut header =
        [0x45, 0, high, low, 0, 7, 0x40, 0, ttl, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, dst];
    let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    [&hex(MACS)[..], &[0x08, 0x00], &header, payload].concat()
}

fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
    const ICMPV6: u8 = 58;
    // Neighbour discovery uses link-local addresses and the maximum hop limit.
    let (net, hops) = if next == ICMPV6 { ([0xfe, 0x80], 255) } else { ([0xfd, 0], 64) };
    let [high, low] = (payload.len() as u16).to_be_bytes();
    let address = |last: u8| [&net[..], &[0; 13], &[last]].concat();
    let header = [0x86, 0xdd, 0x60, 0, 0, 0, high, low, next, hops];
    [&hex(MACS)[..], &header, &address(1), &address(2), payload].concat()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<_> = text.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}
