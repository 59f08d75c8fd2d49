//! Packets that a command describes in words: `udp 10.0.0.1:1024 10.1.0.1:53 recv eth0 ttl 3`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use slipring_wire::FrameSpec;
use slipring_wire::frame::{
    EchoKind, EchoSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};

use crate::command_batch::{CommandFault, sysexits};

/// The syntax of a described packet, for messages.
pub const PACKET_SYNTAX: &str = "PROTO SOURCE[:PORT] DESTINATION[:PORT] [recv PORT] [ttl N] [tos N] \
                                 [len N]";

/// Minimum length of a frame that is built if no length is given: Ethernet's minimum, without CRC.
const MIN_FRAME_LEN: usize = 60;
/// Time to live or hop limit of a packet for which none is given.
const DEFAULT_TTL: u8 = 64;
/// Length of the link header of a frame that is built.
pub const ETHERNET_LEN: usize = 14;

/// The ingress of a described packet, and the fields of its header that words describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketOptions {
    /// The port that receives the packet; `None` if the words give none.
    pub port: Option<String>,
    /// Whether the packet is checked only on output.
    pub is_out: bool,
    ttl: Option<u8>,
    tos: Option<u8>,
    /// Length of the IP packet, in bytes; `None` if the words give none.
    len: Option<u16>,
}

impl PacketOptions {
    /// Parses the words after the packet.
    ///
    /// # Errors
    /// [`CommandFault`] that names the word that is not understood.
    pub fn parse(words: &[&str]) -> Result<Self, CommandFault> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || {
                let value = words.next().copied();
                value.ok_or_else(|| usage_fault(&format!("there is nothing after `{word}`")))
            };
            match word {
                "out" => options.is_out = true,
                "recv" => options.port = Some(value()?.to_owned()),
                "ttl" => options.ttl = Some(number(word, value()?)?),
                "tos" => options.tos = Some(number(word, value()?)?),
                "len" => options.len = Some(number(word, value()?)?),
                _ => return Err(usage_fault(&format!("`{word}` is one word too many"))),
            }
        }
        Ok(options)
    }

    /// Returns whether the words set header fields. A captured packet does not permit this.
    #[must_use]
    pub const fn change_packet(&self) -> bool {
        self.ttl.is_some() || self.tos.is_some() || self.len.is_some()
    }

    /// Builds the frame of a packet with protocol `proto` from `src` to `dst`.
    ///
    /// # Errors
    /// [`CommandFault`] that names the word that is not understood, or the impossible length.
    pub fn frame(&self, proto: &str, src: &str, dst: &str) -> Result<Vec<u8>, CommandFault> {
        let unread =
            |word: &str| usage_fault(&format!("`{word}` is no address with or without a port"));
        let (src, src_port) = endpoint(src).ok_or_else(|| unread(src))?;
        let (dst, dst_port) = endpoint(dst).ok_or_else(|| unread(dst))?;
        let ip = self.ip(src, dst)?;
        let l4 = transport(proto, PortPair { src: src_port, dst: dst_port })?;
        let spec = FrameSpec { ip, l4, ..FrameSpec::default() };
        let len = match self.len {
            Some(len) => usize::from(len) + ETHERNET_LEN,
            None => spec.header_len().max(MIN_FRAME_LEN),
        };
        if len < spec.header_len() {
            let least = spec.header_len() - ETHERNET_LEN;
            return Err(usage_fault(&format!("len: the headers alone take {least} bytes")));
        }
        let built = spec.build(len);
        built.map(|frame| frame.bytes.to_vec()).map_err(|error| usage_fault(&error.to_string()))
    }

    fn ip(&self, src: IpAddr, dst: IpAddr) -> Result<IpSpec, CommandFault> {
        let (ttl, tos) = (self.ttl.unwrap_or(DEFAULT_TTL), self.tos.unwrap_or_default());
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                Ok(IpSpec::V4(Ipv4Spec { src, dst, ttl, tos, ..Ipv4Spec::default() }))
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let header = Ipv6Spec { src, dst, hop_limit: ttl, ..Ipv6Spec::default() };
                Ok(IpSpec::V6(Ipv6Spec { traffic_class: tos, ..header }))
            }
            _ => Err(usage_fault("one address is of IPv4 and the other of IPv6")),
        }
    }
}

fn transport(proto: &str, ports: PortPair) -> Result<L4Spec, CommandFault> {
    Ok(match proto {
        "udp" => L4Spec::Udp(ports),
        "tcp" => L4Spec::Tcp(TcpSpec { ports, flags: 0x02, ..TcpSpec::default() }),
        "tcp-ack" => L4Spec::Tcp(TcpSpec { ports, flags: 0x10, ..TcpSpec::default() }),
        "icmp" | "icmp6" => L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 }),
        _ => {
            return Err(usage_fault(&format!(
                "`{proto}` is none of tcp (a SYN), tcp-ack, udp, icmp"
            )));
        }
    })
}

/// Parses an address with an optional port: `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`.
#[must_use]
pub fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, 0));
    }
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().ok().map(|address| (address.into(), 0));
    }
    text.parse::<SocketAddr>().ok().map(|socket| (socket.ip(), socket.port()))
}

/// Bytes as hexadecimal digits, as requests contain them.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a number in decimal, or in hexadecimal after `0x`.
fn number<T: TryFrom<u32>>(what: &str, text: &str) -> Result<T, CommandFault> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let fits = parsed.ok().and_then(|number| T::try_from(number).ok());
    fits.ok_or_else(|| usage_fault(&format!("{what}: `{text}` is no number that fits the field")))
}

/// Returns the fault for a mistake in the description of a packet.
#[must_use]
pub fn usage_fault(message: &str) -> CommandFault {
    let expected = format!("{PACKET_SYNTAX}, as in: tcp 10.0.0.1:1024 10.1.0.1:22 recv eth0");
    CommandFault { expected: Some(expected), ..CommandFault::new(message, sysexits::USAGE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<PacketOptions, String> {
        let words: Vec<_> = words.split_ascii_whitespace().collect();
        PacketOptions::parse(&words).map_err(|fault| fault.message)
    }

    #[test]
    fn words_set_fields_of_the_header_in_both_families() {
        let options = options("ttl 3 recv eth0 tos 0x10 len 100").unwrap();
        assert_eq!((options.port.as_deref(), options.is_out), (Some("eth0"), false));
        let frame = options.frame("udp", "10.0.0.1:1", "10.1.0.1:2").unwrap();
        assert_eq!((frame.len(), frame[15], frame[22]), (114, 0x10, 3));
        let frame = options.frame("tcp", "[fd00::1]:1", "fd01::1").unwrap();
        assert_eq!((frame.len(), &frame[14..16], frame[21]), (114, &[0x61, 0][..], 3));
    }

    #[test]
    fn mistakes_name_the_word() {
        for (words, part) in [
            ("ttl 256", "ttl: `256`"),
            ("tos x", "tos: `x`"),
            ("recv", "nothing after `recv`"),
            ("ttl 1 more", "`more` is one word too many"),
        ] {
            let mistake = options(words).unwrap_err();
            assert!(mistake.contains(part), "{words}: {mistake}");
        }
        let short = options("len 20").unwrap().frame("udp", "10.0.0.1", "10.1.0.1").unwrap_err();
        assert!(short.message.contains("28 bytes"), "{}", short.message);
    }
}
