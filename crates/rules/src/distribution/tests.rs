//! Tests which thread gets a frame.

use slipring_ipfw::run::Firewall;
use slipring_wire::assigned::VlanTag;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec, Ipv6Spec, TagSpec};

use super::*;

fn steering(list: &str) -> Steering {
    let mut firewall = Firewall::new(1, [1, 2]);
    firewall.load(list, 0).unwrap_or_else(|error| panic!("{error}\n{list}"));
    Steering::of(firewall.config())
}

#[test]
fn rules_are_checked_by_as_many_threads_as_they_permit() {
    let nat = "nat 1 config ip 192.0.2.1\nadd nat 1 ip from any to any";
    for (list, expected) in [
        ("add deny udp from any to any 53\nadd count ip from table(1) to any", Steering::Anywhere),
        ("add allow ip from any to any keep-state", Steering::ByHosts),
        ("add check-state", Steering::ByHosts),
        ("add reass ip from any to any", Steering::ByHosts),
        ("add allow tcp from any to any limit src-addr dst-addr 4", Steering::ByHosts),
        ("add allow tcp from any to any limit src-addr 4", Steering::First),
        ("add allow tcp from any to any limit dst-port 4", Steering::First),
        ("add pipe 1 ip from any to any", Steering::First),
        ("add queue 1 ip from any to any keep-state", Steering::First),
        ("add set 3 pipe 1 ip from any to any\nset disable 3", Steering::First),
        (nat, Steering::First),
    ] {
        assert_eq!(steering(list), expected, "{list}");
    }
}

#[test]
fn both_directions_of_hosts_have_one_thread_whatever_lies_around_the_addresses() {
    let distribution = FlowDistribution::new([3, 4], 16);
    for host in 0..32u8 {
        let v4 = |src: [u8; 4], dst: [u8; 4]| {
            IpSpec::V4(Ipv4Spec { src: src.into(), dst: dst.into(), ..Ipv4Spec::default() })
        };
        let v6 = |src: u128, dst: u128| {
            IpSpec::V6(Ipv6Spec { src: src.into(), dst: dst.into(), ..Ipv6Spec::default() })
        };
        let number = u128::from(host);
        for ips in [
            [v4([10, 0, 0, 1], [10, 1, 0, host]), v4([10, 1, 0, host], [10, 0, 0, 1])],
            [v6(1 << 64, 2 << 64 | number), v6(2 << 64 | number, 1 << 64)],
        ] {
            let [there, back] = ips.map(|ip| FrameSpec { ip, ..FrameSpec::default() });
            let thread = distribution.thread_of(&there.build(100).unwrap().bytes);
            let tag = TagSpec { ethertype: EtherType::QINQ, tag: VlanTag(7) };
            let tagged = FrameSpec { tags: vec![tag], ..back.clone() };
            let mut broken = back.build(100).unwrap().bytes;
            broken.truncate(60);
            broken[..12].fill(host);
            for frame in [tagged.build(100).unwrap().bytes, broken] {
                assert_eq!(distribution.thread_of(&frame), thread, "host {host}");
            }
        }
    }
}
