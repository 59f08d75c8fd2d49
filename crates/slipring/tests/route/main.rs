//! The router's behaviour, checked at its interfaces.
//!
//! Each check sets up a router between hosts, sends frames from raw sockets, and compares every
//! answer and every forwarded frame with the standards. Most checks run once for each subject: the
//! kernel alone, which shows that the check is right, and `slipring route` in several modes, with
//! the kernel as its fallback. If the router does not run for a moment, the kernel forwards, and
//! the check is repeated (`lapses`).
//!
//! | file | behaviour |
//! |---|---|
//! | `forwarding` | what a packet looks like after one hop; which packets are dropped |
//! | `link_layer` | destination MAC addresses, tags, other protocols |
//! | `martians` | addresses that are not forwarded |
//! | `bridge` | a bridge as an interface |
//! | `groups` | multicast routes of the kernel |
//! | `egress` | frames that a driver does not take |
//! | `errors` | ICMP errors: when, from which address, along which route, how many |
//! | `fragments` | MTU, fragmentation, "too big" |
//! | `extensions` | IPv6 extension headers and IPv4 options |
//! | `reverse_path` | which sources may come from which link |
//! | `urpf` | which sources may come from which link, as the router's file says |
//! | `redirects` | next hops on the ingress link |
//! | `neighbours` | ARP and neighbour discovery, packets that wait for them |
//! | `routes` | prefixes, next hops, tables |
//! | `vrf` | tables for the packets of an interface, by name |
//! | `changes` | routes, next hops, links and addresses that come and go |
//! | `vlan` | subinterfaces that the kernel does not have |
//! | `vlan_rules`, `vlan_workers` | rules for such subinterfaces; several threads, and counters |
//! | `multipath` | several next hops |
//! | `host_traffic` | what the kernel must receive on the real interface |
//! | `rules` | rules for forwarded packets |
//! | `threads` | rules in several threads |
//! | `reload` | files that are read again while the router runs |
//! | `settings` | the file of `--config` |
//! | `compat` | the interface of netmap-fwd |
//! | `policers` | rates at which packets are accepted |
//! | `shell` | `slipring route ctl` without a command |
//! | `top` | what `slipring top` shows of a router |
//! | `trace` | what `slipring route ctl trace` shows |
//! | `why` | what `slipring route ctl why` says about a described packet |
//! | `events` | what `slipring route ctl monitor`, `drop` and `punt` print |
//! | `control` | what `slipring route ctl` answers |
//! | `lifecycle` | start, end, death and counters of the program |
//! | `takeover` | a router that takes over from the running router |
//! | `sandbox` | a router that becomes another user |
//! | `system_calls` | how many system calls a batch of frames costs |
//! | `slow_egress` | a takeover, or the end, while frames wait for an interface |
//! | `continuity` | a stream of packets while the program ends, starts, stops or dies |
//! | `daemons` | BGP, OSPF and BFD by FRR and BIRD |
//! | `soak` | changes of routes for minutes (`make soak`) |
//! | `hosts` | real hosts: ping, traceroute, TCP with checksum offload |
#![allow(clippy::unwrap_used)]

mod host;
mod icmp;
mod lapses;
mod packet;
mod resolution;
mod rig;

/// Declares the tests of a file: each check once for each subject. Checks get a [`rig::Setup`], or
/// the type after `for`.
macro_rules! checks {
    (for $setup:ty: $($check:ident),* $(,)?) => {
        crate::kernel_checks!(for $setup: $($check),*);
        crate::program_checks!(for $setup: $($check),*);
    };
    ($($check:ident),* $(,)?) => {
        checks!(for crate::rig::Setup: $($check),*);
    };
}

/// Declares tests of the kernel only.
macro_rules! kernel_checks {
    (for $setup:ty: $($check:ident),* $(,)?) => {
        crate::instances!(kernel: $setup = crate::rig::Subject::Kernel, $($check),*);
    };
}

/// Declares tests of the program only, in each of its modes.
macro_rules! program_checks {
    (for $setup:ty: $($check:ident),* $(,)?) => {
        crate::instances!(xdp: $setup = crate::rig::Subject::Slipring("xdp"), $($check),*);
        crate::instances!(xsk: $setup = crate::rig::Subject::Slipring("xsk"), $($check),*);
        crate::instances!(packet: $setup = crate::rig::Subject::Slipring("packet"), $($check),*);
    };
}

/// Declares the tests of one subject: each check gets a setup of its own.
macro_rules! instances {
    ($module:ident: $setup:ty = $subject:expr, $($check:ident),*) => {
        mod $module {
            $(#[test]
            fn $check() {
                crate::lapses::repeated(|| {
                    if let Some(setup) = <$setup>::new($subject) {
                        super::$check(setup);
                    }
                });
            })*
        }
    };
}
pub(crate) use {instances, kernel_checks, program_checks};

mod bridge;
mod changes;
mod compat;
mod continuity;
mod control;
mod daemons;
mod egress;
mod errors;
mod events;
mod extensions;
mod forwarding;
mod fragments;
mod groups;
mod host_traffic;
mod hosts;
mod lifecycle;
mod link_layer;
mod martians;
mod multipath;
mod neighbours;
mod policers;
mod redirects;
mod reload;
mod reverse_path;
mod routes;
mod rules;
mod sandbox;
mod settings;
mod shell;
mod slow_egress;
mod soak;
mod system_calls;
mod takeover;
mod takeover_vlan;
mod threads;
mod top;
mod topology;
mod trace;
mod urpf;
mod vlan;
mod vlan_rules;
mod vlan_workers;
mod vrf;
mod why;
