//! Tests of which sources may come from which link, by the section `[urpf]` of the router's file.

use std::net::IpAddr;

use crate::packet::Packet;
use crate::rig::{Rig, Setup, families, ip, set, v4, v6};
use crate::settings::{SettingsRig, start};
use crate::vlan::{ONE, TWO};

crate::program_checks! {
    for crate::rig::Setup:
    the_strict_check_of_the_file_holds_for_both_families,
    the_loose_check_of_the_file_holds_for_both_families,
    the_stricter_one_of_the_kernel_and_the_file_counts,
    a_reload_changes_the_checks,
    sources_that_the_file_refuses_are_counted,
    a_vlan_that_the_kernel_does_not_have_is_checked
}

/// A packet to B, of the family of its source.
fn from(source: &str) -> Packet {
    let source = ip(source);
    let to = if source.is_ipv4() { v4().b } else { v6().b };
    Packet::udp(source, to, b"source")
}

fn with_routes(setup: Setup) -> Setup {
    setup.ip("route add 10.75.0.0/16 via 10.3.0.3
              route add fd75::/64 via fd03::3
              route add 10.76.0.0/16 via 10.1.0.2
              route add fd76::/64 via fd01::2
              route add blackhole 10.78.0.0/16
              route add blackhole fd78::/64")
}

fn the_strict_check_of_the_file_holds_for_both_families(setup: Setup) {
    let SettingsRig { rig, .. } = &start(with_routes(setup), "[urpf]\ne0 = 'strict'\n");
    rig.forwards(&["10.1.0.2", "10.1.0.77", "10.76.0.1"].map(from));
    rig.forwards(&["fd01::2", "fd01::77", "fd76::1"].map(from));
    rig.ignores(&["10.75.0.1", "10.3.0.9", "10.66.0.1", "10.78.0.1"].map(from));
    rig.ignores(&["fd75::1", "fd03::9", "fd66::1", "fd78::1"].map(from));
    // B's link has no check.
    for net in families() {
        let elsewhere = if net.a.is_ipv4() { "10.66.0.1" } else { "fd66::1" };
        rig.b.send(&Packet::udp(ip(elsewhere), net.a, b"any source"));
        assert_eq!(rig.observe([1, 0, 0]).a.len(), 1);
    }
}

fn the_loose_check_of_the_file_holds_for_both_families(setup: Setup) {
    let SettingsRig { rig, .. } = &start(with_routes(setup), "[urpf]\ne0 = 'loose'\n");
    rig.forwards(&["10.1.0.2", "10.75.0.1", "10.3.0.9"].map(from));
    rig.forwards(&["fd01::2", "fd75::1", "fd03::9"].map(from));
    rig.ignores(&["10.66.0.1", "10.78.0.1"].map(from));
    rig.ignores(&["fd66::1", "fd78::1"].map(from));
}

fn the_stricter_one_of_the_kernel_and_the_file_counts(setup: Setup) {
    let setup = setup.set("ipv4/conf/e0/rp_filter", "1").set("ipv4/conf/e1/rp_filter", "2");
    let SettingsRig { rig, .. } = &start(setup, "[urpf]\ne0 = 'loose'\ne1 = 'strict'\n");
    rig.ignores(&[from("10.3.0.9")]);
    // The kernel has no such check for IPv6.
    rig.forwards(&[from("fd03::9")]);
    rig.b.send(&Packet::udp(ip("10.1.0.9"), v4().a, b"the wrong link"));
    rig.is_silent();
    // Without the kernel's check, only that of the file applies.
    set(&rig.router, "ipv4/conf/e0/rp_filter", "0");
    rig.until(|| rig.all_arrive_at_b(&[from("10.3.0.9")]));
    rig.ignores(&[from("10.66.0.1")]);
}

fn a_reload_changes_the_checks(setup: Setup) {
    let started = start(setup, "");
    let rig = &started.rig;
    let wrong_link = ["10.3.0.9", "fd03::9"].map(from);
    let no_route = ["10.66.0.1", "fd66::1"].map(from);
    rig.forwards(&wrong_link);
    rig.forwards(&no_route);
    started.reload("[urpf]\ne0 = 'strict'\n");
    rig.ignores(&wrong_link);
    started.reload("[urpf]\ne0 = 'loose'\n");
    rig.forwards(&wrong_link);
    rig.ignores(&no_route);
    let refused = started.refusal("[urpf]\ne0 = 'strict'\ne1 = 'stric'\n");
    for part in ["urpf.e1 cannot be 'stric'", "line 3", "did you mean `strict`?"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let refused = started.refusal("[urpf]\ne0 = 'strict'\ne7 = 'loose'\n");
    for part in ["[urpf] names e7", "name one of e0, e1"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    rig.forwards(&wrong_link);
    started.reload("");
    rig.forwards(&no_route);
}

/// Returns the number of packets that arrived on e0 and were dropped for a cause.
fn dropped(rig: &Rig, cause: &str) -> u64 {
    let answer = rig.ask(&["interface", "e0"]);
    answer["interfaces"][0]["dropped"][cause].as_u64().unwrap_or_default()
}

fn sources_that_the_file_refuses_are_counted(setup: Setup) {
    let started = start(setup, "[urpf]\ne0 = 'strict'\n");
    let rig = &started.rig;
    for (source, mode, cause) in [
        ("10.3.0.9", "strict", "reverse-path-strict"),
        ("fd03::9", "strict", "reverse-path-strict"),
        ("10.66.0.1", "loose", "reverse-path-loose"),
        ("fd66::1", "loose", "reverse-path-loose"),
    ] {
        started.reload(&format!("[urpf]\ne0 = '{mode}'\n"));
        rig.until(|| {
            let before = dropped(rig, cause);
            rig.ignores(&[(); 20].map(|()| from(source)));
            (dropped(rig, cause) == before + 20).then_some(())
        });
    }
}

fn a_vlan_that_the_kernel_does_not_have_is_checked(setup: Setup) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("edge.toml");
    std::fs::write(&path, "[urpf]\n'e1.100' = 'strict'\n").unwrap();
    let rig = crate::vlan::start(setup, &format!("--config {}", path.display()));
    for (family, net) in families().into_iter().enumerate() {
        let packet = |source: IpAddr| Packet::udp(source, net.a, b"from a VLAN");
        let [host, other] = [&ONE, &TWO].map(|vlan| ip(vlan.host[family]));
        // The source `other` is refused in the VLAN `ONE`, because it belongs to `TWO`. The source
        // `host` is admitted in both VLANs, because `TWO` has no check.
        ONE.send(&rig, &packet(other));
        ONE.send(&rig, &packet(host));
        TWO.send(&rig, &packet(host));
        let seen = rig.observe([2, 0, 0]);
        let arrived: Vec<_> = seen.a.iter().map(|arrival| arrival.packet.clone()).collect();
        assert_eq!(arrived, [packet(host).forwarded(), packet(host).forwarded()]);
    }
}
