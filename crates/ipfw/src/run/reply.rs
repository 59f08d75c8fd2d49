//! Answers to rejected packets.
//!
//! A bridge has no address of its own, so the source of an ICMP error is the packet's destination
//! address. Errors, multicasts, broadcasts, later fragments and resets are never answered.

use alloc::vec::Vec;

use slipring_wire::assigned::IpProto;
use slipring_wire::checksum;

use super::config::PortIndex;
use super::log::LogEvent;
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::Unreach;
use crate::state::{FlowEthernet, ip_frame, pseudo, reversed, tcp_frame};
use crate::table::IpfwFlowKey;

/// The outputs of a check apart from its verdict. Empty for most packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOutputs {
    /// Frames to send.
    pub frames: Vec<EmittedFrame>,
    /// Fragments that waited for the checked frame. They share its verdict and leave before it.
    pub released: Vec<Vec<u8>>,
    /// The reassembled packet that these fragments and the checked frame belong to.
    pub whole: Option<Vec<u8>>,
    /// Lines to log.
    pub log: Vec<LogEvent>,
    /// Whether lines outside the system log have a reader; set by the caller.
    pub is_watched: bool,
    /// Number of lines omitted from `log`, since they have no reader.
    pub unseen: u64,
}

impl Default for CheckOutputs {
    /// Empty outputs with a reader.
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            released: Vec::new(),
            whole: None,
            log: Vec::new(),
            is_watched: true,
            unseen: 0,
        }
    }
}

/// A frame sent by the firewall itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedFrame {
    /// Where it goes.
    pub target: EmissionTarget,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The destination of a frame sent by the firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmissionTarget {
    /// Out by this port.
    Port(PortIndex),
    /// Where a frame that came in by this port would go.
    From(PortIndex),
    /// Out by every port.
    All,
}

/// The kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectReply {
    Unreach(Unreach),
    Unreach6(u8),
    Reset,
    Abort,
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// Maximum bytes of a packet quoted in an ICMPv6 error, from the minimum MTU.
const V6_QUOTE_MAX: usize = 1280 - 40 - 8;

/// Builds the answer; `None` if the packet must not be answered.
pub(super) fn answer(frame: &[u8], packet: &PacketHeaders, answer: RejectReply) -> Option<Vec<u8>> {
    let is_group = packet.is_multicast() || packet.src_mac().is_multicast();
    if packet.later_fragment || is_group || !is_one_host(packet) {
        return None;
    }
    let link = FlowEthernet::of(packet).reversed();
    let flow = reversed(packet.flow());
    match answer {
        RejectReply::Reset => reset(frame, packet, &link, &flow),
        RejectReply::Abort => abort(frame, packet, &link, &flow),
        _ if is_icmp_without_question(packet) => None,
        RejectReply::Unreach(unreach) if packet.version == IpFamily::V4 => {
            let rest = if unreach.code == 4 { u32::from(unreach.mtu) } else { 0 };
            Some(icmp4(frame, packet, &link, &flow, unreach.code, rest))
        }
        RejectReply::Unreach(Unreach { code: 4, mtu }) => {
            Some(icmp6(frame, packet, &link, &flow, (2, 0), mtu.into()))
        }
        RejectReply::Unreach(unreach) => {
            Some(icmp6(frame, packet, &link, &flow, (1, v6_code(unreach.code)), 0))
        }
        RejectReply::Unreach6(code) if packet.version == IpFamily::V6 => {
            Some(icmp6(frame, packet, &link, &flow, (1, code), 0))
        }
        RejectReply::Unreach6(_) => None,
    }
}

/// Returns the ICMPv6 code that corresponds to an ICMP code.
const fn v6_code(code: u8) -> u8 {
    match code {
        3 => 4,
        9 | 10 | 13 => 1,
        1 | 7 => 3,
        _ => 0,
    }
}

/// Whether the source is a valid host address: errors are only sent to such addresses (RFC 1122,
/// 3.2.2; RFC 4443, 2.4 e).
const fn is_one_host(packet: &PacketHeaders) -> bool {
    match packet.version {
        IpFamily::V4 => !matches!((packet.src >> 24) as u8, 0 | 127 | 224..),
        IpFamily::V6 => packet.src > 1 && packet.src >> 120 != 0xff,
        IpFamily::None => false,
    }
}

/// Whether the packet is ICMP other than a request. As in ipfw, only requests are answered: an
/// error about an error or a reply is useless.
const fn is_icmp_without_question(packet: &PacketHeaders) -> bool {
    match packet.proto {
        1 => !matches!(packet.icmp.0, 8 | 10 | 13 | 15 | 17),
        58 => !matches!(packet.icmp.0, 128 | 130 | 139),
        _ => false,
    }
}

/// Builds the reset for a segment without a connection (RFC 9293, 3.10.7.1).
fn reset(
    frame: &[u8],
    packet: &PacketHeaders,
    link: &FlowEthernet,
    flow: &IpfwFlowKey,
) -> Option<Vec<u8>> {
    if !packet.is_tcp() || packet.tcp_flags & RST != 0 {
        return None;
    }
    let word = |at| crate::packet::options::tcp_word(frame, packet, at);
    if packet.tcp_flags & ACK != 0 {
        return Some(tcp_frame(link, flow, word(8), 0, RST));
    }
    let data = crate::packet::options::tcp_data_len(frame, packet);
    let flags = packet.tcp_flags & (SYN | FIN);
    let ack = word(4).wrapping_add(data).wrapping_add(flags.count_ones());
    Some(tcp_frame(link, flow, 0, ack, RST | ACK))
}

/// Builds an ABORT with the tag of the packet and the T bit (RFC 9260, 8.4).
fn abort(
    frame: &[u8],
    packet: &PacketHeaders,
    link: &FlowEthernet,
    flow: &IpfwFlowKey,
) -> Option<Vec<u8>> {
    const ABORT: u8 = 6;
    let is_abort = frame.get(packet.l4 + 12) == Some(&ABORT);
    if packet.proto != 132 || !packet.has_ports || is_abort {
        return None;
    }
    let tag = frame.get(packet.l4 + 4..)?.first_chunk::<4>()?;
    let mut sctp = Vec::with_capacity(16);
    sctp.extend_from_slice(&flow.src_port.to_be_bytes());
    sctp.extend_from_slice(&flow.dst_port.to_be_bytes());
    sctp.extend_from_slice(tag);
    sctp.extend_from_slice(&[0; 4]);
    sctp.extend_from_slice(&[ABORT, 1, 0, 4]);
    let check = crc32c(&sctp).to_le_bytes();
    sctp[8..12].copy_from_slice(&check);
    Some(ip_frame(link, flow, 132, &sctp))
}

/// Computes SCTP's checksum (RFC 9260, appendix A) bit by bit: aborts are rare and short.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    })
}

/// Builds an ICMP error that quotes the IP header and 8 bytes after it (RFC 792).
fn icmp4(
    frame: &[u8],
    packet: &PacketHeaders,
    link: &FlowEthernet,
    flow: &IpfwFlowKey,
    code: u8,
    rest: u32,
) -> Vec<u8> {
    let end = (packet.l4 + 8).min(packet.end);
    let mut icmp = Vec::from([3, code, 0, 0]);
    icmp.extend_from_slice(&rest.to_be_bytes());
    icmp.extend_from_slice(frame.get(packet.l3..end).unwrap_or(&[]));
    let check = checksum::of(&icmp).to_be_bytes();
    icmp[2..4].copy_from_slice(&check);
    ip_frame(link, flow, 1, &icmp)
}

/// Builds an ICMPv6 error that quotes as much of the packet as fits (RFC 4443).
fn icmp6(
    frame: &[u8],
    packet: &PacketHeaders,
    link: &FlowEthernet,
    flow: &IpfwFlowKey,
    (kind, code): (u8, u8),
    rest: u32,
) -> Vec<u8> {
    let end = packet.end.min(packet.l3 + V6_QUOTE_MAX);
    let mut icmp = Vec::from([kind, code, 0, 0]);
    icmp.extend_from_slice(&rest.to_be_bytes());
    icmp.extend_from_slice(frame.get(packet.l3..end).unwrap_or(&[]));
    let sum = pseudo(flow, IpProto::ICMPV6, icmp.len() as u32).bytes(&icmp);
    icmp[2..4].copy_from_slice(&sum.checksum().to_be_bytes());
    ip_frame(link, flow, 58, &icmp)
}
