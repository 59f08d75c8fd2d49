//! Compares the mirror with a model in random histories of the kernel, with dumps that overlap
//! them, interrupted dumps and lost notifications. At each step, the tables answer as the model
//! does or leave the packet to the kernel. After lost notifications, they do so again when the
//! dumps that the mirror asks for are complete. After these dumps, no packet is left to the kernel
//! needlessly.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use slipring_fib::*;

use crate::kernel::{self, KernelMessage, dump, ip, tell};
use crate::model::{Expected, Hop, Kernel, Lead, Object, Route};
use crate::{config, mirror_of, target_of};

const PREFIXES: [&str; 12] = [
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.0/24",
    "10.1.2.128/25",
    "10.1.2.130/31",
    "10.1.2.131/32",
    "20.0.0.0/8",
    "::/0",
    "fd00::/8",
    "fd01:0:0:0:8000::/65",
    "2001:db8::/32",
];
const GATEWAYS: [(&str, &str); 3] =
    [("10.1.0.2", "fd01::2"), ("10.2.0.2", "fd02::2"), ("10.3.0.2", "fd03::2")];
const HOSTS: [(u32, &str); 9] = [
    (1, "10.1.0.2"),
    (1, "10.1.2.3"),
    (1, "10.1.2.131"),
    (2, "10.2.0.2"),
    (2, "10.2.255.255"),
    (2, "10.1.2.3"),
    (1, "fd01::2"),
    (1, "fd01::8000:0:0:7"),
    (2, "fd02::9"),
];
const DESTINATIONS: [&str; 22] = [
    "10.0.0.1",
    "10.1.0.2",
    "10.1.2.0",
    "10.1.2.3",
    "10.1.2.127",
    "10.1.2.128",
    "10.1.2.130",
    "10.1.2.131",
    "10.1.2.132",
    "10.1.255.255",
    "10.2.0.2",
    "10.2.255.255",
    "10.3.1.1",
    "20.1.1.1",
    "99.0.0.1",
    "fd01::2",
    "fd01::3",
    "fd01::8000:0:0:7",
    "fd02::9",
    "fd03::1",
    "2001:db8::1",
    "2002::1",
];

#[derive(Clone, Debug)]
enum Step {
    Add {
        prefix: usize,
        metric: u32,
        lead: usize,
        flags: u16,
        has_source: bool,
        mtu: u32,
    },
    Delete(usize),
    Link(u32, u32),
    Object(u32, usize),
    DeleteObject(u32),
    DeleteAddress(usize),
    Neighbour(usize, u16, u8),
    Begin(usize),
    Continue(usize, usize),
    Interrupt(usize),
    Lose(Vec<Step>),
    /// All dumps that the mirror needs are completed.
    Settle,
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![Just(0), Just(0), Just(kernel::APPEND), Just(kernel::REPLACE)];
    let add = (0..PREFIXES.len(), 0..3_u32, 0..12_usize, flags, any::<bool>(), 0..2_u32).prop_map(
        |(prefix, metric, lead, flags, has_source, mtu)| Step::Add {
            prefix,
            metric,
            lead,
            flags,
            has_source,
            mtu: mtu * 1400,
        },
    );
    let link = prop_oneof![
        Just(kernel::UP),
        Just(kernel::UP),
        Just(kernel::DOWN),
        Just(kernel::NO_CARRIER)
    ];
    let quiet = prop_oneof![
        8 => add,
        3 => (0..40_usize).prop_map(Step::Delete),
        2 => (1..4_u32, link).prop_map(|(at, flags)| Step::Link(at, flags)),
        2 => (1..6_u32, 0..6_usize).prop_map(|(id, object)| Step::Object(id, object)),
        1 => (1..6_u32).prop_map(Step::DeleteObject),
        1 => (0..3_usize).prop_map(Step::DeleteAddress),
        4 => (0..HOSTS.len(), prop_oneof![Just(0_u16), Just(2), Just(4), Just(0x20)], 1..4_u8).prop_map(|(at, state, mac)| {
            Step::Neighbour(at, state, if state == 0x20 { 0 } else { mac })
        }),
    ]
    .boxed();
    prop_oneof![
        12 => quiet.clone(),
        2 => (0..7_usize).prop_map(Step::Begin),
        4 => (0..7_usize, 0..4_usize).prop_map(|(kind, count)| Step::Continue(kind, count)),
        1 => (0..7_usize).prop_map(Step::Interrupt),
        1 => proptest::collection::vec(quiet, 1..4).prop_map(Step::Lose),
        1 => Just(Step::Settle),
    ]
}

fn lead(number: usize, is_v4: bool) -> Lead {
    let hop = |at: usize, weight| {
        let gateway = if is_v4 { GATEWAYS[at].0 } else { GATEWAYS[at].1 };
        Hop { weight, gateway: Some(gateway), ifindex: at as u32 + 1 }
    };
    match number {
        0..=2 => Lead::Hops(vec![hop(number, 1)]),
        3 => Lead::Hops(vec![hop(0, 3), hop(1, 1)]),
        4 => Lead::Hops(vec![hop(1, 1), hop(2, 1)]),
        5 => Lead::Kind(6),
        6 => Lead::Kind(7),
        7 => Lead::Kind(9),
        8 => Lead::Object(1),
        9 => Lead::Object(2),
        10 => Lead::Object(4),
        _ => Lead::Hops(vec![Hop { weight: 1, gateway: None, ifindex: 2 }]),
    }
}

struct World {
    kernel: Kernel,
    mirror: Mirror,
    running: BTreeMap<DumpKind, VecDeque<KernelMessage>>,
    /// Whether notifications were lost since the last [`Self::settle`].
    is_stale: bool,
}

impl World {
    fn new() -> Self {
        let kernel = Kernel::new();
        let mut mirror = mirror_of(config());
        dump(&mut mirror, DumpKind::Settings, &kernel.dump(DumpKind::Settings));
        Self { kernel, mirror, running: BTreeMap::new(), is_stale: false }
    }

    fn change(&mut self, step: &Step) -> Vec<KernelMessage> {
        match *step {
            Step::Add { prefix, metric, lead: number, flags, has_source, mtu } => {
                let prefix = PREFIXES[prefix];
                let is_v4 = prefix.contains('.');
                let source = (has_source && is_v4).then_some("10.1.0.1");
                self.kernel
                    .add(Route { prefix, metric, lead: lead(number, is_v4), source, mtu }, flags)
            }
            Step::Delete(at) => self.kernel.delete(at),
            Step::Link(ifindex, flags) => self.kernel.set_link(ifindex, flags),
            Step::Object(id, object) => {
                let object = match object {
                    _ if id < 4 => Object::One(GATEWAYS[object % 3].0, object as u32 % 3 + 1),
                    0 => Object::Group(vec![(1, 1)]),
                    1 => Object::Group(vec![(1, 3), (2, 1)]),
                    _ => Object::Group(vec![(1, 1), (2, 1), (3, 2)]),
                };
                self.kernel.set_object(id, object)
            }
            Step::DeleteObject(id) => self.kernel.delete_object(id),
            Step::DeleteAddress(at) => self.kernel.delete_address(at),
            Step::Neighbour(at, state, mac) => {
                let (ifindex, address) = HOSTS[at];
                self.kernel.set_neighbour(ifindex, address, state, mac)
            }
            _ => vec![],
        }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Begin(at) => {
                let kind = DumpKind::ALL[*at];
                if !self.running.contains_key(&kind) {
                    self.mirror.begin_dump(kind);
                    self.running.insert(kind, self.kernel.dump(kind).into());
                }
            }
            Step::Continue(at, count) => self.proceed(DumpKind::ALL[*at], *count),
            Step::Interrupt(at) => {
                let queue = self.running.get_mut(&DumpKind::ALL[*at]);
                if let Some(message) = queue.and_then(VecDeque::pop_front) {
                    tell(&mut self.mirror, &[kernel::interrupted(message)]);
                }
            }
            Step::Lose(steps) => {
                for step in steps {
                    self.change(step);
                }
                self.mirror.overrun();
                self.is_stale = true;
            }
            Step::Settle => self.settle(),
            step => {
                let told = self.change(step);
                tell(&mut self.mirror, &told);
            }
        }
    }

    fn proceed(&mut self, kind: DumpKind, count: usize) {
        let Some(queue) = self.running.get_mut(&kind) else { return };
        for message in queue.drain(..count.min(queue.len())) {
            tell(&mut self.mirror, &[kernel::dumped(message)]);
        }
        if queue.is_empty() {
            self.running.remove(&kind);
            self.mirror.end_dump(kind);
        }
    }

    /// Completes the dumps that have begun, and runs all that the mirror asks for.
    fn settle(&mut self) {
        for kind in DumpKind::ALL {
            self.proceed(kind, usize::MAX);
        }
        while let Some(kind) = self.mirror.needs_resync().iter().next() {
            kernel::dump(&mut self.mirror, kind, &self.kernel.dump(kind));
        }
        self.is_stale = false;
    }

    fn check(&mut self, last: &mut Option<std::sync::Arc<ForwardingTables>>, is_exact: bool) {
        if let Some(tables) = self.mirror.publish() {
            *last = Some(tables);
            self.mirror.write_ipv4();
        }
        let tables = last.as_ref().unwrap();
        for destination in DESTINATIONS {
            let target = target_of(tables, destination);
            if target.action == TargetAction::Kernel && !is_exact {
                continue;
            }
            let expected = reduced(self.kernel.expected(ip(destination), true));
            let found = reduced(self.found(tables, target));
            let route = self.mirror.route_get(VrfIndex(0), ip(destination));
            assert_eq!(found, expected, "{destination}: {route:?}");
        }
    }

    /// Converts a target to the model's terms. Also checks MAC addresses and shares of buckets.
    fn found(&self, tables: &ForwardingTables, target: Target) -> Expected {
        let indices: Vec<AdjacencyIndex> = match target.action {
            TargetAction::Forward(index) => vec![index; BUCKETS],
            TargetAction::Balance(at) => tables.buckets[usize::from(at)].to_vec(),
            fixed => return Expected::Fixed(fixed),
        };
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for index in indices {
            let adjacency = tables.adjacencies[usize::from(index.0)];
            if let NextHopAddress::Via(address) = adjacency.next_hop {
                let mac = self.kernel.mac(u32::from(adjacency.port.0) + 1, address);
                assert_eq!(adjacency.mac.map(|mac| mac.0[5]), mac, "{address}");
            }
            *counts.entry((adjacency.port, adjacency.next_hop)).or_default() += 1;
        }
        // Weights are small, so the buckets show their ratios exactly.
        let total = BUCKETS as u64;
        let weights = [1, 2, 3, 4, 5].into_iter().find_map(|sum| {
            let weight = |count: u64| (count * sum + total / 2) / total;
            let weights: BTreeMap<_, u64> =
                counts.iter().map(|(key, count)| (*key, weight(*count))).collect();
            let is_close =
                weights.iter().all(|(key, weight)| counts[key].abs_diff(weight * total / sum) <= 1);
            (weights.values().sum::<u64>() == sum && is_close).then_some(weights)
        });
        Expected::Neighbours(weights.expect("shares of small weights"), target.mtu)
    }
}

/// Divides weights by their common divisor, because shares only show ratios.
fn reduced(expected: Expected) -> Expected {
    let Expected::Neighbours(mut weights, mtu) = expected else { return expected };
    while let Some(divisor) =
        (2..=4).find(|divisor| weights.values().all(|weight| weight % divisor == 0))
    {
        weights.values_mut().for_each(|weight| *weight /= divisor);
    }
    Expected::Neighbours(weights, mtu)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 4000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_tables_answer_as_the_kernel_or_leave_the_packet_to_it(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut world = World::new();
        let mut last = None;
        world.check(&mut last, true);
        for step in &steps {
            world.take(step);
            if !world.is_stale {
                world.check(&mut last, matches!(step, Step::Settle));
            }
        }
        world.settle();
        world.check(&mut last, true);
    }
}
