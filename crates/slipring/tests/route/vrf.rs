//! Tests of `[[vrf]]`, by which the packets of an interface are looked up in a table with a name.

use crate::packet::Packet;
use crate::rig::{Rig, Setup, ip, v4, v6};
use crate::settings::{SettingsRig, start};

crate::program_checks! {
    for crate::rig::Setup:
    packets_of_a_vrf_are_looked_up_in_its_table,
    rules_that_the_kernel_lacks_are_named_and_the_start_is_refused,
    packets_are_left_to_the_kernel_while_its_rules_choose_another_table,
    tables_that_come_later_have_the_space_that_the_file_asks_for,
    a_reload_gives_an_interface_another_name
}

const RED: &str = "[[vrf]]\nname = 'red'\ntable = 100\ninterfaces = ['e2']\n";

/// Routes that are only in table 100.
const ROUTES: &str = "route add 10.9.0.0/16 via 10.3.0.2 table 100
                      route add fd09::/64 via fd03::2 table 100";

/// Adds the kernel's rules by which packets from e2 use table 100.
fn with_rules(setup: Setup) -> Setup {
    setup.with_c().ip(ROUTES).ip("rule add iif e2 table 100").ip6("rule add iif e2 table 100")
}

/// Packets from C to destinations in table 100.
fn by_table_100() -> [Packet; 2] {
    [(v4().c, "10.9.0.1"), (v6().c, "fd09::1")].map(|(c, to)| Packet::udp(c, ip(to), b"red"))
}

/// Sends the packets from C, and returns whether all arrive at B.
fn pass(rig: &Rig) -> Option<()> {
    let packets = by_table_100();
    packets.iter().for_each(|packet| rig.c().send(packet));
    let seen = rig.observe([0; 3]);
    let arrived: Vec<_> = seen.b.iter().map(|arrival| arrival.packet.clone()).collect();
    (arrived == packets.map(|packet| packet.forwarded())).then_some(())
}

fn interface(rig: &Rig, key: &str) -> serde_json::Value {
    rig.ask(&["interface", "e2"])["interfaces"][0][key].clone()
}

fn packets_of_a_vrf_are_looked_up_in_its_table(setup: Setup) {
    let SettingsRig { rig, .. } = &start(with_rules(setup), RED);
    rig.until(|| pass(rig));
    // Packets from other interfaces do not use these routes.
    rig.refuses(&Packet::udp(v4().a, ip("10.9.0.1"), b"not red"));
    rig.until(|| {
        let before = interface(rig, "forwarded")["packets"].as_u64().unwrap();
        pass(rig)?;
        (interface(rig, "forwarded")["packets"].as_u64() >= Some(before + 2)).then_some(())
    });
    assert_eq!(interface(rig, "vrf"), "red");
    let text = rig.tell(&["interface", "e2"]).well().stdout;
    assert!(text.contains(", vrf red\n"), "{text}");
}

fn rules_that_the_kernel_lacks_are_named_and_the_start_is_refused(setup: Setup) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    std::fs::write(&path, RED).unwrap();
    let setup = setup.with_c().ip("rule add iif e2 table 101");
    let words = format!("e0 e1 e2 --config {}", path.display());
    let program = crate::topology::start(&setup.router, setup.subject, &words, dir.path());
    let ended = program.unwrap().finish();
    assert_ne!(ended.code(), 0);
    for part in
        ["SR0114", "[[vrf]]", "ip rule add iif e2 table 100", "ip -6 rule add iif e2 table 100"]
    {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    // The advised commands fix the problem.
    let commands = ["ip rule add iif e2 table 100", "ip -6 rule add iif e2 table 100"];
    setup.router.ip(commands[0].strip_prefix("ip ").unwrap());
    setup.router.ip(commands[1].strip_prefix("ip ").unwrap());
    setup.router.ip("rule del iif e2 table 101");
    setup.with_flags(&format!("--config {}", path.display())).start();
}

fn packets_are_left_to_the_kernel_while_its_rules_choose_another_table(setup: Setup) {
    let SettingsRig { rig, .. } = &start(with_rules(setup), RED);
    rig.until(|| (interface(rig, "state") == "forwarding").then_some(()));
    rig.ip("rule del iif e2 table 100");
    rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")])?;
        (interface(rig, "state") == "kernel").then_some(())
    });
    rig.ip("rule add iif e2 table 100");
    rig.until(|| {
        pass(rig)?;
        (interface(rig, "state") == "forwarding").then_some(())
    });
}

fn tables_that_come_later_have_the_space_that_the_file_asks_for(setup: Setup) {
    let SettingsRig { rig, .. } = &start(setup.with_c().ip(ROUTES), "[fib]\nvrfs = 2\n");
    rig.ip("rule add iif e2 table 100");
    rig.router.ip("-6 rule add iif e2 table 100");
    rig.until(|| {
        let before = interface(rig, "forwarded")["packets"].as_u64().unwrap();
        pass(rig)?;
        let after = interface(rig, "forwarded")["packets"].as_u64();
        (interface(rig, "state") == "forwarding" && after >= Some(before + 2)).then_some(())
    });
}

fn a_reload_gives_an_interface_another_name(setup: Setup) {
    let started = start(with_rules(setup), RED);
    started.reload(&RED.replace("red", "blue"));
    assert_eq!(interface(&started.rig, "vrf"), "blue");
    started.rig.until(|| pass(&started.rig));
    let twice = format!("{RED}{}", RED.replace("red", "blue"));
    let refused = started.refusal(&twice);
    assert!(refused.contains("e2 is in two VRFs, red and blue"), "{refused}");
    assert_eq!(interface(&started.rig, "vrf"), "blue");
    let refused = started.refusal(&RED.replace("100", "4242"));
    assert!(refused.contains("ip rule add iif e2 table 4242"), "{refused}");
    assert_eq!(interface(&started.rig, "vrf"), "blue");
    started.reload("");
    assert_eq!(interface(&started.rig, "vrf"), serde_json::Value::Null);
}
