//! A bridge as an interface of the router. netmap-fwd accepts a bridge, but then receives nothing
//! from it.

use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, wait_for_own_addresses};

macro_rules! wherever_a_bridge_can_be {
    ($($check:ident),* $(,)?) => {
        crate::kernel_checks!(for crate::rig::Setup: $($check),*);
        crate::instances!(auto: crate::rig::Setup = crate::rig::Subject::Slipring("auto"), $($check),*);
        crate::instances!(in_packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"), $($check),*);
    };
}

wherever_a_bridge_can_be! {
    a_bridge_routes_both_ways,
}

crate::instances! {
    in_xdp: crate::rig::Setup = crate::rig::Subject::Slipring("xdp"),
    an_engine_that_a_bridge_does_not_have_is_refused_by_name
}

/// Puts a bridge between A's link and the router. The bridge gets the name, the addresses and the
/// neighbours of the router's interface on that link.
fn with_bridge(setup: Setup) -> Setup {
    let setup = setup.ip("link set e0 down
         addr flush dev e0
         neigh flush dev e0 nud permanent
         link set e0 name port0
         link set port0 address 02:00:00:00:01:07
         link add e0 address 02:00:00:00:01:01 type bridge
         link set port0 master e0 up
         link set e0 up
         addr add 10.1.0.1/24 dev e0
         addr add fd01::1/64 dev e0 nodad
         neigh add 10.1.0.2 lladdr 02:00:00:00:01:02 dev e0 nud permanent
         neigh add fd01::2 lladdr 02:00:00:00:01:02 dev e0 nud permanent");
    setup.router().wait_for_carrier("e0");
    wait_for_own_addresses(setup.router());
    setup
}

fn back(rig: &Rig, packet: &Packet) {
    rig.b.send(packet);
    let seen = rig.observe([1, 0, 0]);
    let arrived: Vec<_> = seen.a.iter().map(|it| (it.src, it.packet.clone())).collect();
    assert_eq!(arrived, [(rig.a.router_mac, packet.forwarded())]);
}

fn a_bridge_routes_both_ways(setup: Setup) {
    let rig = with_bridge(setup).start();
    for net in families() {
        rig.forwards(&[Packet::udp(net.a, net.b, b"from the bridge")]);
        back(&rig, &Packet::udp(net.b, net.a, b"to the bridge"));
        rig.refuses(&Packet::udp(net.a, net.b, b"too old").hops(1));
    }
}

fn an_engine_that_a_bridge_does_not_have_is_refused_by_name(setup: Setup) {
    let setup = with_bridge(setup);
    let dir = tempfile::tempdir().unwrap();
    let program = crate::topology::start(setup.router(), setup.subject, "e0 e1", dir.path());
    let refused = program.expect("the subject is a program").finish();
    assert_ne!(refused.code(), 0);
    assert!(refused.stderr.contains("e0"), "{}", refused.stderr);
    assert!(refused.stderr.contains("help:"), "{}", refused.stderr);
}
