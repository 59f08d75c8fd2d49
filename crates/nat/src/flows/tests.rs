use alloc::vec;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
const ACK: u8 = 0x10;
/// TCP flags that affect a flow's lifetime (SYN, FIN with ACK, RST), and flags that do not (ACK).
const FLAGS: [u8; 4] = [0x02, 0x11, 0x04, ACK];

/// Returns an end; the numbers 0 to 3 give four different ends.
fn end(number: u8) -> NatEndpoint {
    NatEndpoint::new([10, 0, 0, number % 2].into(), u16::from(number / 2))
}

/// A packet: protocol, inside, outside and remote end, seconds since the previous packet,
/// direction, index of the TCP flags.
type Step = ((bool, u8, u8, u8), u64, bool, usize);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ends = (any::<bool>(), 0..4_u8, 0..4_u8, 0..2_u8);
    let seconds = prop::sample::select(vec![0, 0, 1, 9, 40, 100]);
    prop::collection::vec((ends, seconds, any::<bool>(), 0..FLAGS.len()), 1..120)
}

/// A list of flows: the model with which the table is compared.
#[derive(Default)]
struct FlowList(Vec<NatFlow>);

impl FlowList {
    fn find(&self, from: LookupSide, tuple: FlowTuple) -> Option<&NatFlow> {
        self.0.iter().find(|flow| flow.tuple(from) == tuple)
    }

    fn expire(&mut self, now: u64) -> u64 {
        let before = self.0.len();
        self.0.retain(|flow| flow.expires_ns > now);
        (before - self.0.len()) as u64
    }

    /// Returns the existing flow that shares a tuple with `new`.
    fn rival(&mut self, new: &NatFlow) -> Option<&mut NatFlow> {
        let sides = [LookupSide::Inside, LookupSide::Outside];
        self.0.iter_mut().find(|flow| sides.iter().any(|&it| flow.tuple(it) == new.tuple(it)))
    }
}

/// Returns a copy of a flow without the time of its next check, which the list does not keep.
fn plain(flow: &NatFlow) -> NatFlow {
    let mut flow = flow.clone();
    flow.wake_ns = u64::MAX;
    flow
}

/// Asserts that table and list contain the same flows and find the same flow for each tuple.
fn agree(table: &NatFlowTable, list: &FlowList) {
    assert_eq!([table.len(), table.iter().count()], [list.0.len(); 2]);
    for (proto, near, far) in tuples() {
        for side in [LookupSide::Inside, LookupSide::Outside] {
            let found = table.find(side, (proto, near, far)).map(|id| plain(table.get(id)));
            assert_eq!(found, list.find(side, (proto, near, far)).map(plain));
        }
        let used = list.0.iter().filter(|flow| flow.port_pool() == (proto, near.address, far));
        assert_eq!(table.used_ports(proto, near.address, far), used.count() as u32);
    }
    if let Some(first) = list.0.iter().map(|flow| flow.expires_ns).min() {
        assert!(table.next_wake_ns().is_some_and(|wake| wake <= first));
    }
}

fn tuples() -> impl Iterator<Item = FlowTuple> {
    let protos = [IpProto::UDP, IpProto::TCP];
    let ends = || (0..4).map(end);
    protos.into_iter().flat_map(move |proto| {
        ends().flat_map(move |near| ends().take(2).map(move |far| (proto, near, far)))
    })
}

proptest! {
    #[test]
    fn a_table_answers_as_a_list_of_flows_does(steps in steps()) {
        let (mut table, mut list) = (NatFlowTable::new([1, 2]), FlowList::default());
        let (life, mut now) = (NatLifetimes::default(), 0);
        for ((is_tcp, inside, outside, remote), seconds, outwards, flags) in steps {
            now += seconds * SECOND;
            prop_assert_eq!(table.expire(now), list.expire(now));
            let proto = if is_tcp { IpProto::TCP } else { IpProto::UDP };
            let flow = NatFlow::new(proto, [inside, outside, remote].map(end));
            let touch = (outwards, FLAGS[flags]);
            if let Some(rival) = list.rival(&flow) {
                rival.touch(touch.0, touch.1, &life, now);
                let id = table.find(LookupSide::Inside, rival.tuple(LookupSide::Inside)).unwrap();
                table.touch(id, touch, &life, now);
            } else {
                let id = table.insert(flow.clone());
                table.touch(id, touch, &life, now);
                list.0.push(flow);
                list.0.last_mut().unwrap().touch(touch.0, touch.1, &life, now);
            }
            agree(&table, &list);
        }
        table.clear();
        agree(&table, &FlowList::default());
    }
}

#[test]
fn a_hash_depends_on_the_secret_and_on_all_of_a_tuple() {
    let (one, other) = (end(0), NatEndpoint::new([10, 0, 0, 1].into(), 9));
    let tuples = [
        (IpProto::UDP, one, other),
        (IpProto::TCP, one, other),
        (IpProto::UDP, other, one),
        (IpProto::UDP, NatEndpoint { port: 7, ..one }, other),
        (IpProto::UDP, one, NatEndpoint { port: 7, ..other }),
    ];
    let secrets = [[1, 2], [1, 3], [3, 2]].map(SecretBuildHasher);
    let hashes: BTreeSet<_> =
        secrets.iter().flat_map(|secret| tuples.map(|tuple| secret.hash_tuple(tuple))).collect();
    assert_eq!(hashes.len(), secrets.len() * tuples.len());
}
