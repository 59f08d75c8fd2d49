use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use slipring_wire::assigned::VlanTag;
use slipring_wire::checksum;
use slipring_wire::frame::{Fill, FrameSpec, IpSpec, L4Spec};

use super::*;
use crate::endpoints::TrafficEndpoint;
use crate::{EndpointOrder, Sizes, Stamp, StampCheck, TrafficProtocol};

const PROTOCOLS: [TrafficProtocol; 3] =
    [TrafficProtocol::Udp, TrafficProtocol::Tcp { flags: 0x12 }, TrafficProtocol::Echo];

fn pattern(src: &str, dst: &str, protocol: TrafficProtocol, sizes: &str) -> TrafficPattern {
    TrafficPattern {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        protocol,
        sizes: sizes.parse().unwrap(),
        fill: Fill::Counting,
        ..TrafficPattern::default()
    }
}

fn take(generator: &mut Generator, count: usize) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; generator.max_len()];
    (0..count as u64)
        .map(|n| {
            let len = generator.write(n * 1000, &mut buffer).unwrap();
            buffer[..len].to_vec()
        })
        .collect()
}

/// Builds the frame that a generator should write, without using the generator.
struct Expected<'p> {
    pattern: &'p TrafficPattern,
    len: usize,
    form: Option<StampForm>,
    stamp: Stamp,
    src: TrafficEndpoint,
    dst: TrafficEndpoint,
}

impl Expected<'_> {
    fn frame(&self) -> Vec<u8> {
        let spec = self.pattern.frame_spec();
        let mut payload = spec.build(self.len).unwrap().bytes[spec.header_len()..].to_vec();
        let stamp = self.stamp_bytes();
        payload[..stamp.len()].copy_from_slice(&stamp);
        let spec = FrameSpec {
            ip: self.ip(&spec),
            l4: self.l4(&spec),
            fill: Fill::Pattern(payload),
            ..spec
        };
        spec.build(self.len).unwrap().bytes
    }

    fn stamp_bytes(&self) -> Vec<u8> {
        let Some(form) = self.form else {
            return Vec::new();
        };
        let number = self.stamp.number.to_be_bytes();
        let mut bytes = number[4..].to_vec();
        bytes.extend(form.mark().to_be_bytes());
        bytes.extend(self.stamp.stream.to_be_bytes());
        bytes.extend(&number[2..4]);
        if form == StampForm::Timed {
            bytes.extend(self.stamp.sent_ns.unwrap().to_be_bytes());
        }
        bytes
    }

    fn ip(&self, spec: &FrameSpec) -> IpSpec {
        match spec.ip {
            IpSpec::V4(mut ip) => {
                ip.src = Ipv4Addr::from_bits(self.src.address as u32);
                ip.dst = Ipv4Addr::from_bits(self.dst.address as u32);
                IpSpec::V4(ip)
            }
            IpSpec::V6(mut ip) => {
                ip.src = Ipv6Addr::from_bits(self.src.address);
                ip.dst = Ipv6Addr::from_bits(self.dst.address);
                IpSpec::V6(ip)
            }
        }
    }

    fn l4(&self, spec: &FrameSpec) -> L4Spec {
        let (src, dst) = (self.src.port, self.dst.port);
        match spec.l4 {
            L4Spec::Udp(mut ports) => {
                (ports.src, ports.dst) = (src, dst);
                L4Spec::Udp(ports)
            }
            L4Spec::Tcp(mut tcp) => {
                (tcp.ports.src, tcp.ports.dst) = (src, dst);
                L4Spec::Tcp(tcp)
            }
            L4Spec::Echo(mut echo) => {
                (echo.id, echo.seq) = (src, dst);
                L4Spec::Echo(echo)
            }
        }
    }
}

fn any_pattern() -> impl Strategy<Value = TrafficPattern> {
    let families = prop_oneof![
        Just(("10.0.0.1:5-10.0.0.9:7", "10.1.0.0/30:9,10.9.9.9:65535")),
        Just(("10.0.0.1", "10.0.0.2")),
        Just(("fd00::1", "fd00::2")),
        Just(("[fd00::fffe]:1-[fd00::1:2]:2", "::/0")),
    ];
    let protocol = prop::sample::select(&PROTOCOLS[..]);
    let sizes = prop_oneof![
        (100u16..1600).prop_map(|len| Sizes::fixed(len).unwrap()),
        (100u16..1600, 100u16..1600).prop_map(|(a, b)| Sizes::random(a, b).unwrap()),
        Just("100:3,101:2,999:1".parse().unwrap()),
    ];
    let orders = (any::<bool>(), any::<bool>()).prop_map(|(src, dst)| {
        let order = |random| if random { EndpointOrder::Random } else { EndpointOrder::Sweep };
        (order(src), order(dst))
    });
    let fill = prop_oneof![
        any::<u8>().prop_map(Fill::Byte),
        Just(Fill::Counting),
        prop::collection::vec(any::<u8>(), 1..9).prop_map(Fill::Pattern),
    ];
    (families, protocol, sizes, orders, fill, 0usize..3, any::<(u8, u8)>()).prop_map(
        |((src, dst), protocol, sizes, orders, fill, tags, (ttl, tos))| TrafficPattern {
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            src_order: orders.0,
            dst_order: orders.1,
            protocol,
            sizes,
            tags: vec![VlanTag::new(100, 5).into(); tags],
            ttl,
            tos,
            fill,
            ..TrafficPattern::default()
        },
    )
}

proptest! {
    #[test]
    fn every_frame_is_what_building_it_from_nothing_gives(
        pattern in any_pattern(),
        seed: u64,
        times in prop::collection::vec(any::<u64>(), 1..20),
    ) {
        let mut generator = Generator::new(&pattern, seed, GeneratorShare::ONLY).unwrap();
        let mut buffer = vec![0xee; generator.max_len()];
        for (number, now_ns) in (0..).zip(times) {
            let (src, dst) = generator.flows.current();
            let expected = Expected {
                pattern: &pattern,
                len: generator.next_len(),
                form: generator.stamp_form(),
                stamp: Stamp { stream: 0, number, sent_ns: Some(now_ns) },
                src,
                dst,
            };
            let len = generator.write(now_ns, &mut buffer).unwrap();
            prop_assert_eq!(&buffer[..len], expected.frame());
            let stamp = Stamp::read(&buffer[..len], StampCheck::Checksum).unwrap();
            prop_assert_eq!(stamp.number, number);
        }
    }

    #[test]
    fn patching_prepared_buffers_gives_the_written_frames(pattern in any_pattern(), seed: u64) {
        let mut writer = Generator::new(&pattern, seed, GeneratorShare::ONLY).unwrap();
        let mut patcher = writer.clone();
        let mut written = vec![0; writer.max_len()];
        let mut buffers = vec![vec![0; writer.max_len()]; 2];
        buffers.iter_mut().for_each(|buffer| patcher.prepare(buffer));
        for turn in 0..20 {
            let len = writer.write(turn, &mut written).unwrap();
            let patched = &mut buffers[turn as usize % 2];
            prop_assert_eq!(patcher.patch(turn, patched), Some(len));
            prop_assert_eq!(&patched[..len], &written[..len]);
        }
    }
}

#[test]
fn same_seed_gives_the_same_bytes_on_every_machine() {
    let pattern = TrafficPattern {
        src_order: EndpointOrder::Random,
        ..pattern("10.0.0.0/8:1-65535", "10.1.0.0/16", TrafficProtocol::Udp, "60-1514")
    };
    let share = GeneratorShare::new(1, 2).unwrap();
    let mut generator = Generator::new(&pattern, 7, share).unwrap();
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let frames = take(&mut generator, 1000);
    let hash = frames.iter().flatten().fold(0xcbf2_9ce4_8422_2325, fnv);
    assert_eq!(hash, 290_472_892_318_482_643);
}

#[test]
fn another_seed_or_lane_gives_other_random_addresses() {
    let pattern = TrafficPattern {
        src_order: EndpointOrder::Random,
        ..pattern("10.0.0.0/8", "10.1.0.1", TrafficProtocol::Udp, "60")
    };
    let sources = |seed, share| {
        let mut generator = Generator::new(&pattern, seed, share).unwrap();
        let frames = take(&mut generator, 8);
        frames.iter().map(|frame| frame[26..30].to_vec()).collect::<Vec<_>>()
    };
    let first = sources(1, GeneratorShare::ONLY);
    assert_eq!(first, sources(1, GeneratorShare::ONLY));
    assert_ne!(first, sources(2, GeneratorShare::ONLY));
    assert_ne!(first, sources(1, GeneratorShare::new(1, 2).unwrap()));
}

#[test]
fn smallest_frames_carry_the_stamps_that_the_documentation_says() {
    use StampForm::{Numbered, Timed};
    let form = |src, protocol, len: usize| {
        let pattern = pattern(src, src, protocol, &std::format!("{len}"));
        Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap().stamp_form()
    };
    let (v4, v6, tcp) = ("10.0.0.1", "fd00::1", TrafficProtocol::Tcp { flags: 0 });
    for (src, protocol, numbered, timed) in [
        (v4, TrafficProtocol::Udp, 52, 60),
        (v4, TrafficProtocol::Echo, 52, 60),
        (v4, tcp, 64, 72),
        (v6, TrafficProtocol::Udp, 72, 80),
        (v6, TrafficProtocol::Echo, 72, 80),
        (v6, tcp, 84, 92),
    ] {
        assert_eq!(form(src, protocol, numbered - 1), None);
        assert_eq!(form(src, protocol, numbered), Some(Numbered));
        assert_eq!(form(src, protocol, timed - 1), Some(Numbered));
        assert_eq!(form(src, protocol, timed), Some(Timed));
    }
}

#[test]
fn udp_checksum_is_never_the_zero_that_means_none() {
    let mut generator =
        Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
    let mut frame = [0; 60];
    let mut other_zero = 0;
    for now_ns in 0..200_000 {
        generator.write(now_ns, &mut frame).unwrap();
        assert_ne!(frame[40..42], [0, 0]);
        other_zero += u32::from(frame[40..42] == [0xff, 0xff]);
    }
    assert!(other_zero > 0);
}

#[test]
fn frame_without_room_for_a_stamp_is_still_valid() {
    for protocol in PROTOCOLS {
        for (address, len) in [("10.0.0.1", 54), ("fd00::1", 75)] {
            let pattern = pattern(address, address, protocol, &std::format!("{len}"));
            let mut generator = Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap();
            let frame = take(&mut generator, 1).remove(0);
            let headers = slipring_wire::Headers::parse(&frame).unwrap();
            assert_eq!(headers.ip.unwrap().end as usize, len);
        }
    }
}

#[test]
fn buffer_that_is_too_short_is_left_alone_and_takes_no_number() {
    let mut generator =
        Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
    let mut short = [9; 59];
    assert_eq!(generator.write(0, &mut short), None);
    assert_eq!(generator.patch(0, &mut short), None);
    assert_eq!(short, [9; 59]);
    assert_eq!(generator.number(), 0);
}

#[test]
fn nothing_is_written_beyond_the_frame() {
    let mut generator =
        Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
    let mut buffer = [0xee; 128];
    let len = generator.write(0, &mut buffer).unwrap();
    assert!(buffer[len..].iter().all(|&byte| byte == 0xee));
}

#[test]
fn mix_comes_in_its_order_and_is_announced() {
    let pattern = TrafficPattern { sizes: Sizes::imix(), ..TrafficPattern::default() };
    let mut generator = Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap();
    let announced = generator.next_len();
    let frames = take(&mut generator, 24);
    assert_eq!(frames[0].len(), announced);
    let total: usize = frames.iter().map(Vec::len).sum();
    assert_eq!(total, 2 * (7 * 60 + 4 * 590 + 1514));
}

#[test]
fn number_starts_the_payload_as_classic_receivers_expect() {
    let mut generator =
        Generator::new(&TrafficPattern::default(), 0, GeneratorShare::ONLY).unwrap();
    for (number, frame) in (0u32..).zip(take(&mut generator, 300)) {
        assert_eq!(frame[42..46], number.to_be_bytes());
    }
}

#[test]
fn stream_id_is_the_lane_or_what_the_caller_says() {
    let stream = |generator: Generator| {
        let frame = take(&mut generator.clone(), 1).remove(0);
        Stamp::read(&frame, StampCheck::Checksum).unwrap().stream
    };
    let share = GeneratorShare::new(3, 4).unwrap();
    let generator = Generator::new(&TrafficPattern::default(), 0, share).unwrap();
    assert_eq!(stream(generator.clone()), 3);
    assert_eq!(stream(generator.with_stream_id(777)), 777);
}

#[test]
fn contradictions_are_refused_by_name() {
    let refusal =
        |pattern: TrafficPattern| Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap_err();
    let mixed = pattern("10.0.0.1", "fd00::1", TrafficProtocol::Udp, "80");
    assert_eq!(refusal(mixed), PatternError::MixedFamilies);
    let short = pattern("fd00::1", "fd00::2", TrafficProtocol::Udp, "61-80");
    let error = std::string::ToString::to_string(&refusal(short));
    assert_eq!(error, "61 bytes cannot hold the headers, which take 62");
}

#[test]
fn ip_header_checksum_is_right_through_a_sweep_of_mixed_sizes() {
    let pattern = pattern("10.0.0.0/29:1-3", "10.255.255.0/24", TrafficProtocol::Udp, "60,61,1514");
    let mut generator = Generator::new(&pattern, 0, GeneratorShare::ONLY).unwrap();
    for frame in take(&mut generator, 500) {
        assert_eq!(checksum::of(&frame[14..34]), 0);
    }
}
