//! Tests of routes with several next hops.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::kit::*;
use crate::{RouteConfig, RouteEngine};

fn balanced() -> TableBuilder {
    let mut builder = TableBuilder::usual();
    let all = [
        builder.adjacency(RIGHT, via("10.3.0.3"), Some(GATEWAY)),
        builder.adjacency(RIGHT, via("10.3.0.2"), Some(H2)),
    ];
    builder.balance("10.40.0.0/16", &all);
    builder.balance("fd40::/16", &all);
    builder
}

/// Returns the next hops that frames take.
fn next_hops(engine: &mut RouteEngine, frames: impl Iterator<Item = Vec<u8>>) -> Vec<[u8; 6]> {
    frames.map(|frame| forward(engine, &frame).1[..6].try_into().unwrap()).collect()
}

fn with_port(mut frame: Vec<u8>, l4: usize, port: u16) -> Vec<u8> {
    frame[l4..l4 + 2].copy_from_slice(&port.to_be_bytes());
    frame
}

#[test]
fn flows_that_differ_only_in_a_port_take_both_ways_and_each_stays_on_its_own() {
    for (from, to, l4) in [("10.1.0.2", "10.40.0.1", 34), ("fd01::2", "fd40::1", 54)] {
        let mut engine = balanced().engine();
        let frames = || (0..1000).map(|port| with_port(udp(from, to, 80), l4, port));
        let taken = next_hops(&mut engine, frames());
        let first = taken.iter().filter(|mac| **mac == H2.0).count();
        // For a fair coin, 500 are expected, with a standard deviation of 16.
        assert!((420..580).contains(&first), "{first} of 1000 by the first way");
        assert_eq!(next_hops(&mut engine, frames()), taken);
    }
}

#[test]
fn all_fragments_of_a_packet_take_one_way() {
    let mut engine = balanced().engine();
    let fragments = (0..100).map(|offset: u16| {
        let mut frame = with_port(udp("10.1.0.2", "10.40.0.1", 80), 34, offset.wrapping_mul(777));
        patch_v4(&mut frame, 6, &(offset | 0x2000).to_be_bytes());
        frame
    });
    let taken: BTreeSet<_> = next_hops(&mut engine, fragments).into_iter().collect();
    assert_eq!(taken.len(), 1);
}

#[test]
fn another_seed_spreads_flows_in_another_way() {
    let frames = || (0..64).map(|port| with_port(udp("10.1.0.2", "10.40.0.1", 80), 34, port));
    let with_seed = |seed| {
        let config = RouteConfig { seed, ..RouteConfig::default() };
        next_hops(&mut RouteEngine::new(config, balanced().build()), frames())
    };
    assert_eq!(with_seed(1), with_seed(1));
    assert_ne!(with_seed(1), with_seed(2));
}

#[test]
fn the_flow_label_counts_only_if_configured() {
    // The label is in the lower half of byte 15 and in bytes 16 and 17.
    let frames = |at: usize| {
        (0..16u8).map(move |label| {
            let mut frame = udp("fd01::2", "fd40::1", 80);
            frame[at] = frame[at] & 0xf0 | label;
            frame
        })
    };
    let ways = |uses_flow_label, at| {
        let config = RouteConfig { uses_flow_label, ..RouteConfig::default() };
        let taken = next_hops(&mut RouteEngine::new(config, balanced().build()), frames(at));
        taken.into_iter().collect::<BTreeSet<_>>().len()
    };
    for at in 15..18 {
        assert_eq!((ways(false, at), ways(true, at)), (1, 2));
    }
}
