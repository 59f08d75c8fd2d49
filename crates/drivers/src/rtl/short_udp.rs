//! UDP packets at which an RTL8125A or B may stop sending, and how long they must be made.
//!
//! The chip looks for the messages of PTP (IEEE 1588) in frames that it sends: UDP to the ports 319
//! and 320. In these it reads 47 bytes from the UDP header on; in other UDP packets, the whole UDP
//! header. It does so even if the packet ends before. Realtek's driver and the kernel's lengthen
//! such frames by zeros after the packet, which receivers ignore, because the IP header contains
//! the length of the packet.

/// Frames with at least this number of bytes are long enough for the chip, unless they have more
/// than 128 bytes before the UDP header.
pub(super) const LONG_ENOUGH: u32 = 128 + PTP_BYTES as u32;
/// Number of bytes of a PTP message that the chip reads, counted from the UDP header.
const PTP_BYTES: usize = 47;
const UDP_HEADER_BYTES: usize = 8;
const PTP_PORTS: [u16; 2] = [319, 320];

const TYPE_AT: usize = 12;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86dd;
const TYPES_OF_TAGS: [u16; 2] = [0x8100, 0x88a8];
const PROTOCOL_UDP: u8 = 17;
const IPV6_HEADER_BYTES: usize = 40;

/// Returns the length, in bytes, to which a frame must be extended for the chip; the frame's own
/// length if it need not be extended.
pub(super) fn safe_len(frame: &[u8]) -> usize {
    let Some(start) = udp_start(frame) else { return frame.len() };
    let there = frame.len() - start;
    let is_ptp = word(frame, start + 2).is_some_and(|port| PTP_PORTS.contains(&port));
    let needed = if is_ptp { PTP_BYTES } else { UDP_HEADER_BYTES };
    frame.len() + needed.saturating_sub(there)
}

/// Returns where the UDP header of a frame begins; `None` if no UDP header follows the IPv4 header
/// (or the IPv6 header without extensions).
fn udp_start(frame: &[u8]) -> Option<usize> {
    let mut at = TYPE_AT;
    while TYPES_OF_TAGS.contains(&word(frame, at)?) {
        at += 4;
    }
    let header = at + 2;
    let first = *frame.get(header)?;
    let (protocol, start) = match word(frame, at)? {
        TYPE_IPV4 => (*frame.get(header + 9)?, header + 4 * usize::from(first & 15)),
        TYPE_IPV6 => (*frame.get(header + 6)?, header + IPV6_HEADER_BYTES),
        _ => return None,
    };
    (protocol == PROTOCOL_UDP && start <= frame.len()).then_some(start)
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    let bytes = frame.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with `udp` bytes from the UDP header on.
    fn frame(header: &[u8], port: u16, udp: usize) -> Vec<u8> {
        let mut rest = vec![0; udp.max(4)];
        rest[2..4].copy_from_slice(&port.to_be_bytes());
        rest.truncate(udp);
        [&[2; 12], header, &rest].concat()
    }

    fn ipv4(words: u8) -> Vec<u8> {
        let mut header = vec![0; 2 + 4 * usize::from(words)];
        header[..3].copy_from_slice(&[0x08, 0, 0x40 | words]);
        header[11] = PROTOCOL_UDP;
        header
    }

    fn ipv6() -> Vec<u8> {
        let mut header = vec![0; 42];
        header[..2].copy_from_slice(&[0x86, 0xdd]);
        header[8] = PROTOCOL_UDP;
        header
    }

    #[test]
    fn messages_of_ptp_get_47_bytes_from_the_udp_header_on() {
        let tagged = [&[0x81, 0, 0, 7][..], &ipv4(5)].concat();
        for header in [ipv4(5), ipv4(15), ipv6(), tagged] {
            let start = 12 + header.len();
            for udp in [8, 20, 46, 47, 48] {
                for port in [319, 320] {
                    let len = safe_len(&frame(&header, port, udp));
                    assert_eq!(len, start + udp.max(47), "{port}, {udp} bytes");
                }
                assert_eq!(safe_len(&frame(&header, 321, udp)), start + udp);
            }
        }
    }

    #[test]
    fn a_udp_header_that_is_cut_off_is_completed_and_other_frames_stay_as_they_are() {
        let header = ipv4(5);
        for udp in 0..4 {
            assert_eq!(safe_len(&frame(&header, 319, udp)), 12 + header.len() + 8);
        }
        let mut tcp = frame(&header, 319, 20);
        tcp[23] = 6;
        assert_eq!(safe_len(&tcp), tcp.len());
        let whole = frame(&[&[0x88, 0xa8, 0, 1][..], &header].concat(), 319, 3);
        for len in 0..whole.len() {
            assert!(safe_len(&whole[..len]) >= len);
        }
    }
}
