//! Any bytes must decode to a capture, or give an error; the result must not depend on whether they
//! are passed as a whole or in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_pcap::{DecodeStep, Decoder, PcapError, PcapFileReader};

/// Timestamp and bytes of a packet.
type Seen = (u64, Vec<u8>);

fuzz_target!(|data: &[u8]| {
    let Some((&piece, file)) = data.split_first() else { return };
    let at_once: Vec<Result<Seen, PcapError>> = PcapFileReader::new(file)
        .map(|packet| packet.map(|packet| (packet.ts_ns, packet.data.to_vec())))
        .collect();
    assert!(at_once.len() <= file.len() + 1);
    assert_eq!(in_pieces(file, usize::from(piece) + 1), at_once);
});

fn in_pieces(file: &[u8], piece: usize) -> Vec<Result<Seen, PcapError>> {
    let mut decoder = Decoder::new();
    let (mut buffer, mut rest) = (Vec::new(), file);
    let mut seen = Vec::new();
    loop {
        let decoded = match decoder.decode(&buffer) {
            Ok(decoded) => decoded,
            Err(error) => {
                seen.push(Err(error));
                return seen;
            }
        };
        let consumed = decoded.consumed;
        let more = match decoded.step {
            DecodeStep::Packet(packet) => {
                seen.push(Ok((packet.ts_ns, packet.data.to_vec())));
                false
            }
            DecodeStep::NeedMore(_) => true,
        };
        buffer.drain(..consumed);
        if more {
            if rest.is_empty() {
                seen.extend(decoder.finish(&buffer).err().map(Err));
                return seen;
            }
            let (next, later) = rest.split_at(piece.min(rest.len()));
            buffer.extend_from_slice(next);
            rest = later;
        }
    }
}
