//! Packets with invalid headers and impossible addresses: dropped without an error, and counted by
//! their causes.

use super::kit::*;
use crate::RouteDropCause as Cause;
use crate::RouteVerdict;

/// Asserts that a frame is dropped for a cause, unchanged and without an answer.
fn assert_dropped(mut frame: Vec<u8>, cause: Cause) {
    let (before, mut engine) = (frame.clone(), engine());
    assert_eq!(process(&mut engine, &mut frame), RouteVerdict::Drop(cause));
    assert_eq!((frame, engine.pop()), (before, None));
    assert_eq!(engine.counters().dropped(cause), 1);
    assert_eq!(engine.counters().all_dropped(), 1);
}

use alloc::vec::Vec;

fn v4() -> Vec<u8> {
    udp("10.1.0.2", "10.3.0.2", 80)
}

fn v6() -> Vec<u8> {
    udp("fd01::2", "fd03::2", 80)
}

#[test]
fn truncated_frames_are_dropped_at_every_length() {
    for len in 0..14 {
        assert_dropped(v4()[..len].to_vec(), Cause::Runt);
    }
    for len in 14..34 {
        assert_dropped(v4()[..len].to_vec(), Cause::V4Truncated);
    }
    for len in 34..80 {
        assert_dropped(v4()[..len].to_vec(), Cause::V4BeyondFrame);
    }
    for len in 14..54 {
        assert_dropped(v6()[..len].to_vec(), Cause::V6Truncated);
    }
    for len in 54..80 {
        assert_dropped(v6()[..len].to_vec(), Cause::V6BeyondFrame);
    }
}

#[test]
fn a_truncated_tag_is_dropped() {
    let mut frame = v4();
    frame[12..14].copy_from_slice(&[0x81, 0]);
    for len in 14..18 {
        assert_dropped(frame[..len].to_vec(), Cause::TruncatedTag);
    }
}

#[test]
fn a_version_that_contradicts_the_ethertype_is_dropped() {
    for version in (0..16).filter(|version| *version != 4) {
        let mut frame = v4();
        frame[14] = version << 4 | 5;
        assert_dropped(frame, Cause::V4Version);
    }
    for version in (0..16).filter(|version| *version != 6) {
        let mut frame = v6();
        frame[14] = version << 4;
        assert_dropped(frame, Cause::V6Version);
    }
}

#[test]
fn an_ipv4_header_shorter_than_20_bytes_is_dropped() {
    for words in 0..5 {
        let mut frame = v4();
        frame[14] = 0x40 | words;
        assert_dropped(frame, Cause::V4HeaderLength);
    }
}

#[test]
fn a_wrong_header_checksum_is_dropped() {
    for bit in 0..16 {
        let mut frame = v4();
        frame[24 + bit / 8] ^= 1 << (bit % 8);
        assert_dropped(frame, Cause::V4Checksum);
    }
}

#[test]
fn a_total_length_below_the_header_is_dropped() {
    for len in 0..20u16 {
        let mut frame = v4();
        patch_v4(&mut frame, 2, &len.to_be_bytes());
        assert_dropped(frame, Cause::V4TotalLength);
    }
}

#[test]
fn a_total_length_that_ends_inside_the_options_is_dropped() {
    let mut frame = with_options(v4(), &[148, 4, 0, 0]);
    patch_v4(&mut frame, 2, &23u16.to_be_bytes());
    assert_dropped(frame, Cause::V4TotalLength);
}

#[test]
fn a_total_or_payload_length_beyond_the_frame_is_dropped() {
    for len in [67u16, 68, 1500, 65535] {
        let mut frame = v4();
        patch_v4(&mut frame, 2, &len.to_be_bytes());
        assert_dropped(frame, Cause::V4BeyondFrame);
    }
    let mut frame = v6();
    frame[18..20].copy_from_slice(&27u16.to_be_bytes());
    assert_dropped(frame, Cause::V6BeyondFrame);
}

#[test]
fn impossible_ipv4_sources_are_martians() {
    for (source, cause) in [
        ("127.0.0.1", Cause::V4SourceLoopback),
        ("127.255.255.255", Cause::V4SourceLoopback),
        ("0.0.0.0", Cause::V4SourceZero),
        ("0.1.2.3", Cause::V4SourceZero),
        ("224.0.0.1", Cause::V4SourceMulticast),
        ("239.255.255.255", Cause::V4SourceMulticast),
        ("255.255.255.255", Cause::V4SourceBroadcast),
    ] {
        assert_dropped(udp(source, "10.3.0.2", 60), cause);
    }
}

#[test]
fn a_source_that_is_an_address_of_any_port_of_the_vrf_is_a_martian() {
    for own in ["10.1.0.1", "10.3.0.1", "10.100.0.1", "10.7.0.1"] {
        assert_dropped(udp(own, "10.3.0.2", 60), Cause::V4SourceOwn);
    }
    for own in ["fd01::1", "fd03::1"] {
        assert_dropped(udp(own, "fd03::2", 80), Cause::V6SourceOwn);
    }
    // In another VRF, this address may belong to a host, so a packet from it is forwarded.
    forward(&mut engine(), &udp("10.66.0.1", "10.3.0.2", 60));
}

#[test]
fn a_source_that_the_configuration_lists_is_a_martian() {
    let config = crate::RouteConfig {
        own_addresses: Vec::from([ip("192.0.2.1"), ip("2001:db8::1")]),
        ..crate::RouteConfig::default()
    };
    let mut engine = crate::RouteEngine::new(config, TableBuilder::usual().build());
    let mut verdict = |from, to| process(&mut engine, &mut udp(from, to, 80));
    assert_eq!(verdict("192.0.2.1", "10.3.0.2"), RouteVerdict::Drop(Cause::V4SourceOwn));
    assert_eq!(verdict("2001:db8::1", "fd03::2"), RouteVerdict::Drop(Cause::V6SourceOwn));
}

#[test]
fn sources_in_240_slash_4_are_forwarded_as_linux_does() {
    let (port, _) = forward(&mut engine(), &udp("240.0.0.1", "10.3.0.2", 60));
    assert_eq!(port, RIGHT);
}

#[test]
fn impossible_ipv4_destinations_are_martians() {
    for (destination, cause) in [
        ("0.0.0.0", Cause::V4DestinationZero),
        ("0.0.0.1", Cause::V4DestinationZero),
        ("127.0.0.1", Cause::V4DestinationLoopback),
    ] {
        assert_dropped(udp("10.1.0.2", destination, 60), cause);
    }
}

#[test]
fn impossible_ipv6_addresses_are_martians() {
    for (source, destination, cause) in [
        ("::", "fd03::2", Cause::V6SourceUnspecified),
        ("::1", "fd03::2", Cause::V6SourceLoopback),
        ("ff02::1", "fd03::2", Cause::V6SourceMulticast),
        ("ff0e::1", "fd03::2", Cause::V6SourceMulticast),
        ("fe80::2", "fd03::2", Cause::V6SourceLinkLocal),
        ("febf::2", "fd77::2", Cause::V6SourceLinkLocal),
        ("fd01::2", "::", Cause::V6DestinationUnspecified),
        ("fd01::2", "::1", Cause::V6DestinationLoopback),
    ] {
        assert_dropped(udp(source, destination, 80), cause);
    }
}

#[test]
fn addresses_near_the_impossible_ones_are_forwarded() {
    for source in ["1.0.0.1", "126.1.1.1", "128.0.0.1", "223.255.255.1"] {
        forward(&mut engine(), &udp(source, "10.3.0.2", 60));
    }
    for source in ["fec0::1", "fe7f::1", "::2", "::ffff:10.1.0.2", "2001:db8::"] {
        forward(&mut engine(), &udp(source, "fd03::2", 80));
    }
}

#[test]
fn source_routes_are_refused_in_silence_wherever_the_option_stands() {
    let loose = [131, 7, 4, 10, 3, 0, 2, 0];
    let strict = [137, 7, 4, 10, 3, 0, 2, 0];
    let after_others = [1, 1, 148, 4, 0, 0, 131, 3, 4, 0, 0, 0];
    for options in [&loose[..], &strict, &after_others] {
        assert_dropped(with_options(v4(), options), Cause::V4SourceRoute);
    }
}
