//! A packet that waits for a neighbour, in the state for a successor.
//!
//! The state is JSON, in which an array of bytes would be almost four times as long as the frame,
//! and one value for each byte. So the frame is text: two hexadecimal digits for each byte.

use serde::{Deserialize, Serialize};

/// A packet that waits for a neighbour, as the frame that arrived.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HandedPacket {
    /// Index of the interface at which it arrived.
    pub(super) ifindex: u32,
    /// Number of the thread that has it.
    pub(super) thread: usize,
    #[serde(with = "hex")]
    pub(super) frame: Vec<u8>,
}

/// Bytes as hexadecimal digits.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    const DIGITS: &[u8; 16] = b"0123456789abcdef";

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        let digits = |byte: &u8| [byte >> 4, byte & 15].map(|at| DIGITS[usize::from(at)]);
        let text: String = bytes.iter().flat_map(digits).map(char::from).collect();
        to.serialize_str(&text)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        let (pairs, rest) = text.as_bytes().as_chunks();
        let bytes = pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty());
        bytes.ok_or_else(|| D::Error::custom("not pairs of hexadecimal digits"))
    }

    fn byte(digits: &[u8; 2]) -> Option<u8> {
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        Some((high? << 4 | low?) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn packet(frame: Vec<u8>) -> HandedPacket {
        HandedPacket { ifindex: 7, thread: 1, frame }
    }

    #[test]
    fn a_handed_packet_takes_two_characters_for_a_byte() {
        let lens = [0, 1500].map(|len| {
            let value = serde_json::to_value(packet(vec![0xff; len])).unwrap();
            value.to_string().len()
        });
        assert_eq!(lens[1] - lens[0], 3000);
    }

    #[test]
    fn a_handed_packet_is_read_as_it_was_written() {
        for frame in [Vec::new(), (0..=255).collect()] {
            let value = serde_json::to_value(packet(frame.clone())).unwrap();
            assert_eq!(HandedPacket::deserialize(&value).unwrap(), packet(frame));
        }
    }

    #[test]
    fn a_frame_in_another_form_is_not_read() {
        let read = |frame: Value| {
            let document = json!({ "ifindex": 7, "thread": 1, "frame": frame });
            HandedPacket::deserialize(&document).map(|packet| packet.frame).ok()
        };
        assert_eq!(read(json!("0aF0")), Some(vec![0x0a, 0xf0]));
        let others = [json!([10, 240]), json!("0af"), json!("0ag0"), json!("+1"), json!("é")];
        assert_eq!(others.map(read), [None, None, None, None, None]);
    }
}
