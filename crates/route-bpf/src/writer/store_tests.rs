//! Tests of what programs do after each single store of a change of the kernel's routes.

use std::cell::RefCell;
use std::mem::take;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use slipring_bpf::{BpfCode, Interpreter, XdpMeta};
use slipring_classify::dir24::Dir24;
use slipring_fib::{
    DumpKind, Mirror, MirrorConfig, PortConfig, VlanTags, VrfConfig, VrfIndex, dir24_table,
};

use self::kernel::KernelMessage;
use super::TableWriter;
use crate::ResidentHeartbeat;
use crate::cells::MappedCells;
use crate::program::forwarding_program;
use crate::program::tests::{v4, v6};
use crate::testing::{self, LIMITS, MemoryMaps, constants};

/// Builds messages as the kernel sends them.
#[allow(dead_code, reason = "it belongs to the tests of the mirror, which use all of it")]
#[path = "../../../fib/tests/mirror/kernel.rs"]
mod kernel;

const XDP_REDIRECT: u32 = 4;

/// A gateway of the second interface. The last byte of its MAC address is that of its IP address.
fn gateway(prefix: &str, last: u8) -> String {
    if prefix.contains(':') { format!("fd02::{last}") } else { format!("10.2.0.{last}") }
}

/// A router with two interfaces that follows a simulated kernel.
struct FollowingRouter {
    mirror: Mirror,
    writer: TableWriter<MemoryMaps>,
    program: Rc<RefCell<Program>>,
}

/// The program of the first interface.
struct Program {
    interpreter: Interpreter,
    code: BpfCode,
}

impl FollowingRouter {
    fn new() -> Self {
        let mut writer = TableWriter::create(MemoryMaps::default(), LIMITS).unwrap();
        let (root, tail) = MappedCells::of(&writer.v4(VrfIndex(0)).unwrap());
        let port = |ifindex: u32| PortConfig {
            ifindex,
            parent: None,
            name: format!("eth{ifindex}"),
            vrf: VrfIndex(0),
            tags: VlanTags::default(),
        };
        let config = MirrorConfig {
            ports: [1, 2].map(port).into(),
            vrfs: vec![VrfConfig::default()],
            has_external_readers: true,
            ..MirrorConfig::default()
        };
        let mut mirror = Mirror::new(config, vec![dir24_table(Dir24::new(root, tail))]);
        for kind in DumpKind::ALL {
            kernel::dump(&mut mirror, kind, &dumped(kind));
        }
        let interpreter = testing::interpreter();
        testing::enable(&writer);
        ResidentHeartbeat::of(Arc::clone(&writer.control), LIMITS.queues)
            .beat_all(interpreter.now_ns);
        let program = Program { interpreter, code: forwarding_program(&constants(false)) };
        let mut router = Self { mirror, writer, program: Rc::new(RefCell::new(program)) };
        router.follow();
        router
    }

    /// Does what the routing thread does after it has read the kernel's messages.
    fn follow(&mut self) {
        let tables = self.mirror.publish().expect("something has changed");
        self.writer.apply(&tables).unwrap();
        self.mirror.write_ipv4();
    }

    /// Makes indices available again that programs no longer use.
    fn settle(&mut self) {
        self.writer.quiesce().unwrap();
        self.mirror.quiesced(self.writer.quiesced_generation());
    }

    /// Follows a change of the kernel. Returns where the program sends a packet for `to` before the
    /// first store and after each one, without repetitions.
    fn outcomes(&mut self, to: IpAddr, change: &[KernelMessage]) -> Vec<Option<u8>> {
        kernel::tell(&mut self.mirror, change);
        self.writer.host.copy_to(&mut self.program.borrow_mut().interpreter);
        let seen = Rc::new(RefCell::new(vec![self.program.borrow_mut().gateway(to)]));
        let (notes, program) = (Rc::clone(&seen), Rc::clone(&self.program));
        let arrays = self.writer.host.arrays().to_vec();
        testing::observe_stores(Some(Box::new(move |stored| {
            let (name, array) =
                arrays.iter().find(|(_, array)| std::ptr::eq(&**array, stored)).unwrap();
            let mut program = program.borrow_mut();
            program.interpreter.map(name).unwrap().copy_from(array);
            notes.borrow_mut().push(program.gateway(to));
        })));
        self.follow();
        testing::observe_stores(None);
        // The observer is not called when an IPv6 tree is published, which is after the last store
        // of a change. So the outcome is determined once more.
        self.writer.host.copy_to(&mut self.program.borrow_mut().interpreter);
        seen.borrow_mut().push(self.program.borrow_mut().gateway(to));
        let mut seen = take(&mut *seen.borrow_mut());
        seen.dedup();
        seen
    }
}

impl Program {
    /// Returns the last byte of the gateway's address to which the program sends a packet; `None`
    /// if it leaves the packet to the kernel.
    fn gateway(&mut self, to: IpAddr) -> Option<u8> {
        let mut frame = match to {
            IpAddr::V4(to) => v4(to.octets()),
            IpAddr::V6(to) => v6(to.segments()[2], to.to_bits() as u64),
        };
        frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
        let meta = XdpMeta { ifindex: 1, rx_queue: 0 };
        let outcome = self.interpreter.run_xdp(&self.code, &frame, meta).unwrap();
        (outcome.action == XDP_REDIRECT).then(|| outcome.frame[5])
    }
}

/// The kernel's first answers: two interfaces, and the neighbours on the second one.
fn dumped(kind: DumpKind) -> Vec<KernelMessage> {
    let neighbours = |at: u8| ["", ":"].map(|of| kernel::neighbour(2, &gateway(of, at), 2, at));
    match kind {
        DumpKind::Links => vec![kernel::link(1, kernel::UP), kernel::link(2, kernel::UP)],
        DumpKind::Neighbours => [2, 3, 4].into_iter().flat_map(neighbours).collect(),
        DumpKind::Ipv4Routes => {
            vec![kernel::connected("10.1.0.0/16", 1), kernel::connected("10.2.0.0/16", 2)]
        }
        DumpKind::Ipv6Routes => {
            vec![kernel::connected("fd01::/64", 1), kernel::connected("fd02::/64", 2)]
        }
        _ => Vec::new(),
    }
}

fn replace(prefix: &str, by: u8) -> KernelMessage {
    kernel::via(prefix, &gateway(prefix, by), 2).flagged(kernel::REPLACE)
}

/// If the kernel got the packets of a route while the tables change, it might already send them by
/// the route after the new one. Later packets, sent by the tables, would then take an older route.
#[test]
fn a_changed_route_goes_from_the_old_next_hop_to_the_new_one_and_never_to_the_kernel() {
    let mut router = FollowingRouter::new();
    for (prefix, to) in [
        ("20.1.0.0/23", "20.1.1.7"),
        ("20.2.0.9/32", "20.2.0.9"),
        ("2001:db8:1::/48", "2001:db8:1::7"),
        ("2001:db8:2::9/128", "2001:db8:2::9"),
    ] {
        let to = kernel::ip(to);
        assert_eq!(router.outcomes(to, &[replace(prefix, 2)]), [None, Some(2)], "{prefix}");
        let mut old = 2;
        for new in [3, 4, 2, 4, 3, 2, 3, 2] {
            let seen = router.outcomes(to, &[replace(prefix, new)]);
            assert_eq!(seen, [Some(old), Some(new)], "{prefix} by {new}");
            old = new;
            if new == 4 {
                router.settle();
            }
        }
    }
}

#[test]
fn a_route_that_gets_a_second_next_hop_or_a_next_hop_object_is_never_left_to_the_kernel() {
    for (prefix, host) in [("20.1.1.0/24", "20.1.1.7"), ("2001:db8:1::/48", "2001:db8:1::7")] {
        let mut router = FollowingRouter::new();
        let by = |last: u8| gateway(prefix, last);
        let host_route = format!("{host}/{}", if host.contains(':') { 128 } else { 32 });
        let changes = [
            vec![replace(prefix, 2)],
            vec![
                kernel::multipath(prefix, &[(1, &by(3), 2), (1, &by(4), 2)])
                    .flagged(kernel::REPLACE),
            ],
            vec![replace(prefix, 2)],
            vec![
                kernel::next_hop(5, &by(3), 2),
                kernel::bare_route(prefix).next_hop_id(5).flagged(kernel::REPLACE),
            ],
            vec![kernel::next_hop(5, &by(4), 2).flagged(kernel::REPLACE)],
            vec![kernel::via(&host_route, &by(2), 2)],
            vec![kernel::via(&host_route, &by(2), 2).deleted()],
        ];
        for (at, change) in changes.iter().enumerate() {
            let seen = router.outcomes(kernel::ip(host), change);
            assert_eq!(seen.len(), 2, "{prefix}, change {at}: {seen:?}");
            let is_forwarded = seen[1].is_some() && (at == 0 || seen[0].is_some());
            assert!(is_forwarded, "{prefix}, change {at}: {seen:?}");
            router.settle();
        }
    }
}
