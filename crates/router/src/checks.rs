//! Finds the stages of the kernel that forwarded packets would bypass, before the router forwards
//! and while it runs.
//!
//! ```text
//!   packet --> XDP: forwarded here -----------------------------------------> other interface
//!                | not forwarded here
//!                '--> tc --> netfilter --> routing --> IPsec --> netfilter --> tc --> …
//! ```
//!
//! A packet that XDP forwards bypasses all stages of the lower row. So these stages, except
//! routing, must be empty, or the user must have allowed the bypass.

mod forwarding;
mod hooks;
mod master;
mod netfilter;
mod obstacle;
mod tcx;
mod traffic_control;
mod xfrm;

use std::io;

pub(crate) use hooks::HookLister;
pub(crate) use obstacle::{CheckedInterface, Obstacle, ObstacleKind};
use slipring_privileged::PrivilegedHelper;
#[cfg(test)]
pub(crate) use tcx::accept_all;

/// Finds all stages of the kernel that are not empty and that packets between these interfaces
/// would bypass, and the interfaces on which the kernel would not forward packets.
///
/// # Errors
/// The kernel's error if it refuses to list a stage. It is then not known whether packets would
/// bypass that stage.
pub(crate) fn obstacles(interfaces: &[CheckedInterface]) -> io::Result<Vec<Obstacle>> {
    let mut found = announced(interfaces)?;
    found.extend(unannounced(interfaces, &mut HookLister::default(), None)?);
    Ok(found)
}

/// The part of [`obstacles`] whose changes netlink announces. The lists may be long.
///
/// # Errors
/// As [`obstacles`].
pub(crate) fn announced(interfaces: &[CheckedInterface]) -> io::Result<Vec<Obstacle>> {
    let mut found = netfilter::nft_chains()?;
    found.extend(xfrm::find()?);
    found.extend(traffic_control::find(interfaces)?);
    found.extend(master::find(interfaces)?);
    found.extend(forwarding::switched_off(interfaces));
    Ok(found)
}

/// The part of [`obstacles`] whose changes netlink does not announce, so that it must be polled.
/// This takes some tens of system calls. If the process is not root, `helper` opens the files that
/// belong to root.
///
/// # Errors
/// As [`obstacles`].
pub(crate) fn unannounced(
    interfaces: &[CheckedInterface],
    hooks: &mut HookLister,
    helper: Option<&PrivilegedHelper>,
) -> io::Result<Vec<Obstacle>> {
    let mut found: Vec<_> = netfilter::legacy_tables(helper).collect();
    found.extend(hooks.find()?);
    found.extend(tcx::find(interfaces)?);
    Ok(found)
}

/// An obstacle for a stage whose contents cannot be listed. The stage may contain something.
pub(crate) fn unlisted(error: &io::Error) -> Obstacle {
    Obstacle {
        kind: ObstacleKind::Bypass,
        interface: None,
        what: format!("the kernel does not list its rules: {error}"),
        show: "nft list ruleset".into(),
    }
}

/// Returns lines for sysctl(8) that switch on the kernel's forwarding where it is off.
pub(crate) fn missing_forwarding() -> Vec<String> {
    forwarding::missing()
}

/// Whether an IPv4 setting is on for all interfaces, or for this interface.
pub(crate) fn is_set_for(interface: &str, setting: &str) -> bool {
    forwarding::of_interface(interface, setting) > 0
}

#[cfg(test)]
mod tests {
    use slipring_bpf::{BpfAttachType, BpfLinkFlags};
    use slipring_test_support::{Namespace, close, eventually, installed};

    use super::*;

    /// Returns the obstacles in a namespace with a veth pair `r0`, `p0` after these commands.
    fn found_after(commands: &[(&str, &str)]) -> Option<Vec<Obstacle>> {
        if !commands.iter().all(|(program, _)| installed(program)) {
            return None;
        }
        let namespace = Namespace::new()?;
        namespace.ip("link add r0 type veth peer name p0");
        for (program, words) in commands {
            namespace.command(program, words);
        }
        Some(namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 };
            let found = obstacles(&[r0]).unwrap().into_iter();
            found.filter(|found| found.kind == ObstacleKind::Bypass).collect()
        }))
    }

    fn shows(found: &[Obstacle]) -> Vec<&str> {
        found.iter().map(|obstacle| obstacle.show.as_str()).collect()
    }

    #[test]
    fn a_namespace_without_settings_has_no_obstacles() {
        let Some(found) = found_after(&[]) else { return };
        assert_eq!(found, []);
    }

    #[test]
    fn an_nftables_chain_matters_if_forwarded_packets_pass_it_and_it_has_a_rule() {
        let table = ("nft", "add table inet filter");
        let chain = |hook: &str, policy: &str| {
            format!(
                "add chain inet filter c {{ type filter hook {hook} priority 0 ; policy {policy} ; }}"
            )
        };
        let rule = ("nft", "add rule inet filter c counter");
        for (hook, policy, with_rule, matters) in [
            ("forward", "accept", true, true),
            ("forward", "accept", false, false),
            ("forward", "drop", false, true),
            ("prerouting", "accept", true, true),
            ("postrouting", "accept", true, true),
            ("input", "accept", true, false),
            ("output", "accept", true, false),
        ] {
            let chain = chain(hook, policy);
            let mut commands = vec![table, ("nft", chain.as_str())];
            commands.extend(with_rule.then_some(rule));
            let Some(found) = found_after(&commands) else { return };
            let expected: &[&str] = if matters { &["nft list chain inet filter c"] } else { &[] };
            assert_eq!(shows(&found), expected, "{hook} {policy} {with_rule}");
        }
    }

    #[test]
    fn nat_rules_are_found() {
        let commands = [
            ("nft", "add table ip nat"),
            ("nft", "add chain ip nat post { type nat hook postrouting priority 100 ; }"),
            ("nft", "add rule ip nat post masquerade"),
        ];
        let Some(found) = found_after(&commands) else { return };
        assert_eq!(shows(&found), ["nft list chain ip nat post"]);
    }

    #[test]
    fn an_ipsec_policy_is_found() {
        let policy = "xfrm policy add src 10.1.0.0/24 dst 10.3.0.0/24 dir fwd action block";
        let Some(found) = found_after(&[("ip", policy)]) else { return };
        assert_eq!(shows(&found), ["ip xfrm policy"]);
    }

    #[test]
    fn filters_and_shapers_of_an_interface_are_found() {
        let commands = [
            ("tc", "qdisc add dev r0 clsact"),
            ("tc", "filter add dev r0 ingress u32 match u32 0 0"),
            ("tc", "qdisc add dev r0 root tbf rate 1mbit burst 10k latency 10ms"),
            ("tc", "qdisc add dev p0 clsact"),
        ];
        let Some(found) = found_after(&commands) else { return };
        let mut shown = shows(&found);
        shown.sort_unstable();
        assert_eq!(shown, ["tc filter show dev r0 ingress", "tc qdisc show dev r0"]);
    }

    #[test]
    fn programs_at_the_tcx_hooks_of_an_interface_are_found_until_they_are_detached() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = [CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 }];
            for (at, side) in
                [(BpfAttachType::TcxIngress, "ingress"), (BpfAttachType::TcxEgress, "egress")]
            {
                let link = accept_all().attach(ifindex, at, BpfLinkFlags::Last).unwrap();
                let found = tcx::find(&r0).unwrap();
                assert_eq!(shows(&found), ["bpftool net show dev r0"]);
                assert!(found[0].what.contains(side), "{found:?}");
                drop(link);
                // Another test may have forked a process at this moment. That process has a copy of
                // the link until its exec.
                eventually("the program to be detached", || {
                    tcx::find(&r0).unwrap().is_empty().then_some(())
                });
            }
        });
    }

    #[test]
    fn the_own_programs_at_tcx_ingress_are_no_obstacle() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            let r0 = [CheckedInterface { ifindex, name: "r0".into(), own_programs: 1 }];
            let attach = |at| accept_all().attach(ifindex, at, BpfLinkFlags::Last).unwrap();
            let _own = attach(BpfAttachType::TcxIngress);
            assert_eq!(tcx::find(&r0).unwrap(), []);
            for at in [BpfAttachType::TcxIngress, BpfAttachType::TcxEgress] {
                let other = attach(at);
                assert_eq!(shows(&tcx::find(&r0).unwrap()), ["bpftool net show dev r0"]);
                // This function makes sure that no process that another test starts has a copy of
                // the link.
                close(other);
            }
        });
    }

    #[test]
    fn a_port_of_a_bridge_is_found() {
        let commands = [("ip", "link add br0 type bridge"), ("ip", "link set r0 master br0")];
        let Some(found) = found_after(&commands) else { return };
        assert_eq!(shows(&found), ["ip -details link show dev r0"]);
    }

    #[test]
    fn settings_of_an_interface_are_found_after_it_was_renamed() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        let r0 = namespace.run(|| {
            let ifindex = slipring_port::iface::Iface::find("r0").unwrap().index;
            CheckedInterface { ifindex, name: "r0".into(), own_programs: 0 }
        });
        namespace.ip("link set r0 name x0");
        namespace
            .command("sysctl", "-qw net.ipv6.conf.all.forwarding=1 net.ipv4.conf.x0.forwarding=0");
        let found = namespace.run(move || forwarding::switched_off(&[r0]));
        assert_eq!(found[0].interface.as_deref(), Some("r0"));
    }

    #[test]
    fn forwarding_that_is_off_on_one_interface_concerns_this_one() {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        namespace.command("sysctl", "-qw net.ipv6.conf.all.forwarding=1 net.ipv4.ip_forward=1");
        let off = || {
            namespace.run(|| {
                let names = ["r0", "p0"].map(|name| CheckedInterface {
                    ifindex: 0,
                    name: name.into(),
                    own_programs: 0,
                });
                let off = forwarding::switched_off(&names).into_iter();
                off.filter_map(|found| found.interface).collect::<Vec<_>>()
            })
        };
        assert_eq!(off(), Vec::<String>::new());
        namespace.command("sysctl", "-qw net.ipv4.conf.r0.forwarding=0");
        assert_eq!(off(), ["r0"]);
        namespace.command("sysctl", "-qw net.ipv6.conf.all.forwarding=0");
        assert_eq!(off(), ["r0", "p0"]);
    }

    #[test]
    fn forwarding_that_is_off_is_named_by_the_lines_that_switch_it_on() {
        let Some(namespace) = Namespace::new() else { return };
        let off = namespace.run(missing_forwarding);
        assert_eq!(
            off,
            ["sysctl -w net.ipv4.ip_forward=1", "sysctl -w net.ipv6.conf.all.forwarding=1"]
        );
        for line in off {
            let (program, words) = line.split_once(' ').unwrap();
            namespace.command(program, words);
        }
        assert_eq!(namespace.run(missing_forwarding), Vec::<String>::new());
    }
}
