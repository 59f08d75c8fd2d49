//! Rates at which packets from an interface are accepted (`[[policer]]`).

use crate::packet::Packet;
use crate::rig::{Addresses, Rig, Setup, families, v4};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    packets_beyond_the_rate_are_dropped_and_counted,
    packets_beyond_the_rate_are_marked_and_counted
}

crate::instances! {
    packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    packets_beyond_the_rate_are_dropped_and_counted,
    packets_beyond_the_rate_are_marked_and_counted
}

/// A router whose policer for packets from A has these further keys. In the time of a check, the rate
/// gives back some bytes only.
fn with_policer(setup: Setup, keys: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    let policer = format!("[[policer]]\ninterface = 'e0'\nrate = '8bit'\n{keys}\n");
    std::fs::write(&path, policer).unwrap();
    setup.with_flags(&format!("--config {}", path.display())).start()
}

/// Packets that the policer has dropped and marked.
fn counted(rig: &Rig) -> [u64; 2] {
    let interface = rig.ask(&["interface", "e0"])["interfaces"][0].clone();
    let policed = interface["dropped"]["policed"].as_u64().unwrap_or_default();
    [policed, interface["marked"].as_u64().unwrap()]
}

fn long(net: Addresses) -> Packet {
    Packet::udp(net.a, net.b, &[7; 1400]).with(|packet| packet.class = 10 << 2)
}

fn packets_beyond_the_rate_are_dropped_and_counted(setup: Setup) {
    // The rig's own packets at the start are within the burst.
    let rig = with_policer(setup, "burst = '100kB'");
    let sent = std::cell::Cell::new(0);
    rig.until(|| {
        (0..20).for_each(|_| rig.a.send(&long(v4())));
        sent.set(sent.get() + 20);
        (counted(&rig)[0] >= 5).then_some(())
    });
    let [dropped, marked] = counted(&rig);
    assert!(dropped < sent.get() && marked == 0, "{dropped} of {sent:?}");
    let text = rig.tell(&["interface", "e0"]).well().stdout;
    assert!(text.contains(" policed\n"), "{text}");
}

fn packets_beyond_the_rate_are_marked_and_counted(setup: Setup) {
    // The new DSCP is that of fences, so these are as they should be within and beyond the rate.
    let rig = with_policer(setup, "burst = '2000B'\nexceed_dscp = 0");
    for net in families() {
        let before = counted(&rig)[1];
        (0..4).for_each(|_| rig.a.send(&long(net)));
        let seen = rig.observe([0, 4, 0]);
        let is_long = |packet: &&Packet| packet.payload.len() > 1400;
        let arrived: Vec<_> =
            seen.b.iter().map(|arrival| &arrival.packet).filter(is_long).collect();
        let marked = arrived.iter().filter(|packet| packet.class == 0).count() as u64;
        // The first one may be within the burst.
        assert!(arrived.len() == 4 && marked >= 3, "{seen:?}");
        let [dropped, after] = counted(&rig);
        assert!(dropped == 0 && after >= before + marked, "{before} {after} {dropped}");
    }
}
