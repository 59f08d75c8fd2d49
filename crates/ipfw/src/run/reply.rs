//! Answers to rejected packets.
//!
//! A bridge has no address of its own, so the source of an ICMP error is the packet's destination
//! address. Errors, multicasts, broadcasts and later fragments are never answered, and resets and
//! aborts are not answered by their own kind. ICMP errors are limited in rate. Resets and aborts
//! are not, because each of them answers one packet of one connection.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use slipring_model::Stream;
use slipring_neighbour::icmp::{
    IcmpLimiter, IcmpLimits, IcmpMessage, IcmpProblem, OffendingPacket, QuoteLength,
};

use super::config::PortIndex;
use super::log::LogEvent;
use crate::packet::{IpFamily, PacketHeaders};
use crate::rule::Unreach;
use crate::state::{FlowEthernet, ip_frame, reversed, tcp_frame};
use crate::table::IpfwFlowKey;

/// The outputs of a check in addition to its verdict. Empty for most packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckOutputs {
    /// Frames to send.
    pub frames: Vec<EmittedFrame>,
    /// Fragments that waited for the checked frame. They share its verdict and leave before it.
    pub released: Vec<Vec<u8>>,
    /// The reassembled packet of these fragments and the checked frame; `None` if the frame
    /// completed no packet.
    pub whole: Option<Vec<u8>>,
    /// Lines to log.
    pub log: Vec<LogEvent>,
    /// Set by the caller: whether lines that do not go to the system log have a reader.
    pub is_watched: bool,
    /// Set by the caller: whether the caller itself sends the ICMP errors of `reject` and
    /// `unreach`, as a router does from its own address. If so, the verdict on a packet that gets
    /// such an error is `RuleVerdict::Reject`.
    pub leaves_errors: bool,
    /// Number of lines that were omitted from `log` because they have no reader.
    pub unseen: u64,
}

impl Default for CheckOutputs {
    /// Returns empty outputs. A reader of the log lines is assumed.
    fn default() -> Self {
        Self {
            frames: Vec::new(),
            released: Vec::new(),
            whole: None,
            log: Vec::new(),
            is_watched: true,
            leaves_errors: false,
            unseen: 0,
        }
    }
}

/// A frame sent by the firewall itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmittedFrame {
    /// The destination of the frame.
    pub target: EmissionTarget,
    /// The whole frame.
    pub frame: Vec<u8>,
}

/// The destination of a frame sent by the firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmissionTarget {
    /// The frame is sent by this port.
    Port(PortIndex),
    /// The frame is sent to the output ports of frames that come in by this port.
    From(PortIndex),
    /// The frame is sent by every port.
    All,
}

/// The kind of answer to a rejected packet.
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
/// Rates and bursts of ICMP errors. All but the total rate are higher than the defaults of a
/// router, because `reject` answers each of a host's many connections.
const ERROR_LIMITS: IcmpLimits = IcmpLimits {
    per_second: 1000,
    burst: 1000,
    destination_per_second: 100,
    destination_burst: 100,
};

/// The random draws and rate limits that packet checks use.
#[derive(Clone, Debug)]
pub(super) struct RunResources {
    /// Random draws for `prob`.
    pub(super) draws: Stream,
    /// Limits of ICMP errors.
    pub(super) errors: IcmpLimiter,
}

impl RunResources {
    pub(super) fn new(seed: u64, secret: u64) -> Self {
        let errors = IcmpLimiter::new(ERROR_LIMITS, secret);
        Self { draws: Stream::new(seed, "ipfw/prob"), errors }
    }
}

/// Builds the answer to a rejected packet; `None` if the packet must not or cannot be answered in
/// this way, or if the rate limit is reached.
pub(super) fn answer(
    frame: &[u8],
    packet: &PacketHeaders,
    answer: RejectReply,
    (errors, now): (&mut IcmpLimiter, u64),
) -> Option<Vec<u8>> {
    let offending = OffendingPacket::parse(frame)?;
    // Packets that get no ICMP error because of their addresses, or because they are later
    // fragments, get no reset or abort either.
    offending.may_answer(IcmpProblem::Prohibited.message(false)).ok()?;
    let link = FlowEthernet::of(packet).reversed();
    let flow = reversed(packet.flow());
    let message = match answer {
        RejectReply::Reset => return reset(frame, packet, &link, &flow),
        RejectReply::Abort => return abort(frame, packet, &link, &flow),
        _ => error_of(packet, answer)?,
    };
    errors.allows(offending.source, now).ok()?;
    let own = match packet.version {
        IpFamily::V6 => IpAddr::V6(Ipv6Addr::from(flow.src)),
        _ => IpAddr::V4(Ipv4Addr::from(flow.src as u32)),
    };
    let mut answer = link.header(packet.version);
    answer.extend(offending.error(message, own, QuoteLength::Minimal)?);
    Some(answer)
}

/// Returns the ICMP error of an answer; `None` if the answer is not an ICMP error, if the packet's
/// IP version has no such error, or if the packet is an ICMP message other than a request. The
/// caller must check all other reasons not to answer the packet.
pub(super) fn error_of(packet: &PacketHeaders, answer: RejectReply) -> Option<IcmpMessage> {
    if is_icmp_without_question(packet) {
        return None;
    }
    match (answer, packet.version) {
        (_, IpFamily::None) | (RejectReply::Reset | RejectReply::Abort, _) => None,
        (RejectReply::Unreach(unreach), version) => Some(unreach_message(unreach, version)),
        (RejectReply::Unreach6(code), IpFamily::V6) => Some(IcmpMessage { kind: 1, code, rest: 0 }),
        (RejectReply::Unreach6(_), IpFamily::V4) => None,
    }
}

/// The message of `unreach`, in the packet's address family.
fn unreach_message(unreach: Unreach, version: IpFamily) -> IcmpMessage {
    match (version, unreach) {
        (IpFamily::V6, Unreach { code: 4, mtu }) => {
            IcmpProblem::TooBig { mtu: mtu.into() }.message(true)
        }
        (IpFamily::V6, Unreach { code, .. }) => {
            IcmpMessage { kind: 1, code: v6_code(code), rest: 0 }
        }
        (_, Unreach { code: 4, mtu }) => IcmpProblem::TooBig { mtu: mtu.into() }.message(false),
        (_, Unreach { code, .. }) => IcmpMessage { kind: 3, code, rest: 0 },
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

/// Returns whether the packet is an ICMP message other than a request. As in ipfw, only requests
/// are answered: an error about an error or a reply is useless.
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
