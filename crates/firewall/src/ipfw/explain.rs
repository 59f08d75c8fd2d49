//! `ipfw explain`: takes packets from the command line or from a capture, and shows what the rules
//! do to them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use serde_json::{Value, json};
use slipring_cli::{ReportFormat, Session};
use slipring_pcap::PcapFileReader;
use slipring_wire::FrameSpec;
use slipring_wire::frame::{
    EchoKind, EchoSpec, IpSpec, Ipv4Spec, Ipv6Spec, L4Spec, PortPair, TcpSpec,
};

use super::client;
use super::error::IpfwCommandError;
use super::input::IpfwInput;
use slipring_rules::command_batch::{CommandFault, sysexits};

/// Maximum number of packets that are read from a capture file.
const MAX_PACKETS: usize = 100;
const EXPECTED_PACKET_SYNTAX: &str = "a capture, or PROTO SOURCE[:PORT] DESTINATION[:PORT] [recv PORT] [out], as in: \
                        explain tcp 10.0.0.1:1024 10.1.0.1:22 recv eth0";

/// Executes `explain WORDS`.
pub(super) fn run(
    input: &IpfwInput,
    words: &[String],
    session: &mut Session<'_>,
) -> Result<(), IpfwCommandError> {
    let (args, many) = question(words)?;
    let answer = client::explain(input, &args, session)?;
    if session.reporter.format() != ReportFormat::Text {
        return Ok(session.reporter.document(&json!({ "answer": answer }), "")?);
    }
    Ok(session.reporter.raw(text_of(&answer, many).as_bytes())?)
}

/// Returns the request to the firewall, and whether it contains several packets.
pub(super) fn question(words: &[String]) -> Result<(Value, bool), CommandFault> {
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let (packet, more) = match words[..] {
        [path, ref more @ ..] if std::path::Path::new(path).is_file() => (captured(path)?, more),
        [path] if path.contains(['/', '.']) => (captured(path)?, &[][..]),
        [proto, src, dst, ref more @ ..] => (vec![frame(proto, src, dst)?], more),
        _ => return Err(usage_fault("there is no packet")),
    };
    let (port, is_out) = match more {
        [] => (None, false),
        ["out"] => (None, true),
        ["recv", port] => (Some(*port), false),
        ["recv", port, "out"] => (Some(*port), true),
        [word, ..] => return Err(usage_fault(&format!("`{word}` is one word too many"))),
    };
    let frames: Vec<_> = packet.iter().map(|frame| hex(frame)).collect();
    Ok((json!({ "frames": frames, "port": port, "out": is_out }), frames.len() > 1))
}

/// Formats the firewall's answer as text. `many` must be set if there are several packets.
pub(super) fn text_of(answer: &Value, many: bool) -> String {
    let explanation = answer.as_array().into_iter().flatten().enumerate();
    explanation.map(|(at, explanation)| text(at + 1, many, explanation)).collect()
}

fn text(number: usize, many: bool, explanation: &Value) -> String {
    let mut text = if many { format!("packet {number}\n") } else { String::new() };
    text += &pass(explanation);
    for out in explanation["out"].as_array().into_iter().flatten() {
        text += &format!("and out by {}\n{}", out["port"].as_str().unwrap_or(""), pass(out));
    }
    text
}

fn pass(explanation: &Value) -> String {
    let mut text = String::new();
    for row in explanation["rules"].as_array().into_iter().flatten() {
        let (number, word) =
            (row["number"].as_u64().unwrap_or(0), |key: &str| row[key].as_str().unwrap_or(""));
        text += &format!("{number:05} {}   <- {}\n", word("rule"), word("why"));
    }
    text + explanation["verdict"].as_str().unwrap_or("") + "\n"
}

fn usage_fault(message: &str) -> CommandFault {
    CommandFault {
        expected: Some(EXPECTED_PACKET_SYNTAX.to_owned()),
        ..CommandFault::new(message, sysexits::USAGE)
    }
}

fn captured(path: &str) -> Result<Vec<Vec<u8>>, CommandFault> {
    let failed =
        |message: String| CommandFault::new(format!("{path}: {message}"), sysexits::NO_INPUT);
    let bytes = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let packets = PcapFileReader::new(&bytes).take(MAX_PACKETS);
    packets
        .map(|packet| packet.map(|packet| packet.data.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(error.to_string()))
}

/// Builds the frame of a packet with protocol `proto` from `src` to `dst`.
fn frame(proto: &str, src: &str, dst: &str) -> Result<Vec<u8>, CommandFault> {
    let unread =
        |word: &str| usage_fault(&format!("`{word}` is no address with or without a port"));
    let (src, src_port) = end(src).ok_or_else(|| unread(src))?;
    let (dst, dst_port) = end(dst).ok_or_else(|| unread(dst))?;
    let ports = PortPair { src: src_port, dst: dst_port };
    let l4 = match proto {
        "udp" => L4Spec::Udp(ports),
        "tcp" | "tcp-ack" => {
            let flags = if proto == "tcp" { 0x02 } else { 0x10 };
            L4Spec::Tcp(TcpSpec { ports, flags, ..TcpSpec::default() })
        }
        "icmp" | "icmp6" => L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 1, seq: 1 }),
        _ => {
            return Err(usage_fault(&format!(
                "`{proto}` is none of tcp (a SYN), tcp-ack, udp, icmp"
            )));
        }
    };
    let ip = match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            IpSpec::V4(Ipv4Spec { src, dst, ..Default::default() })
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            IpSpec::V6(Ipv6Spec { src, dst, ..Default::default() })
        }
        _ => return Err(usage_fault("one address is of IPv4 and the other of IPv6")),
    };
    let spec = FrameSpec { ip, l4, ..FrameSpec::default() };
    let built = spec.build(spec.header_len().max(60));
    built.map(|frame| frame.bytes.to_vec()).map_err(|error| usage_fault(&error.to_string()))
}

/// Parses an address with an optional port: `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`.
pub(super) fn end(text: &str) -> Option<(IpAddr, u16)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address, 0));
    }
    if let Some(address) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().ok().map(|address| (address.into(), 0));
    }
    text.parse::<SocketAddr>().ok().map(|socket| (socket.ip(), socket.port()))
}

fn hex(frame: &[u8]) -> String {
    frame.iter().map(|byte| format!("{byte:02x}")).collect()
}
