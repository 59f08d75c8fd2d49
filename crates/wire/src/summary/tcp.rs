//! TCP: flags, numbers, window, options, payload length.

use core::fmt;

use super::ip::Packet;
use crate::field::{array, be16, be32};

const MIN_LEN: usize = 20;
const ACK: u8 = 0x10;
const URG: u8 = 0x20;
/// Flag bits and tcpdump's letters for them, in its order.
const FLAG_LETTERS: [(u8, char); 8] = [
    (0x01, 'F'),
    (0x02, 'S'),
    (0x04, 'R'),
    (0x08, 'P'),
    (0x10, '.'),
    (URG, 'U'),
    (0x40, 'E'),
    (0x80, 'W'),
];

pub(super) fn line(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let Some(header) = array::<MIN_LEN>(packet.bytes, 0) else {
        return f.write_str("[|tcp]");
    };
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < MIN_LEN || header_len > packet.len {
        return write!(f, "TCP, bad header length {header_len}");
    }
    let len = packet.len - header_len;
    if packet.quick {
        return write!(f, "tcp {len}");
    }
    write_flags(f, header[13])?;
    if let Some(checked) = packet.checked {
        checked.in_words(f)?;
    }
    write_numbers(f, &header, len)?;
    let options = packet.bytes.get(MIN_LEN..header_len);
    match options {
        Some([]) => {}
        Some(options) => write_options(f, options)?,
        None => f.write_str(", options [|tcp]")?,
    }
    write!(f, ", length {len}")
}

fn write_flags(f: &mut fmt::Formatter<'_>, flags: u8) -> fmt::Result {
    f.write_str("Flags [")?;
    for (bit, letter) in FLAG_LETTERS {
        if flags & bit != 0 {
            write!(f, "{letter}")?;
        }
    }
    f.write_str(if flags == 0 { "none]" } else { "]" })
}

/// `, seq 1:101, ack 7, win 502`: the sequence number for segments that occupy sequence space.
fn write_numbers(f: &mut fmt::Formatter<'_>, header: &[u8], len: usize) -> fmt::Result {
    let seq = be32(header, 4).unwrap_or(0);
    let flags = header[13];
    if len > 0 {
        write!(f, ", seq {seq}:{}", seq.wrapping_add(len as u32))?;
    } else if flags & 0x07 != 0 {
        write!(f, ", seq {seq}")?;
    }
    if flags & ACK != 0 {
        write!(f, ", ack {}", be32(header, 8).unwrap_or(0))?;
    }
    write!(f, ", win {}", be16(header, 14).unwrap_or(0))?;
    if flags & URG != 0 {
        write!(f, ", urg {}", be16(header, 18).unwrap_or(0))?;
    }
    Ok(())
}

fn write_options(f: &mut fmt::Formatter<'_>, mut options: &[u8]) -> fmt::Result {
    let mut before = ", options [";
    while let [kind, rest @ ..] = options {
        f.write_str(before)?;
        before = ",";
        options = match (kind, rest) {
            // End of the list; what follows is padding.
            (0, _) => {
                f.write_str("eol")?;
                &[]
            }
            (1, _) => {
                f.write_str("nop")?;
                rest
            }
            (_, [len, ..]) if *len >= 2 && usize::from(*len) <= options.len() => {
                let (option, after) = options.split_at(usize::from(*len));
                write_option(f, *kind, &option[2..])?;
                after
            }
            _ => {
                f.write_str("bad opt")?;
                &[]
            }
        };
    }
    f.write_str("]")
}

fn write_option(f: &mut fmt::Formatter<'_>, kind: u8, data: &[u8]) -> fmt::Result {
    match (kind, data) {
        (2, [a, b]) => write!(f, "mss {}", u16::from_be_bytes([*a, *b])),
        (3, [shift]) => write!(f, "wscale {shift}"),
        (4, []) => f.write_str("sackOK"),
        (5, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => write_sack(f, blocks),
        (8, [..]) if data.len() == 8 => {
            let (value, echo) = (be32(data, 0).unwrap_or(0), be32(data, 4).unwrap_or(0));
            write!(f, "TS val {value} ecr {echo}")
        }
        _ => write!(f, "opt-{kind}"),
    }
}

fn write_sack(f: &mut fmt::Formatter<'_>, data: &[u8]) -> fmt::Result {
    let (blocks, _) = data.as_chunks::<8>();
    write!(f, "sack {} ", blocks.len())?;
    for block in blocks {
        let (from, to) = (be32(block, 0).unwrap_or(0), be32(block, 4).unwrap_or(0));
        write!(f, "{{{from}:{to}}}")?;
    }
    Ok(())
}
