//! The stamp at the start of a frame's payload. It contains stream, number and send time.
//!
//! ```text
//!   0        4      6       8        10                18
//!   | number | mark | stream| number | time            |   all big-endian
//!   | low 32 |      |       | high 16| ns              |
//!   `------------- numbered ---------`---- timed ------'
//! ```
//!
//! The lower half of the number comes first, because netmap's `txseq` puts its number there. So
//! netmap's `rxseq` can follow frames with these stamps. The mark distinguishes the two forms from
//! each other and from other traffic. Numbers have 48 bits and start again at 0 after the last one;
//! at 10⁹ frames per second, this happens after three days.
//!
//! With the timed form, the smallest frame of UDP over IPv4 has exactly 60 bytes. The smallest
//! frames have these lengths in bytes (add 4 for each VLAN tag):
//!
//! | | numbered | timed |
//! |---|---|---|
//! | UDP, ICMP over IPv4 | 52 | 60 |
//! | TCP over IPv4 | 64 | 72 |
//! | UDP, ICMP over IPv6 | 72 | 80 |
//! | TCP over IPv6 | 84 | 92 |
//!
//! Not for authentication. Anyone can write a stamp. A forged stamp can distort a report, but has
//! no other effect.

use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::Sum;
use slipring_wire::view::{FragmentPosition, Ip, IpVersion};

/// What a stamp contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The id of the frame's stream. Each generator has its own stream.
    pub stream: u16,
    /// The frame's number in its stream, modulo 2⁴⁸.
    pub number: u64,
    /// Send time in ns, according to the sender's clock; `None` in the numbered form.
    pub sent_ns: Option<u64>,
}

/// The form of a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampForm {
    /// The stamp has stream and number.
    Numbered,
    /// The stamp has stream, number and send time.
    Timed,
}

/// Why a frame has no valid stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampError {
    /// The frame has no mark, or is too short for one. So it comes from another sender.
    Foreign,
    /// The frame has the mark, but its checksum is wrong, or a part of it is missing.
    Corrupt,
}

/// How thoroughly a received frame is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StampCheck {
    /// Checks headers and mark. This takes about the same time for every length. It is for frames
    /// that continue in other slots, or whose checksums are left to the hardware.
    Mark,
    /// Also checks the transport checksum.
    #[default]
    Checksum,
}

const NUMBERED_MARK: u16 = 0x51d0;
const TIMED_MARK: u16 = 0x51d1;

impl StampForm {
    /// Returns how many bytes of the payload the stamp occupies.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Numbered => 10,
            Self::Timed => 18,
        }
    }

    /// Returns the longest form that fits in `room` bytes of payload; `None` if no form fits.
    #[must_use]
    pub const fn fitting(room: usize) -> Option<Self> {
        if room >= Self::Timed.bytes() {
            Some(Self::Timed)
        } else if room >= Self::Numbered.bytes() {
            Some(Self::Numbered)
        } else {
            None
        }
    }

    pub(crate) const fn mark(self) -> u16 {
        match self {
            Self::Numbered => NUMBERED_MARK,
            Self::Timed => TIMED_MARK,
        }
    }
}

impl Stamp {
    /// Number of bits in a frame number.
    pub const NUMBER_BITS: u32 = 48;

    /// Reads the stamp of a received frame.
    ///
    /// # Errors
    /// [`StampError`] if the frame has no valid stamp.
    #[inline]
    pub fn read(frame: &[u8], verify: StampCheck) -> Result<Self, StampError> {
        let headers = Headers::parse(frame).map_err(|_| StampError::Foreign)?;
        let ip = headers.ip.ok_or(StampError::Foreign)?;
        let start = payload(frame, &ip).ok_or(StampError::Foreign)?;
        // According to the IP header, the packet may end before its payload starts or after the
        // frame ends, so this range may not exist.
        let end = frame.len().min(ip.end as usize);
        let stamp = Self::decode(frame.get(start..end).ok_or(StampError::Foreign)?)?;
        match verify {
            StampCheck::Checksum if !checksum_holds(frame, usize::from(headers.l3), &ip) => {
                Err(StampError::Corrupt)
            }
            _ => Ok(stamp),
        }
    }

    /// Reads a stamp at the start of a payload.
    fn decode(body: &[u8]) -> Result<Self, StampError> {
        let &[_, _, _, _, m0, m1] = body.first_chunk().ok_or(StampError::Foreign)?;
        let form = match u16::from_be_bytes([m0, m1]) {
            TIMED_MARK => StampForm::Timed,
            NUMBERED_MARK => StampForm::Numbered,
            _ => return Err(StampError::Foreign),
        };
        let stamp = body.get(..form.bytes()).ok_or(StampError::Corrupt)?;
        let &[n0, n1, n2, n3, _, _, s0, s1, h0, h1] =
            stamp.first_chunk().ok_or(StampError::Corrupt)?;
        Ok(Self {
            stream: u16::from_be_bytes([s0, s1]),
            number: u64::from_be_bytes([0, 0, h0, h1, n0, n1, n2, n3]),
            sent_ns: stamp[10..].first_chunk().copied().map(u64::from_be_bytes),
        })
    }
}

/// Returns the offset of the payload, which follows the transport header; `None` if this header is
/// incomplete or unknown.
#[inline]
fn payload(frame: &[u8], ip: &Ip) -> Option<usize> {
    if ip.fragment == FragmentPosition::Later {
        return None;
    }
    let l4 = usize::from(ip.l4);
    match ip.proto {
        IpProto::UDP | IpProto::ICMP | IpProto::ICMPV6 => Some(l4 + 8),
        IpProto::TCP => Some(l4 + usize::from(frame.get(l4 + 12)? >> 4) * 4),
        _ => None,
    }
}

/// Returns whether the packet is complete and its transport checksum is correct. A fragment does
/// not have the whole transport payload, and UDP over IPv4 may have no checksum. Both count as
/// correct.
fn checksum_holds(frame: &[u8], l3: usize, ip: &Ip) -> bool {
    let Some(l4) = ip.l4_bytes(frame) else {
        return false;
    };
    if ip.fragment != FragmentPosition::Whole || is_unchecked_udp(l4, ip) {
        return true;
    }
    pseudo_header(frame, l3, ip).is_some_and(|pseudo| pseudo.bytes(l4).checksum() == 0)
}

fn is_unchecked_udp(l4: &[u8], ip: &Ip) -> bool {
    ip.proto == IpProto::UDP && ip.version == IpVersion::V4 && l4.get(6..8) == Some(&[0, 0])
}

fn pseudo_header(frame: &[u8], l3: usize, ip: &Ip) -> Option<Sum> {
    if ip.proto == IpProto::ICMP {
        return Some(Sum::new());
    }
    let addresses = match ip.version {
        IpVersion::V4 => frame.get(l3 + 12..l3 + 20)?,
        IpVersion::V6 => frame.get(l3 + 8..l3 + 40)?,
    };
    let proto = u16::from(ip.proto.0);
    Some(Sum::new().bytes(addresses).u16(proto).u32(ip.l4_len()))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use slipring_wire::checksum;

    use super::*;
    use crate::{Generator, GeneratorShare, TrafficPattern};

    const BOTH: [StampCheck; 2] = [StampCheck::Mark, StampCheck::Checksum];

    /// Returns a frame of the default pattern, and the contents of its stamp.
    fn stamped() -> (Vec<u8>, Stamp) {
        let mut frame = std::vec![0; 60];
        let generator =
            Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
        generator.with_stream_id(0x1234).write(99, &mut frame).unwrap();
        (frame, Stamp { stream: 0x1234, number: 0, sent_ns: Some(99) })
    }

    fn refresh_ip_checksum(frame: &mut [u8]) {
        frame[24..26].fill(0);
        let sum = checksum::of(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }

    #[test]
    fn stamp_says_what_was_written() {
        let (frame, stamp) = stamped();
        for verify in BOTH {
            assert_eq!(Stamp::read(&frame, verify), Ok(stamp));
        }
    }

    #[test]
    fn every_flipped_bit_of_the_datagram_is_noticed() {
        let (frame, _) = stamped();
        for bit in 34 * 8..60 * 8 {
            let mut frame = frame.clone();
            frame[bit / 8] ^= 1 << (bit % 8);
            assert!(Stamp::read(&frame, StampCheck::Checksum).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn middle_of_a_fragmented_packet_has_no_stamp() {
        let (mut frame, _) = stamped();
        frame[20..22].copy_from_slice(&[0x20, 0x40]);
        refresh_ip_checksum(&mut frame);
        for verify in BOTH {
            assert_eq!(Stamp::read(&frame, verify), Err(StampError::Foreign));
        }
    }

    #[test]
    fn first_fragment_has_its_stamp_and_no_checksum_of_its_own() {
        let (mut frame, stamp) = stamped();
        frame[20..22].copy_from_slice(&[0x20, 0]);
        frame[40] ^= 1;
        assert_eq!(Stamp::read(&frame, StampCheck::Checksum), Ok(stamp));
    }

    #[test]
    fn udp_without_checksum_is_taken_as_it_is() {
        let (mut frame, stamp) = stamped();
        frame[40..42].fill(0);
        assert_eq!(Stamp::read(&frame, StampCheck::Checksum), Ok(stamp));
    }

    #[test]
    fn padding_behind_the_packet_is_no_stamp() {
        let (mut frame, _) = stamped();
        frame[16..18].copy_from_slice(&28u16.to_be_bytes());
        refresh_ip_checksum(&mut frame);
        assert_eq!(Stamp::read(&frame, StampCheck::Mark), Err(StampError::Foreign));
    }

    #[test]
    fn frame_cut_short_is_corrupt_if_the_stamp_or_the_checksum_suffers() {
        let (frame, _) = stamped();
        assert_eq!(Stamp::read(&frame[..59], StampCheck::Mark), Err(StampError::Corrupt));
        let long = TrafficPattern { sizes: "80".parse().unwrap(), ..TrafficPattern::default() };
        let mut frame = [0; 80];
        Generator::new(&long, 0, GeneratorShare::ONLY).unwrap().write(0, &mut frame).unwrap();
        assert!(Stamp::read(&frame[..64], StampCheck::Mark).is_ok());
        assert_eq!(Stamp::read(&frame[..64], StampCheck::Checksum), Err(StampError::Corrupt));
    }
}
