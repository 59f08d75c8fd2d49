//! One test per rule of the program's steps, in the interpreter. Expected frames are computed from
//! RFC 791, RFC 8200 and RFC 1071, without incremental sums.

use slipring_bpf::{BpfRedirect, XdpOutcome};

use slipring_fib::ReversePathMode;

use crate::layout::{self, PassReason};
use crate::testing::{
    LIMITS, LOCAL, SEED, Simulation, TAG_FUNCTION, egress_of, hop_mac, port_mac, target,
};

const XDP_REDIRECT: u32 = super::context::XDP_REDIRECT as u32;
const SOURCE: [u8; 4] = [192, 0, 2, 9];

/// The ones' complement sum of big-endian 16-bit words. It is 0xffff if the bytes contain their own
/// checksum.
pub(crate) fn sum(bytes: &[u8]) -> u16 {
    let pairs =
        bytes.chunks(2).map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u64 = pairs.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Writes the checksum of the IPv4 header.
pub(crate) fn seal(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let checksum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}

/// A UDP packet for an address, 60 bytes with the Ethernet header, that arrives on port 0.
pub(crate) fn v4(to: [u8; 4]) -> Vec<u8> {
    let mut frame = [&port_mac(0).0[..], &[2, 9, 9, 9, 9, 9], &[8, 0]].concat();
    frame.extend([0x45, 0xb9, 0, 46, 0x12, 0x34, 0, 0, 64, 17, 0, 0]);
    frame.extend(SOURCE);
    frame.extend(to);
    // To the program, this checksum looks finished.
    frame.extend([0x30, 0x39, 0, 80, 0, 26, 0x5a, 0xa5]);
    frame.resize(60, 0xee);
    seal(&mut frame);
    frame
}

/// Like [`v4`], for an address that leads to a target of the test snapshot.
pub(crate) fn v4_to(target: u16) -> Vec<u8> {
    v4([10, 0, target as u8, 77])
}

/// A UDP packet for an address of 2001:db8:`group`::/48 with this lower half.
pub(crate) fn v6(group: u16, lower: u64) -> Vec<u8> {
    let mut frame = [&port_mac(0).0[..], &[2, 9, 9, 9, 9, 9], &[0x86, 0xdd]].concat();
    frame.extend([0x6b, 0x91, 0x23, 0x45, 0, 20, 17, 64]);
    frame.extend([0x20, 1, 0xd, 0xb8, 0, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5]);
    frame.extend([0x20, 1, 0xd, 0xb8]);
    frame.extend(group.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(lower.to_be_bytes());
    frame.extend([0x30, 0x39, 0, 80, 0, 20, 0x5a, 0xa5]);
    frame.resize(74, 0xee);
    frame
}

pub(crate) fn v6_to(target: u16) -> Vec<u8> {
    v6(target, 0x77)
}

/// The frame that leaves through port `port` to the next hop `hop`.
pub(crate) fn forwarded(frame: &[u8], port: u16, hop: u16) -> Vec<u8> {
    let mut out = frame.to_vec();
    out[..6].copy_from_slice(&hop_mac(hop).0);
    out[6..12].copy_from_slice(&port_mac(port).0);
    if out[12] == 8 {
        out[22] -= 1;
        seal(&mut out);
    } else {
        out[21] -= 1;
    }
    out
}

#[track_caller]
fn assert_forwarded(outcome: &XdpOutcome, frame: &[u8], port: u16, hop: u16) {
    assert_eq!(outcome.action, XDP_REDIRECT);
    assert_eq!(outcome.frame, forwarded(frame, port, hop));
    assert_eq!(outcome.redirect, Some(BpfRedirect::MapEntry(egress_of(port))));
}

/// Returns `frame` with one byte changed and the header's checksum corrected.
fn with(frame: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = byte;
    if frame[12..14] == [8, 0] {
        seal(&mut frame);
    }
    frame
}

#[test]
fn a_packet_with_a_resolved_next_hop_leaves_with_new_addresses_and_one_less_to_live() {
    let mut router = Simulation::new(false);
    for ttl in 2..=255 {
        let frame = with(&v4_to(target::FORWARD), 22, ttl);
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
        let frame = with(&v6_to(target::FORWARD), 21, ttl);
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
    }
    let counters = router.counters();
    assert_eq!((counters.packets, counters.bytes), (2 * 254, 254 * (60 + 74)));
    assert_eq!(counters.seen(), counters.packets);
}

#[test]
fn every_header_checksum_stays_right() {
    let mut router = Simulation::new(false);
    // The loop runs over all values of the identification, so the checksum takes all its values.
    for id in 0..=u16::MAX {
        let mut frame = v4_to(target::FORWARD);
        frame[18..20].copy_from_slice(&id.to_be_bytes());
        seal(&mut frame);
        let out = router.run(&frame);
        assert_eq!((out.action, &out.frame), (XDP_REDIRECT, &forwarded(&frame, 1, 0)), "{id}");
    }
}

#[test]
fn prefixes_longer_than_24_and_64_bits_are_found() {
    let mut router = Simulation::new(false);
    let frame = v4([10, 1, 0, target::FORWARD as u8]);
    assert_forwarded(&router.run(&frame), &frame, 1, 0);
    assert_eq!(router.reason(&v4([10, 1, 0, target::KERNEL as u8])), PassReason::Kernel);
    let frame = v6(0xff, target::FORWARD.into());
    assert_forwarded(&router.run(&frame), &frame, 1, 0);
    assert_eq!(router.reason(&v6(0xff, target::KERNEL.into())), PassReason::Kernel);
    // The range of the last target extends from the greatest key to the end of the /64 prefix.
    assert_eq!(router.reason(&v6(0xff, u64::MAX)), PassReason::PortDown, "that of the last target");
    assert_eq!(router.reason(&v6(0x100, 0)), PassReason::NoRoute);
}

#[test]
fn what_the_target_does_not_forward_goes_to_the_kernel() {
    let cases = [
        (target::NO_ROUTE, PassReason::NoRoute),
        (target::KERNEL, PassReason::Kernel),
        (target::BLACKHOLE, PassReason::Kernel),
        (target::UNRESOLVED, PassReason::Unresolved),
        (target::SAME_PORT, PassReason::SamePort),
        (target::PORT_DOWN, PassReason::PortDown),
        (target::SUBINTERFACE, PassReason::PortDown),
    ];
    let mut router = Simulation::new(false);
    for (target, reason) in cases {
        assert_eq!(router.reason(&v4_to(target)), reason, "IPv4, target {target}");
        assert_eq!(router.reason(&v6_to(target)), reason, "IPv6, target {target}");
    }
}

#[test]
fn a_block_or_target_that_does_not_exist_goes_to_the_kernel() {
    let mut router = Simulation::new(false);
    assert_eq!(router.reason(&v4([10, 2, 0, 1])), PassReason::NoTable);
    assert_eq!(router.reason(&v4([10, 3, 0, 1])), PassReason::NoTable);
}

#[test]
fn without_a_recent_heartbeat_every_frame_goes_to_the_kernel() {
    let mut router = Simulation::new(false);
    let frame = v4_to(target::FORWARD);
    let start = router.interpreter.now_ns;
    // The clock may be up to 100 ms before or after the heartbeat.
    for (now, is_forwarded) in [
        (start + 100_000_000, true),
        (start + 100_000_001, false),
        (start - 100_000_000, true),
        (start - 100_000_001, false),
        (0, false),
    ] {
        router.interpreter.now_ns = now;
        if is_forwarded {
            assert_eq!(router.run(&frame).action, XDP_REDIRECT, "{now}");
        } else {
            assert_eq!(router.reason(&frame), PassReason::Stale, "{now}");
        }
    }
    router.beat();
    router.copy_maps();
    assert_eq!(router.run(&frame).action, XDP_REDIRECT, "a new beat brings it back");
}

#[test]
fn each_queue_has_a_heartbeat_of_its_own() {
    let mut router = Simulation::new(false);
    let now = router.interpreter.now_ns + 200_000_000;
    router.interpreter.now_ns = now;
    crate::ResidentHeartbeat::of(router.writer.control.clone(), LIMITS.queues).beat(1, now);
    router.copy_maps();
    let frame = v4_to(target::FORWARD);
    let mut action = |queue| router.run_on_queue(&frame, queue).action;
    assert_eq!([action(0), action(1), action(2), action(u32::MAX)], [2, XDP_REDIRECT, 2, 2]);
}

#[test]
fn a_router_that_is_not_enabled_forwards_nothing() {
    let mut router = Simulation::new(false);
    for value in [0_u64, 2] {
        let enabled = router.writer.control.atomic::<std::sync::atomic::AtomicU64>(0, 0).unwrap();
        enabled.store(value, std::sync::atomic::Ordering::Relaxed);
        router.copy_maps();
        assert_eq!(router.reason(&v4_to(target::FORWARD)), PassReason::Disabled);
    }
}

#[test]
fn frames_for_other_stations_and_other_protocols_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    for frame in [v4_to(target::FORWARD), v6_to(target::FORWARD)] {
        for at in 0..6 {
            let other = with(&frame, at, frame[at] ^ 1);
            assert_eq!(router.reason(&other), PassReason::OtherMac, "byte {at}");
        }
        let mut broadcast = frame.clone();
        broadcast[..6].fill(0xff);
        assert_eq!(router.reason(&broadcast), PassReason::OtherMac);
        for ethertype in [[0x81, 0], [0x88, 0xa8], [8, 6], [0x86, 0xdc], [8, 1]] {
            let mut tagged = frame.clone();
            tagged[12..14].copy_from_slice(&ethertype);
            assert_eq!(router.reason(&tagged), PassReason::NotIp, "{ethertype:x?}");
        }
    }
}

#[test]
fn a_frame_whose_tag_the_device_has_taken_out_goes_to_the_kernel() {
    let mut router = Simulation::new(false);
    assert_eq!(router.run(&v4_to(target::FORWARD)).action, XDP_REDIRECT);
    router.interpreter.set_function(TAG_FUNCTION, |memory, [_, proto, tci, ..]| {
        memory.bytes(proto, 2)?.copy_from_slice(&0x8100_u16.to_be_bytes());
        memory.bytes(tci, 2)?.copy_from_slice(&7_u16.to_ne_bytes());
        Some(0)
    });
    assert_eq!(router.reason(&v4_to(target::FORWARD)), PassReason::Tagged);
    assert_eq!(router.reason(&v6_to(target::FORWARD)), PassReason::Tagged);
}

#[test]
fn short_frames_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    for (frame, headers) in [(v4_to(target::FORWARD), 34), (v6_to(target::FORWARD), 54)] {
        for len in 14..frame.len() {
            let reason = router.reason(&frame[..len]);
            let expected = if len < 34 { PassReason::NotIp } else { PassReason::Length };
            assert_eq!(reason, expected, "{len} bytes of {} with {headers}", frame.len());
        }
    }
}

#[test]
fn a_port_that_does_not_take_part_leaves_its_frames_to_the_kernel() {
    let mut router = Simulation::new(false);
    let frame = v4_to(target::FORWARD);
    let options = |ingress, egress| crate::ResidentOptions { ingress, egress, direct: false };
    let (ours, theirs) = (slipring_fib::FibPortIndex(0), slipring_fib::FibPortIndex(1));
    router.writer.set_options(ours, options(false, true));
    router.copy_maps();
    assert_eq!(router.reason(&frame), PassReason::Policy);
    router.writer.set_options(ours, options(true, false));
    router.writer.set_options(theirs, options(true, false));
    router.copy_maps();
    assert_eq!(router.reason(&frame), PassReason::PortDown);
    router.writer.set_options(theirs, options(false, true));
    router.copy_maps();
    assert_eq!(router.run(&frame).action, XDP_REDIRECT);
}

#[test]
fn ipv4_headers_that_are_wrong_or_have_options_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    let frame = v4_to(target::FORWARD);
    for first in (0..=255).filter(|&first| first != 0x45) {
        assert_eq!(router.reason(&with(&frame, 14, first)), PassReason::Options, "{first:#x}");
    }
    for total in [0, 1, 19, 47, 0xffff] {
        let mut wrong = frame.clone();
        wrong[16..18].copy_from_slice(&u16::to_be_bytes(total));
        seal(&mut wrong);
        assert_eq!(router.reason(&wrong), PassReason::Length, "total length {total}");
    }
    for bit in 0..160 {
        let mut flipped = frame.clone();
        flipped[14 + bit / 8] ^= 1 << (bit % 8);
        let outcome = router.run(&flipped);
        assert_eq!((outcome.action, outcome.frame), (2, flipped), "bit {bit}");
    }
    for ttl in [0, 1] {
        assert_eq!(router.reason(&with(&frame, 22, ttl)), PassReason::Ttl);
        assert_eq!(router.reason(&with(&v6_to(target::FORWARD), 21, ttl)), PassReason::Ttl);
    }
}

#[test]
fn ipv4_addresses_that_are_not_forwarded_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    for first in [0, 127, 224, 239, 240, 255] {
        for at in [26, 30] {
            let frame = with(&v4_to(target::FORWARD), at, first);
            assert_eq!(router.reason(&frame), PassReason::Address, "{first} at {at}");
        }
    }
    let mut own = v4_to(target::FORWARD);
    own[26..30].copy_from_slice(&LOCAL);
    seal(&mut own);
    assert_eq!(router.reason(&own), PassReason::Address);
    own[29] ^= 1;
    seal(&mut own);
    assert_eq!(router.run(&own).action, XDP_REDIRECT, "another address of the subnet");
}

#[test]
fn an_own_ipv6_address_as_a_source_goes_to_the_kernel() {
    let mut router = Simulation::new(false);
    let mut frame = v6_to(target::FORWARD);
    let own: std::net::Ipv6Addr = "2001:db8:63::7:5".parse().unwrap();
    frame[22..38].copy_from_slice(&own.octets());
    assert_eq!(router.run(&frame).action, XDP_REDIRECT);
    router.writer.set_local(&[(own.into(), 128)]);
    router.copy_maps();
    assert_eq!(router.reason(&frame), PassReason::Address);
    frame[37] ^= 1;
    assert_eq!(router.run(&frame).action, XDP_REDIRECT, "another address of the subnet");
}

#[test]
fn a_machine_with_local_prefixes_leaves_all_packets_to_the_kernel() {
    let mut router = Simulation::new(false);
    let local = |address: [u8; 4], len| (std::net::IpAddr::from(address), len);
    router.writer.set_local(&[local([127, 0, 0, 0], 8)]);
    router.copy_maps();
    assert_eq!(router.run(&v4_to(target::FORWARD)).action, XDP_REDIRECT);
    router.writer.set_local(&[local([198, 51, 100, 0], 24)]);
    router.copy_maps();
    assert_eq!(router.reason(&v4_to(target::FORWARD)), PassReason::Address);
}

/// Returns a packet whose source stands for a target, and whose destination is forwarded.
fn from_target(target: u16) -> Vec<u8> {
    from_source(v4_to(target::FORWARD), target)
}

/// Like [`from_target`], but for IPv6.
fn v6_from_target(target: u16) -> Vec<u8> {
    from_source(v6_to(target::FORWARD), target)
}

/// Returns the frame with a source address whose lookup leads to the target `target`. A frame
/// without an IP header is returned unchanged.
pub(crate) fn from_source(mut frame: Vec<u8>, target: u16) -> Vec<u8> {
    if frame.len() >= 34 && frame[12..14] == [8, 0] {
        frame[26..30].copy_from_slice(&[10, 0, target as u8, 9]);
        seal(&mut frame);
    } else if frame.len() >= 54 && frame[12..14] == [0x86, 0xdd] {
        frame[22..38].fill(9);
        frame[22..28].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, target as u8]);
    }
    frame
}

/// The reason for which the program drops a frame.
#[track_caller]
fn drop_reason(router: &mut Simulation, frame: &[u8]) -> PassReason {
    let before = router.counters();
    assert_eq!(router.run(frame).action, super::context::XDP_DROP as u32);
    let after = router.counters();
    let mut reasons = PassReason::ALL.iter().copied().filter(|reason| reason.is_drop());
    let reason = reasons.find(|reason| after.passed(*reason) > before.passed(*reason));
    assert_eq!(after.seen(), before.seen() + 1);
    reason.expect("a dropped frame is counted")
}

/// The functions that make a frame whose source stands for a target: for IPv4 and for IPv6.
const FROM_TARGET: [fn(u16) -> Vec<u8>; 2] = [from_target, v6_from_target];

#[test]
fn the_strict_check_drops_sources_whose_route_does_not_lead_back() {
    let mut router = Simulation::new(false).checking(ReversePathMode::Strict);
    for from_target in FROM_TARGET {
        let frame = from_target(target::SAME_PORT);
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
        for target in [
            target::NO_ROUTE,
            target::FORWARD,
            target::UNRESOLVED,
            target::PORT_DOWN,
            target::BLACKHOLE,
            target::BALANCE,
            target::SUBINTERFACE,
        ] {
            let reason = drop_reason(&mut router, &from_target(target));
            assert_eq!(reason, PassReason::ReversePathStrict, "{target}");
        }
        assert_eq!(router.reason(&from_target(target::KERNEL)), PassReason::ReversePath);
    }
}

#[test]
fn the_loose_check_drops_sources_without_a_route() {
    let mut router = Simulation::new(false).checking(ReversePathMode::Loose);
    for from_target in FROM_TARGET {
        for target in [target::SAME_PORT, target::FORWARD, target::UNRESOLVED, target::BALANCE] {
            let frame = from_target(target);
            assert_forwarded(&router.run(&frame), &frame, 1, 0);
        }
        for target in [target::NO_ROUTE, target::BLACKHOLE] {
            let reason = drop_reason(&mut router, &from_target(target));
            assert_eq!(reason, PassReason::ReversePathLoose, "{target}");
        }
        assert_eq!(router.reason(&from_target(target::KERNEL)), PassReason::ReversePath);
    }
}

#[test]
fn what_the_kernel_gets_anyway_it_checks_itself() {
    let mut router = Simulation::new(false).checking(ReversePathMode::Strict);
    for (target, reason) in
        [(target::NO_ROUTE, PassReason::NoRoute), (target::UNRESOLVED, PassReason::Unresolved)]
    {
        for frame in [v4_to(target), v6_to(target)] {
            assert_eq!(router.reason(&from_source(frame, target::FORWARD)), reason);
        }
    }
}

#[test]
fn each_family_has_a_check_of_its_own_which_a_port_need_not_have() {
    use ReversePathMode::{Off, Strict};
    let frames = FROM_TARGET.map(|from_target| from_target(target::NO_ROUTE));
    for modes in [[Off, Off], [Strict, Off], [Off, Strict]] {
        let mut router = Simulation::new(false).checking_each(modes);
        for (frame, mode) in frames.iter().zip(modes) {
            match mode {
                Off => assert_forwarded(&router.run(frame), frame, 1, 0),
                _ => assert_eq!(drop_reason(&mut router, frame), PassReason::ReversePathStrict),
            }
        }
    }
}

#[test]
fn fragments_are_forwarded() {
    let mut router = Simulation::new(true);
    for fragment in [[0x20, 0], [0x20, 185], [0, 185], [0x40, 0]] {
        let mut frame = v4_to(target::FORWARD);
        frame[20..22].copy_from_slice(&fragment);
        seal(&mut frame);
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
    }
}

#[test]
fn ipv6_headers_that_are_wrong_or_hop_by_hop_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    let frame = v6_to(target::FORWARD);
    for version in (0..16).filter(|&version| version != 6) {
        let wrong = with(&frame, 14, version << 4);
        assert_eq!(router.reason(&wrong), PassReason::Options, "version {version}");
    }
    assert_eq!(router.reason(&with(&frame, 20, 0)), PassReason::Options);
    for length in [21, 0x4014, 0xffff] {
        let mut wrong = frame.clone();
        wrong[18..20].copy_from_slice(&u16::to_be_bytes(length));
        assert_eq!(router.reason(&wrong), PassReason::Length, "payload length {length}");
    }
}

#[test]
fn ipv6_addresses_that_are_not_forwarded_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    let address = |text: &str| text.parse::<std::net::Ipv6Addr>().unwrap().octets();
    let cases = ["::", "::1", "::ffff:10.0.2.1", "ff02::1", "ff0e::1", "fe80::1", "febf::1"];
    for text in cases {
        for at in [22, 38] {
            let mut frame = v6_to(target::FORWARD);
            frame[at..at + 16].copy_from_slice(&address(text));
            assert_eq!(router.reason(&frame), PassReason::Address, "{text} at {at}");
        }
    }
    for text in ["fec0::1", "fe7f::1", "feff::1", "fd00::1"] {
        let mut frame = v6_to(target::FORWARD);
        frame[22..38].copy_from_slice(&address(text));
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
    }
}

#[test]
fn packets_larger_than_the_interface_s_or_the_route_s_mtu_go_to_the_kernel() {
    let mut router = Simulation::new(false);
    let sized = |frame: Vec<u8>, header, len: u16| {
        let mut frame = frame;
        frame.resize(14 + usize::from(len), 1);
        let (at, value) = if header == 20 { (16, len) } else { (18, len - 40) };
        frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
        if header == 20 {
            seal(&mut frame);
        }
        frame
    };
    for (target, mtu, port, hop) in [
        (target::FORWARD, 1500, 1, 0),
        (target::MTU_1000, 1000, 1, 0),
        (target::SMALL_PORT, 600, 2, 4),
    ] {
        for (frame, header) in [(v4_to(target), 20), (v6_to(target), 40)] {
            let large = sized(frame.clone(), header, mtu + 1);
            assert_eq!(router.reason(&large), PassReason::TooBig, "target {target}");
            let fits = sized(frame, header, mtu);
            assert_forwarded(&router.run(&fits), &fits, port, hop);
        }
    }
}

#[test]
fn bytes_after_the_packet_are_cut_off() {
    let mut router = Simulation::new(false);
    for frame in [v4_to(target::FORWARD), v6_to(target::FORWARD)] {
        for trailer in [1, 6, 500] {
            let long = [frame.clone(), vec![0xdd; trailer]].concat();
            let outcome = router.run(&long);
            assert_forwarded(&outcome, &frame, 1, 0);
        }
    }
    // A short packet is padded to 60 bytes.
    let mut short = v4_to(target::FORWARD);
    short[16..18].copy_from_slice(&[0, 28]);
    seal(&mut short);
    let mut exact = short.clone();
    exact.truncate(14 + 28);
    assert_forwarded(&router.run(&short), &exact, 1, 0);
    assert_eq!(router.reason(&[v4_to(target::KERNEL), vec![0; 9]].concat()), PassReason::Kernel);
}

/// Computes the hash of a flow as described in [`crate::flow_hash`], with 128-bit arithmetic.
fn flow_hash(frame: &[u8], ports: [u8; 4]) -> u64 {
    let [m0, m1, m2] = crate::flow_hash::MULTIPLIERS;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        (product >> 64) as u64 ^ product as u64
    };
    let word = |at: usize| u64::from_be_bytes(frame[at..at + 8].try_into().unwrap());
    let ports = u64::from(u32::from_be_bytes(ports));
    if frame[12] == 8 {
        return fold(fold(word(26) ^ SEED, m0) ^ (ports << 8 | u64::from(frame[23])), m1);
    }
    let label = u64::from(u32::from_be_bytes(frame[14..18].try_into().unwrap()) & 0xf_ffff);
    let rest = ports << 32 | label << 8 | u64::from(frame[20]);
    let addresses = fold(word(22) ^ SEED, word(38) ^ m0) ^ fold(word(30) ^ m1, word(46) ^ SEED);
    fold(addresses ^ rest, m2)
}

/// Returns the port and hop from the buckets of the test snapshot: hop 0 in even buckets, hop 4 in
/// odd ones.
fn balanced(frame: &[u8], ports: [u8; 4]) -> (u16, u16) {
    if flow_hash(frame, ports).is_multiple_of(2) { (1, 0) } else { (2, 4) }
}

#[test]
fn flows_with_several_next_hops_are_spread_by_the_hash_of_the_flow() {
    let mut router = Simulation::new(false);
    let mut used = std::collections::BTreeSet::new();
    for port in 0..64 {
        let mut frame = v4_to(target::BALANCE);
        frame[35] = port;
        let ports = frame[34..38].try_into().unwrap();
        let (out, hop) = balanced(&frame, ports);
        used.insert(out);
        assert_forwarded(&router.run(&frame), &frame, out, hop);
        let mut frame = v6_to(target::BALANCE);
        frame[55] = port;
        let ports = frame[54..58].try_into().unwrap();
        let (out, hop) = balanced(&frame, ports);
        assert_forwarded(&router.run(&frame), &frame, out, hop);
    }
    assert_eq!(used.len(), 2, "both next hops are used");
}

#[test]
fn all_fragments_of_a_packet_have_the_same_next_hop() {
    let mut router = Simulation::new(false);
    for last in 0..32 {
        for fragment in [[0x20, 0], [0x20, 9], [0, 9]] {
            let mut frame = v4([10, 0, target::BALANCE as u8, last]);
            frame[20..22].copy_from_slice(&fragment);
            frame[35] = fragment[1];
            seal(&mut frame);
            let (out, hop) = balanced(&frame, [0; 4]);
            assert_forwarded(&router.run(&frame), &frame, out, hop);
        }
    }
}

#[test]
fn protocols_without_ports_and_cut_off_ports_are_flows_by_addresses() {
    let mut router = Simulation::new(false);
    for protocol in [1, 47, 50, 89] {
        let frame = with(&v4_to(target::BALANCE), 23, protocol);
        let (out, hop) = balanced(&frame, [0; 4]);
        assert_forwarded(&router.run(&frame), &frame, out, hop);
    }
    let mut cut = v4_to(target::BALANCE);
    cut.truncate(14 + 20 + 3);
    cut[16..18].copy_from_slice(&[0, 23]);
    seal(&mut cut);
    for last in 0..16 {
        cut[33] = last;
        seal(&mut cut);
        let (out, hop) = balanced(&cut, [0; 4]);
        assert_forwarded(&router.run(&cut), &cut, out, hop);
        // Bytes after the packet are not used as ports.
        let padded = [cut.clone(), vec![0x77; 23]].concat();
        assert_forwarded(&router.run(&padded), &cut, out, hop);
    }
}

/// Writes the transport checksum: finished, or half finished as a sender leaves it for its device.
fn checksummed(mut frame: Vec<u8>, protocol: u8, is_finished: bool) -> Vec<u8> {
    let (l4, addresses) = if frame[12] == 8 { (34, 26..34) } else { (54, 22..54) };
    frame[if l4 == 34 { 23 } else { 20 }] = protocol;
    if l4 == 34 {
        seal(&mut frame);
    }
    let at = l4 + if protocol == 6 { 16 } else { 6 };
    frame[at..at + 2].fill(0);
    let len = (frame.len() - l4) as u16;
    let mut summed =
        [frame[addresses].to_vec(), len.to_be_bytes().into(), vec![0, protocol]].concat();
    let pseudo = sum(&summed);
    summed.extend(&frame[l4..]);
    let field = if is_finished { !sum(&summed) } else { pseudo };
    frame[at..at + 2].copy_from_slice(&field.to_be_bytes());
    frame
}

#[test]
fn half_finished_checksums_of_senders_on_this_machine_go_to_the_kernel() {
    let mut software = Simulation::new(true);
    let mut hardware = Simulation::new(false);
    for frame in [v4_to(target::FORWARD), v6_to(target::FORWARD)] {
        for protocol in [6, 17] {
            let finished = checksummed(frame.clone(), protocol, true);
            assert_forwarded(&software.run(&finished), &finished, 1, 0);
            let half = checksummed(frame.clone(), protocol, false);
            assert_eq!(software.reason(&half), PassReason::PartialChecksum, "{protocol}");
            assert_forwarded(&hardware.run(&half), &half, 1, 0);
        }
    }
}

#[test]
fn protocols_whose_checksums_cannot_be_seen_go_to_the_kernel_from_software_devices() {
    let mut router = Simulation::new(true);
    for protocol in [4, 41, 47, 50, 132] {
        let frame = with(&v4_to(target::FORWARD), 23, protocol);
        assert_eq!(router.reason(&frame), PassReason::PartialChecksum, "{protocol}");
        let frame = with(&v6_to(target::FORWARD), 20, protocol);
        assert_eq!(router.reason(&frame), PassReason::PartialChecksum, "{protocol}");
    }
    let icmp = with(&v4_to(target::FORWARD), 23, 1);
    assert_forwarded(&router.run(&icmp), &icmp, 1, 0);
    for next_header in [44, 58] {
        let frame = with(&v6_to(target::FORWARD), 20, next_header);
        assert_forwarded(&router.run(&frame), &frame, 1, 0);
    }
    let mut without = v4_to(target::FORWARD);
    without[40..42].fill(0);
    assert_eq!(router.reason(&without), PassReason::PartialChecksum, "UDP without a checksum");
    let mut cut = with(&v4_to(target::FORWARD), 23, 6);
    cut.truncate(14 + 20 + 17);
    cut[16..18].copy_from_slice(&[0, 37]);
    seal(&mut cut);
    assert_eq!(router.reason(&cut), PassReason::PartialChecksum, "a cut off TCP header");
}

#[test]
fn a_vrf_without_tables_leaves_its_packets_to_the_kernel() {
    let mut router = Simulation::new(false);
    let mut tables = crate::testing::snapshot();
    let mut ports = tables.ports.to_vec();
    ports[0].vrf = slipring_fib::VrfIndex(1);
    tables.ports = ports.into();
    router.writer.apply(&tables).unwrap();
    router.copy_maps();
    assert_eq!(router.reason(&v4_to(target::FORWARD)), PassReason::NoTable);
    assert_eq!(router.reason(&v6_to(target::FORWARD)), PassReason::NoTable);
    router.writer.v4(slipring_fib::VrfIndex(1)).unwrap();
    router.copy_maps();
    assert_eq!(router.reason(&v4_to(target::FORWARD)), PassReason::NoRoute);
}

#[test]
fn an_interface_that_vanished_drops_and_counts() {
    let mut router = Simulation::new(false);
    let egress = slipring_bpf::SimulatedMap::new(LIMITS.egress());
    *router.interpreter.map("egress").unwrap() = egress;
    assert_eq!(router.run(&v4_to(target::FORWARD)).action, super::context::XDP_ABORTED as u32);
    let counters = router.counters();
    assert_eq!((counters.passed(PassReason::NoDevice), counters.packets), (1, 0));
}

/// A router whose target [`target::UNRESOLVED`] is a connected subnet. In a tick, it lets the
/// kernel resolve 3 new IPv4 hosts and 2 new IPv6 hosts.
fn router_of_hosts() -> Simulation {
    let mut router = Simulation::new(false);
    let mut tables = crate::testing::snapshot();
    let mut adjacencies = tables.adjacencies.to_vec();
    adjacencies[1].next_hop = slipring_fib::NextHopAddress::OnLink;
    tables.adjacencies = adjacencies.into();
    router.writer.apply(&tables).unwrap();
    router.writer.set_host_limits([3, 2]);
    router.copy_maps();
    router
}

fn host(number: u8) -> Vec<u8> {
    v4([10, 0, target::UNRESOLVED as u8, number])
}

#[track_caller]
fn assert_limited(router: &mut Simulation, frame: &[u8]) {
    let before = router.counters().passed(PassReason::UnresolvedLimit);
    assert_eq!(router.run(frame).action, super::context::XDP_DROP as u32);
    assert_eq!(router.counters().passed(PassReason::UnresolvedLimit), before + 1);
}

const TICK: u64 = 1 << layout::TICK_BITS;

#[test]
fn all_packets_for_hosts_below_the_limit_go_to_the_kernel_and_those_for_more_are_dropped() {
    let mut router = router_of_hosts();
    for _ in 0..300 {
        for number in 1..=3 {
            assert_eq!(router.reason(&host(number)), PassReason::Unresolved);
        }
        assert_limited(&mut router, &host(4));
    }
    let v6_host = |number| v6(target::UNRESOLVED, number);
    for number in [1, 2, 1, 2] {
        assert_eq!(router.reason(&v6_host(number)), PassReason::Unresolved, "a limit of its own");
    }
    assert_limited(&mut router, &v6_host(3));
    assert_forwarded(&router.run(&v4_to(target::FORWARD)), &v4_to(target::FORWARD), 1, 0);
}

#[test]
fn a_host_is_not_limited_while_the_kernel_may_wait_for_its_answer() {
    let mut router = router_of_hosts();
    assert_eq!(router.reason(&host(1)), PassReason::Unresolved);
    for tick in 1..20 {
        router.interpreter.now_ns += TICK;
        router.beat_and_keep_hosts();
        for number in 0..3 {
            assert_eq!(router.reason(&host(10 * tick + number)), PassReason::Unresolved);
        }
        assert_limited(&mut router, &host(10 * tick + 3));
        if tick % 3 == 0 {
            assert_eq!(router.reason(&host(1)), PassReason::Unresolved, "in tick {tick}");
        }
    }
    router.interpreter.now_ns += 4 * TICK;
    router.beat_and_keep_hosts();
    for number in 5..8 {
        assert_eq!(router.reason(&host(number)), PassReason::Unresolved);
    }
    assert_limited(&mut router, &host(1));
}

#[test]
fn gateways_and_routers_without_a_limit_leave_all_packets_to_the_kernel() {
    let mut router = Simulation::new(false);
    router.writer.set_host_limits([1, 1]);
    router.copy_maps();
    for number in 0..255 {
        assert_eq!(router.reason(&host(number)), PassReason::Unresolved, "a gateway");
    }
    for limits in [[0, 0], [layout::MAX_HOST_LIMIT + 1; 2]] {
        let mut router = router_of_hosts();
        router.writer.set_host_limits(limits);
        router.copy_maps();
        for number in 0..255 {
            assert_eq!(router.reason(&host(number)), PassReason::Unresolved, "{limits:?}");
        }
    }
}
