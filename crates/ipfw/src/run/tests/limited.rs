//! Tests of `limit`: which flows count together.

use super::*;

/// Builds a UDP packet, given the last byte of its source address, its source port, and the same
/// for its destination.
fn udp_flow((src, src_port, dst, dst_port): (u8, u16, u8, u16)) -> Vec<u8> {
    let ports = PortPair { src: src_port, dst: dst_port };
    bytes(&spec([10, 0, 0, src], [10, 1, 0, dst], L4Spec::Udp(ports)))
}

#[test]
fn flows_that_agree_in_the_fields_of_a_limit_count_together() {
    const FLOW: (u8, u16, u8, u16) = (1, 1000, 2, 53);
    let words = ["src-addr", "src-port", "dst-addr", "dst-port"];
    for picked in 1..16_u32 {
        let has = |field: usize| picked >> field & 1 == 1;
        let fields: Vec<&str> = (0..4).filter(|&field| has(field)).map(|at| words[at]).collect();
        let rule = format!("add 100 allow udp from any to any limit {} 1", fields.join(" "));
        // The second flow differs from the first flow in the fields whose bits are set in
        // `changed`.
        for changed in 1..16_u32 {
            let differs = |field: usize| changed >> field & 1 == 1;
            let (src, src_port, dst, dst_port) = FLOW;
            let second = (
                if differs(0) { 7 } else { src },
                if differs(1) { 7 } else { src_port },
                if differs(2) { 7 } else { dst },
                if differs(3) { 7 } else { dst_port },
            );
            let mut fixture = Fixture::new(&rule);
            assert!(fixture.passes(udp_flow(FLOW)));
            let apart = picked & changed != 0;
            assert_eq!(fixture.passes(udp_flow(second)), apart, "{rule}: {second:?}");
        }
    }
}

#[test]
fn protocols_count_apart() {
    let mut fixture = Fixture::new("add 100 allow ip from any to any limit src-addr 1");
    assert!(fixture.passes(udp()));
    assert!(fixture.passes(tcp(2)), "of the same address, but not of the same protocol");
    assert!(!fixture.passes(udp_ports(1, 2)));
}
