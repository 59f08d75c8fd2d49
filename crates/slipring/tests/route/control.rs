//! Tests of the answers of `slipring route ctl` about a running router.

use crate::packet::Packet;
use crate::rig::{Setup, v4};

crate::program_checks! {
    for crate::rig::Setup:
    an_interface_that_is_not_the_routers_is_refused_with_those_that_are,
    a_route_says_why_its_packets_are_the_kernels,
    a_rule_for_one_interface_is_an_exception,
    a_blackhole_leads_to_no_interface,
}

fn an_interface_that_is_not_the_routers_is_refused_with_those_that_are(setup: Setup) {
    let rig = setup.start();
    let refused = rig.tell(&["interface", "nosuch"]);
    assert_ne!(refused.code(), 0);
    for part in ["SR0102", "nosuch", "e0, e1", "slipring route ctl interface"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let all = rig.ask(&["interface"]);
    assert_eq!(all["interfaces"].as_array().unwrap().len(), 2, "{all}");
}

fn a_route_says_why_its_packets_are_the_kernels(setup: Setup) {
    let rig = setup
        .with_c()
        .ip("link add m0 type veth peer name m1
             link set m0 up
             addr add 10.66.0.1/24 dev m0
             route add 10.9.0.0/16 via 10.5.0.2")
        .start();
    let get = |address: &str| {
        let answer = rig.ask(&["route", "get", address]);
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        (text("action"), text("reason"))
    };
    let tells = |address: &str, action: &str, reason: &str| {
        let expected = (action.to_owned(), reason.to_owned());
        rig.until(|| {
            rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")]);
            (get(address) == expected).then_some(())
        });
    };
    tells("10.3.0.2", "forwarded", "");
    tells("10.9.0.1", "forwarded", "");
    tells("10.3.0.1", "to the kernel", "it is an address of this machine");
    tells("10.66.0.2", "to the kernel", "m0 is not an interface of the router");
    tells("224.0.0.5", "to the kernel", "such addresses are not forwarded");
    rig.ip("link set e2 down");
    tells("10.9.0.1", "no route", "");
}

fn a_rule_for_one_interface_is_an_exception(setup: Setup) {
    let rig = setup.with_c().start();
    rig.ip("rule add iif e2 table 100");
    rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")]);
        let answer = rig.ask(&["route", "get", "10.3.0.2"]);
        let is_exception = answer["exceptions"][0] == "routing rules apply to packets from e2";
        (answer["action"] == "forwarded" && is_exception).then_some(())
    });
    rig.ip("rule add priority 50 tos 0x10 table 101");
    rig.until(|| {
        rig.all_arrive_at_b(&[Packet::udp(v4().a, v4().b, b"time passes")]);
        let answer = rig.ask(&["route", "get", "10.3.0.2"]);
        (answer["action"] == "to the kernel").then_some(())
    });
}

fn a_blackhole_leads_to_no_interface(setup: Setup) {
    let rig = setup.ip("route add blackhole 10.66.0.0/16").start();
    let answer = rig.ask(&["route", "get", "10.66.0.1"]);
    assert_eq!(answer["action"], "blackhole", "{answer}");
    assert_eq!(answer["nexthops"].as_array().map(Vec::len), Some(0), "{answer}");
}
