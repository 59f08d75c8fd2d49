//! Tests of the mirror with messages as the kernel sends them, and of the answers of its tables.

#![allow(clippy::unwrap_used)]

mod kernel;
mod limits;
mod model;
mod oracle;
mod ranges;
mod routing;
mod settings;
mod silence;

use std::net::IpAddr;
use std::sync::Arc;

use slipring_fib::*;

use kernel::{dump, tell};

/// Interfaces 1 and 2 belong to the router, interface 3 does not.
pub(crate) const ROUTER: [u32; 2] = [1, 2];

pub(crate) fn config() -> MirrorConfig {
    let port = |ifindex: u32| PortConfig {
        ifindex,
        parent: None,
        name: format!("eth{ifindex}"),
        vrf: VrfIndex(0),
        tags: VlanTags::default(),
    };
    MirrorConfig {
        ports: ROUTER.map(port).to_vec(),
        vrfs: vec![VrfConfig::default()],
        ..MirrorConfig::default()
    }
}

/// A mirror whose dumps have shown three interfaces with subnets 10.1/16, 10.2/16 and 10.3/16.
pub(crate) fn mirror() -> Mirror {
    mirror_of(config())
}

pub(crate) fn mirror_of(config: MirrorConfig) -> Mirror {
    let tables = config.vrfs.iter().map(|_| ranges::RangeTable::boxed()).collect();
    mirror_with(config, tables)
}

pub(crate) fn mirror_with(config: MirrorConfig, tables: Vec<Box<dyn Ipv4Table>>) -> Mirror {
    let mut mirror = Mirror::new(config, tables);
    for kind in DumpKind::ALL {
        let messages = match kind {
            DumpKind::Links => vec![
                kernel::link(1, kernel::UP),
                kernel::link(2, kernel::UP),
                kernel::link(3, kernel::UP),
            ],
            DumpKind::Ipv4Routes => connected_v4(),
            DumpKind::Ipv6Routes => connected_v6(),
            _ => vec![],
        };
        dump(&mut mirror, kind, &messages);
    }
    mirror
}

pub(crate) fn connected_v4() -> Vec<kernel::KernelMessage> {
    (1..=3).map(|at| kernel::connected(&format!("10.{at}.0.0/16"), at)).collect()
}

pub(crate) fn connected_v6() -> Vec<kernel::KernelMessage> {
    (1..=3).map(|at| kernel::connected(&format!("fd0{at}::/64"), at)).collect()
}

/// Returns the target of a destination.
pub(crate) fn target_of(tables: &ForwardingTables, destination: &str) -> Target {
    tables.targets[usize::from(index(tables, destination).0)]
}

pub(crate) fn index(tables: &ForwardingTables, destination: &str) -> TargetIndex {
    let mut found = [TargetIndex::KERNEL];
    match kernel::ip(destination) {
        IpAddr::V4(address) => tables.vrfs[0].v4.lookup(&[address.to_bits()], &mut found),
        IpAddr::V6(address) => tables.vrfs[0].v6.lookup(&[address.to_bits()], &mut found),
    }
    found[0]
}

pub(crate) fn action(tables: &ForwardingTables, destination: &str) -> TargetAction {
    target_of(tables, destination).action
}

/// The adjacency to which packets for a destination go.
pub(crate) fn adjacency(tables: &ForwardingTables, destination: &str) -> Adjacency {
    match action(tables, destination) {
        TargetAction::Forward(at) => tables.adjacencies[usize::from(at.0)],
        other => panic!("{destination}: {other:?}"),
    }
}

pub(crate) fn gateway(tables: &ForwardingTables, destination: &str) -> String {
    match adjacency(tables, destination).next_hop {
        NextHopAddress::Via(address) => address.to_string(),
        NextHopAddress::OnLink => "link".into(),
    }
}

/// Publishes the changes, of which there must be some. Returns the new snapshot.
pub(crate) fn publish(mirror: &mut Mirror) -> Arc<ForwardingTables> {
    let tables = mirror.publish().expect("something has changed");
    mirror.write_ipv4();
    tables
}

#[test]
fn smoke() {
    let mut mirror = mirror();
    let tables = publish(&mut mirror);
    assert_eq!(gateway(&tables, "10.1.0.5"), "link");
    assert_eq!(action(&tables, "10.3.0.5"), TargetAction::Kernel);
    tell(
        &mut mirror,
        &[kernel::via("0.0.0.0/0", "10.1.0.2", 1), kernel::neighbour(1, "10.1.0.2", 2, 9)],
    );
    let tables = publish(&mut mirror);
    assert_eq!(gateway(&tables, "8.8.8.8"), "10.1.0.2");
    assert_eq!(gateway(&tables, "10.1.0.2"), "10.1.0.2");
    assert_eq!(adjacency(&tables, "8.8.8.8").mac.unwrap().0, [2, 0, 0, 0, 1, 9]);
    assert_eq!(action(&tables, "224.0.0.5"), TargetAction::Kernel);
    assert!(mirror.publish().is_none());
}
