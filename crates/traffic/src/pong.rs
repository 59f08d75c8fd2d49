//! The far end of a ping: turns a received frame into a frame for its sender.

use slipring_neighbour::icmp::echo;
use slipring_wire::assigned::IpProto;
use slipring_wire::view::{FragmentPosition, Ip, IpVersion};
use slipring_wire::{Headers, MacAddr};

/// Turns a frame around. Swaps the MAC addresses, the IP addresses, and the ports of UDP and TCP.
/// Turns an ICMP echo request into its reply. The ports of SCTP stay, because its checksum depends
/// on their order.
///
/// A valid checksum stays valid, and an invalid one stays invalid. Only the checksum of an echo
/// message has to be changed, because swapping does not change sums. The exception is a packet of
/// IPv6 whose routing header has segments left: the checksums after it become invalid.
///
/// If the frame was sent to a group address, its new source address is `own`, because a source must
/// not be a group address. If the frame contains no IP packet, only the MAC addresses are swapped.
/// If the frame is too short for an Ethernet header, nothing changes and `false` is returned.
///
/// ```
/// use slipring_traffic::turn_around;
/// use slipring_wire::{FrameSpec, MacAddr};
///
/// let mut frame = FrameSpec::default().build(60)?.bytes;
/// assert!(turn_around(&mut frame, MacAddr([2, 0, 0, 0, 0, 9])));
/// assert_eq!(frame[6..12], [2, 0, 0, 0, 0, 9]);
/// assert_eq!(frame[26..34], [10, 1, 0, 1, 10, 0, 0, 1]);
/// # Ok::<(), slipring_wire::frame::BuildError>(())
/// ```
pub fn turn_around(frame: &mut [u8], own: MacAddr) -> bool {
    if frame.len() < 14 {
        return false;
    }
    swap(frame, 0, 6, 6);
    if frame[6] & 1 == 1 {
        frame[6..12].copy_from_slice(&own.0);
    }
    let headers = Headers::parse(frame).ok();
    if let Some((l3, ip)) = headers.and_then(|headers| Some((headers.l3, headers.ip?))) {
        swap_packet_ends(frame, usize::from(l3), &ip);
    }
    true
}

fn swap_packet_ends(frame: &mut [u8], l3: usize, ip: &Ip) {
    match ip.version {
        IpVersion::V4 => swap(frame, l3 + 12, l3 + 16, 4),
        IpVersion::V6 => swap(frame, l3 + 8, l3 + 24, 16),
    }
    if ip.fragment == FragmentPosition::Later || ip.l4_len() < 4 {
        return;
    }
    let l4 = usize::from(ip.l4);
    match ip.proto {
        IpProto::UDP | IpProto::TCP => swap(frame, l4, l4 + 2, 2),
        IpProto::ICMP => answer_echo(frame, l4, IpVersion::V4),
        IpProto::ICMPV6 => answer_echo(frame, l4, IpVersion::V6),
        _ => {}
    }
}

/// Swaps the `len` bytes at `a` with the `len` bytes at `b`, if the frame is long enough. They must
/// not overlap: `b >= a + len`.
fn swap(frame: &mut [u8], a: usize, b: usize, len: usize) {
    if let Some((left, right)) = frame.split_at_mut_checked(b)
        && let (Some(left), Some(right)) = (left.get_mut(a..a + len), right.get_mut(..len))
    {
        left.swap_with_slice(right);
    }
}

fn answer_echo(frame: &mut [u8], l4: usize, version: IpVersion) {
    if let Some(message) = frame.get_mut(l4..) {
        echo::turn_into_reply(message, version);
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;
    use slipring_wire::assigned::{EtherType, VlanTag};
    use slipring_wire::frame::{EchoKind, EchoSpec, FrameSpec, IpSpec, Ipv6Spec, L4Spec, TcpSpec};

    use super::*;
    use crate::{Generator, GeneratorShare, Stamp, StampCheck, TrafficPattern, TrafficProtocol};

    const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

    fn frames() -> Vec<FrameSpec> {
        let echo = |kind| L4Spec::Echo(EchoSpec { kind, id: 7, seq: 8 });
        let mut specs = Vec::new();
        for ip in [IpSpec::V4(Default::default()), IpSpec::V6(Ipv6Spec::default())] {
            for l4 in [
                L4Spec::Udp(Default::default()),
                L4Spec::Tcp(TcpSpec::default()),
                echo(EchoKind::Reply),
            ] {
                for tags in [0, 1, 2] {
                    specs.push(FrameSpec {
                        src_mac: MacAddr([2, 0, 0, 0, 0, 1]),
                        dst_mac: MacAddr([2, 0, 0, 0, 0, 2]),
                        tags: std::vec![VlanTag::new(5, 1).into(); tags],
                        ip,
                        l4,
                        ..FrameSpec::default()
                    });
                }
            }
        }
        specs
    }

    #[test]
    fn turning_twice_gives_the_frame_back() {
        for spec in frames() {
            let frame = spec.build(120).unwrap().bytes;
            let mut turned = frame.clone();
            assert!(turn_around(&mut turned, OWN));
            assert_ne!(turned, frame);
            assert!(turn_around(&mut turned, OWN));
            assert_eq!(turned, frame);
        }
    }

    #[test]
    fn pong_has_the_stamp_of_its_ping_and_valid_checksums() {
        for protocol in
            [TrafficProtocol::Udp, TrafficProtocol::Tcp { flags: 2 }, TrafficProtocol::Echo]
        {
            for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
                let pattern = TrafficPattern {
                    src: src.parse().unwrap(),
                    dst: dst.parse().unwrap(),
                    protocol,
                    sizes: "100".parse().unwrap(),
                    ..TrafficPattern::default()
                };
                let mut ping = [0; 100];
                let mut generator = Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap();
                generator.write(77, &mut ping).unwrap();
                let stamp = Stamp::read(&ping, StampCheck::Checksum).unwrap();
                turn_around(&mut ping, OWN);
                assert_eq!(Stamp::read(&ping, StampCheck::Checksum), Ok(stamp));
            }
        }
    }

    #[test]
    fn echo_request_becomes_the_reply() {
        let request = FrameSpec {
            l4: L4Spec::Echo(EchoSpec { kind: EchoKind::Request, id: 3, seq: 4 }),
            dst_mac: OWN,
            ..FrameSpec::default()
        };
        let mut frame = request.build(98).unwrap().bytes;
        turn_around(&mut frame, OWN);
        assert_eq!(frame[34], 0);
        assert_eq!(slipring_wire::checksum::of(&frame[34..]), 0);
    }

    #[test]
    fn the_bytes_that_the_checksum_of_sctp_covers_stay() {
        let mut frame = FrameSpec::default().build(60).unwrap().bytes;
        frame[14 + 9] = IpProto::SCTP.0;
        let before = frame.clone();
        assert!(turn_around(&mut frame, OWN));
        assert_ne!(frame[26..34], before[26..34], "addresses");
        assert_eq!(frame[34..], before[34..]);
    }

    #[test]
    fn answer_to_a_broadcast_comes_from_the_own_address() {
        let mut frame = FrameSpec::default().build(60).unwrap().bytes;
        turn_around(&mut frame, OWN);
        assert_eq!(frame[..6], MacAddr::ZERO.0);
        assert_eq!(frame[6..12], OWN.0);
    }

    #[test]
    fn frame_of_another_kind_has_only_its_addresses_swapped() {
        let mut frame = [7u8; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
        let mut expected = frame;
        expected[..12].copy_from_slice(&[4, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        assert!(turn_around(&mut frame, OWN));
        assert_eq!(frame, expected);
        assert!(!turn_around(&mut [0; 13], OWN));
    }

    proptest! {
        #[test]
        fn no_frame_makes_it_panic(which in 0usize..18, cut in 0usize..120, edits in prop::collection::vec((0usize..120, any::<u8>()), 0..9)) {
            let mut frame = frames()[which].build(120).unwrap().bytes;
            for (at, byte) in edits {
                frame[at] = byte;
            }
            frame.truncate(cut);
            turn_around(&mut frame, OWN);
        }
    }
}
