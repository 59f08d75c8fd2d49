//! Frames as text: builds a frame from words, and describes a frame in words.
//!
//! ```text
//! tcp:S 10.0.0.1:1024 10.1.0.1:22 [ttl=3] [tos=0x10] [id=7] [len=1200] [vlan=5] …
//! udp … · icmp:8 A B · icmp6:135 A B · proto:47 A B · arp A B · ether:0x88cc · hex:0011…
//! ```

use std::net::IpAddr;

use slipring_ipfw::packet::{IpFamily, PacketHeaders};
use slipring_ipfw::text::proto_name;
use slipring_wire::assigned::VlanTag;
use slipring_wire::frame::{
    EchoKind, EchoSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};
use slipring_wire::{FrameSpec, MacAddr, checksum};

use slipring_rules::packet_words::endpoint;

const TCP_FLAGS: [(char, u8); 6] = [('F', 1), ('S', 2), ('R', 4), ('P', 8), ('A', 16), ('U', 32)];

/// Builds the frame that `words` describe.
pub(super) fn frame(words: &str) -> Vec<u8> {
    let words: Vec<_> = words.split_whitespace().collect();
    let (kind, detail) = words[0].split_once(':').unwrap_or((words[0], ""));
    match kind {
        "hex" => hex(detail),
        "ether" => ether(number(detail) as u16),
        "arp" => arp(words[1], words[2]),
        _ => ip(kind, detail, (words[1], words[2]), &words[3..]),
    }
}

fn ip(kind: &str, detail: &str, (src, dst): (&str, &str), more: &[&str]) -> Vec<u8> {
    let value =
        |name: &str| more.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let of = |name: &str| value(name).map(number);
    let ((src, src_port), (dst, dst_port)) = (endpoint(src).unwrap(), endpoint(dst).unwrap());
    let ports = PortPair { src: src_port, dst: dst_port };
    let l4 = match kind {
        "tcp" => L4Spec::Tcp(TcpSpec {
            ports,
            flags: flags(detail),
            seq: of("seq").unwrap_or(1),
            ack: of("ack").unwrap_or(1),
            ..TcpSpec::default()
        }),
        "icmp" | "icmp6" => L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 }),
        _ => L4Spec::Udp(ports),
    };
    let ip = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => IpSpec::V4(Ipv4Spec {
            src,
            dst,
            ttl: of("ttl").unwrap_or(64) as u8,
            tos: of("tos").unwrap_or(0) as u8,
            id: of("id").unwrap_or(0) as u16,
            ..Ipv4Spec::default()
        }),
        (IpAddr::V6(src), IpAddr::V6(dst)) => IpSpec::V6(Ipv6Spec {
            src,
            dst,
            hop_limit: of("ttl").unwrap_or(64) as u8,
            traffic_class: of("tos").unwrap_or(0) as u8,
            flow_label: of("flow").unwrap_or(0),
        }),
        _ => panic!("addresses of two versions"),
    };
    let mac = |name: &str, last: u8| {
        value(name).map_or(MacAddr([2, 0, 0, 0, 0, last]), |mac| mac.parse().unwrap())
    };
    let tags = value("vlan").into_iter().flat_map(|tags| tags.split('.'));
    let spec = FrameSpec {
        src_mac: mac("from", 1),
        dst_mac: mac("to", 2),
        tags: tags.map(|id| VlanTag::new(number(id) as u16, 0).into()).collect(),
        ip,
        l4,
        ..FrameSpec::default()
    };
    let len = of("len").map_or(spec.header_len().max(60), |len| len as usize);
    let mut frame = spec.build(len).unwrap().bytes.to_vec();
    let l3 = 14 + 4 * value("vlan").map_or(0, |tags| tags.split('.').count());
    change(&mut frame, l3, kind, detail);
    for word in more {
        patch(&mut frame, l3, word);
    }
    frame
}

/// Sets the ICMP type and code, or the protocol number, that `detail` gives, in a frame that was
/// built with other ones.
fn change(frame: &mut [u8], l3: usize, kind: &str, detail: &str) {
    let is_v6 = frame[l3] >> 4 == 6;
    let l4 = l3 + if is_v6 { 40 } else { 20 };
    match kind {
        "icmp" | "icmp6" => {
            let (kind, code) = detail.split_once('.').unwrap_or((detail, "0"));
            (frame[l4], frame[l4 + 1]) = (number(kind) as u8, number(code) as u8);
        }
        "proto" => frame[if is_v6 { l3 + 6 } else { l3 + 9 }] = number(detail) as u8,
        _ => return,
    }
    sum_again(frame, l3);
}

/// Changes a frame as a word says: `df`, `nodf`, `mf`, `off=N` (in units of 8 bytes), `ihl=N`,
/// `iplen=N` or `byte=AT:VALUE` change the IP packet; `cut=N` truncates the frame.
fn patch(frame: &mut Vec<u8>, l3: usize, word: &str) {
    let (name, value) = word.split_once('=').unwrap_or((word, "0"));
    match name {
        "df" => frame[l3 + 6] |= 0x40,
        "nodf" => frame[l3 + 6] &= !0x40,
        "mf" => frame[l3 + 6] = frame[l3 + 6] & !0x40 | 0x20,
        "off" => {
            let offset = number(value) as u16;
            frame[l3 + 6] = frame[l3 + 6] & !0x5f | (offset >> 8) as u8;
            frame[l3 + 7] = offset as u8;
        }
        "ihl" => frame[l3] = 0x40 | number(value) as u8,
        "iplen" => frame[l3 + 2..l3 + 4].copy_from_slice(&(number(value) as u16).to_be_bytes()),
        "byte" => {
            let (at, value) = value.split_once(':').expect("AT:VALUE");
            frame[l3 + number(at) as usize] = number(value) as u8;
        }
        "cut" => return frame.truncate(number(value) as usize),
        _ => return,
    }
    sum_again(frame, l3);
}

fn sum_again(frame: &mut [u8], l3: usize) {
    if frame[l3] >> 4 == 4 {
        frame[l3 + 10..l3 + 12].fill(0);
        let sum = checksum::of(&frame[l3..l3 + 20]);
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn ether(kind: u16) -> Vec<u8> {
    let mut frame = vec![1, 128, 194, 0, 0, 14, 2, 0, 0, 0, 0, 1];
    frame.extend(kind.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Builds an ARP request of `sender` for `target`.
fn arp(sender: &str, target: &str) -> Vec<u8> {
    let octets = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let mac = [2, 0, 0, 0, 0, 1];
    let mut frame = [[0xff; 6], mac].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(mac);
    frame.extend(octets(sender));
    frame.extend([0; 6]);
    frame.extend(octets(target));
    frame.resize(60, 0);
    frame
}

fn hex(digits: &str) -> Vec<u8> {
    let digit = |digit: u8| (digit as char).to_digit(16).unwrap() as u8;
    digits.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn flags(letters: &str) -> u8 {
    let bit = |letter: char| TCP_FLAGS.iter().find(|(known, _)| *known == letter).unwrap().1;
    letters.chars().filter(|&letter| letter != '-').map(bit).sum()
}

fn number(text: &str) -> u32 {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse().unwrap(), |hex| u32::from_str_radix(hex, 16).unwrap())
}

/// Describes a frame in words like those of [`frame`]. Only properties that rules can change, or
/// that frames generated by rules have, are described.
pub(super) fn described(frame: &[u8]) -> String {
    let Ok(packet) = PacketHeaders::parse(frame) else { return "malformed".to_owned() };
    let address = |bits: u128| match packet.version {
        IpFamily::V6 => IpAddr::V6(bits.into()),
        _ => IpAddr::V4((bits as u32).into()),
    };
    let ended = |bits: u128, port: u16| match (address(bits), packet.has_ports) {
        (IpAddr::V6(address), true) => format!("[{address}]:{port}"),
        (address, true) => format!("{address}:{port}"),
        (address, false) => address.to_string(),
    };
    let (kind, code) = packet.icmp;
    let what = match (packet.version, packet.proto) {
        (IpFamily::None, _) => return format!("ether:{:#06x}", packet.ethertype),
        (_, 6) if packet.has_ports => {
            let set = TCP_FLAGS.iter().filter(|(_, bit)| packet.tcp_flags & bit != 0);
            format!("tcp:{}", set.map(|(letter, _)| letter).collect::<String>())
        }
        (_, 1) if !packet.later_fragment => format!("icmp:{kind}.{code}"),
        (_, 58) if !packet.later_fragment => format!("icmp6:{kind}.{code}"),
        (_, proto) => proto_name(proto).map_or_else(|| format!("proto:{proto}"), str::to_owned),
    };
    let ends = (ended(packet.src, packet.src_port), ended(packet.dst, packet.dst_port));
    let tos = if packet.tos == 0 { String::new() } else { format!(" tos={}", packet.tos) };
    format!("{what} {} {}{tos}", ends.0, ends.1)
}
