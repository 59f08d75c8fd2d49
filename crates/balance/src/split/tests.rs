use super::*;
use std::vec::Vec;

fn ethernet(to: u8, from: u8, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let head = [&[2, 0, 0, 0, 0, to][..], &[2, 0, 0, 0, 0, from], &ethertype.to_be_bytes()];
    let mut frame = head.concat();
    frame.extend_from_slice(payload);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn ipv4(proto: u8, fragment: u16, [src, dst]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x45, 0];
    packet.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 7]);
    packet.extend_from_slice(&fragment.to_be_bytes());
    packet.extend_from_slice(&[64, proto, 0, 0, 10, 0, 0, src, 10, 0, 0, dst]);
    packet.extend_from_slice(payload);
    packet
}

fn ipv6(proto: u8, [src, dst]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let mut packet = std::vec![0x60, 0, 0, 0];
    packet.extend_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[proto, 64]);
    for host in [src, dst] {
        packet.extend_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    }
    packet.extend_from_slice(payload);
    packet
}

fn udp(src: u16, dst: u16, payload: &[u8]) -> Vec<u8> {
    let len = (8 + payload.len() as u16).to_be_bytes();
    [&src.to_be_bytes()[..], &dst.to_be_bytes(), &len, &[0, 0], payload].concat()
}

fn hash(frame: &[u8]) -> u64 {
    FlowSplitter::new([5, 6]).split(frame).hash
}

fn flow(hosts: [u8; 2], ports: [u16; 2]) -> Vec<u8> {
    ethernet(1, 2, 0x0800, &ipv4(17, 0, hosts, &udp(ports[0], ports[1], &[1; 20])))
}

#[test]
fn both_directions_of_a_flow_have_one_hash() {
    assert_eq!(hash(&flow([1, 2], [1000, 53])), hash(&flow([2, 1], [53, 1000])));
    assert_ne!(hash(&flow([1, 2], [1000, 53])), hash(&flow([1, 2], [1001, 53])));
    // If the ports are swapped but not the addresses, the frame belongs to another flow.
    assert_ne!(hash(&flow([1, 2], [1000, 53])), hash(&flow([1, 2], [53, 1000])));
    let six = |hosts, ports: [u16; 2]| {
        ethernet(1, 2, 0x86dd, &ipv6(6, hosts, &udp(ports[0], ports[1], &[1; 20])))
    };
    assert_eq!(hash(&six([1, 2], [1000, 80])), hash(&six([2, 1], [80, 1000])));
    assert_ne!(hash(&six([1, 2], [1000, 80])), hash(&six([1, 3], [1000, 80])));
}

#[test]
fn all_fragments_of_a_packet_go_one_way() {
    let first = ethernet(1, 2, 0x0800, &ipv4(17, 0x2000, [1, 2], &udp(1000, 53, &[1; 64])));
    let later = ethernet(1, 2, 0x0800, &ipv4(17, 9, [1, 2], &[0xaa; 64]));
    assert_eq!(hash(&first), hash(&later));
}

#[test]
fn vlans_keep_flows_apart() {
    let tagged = |vlan: u16| {
        let inner = ipv4(17, 0, [1, 2], &udp(1000, 53, &[1; 20]));
        ethernet(1, 2, 0x8100, &[&vlan.to_be_bytes()[..], &[8, 0], &inner].concat())
    };
    assert_ne!(hash(&tagged(1)), hash(&tagged(2)));
    // A VLAN tag's priority is not part of a flow.
    assert_eq!(hash(&tagged(1)), hash(&tagged(0xe001)));
}

#[test]
fn frames_without_ip_are_split_by_their_stations_and_said_to_be_so() {
    let splitter = FlowSplitter::new([5, 6]);
    let [there, back] = [ethernet(1, 2, 0x88b5, &[1]), ethernet(2, 1, 0x88b5, &[2])];
    assert_eq!(splitter.split(&there), splitter.split(&back));
    assert!(!splitter.split(&there).is_ip);
    assert!(splitter.split(&flow([1, 2], [3, 4])).is_ip);
    assert!(!splitter.split(&[]).is_ip);
}

#[test]
fn another_secret_is_another_split() {
    let flow = flow([1, 2], [3, 4]);
    assert_ne!(
        FlowSplitter::new([1, 2]).split(&flow).hash,
        FlowSplitter::new([1, 3]).split(&flow).hash
    );
}

/// Returns `inner` inside each kind of tunnel.
fn tunnels(inner: &[u8]) -> [Vec<u8>; 4] {
    let around = |proto, payload: &[u8]| ethernet(8, 9, 0x0800, &ipv4(proto, 0, [8, 9], payload));
    let vxlan = [&[8, 0, 0, 0, 0, 0, 1, 0][..], inner].concat();
    let geneve = [&[1, 0, 0x65, 0x58, 0, 0, 1, 0, 1, 2, 3, 0][..], inner].concat();
    let gre = [&[0, 0, 0x65, 0x58][..], inner].concat();
    let nvgre = [&[0x20, 0, 0x65, 0x58, 0, 0, 1, 0][..], inner].concat();
    [
        around(17, &udp(50_000, 4789, &vxlan)),
        around(17, &udp(50_000, 6081, &geneve)),
        around(47, &gre),
        around(47, &nvgre),
    ]
}

#[test]
fn inside_of_tunnels_the_inner_flow_counts_if_asked_for() {
    let [here, there] = [flow([1, 2], [1000, 53]), flow([1, 2], [1001, 53])];
    let inside = FlowSplitter::new([5, 6]).decapsulating();
    for (a, b) in tunnels(&here).iter().zip(&tunnels(&there)) {
        assert_eq!(hash(a), hash(b));
        assert_eq!(inside.split(a), inside.split(&here));
        assert_ne!(inside.split(a), inside.split(b));
    }
    assert_eq!(inside.split(&here), FlowSplitter::new([5, 6]).split(&here));
}

#[test]
fn no_cut_of_a_tunnel_makes_it_panic() {
    let inside = FlowSplitter::new([5, 6]).decapsulating();
    let nested = tunnels(&tunnels(&flow([1, 2], [3, 4]))[0]);
    for tunnel in &nested {
        for len in 0..tunnel.len() {
            assert_eq!(inside.split(&tunnel[..len]), inside.split(&tunnel[..len]));
        }
    }
}
