//! `ipfw explain`: takes packets from the command line or from a capture, and shows what the rules
//! do to them.

use serde_json::{Value, json};
use slipring_cli::{ReportFormat, Session};
use slipring_pcap::PcapFileReader;

use super::client;
use super::error::IpfwCommandError;
use super::input::IpfwInput;
use slipring_rules::command_batch::{CommandFault, sysexits};
use slipring_rules::explain::rules_text;
use slipring_rules::packet_words::{PACKET_SYNTAX, PacketOptions, hex};

/// Maximum number of packets that are read from a capture file.
const MAX_PACKETS: usize = 100;
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
    let (path, more) = match words[..] {
        [path, ref more @ ..] if std::path::Path::new(path).is_file() => (Some(path), more),
        [path] if path.contains(['/', '.']) => (Some(path), &[][..]),
        [_, _, _, ref more @ ..] => (None, more),
        _ => return Err(usage_fault("there is no packet")),
    };
    let options = PacketOptions::parse(more)?;
    let packets = match path {
        Some(path) if !options.change_packet() => captured(path)?,
        Some(_) => return Err(usage_fault("a captured packet is explained as it is")),
        None => vec![options.frame(words[0], words[1], words[2])?],
    };
    let frames: Vec<_> = packets.iter().map(|frame| hex(frame)).collect();
    let args = json!({ "frames": frames, "port": options.port, "out": options.is_out });
    Ok((args, frames.len() > 1))
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
    rules_text(explanation, "") + explanation["verdict"].as_str().unwrap_or("") + "\n"
}

fn usage_fault(message: &str) -> CommandFault {
    CommandFault {
        expected: Some(format!("a capture, or {PACKET_SYNTAX} [out]")),
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
