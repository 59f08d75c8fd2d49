//! Treats the input as bytes from a netlink socket. Checks that reading ends, and that lists are no
//! longer than the bytes allow. Also passes the messages to a mirror, with dumps begun and ended
//! between them, and checks that it publishes only tables whose indices are in range.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipring_fib::{
    DumpKind, ForwardingTables, Mirror, MirrorConfig, PortConfig, TargetAction, VlanTags,
    VrfConfig, VrfIndex,
};
use slipring_rtnetlink::{MessageBody, Messages};

mod range_table;

fuzz_target!(|data: &[u8]| {
    let ports = (1..3).map(|ifindex| PortConfig {
        ifindex,
        parent: None,
        name: String::new(),
        vrf: VrfIndex(0),
        tags: VlanTags::default(),
    });
    let config = MirrorConfig {
        ports: ports.collect(),
        vrfs: vec![VrfConfig::default()],
        ..MirrorConfig::default()
    };
    let mut mirror = Mirror::new(config, vec![range_table::boxed()]);
    for kind in DumpKind::ALL {
        mirror.begin_dump(kind);
        mirror.end_dump(kind);
    }
    let mut count = 0;
    for message in Messages::new(data) {
        count += 1;
        let Ok(message) = message else { continue };
        match message.body {
            MessageBody::Route(_, route) => assert!(route.hops().count() <= data.len()),
            MessageBody::NextHop(_, next_hop) => {
                assert!(next_hop.group.map_or(0, Iterator::count) <= data.len());
            }
            // The input is arbitrary, so the message that ends a dump stands for both the start and
            // the end of one: its sequence number selects the dump, its port the action.
            MessageBody::Done(_) => {
                let kind = DumpKind::ALL[message.header.sequence as usize % DumpKind::ALL.len()];
                if message.header.port % 2 == 0 {
                    mirror.begin_dump(kind)
                } else {
                    mirror.end_dump(kind)
                }
            }
            _ => {}
        }
        mirror.receive(&message);
        if let Some(tables) = mirror.publish() {
            check(&tables);
            mirror.write_ipv4();
        }
    }
    assert!(count <= data.len() / 16 + 1);
    mirror.solicit(8);
});

fn check(tables: &ForwardingTables) {
    for target in tables.targets.iter() {
        match target.action {
            TargetAction::Forward(at) => assert!(usize::from(at.0) < tables.adjacencies.len()),
            TargetAction::Balance(at) => {
                let buckets = &tables.buckets[usize::from(at)];
                assert!(buckets.iter().all(|at| usize::from(at.0) < tables.adjacencies.len()));
            }
            _ => {}
        }
    }
    let ports = tables.adjacencies.iter().map(|adjacency| usize::from(adjacency.port.0));
    assert!(ports.into_iter().all(|port| port < tables.ports.len()));
}
