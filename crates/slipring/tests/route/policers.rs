//! Tests of the rates at which packets from an interface are accepted (`[[policer]]`).

use crate::packet::Packet;
use crate::rig::{Addresses, Rig, Setup, families, v4};

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    packets_beyond_the_rate_are_dropped_and_counted,
    packets_beyond_the_rate_are_marked_and_counted,
    a_reload_changes_a_policer,
    a_first_policer_comes_by_a_reload_without_a_lost_packet,
    a_vlan_that_the_kernel_does_not_have_is_policed
}

crate::instances! {
    packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    packets_beyond_the_rate_are_dropped_and_counted,
    packets_beyond_the_rate_are_marked_and_counted,
    a_reload_changes_a_policer,
    a_first_policer_comes_by_a_reload_without_a_lost_packet,
    a_vlan_that_the_kernel_does_not_have_is_policed
}

crate::instances! {
    auto: crate::rig::Setup = crate::rig::Subject::Slipring("auto"),
    a_first_policer_of_a_router_in_xdp_needs_a_restart
}

/// A router with a policer for packets from A that has these additional keys. The rate is so low
/// that only a few bytes are added to the bucket during a check.
fn with_policer(setup: Setup, keys: &str) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    let policer = format!("[[policer]]\ninterface = 'e0'\nrate = '8bit'\n{keys}\n");
    std::fs::write(&path, policer).unwrap();
    setup.with_flags(&format!("--config {}", path.display())).start()
}

/// Returns how many packets the policer has dropped, and how many it has marked.
fn counted(rig: &Rig) -> [u64; 2] {
    let interface = rig.ask(&["interface", "e0"])["interfaces"][0].clone();
    let policed = interface["dropped"]["policed"].as_u64().unwrap_or_default();
    [policed, interface["marked"].as_u64().unwrap()]
}

fn long(net: Addresses) -> Packet {
    Packet::udp(net.a, net.b, &[7; 1400]).with(|packet| packet.class = 10 << 2)
}

fn packets_beyond_the_rate_are_dropped_and_counted(setup: Setup) {
    // The rig's own packets at the start fit into the burst.
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
    // The new DSCP is 0. Fences (see `rig`) are sent with this DSCP, so they look the same within
    // and beyond the rate.
    let rig = with_policer(setup, "burst = '2000B'\nexceed_dscp = 0");
    for net in families() {
        let before = counted(&rig)[1];
        (0..4).for_each(|_| rig.a.send(&long(net)));
        let seen = rig.observe([0, 4, 0]);
        let is_long = |packet: &&Packet| packet.payload.len() > 1400;
        let arrived: Vec<_> =
            seen.b.iter().map(|arrival| &arrival.packet).filter(is_long).collect();
        let marked = arrived.iter().filter(|packet| packet.class == 0).count() as u64;
        // The first packet may still be within the burst.
        assert!(arrived.len() == 4 && marked >= 3, "{seen:?}");
        let [dropped, after] = counted(&rig);
        assert!(dropped == 0 && after >= before + marked, "{before} {after} {dropped}");
    }
}

/// After a reload with a large burst, all packets pass. After a reload with the old burst, packets
/// are dropped again.
fn a_reload_changes_a_policer(setup: Setup) {
    let policer =
        |burst| format!("[[policer]]\ninterface = 'e0'\nrate = '8bit'\nburst = '{burst}'\n");
    let started = crate::settings::start(setup, &policer("100kB"));
    let rig = &started.rig;
    let exhaust = || {
        let before = counted(rig)[0];
        rig.until(|| {
            (0..20).for_each(|_| rig.a.send(&long(v4())));
            (counted(rig)[0] >= before + 5).then_some(())
        });
    };
    exhaust();
    started.reload(&policer("200MB"));
    rig.observe([0; 3]);
    let before = counted(rig)[0];
    rig.forwards(&[(); 20].map(|()| long(v4())));
    assert_eq!(counted(rig)[0], before);
    started.reload(&policer("100kB"));
    exhaust();
    // A reload removes the only policer, and a later one adds a policer again.
    started.reload("");
    rig.observe([0; 3]);
    let before = counted(rig)[0];
    rig.forwards(&[(); 20].map(|()| long(v4())));
    assert_eq!(counted(rig)[0], before);
    started.reload(&policer("100kB"));
    exhaust();
}

fn a_first_policer_comes_by_a_reload_without_a_lost_packet(setup: Setup) {
    let started = crate::settings::start(setup, "");
    let rig = &started.rig;
    let policer = |rate| format!("[[policer]]\ninterface = 'e0'\nrate = '{rate}'\n");
    for (number, text) in (0..20).zip([policer("100Gbit"), String::new()].into_iter().cycle()) {
        let window: Vec<_> = (0..32).map(|at| Packet::udp(v4().a, v4().b, &[number, at])).collect();
        window.iter().for_each(|packet| rig.a.send(packet));
        started.reload(&text);
        let seen = rig.observe([0, window.len(), 0]);
        assert_eq!(seen.b.len(), window.len(), "reload {number}");
    }
    assert_eq!(counted(rig), [0, 0]);
}

/// There is no policer in XDP.
fn a_first_policer_of_a_router_in_xdp_needs_a_restart(setup: Setup) {
    let started = crate::settings::start(setup, "");
    let refused = started.refusal("[[policer]]\ninterface = 'e0'\nrate = '1Mbit'\n");
    assert!(refused.contains("started again for policer (it forwards in XDP)"), "{refused}");
    started.reload("");
}

/// The rate of a VLAN does not apply to the interface that carries it, nor to other VLANs of that
/// interface.
fn a_vlan_that_the_kernel_does_not_have_is_policed(setup: Setup) {
    use crate::vlan::{ONE, TWO};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    let policer = "[[policer]]\ninterface = 'e1.100'\nrate = '8bit'\nburst = '100kB'\n";
    std::fs::write(&path, policer).unwrap();
    let rig = crate::vlan::start(setup, &format!("--config {}", path.display()));
    let dropped = |name: &str| {
        let answer = rig.ask(&["interface", name]);
        answer["interfaces"][0]["dropped"]["policed"].as_u64().unwrap_or_default()
    };
    let packet = |host: &str| Packet::udp(crate::rig::ip(host), v4().a, &[7; 1400]);
    rig.until(|| {
        (0..20).for_each(|_| ONE.send(&rig, &packet(ONE.host[0])));
        rig.observe([0; 3]);
        (dropped("e1.100") >= 5).then_some(())
    });
    let plenty = [(); 100].map(|()| packet(TWO.host[0]));
    plenty.iter().for_each(|packet| TWO.send(&rig, packet));
    let seen = rig.observe([plenty.len(), 0, 0]);
    let of_two = seen.a.iter().filter(|arrival| arrival.packet.src == plenty[0].src);
    assert_eq!(of_two.count(), plenty.len());
    assert_eq!((dropped("e1.200.7"), dropped("e1")), (0, 0));
}
