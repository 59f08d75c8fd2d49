//! Tests of what is counted when rings have no space, and of the order of tasks and frames. The
//! tested processor has no queues, so it cannot send any frame.

use std::net::Ipv4Addr;

use slipring_datapath::environment::MachineClock;
use slipring_neighbour::NeighbourLimits;
use slipring_wire::frame::{FrameSpec, IpSpec, Ipv4Spec};
use slipring_wire::mac::MacAddr;

use super::super::link::tests::{OWN_MAC, engine, link};
use super::*;

/// A processor whose only subinterface is port 0. All packets leave by port 1 with an MTU of 600.
fn processor() -> SubinterfaceProcessor {
    let mut engine = engine();
    let mut tables = ForwardingTables::clone(engine.tables());
    tables.ports = tables
        .ports
        .iter()
        .cloned()
        .map(|mut port| {
            port.mtu = if port.ifindex == 2 { 600 } else { 1500 };
            port
        })
        .collect();
    tables.adjacencies = tables
        .adjacencies
        .iter()
        .copied()
        .map(|mut adjacency| {
            adjacency.mac = Some(MacAddr([2, 0, 0, 0, 7, 7]));
            adjacency
        })
        .collect();
    engine.set_tables(Arc::new(tables));
    let shared = SubinterfaceShared {
        tasks: ControlQueue::new().unwrap(),
        seen: AtomicU64::new(0),
        generation: AtomicU64::new(0),
        has_begun: AtomicBool::new(true),
        figures: Mutex::default(),
        queues: Vec::new(),
    };
    let subinterface = Subinterface {
        port: FibPortIndex(0),
        parent: 1,
        tags: VlanTags::default(),
        link: link(NeighbourLimits::default()),
        counters: SubinterfaceCounters::default(),
    };
    let mut processor =
        SubinterfaceProcessor::new(vec![subinterface], Vec::new(), Arc::new(shared), [0; 8]);
    processor.engine = Some(engine);
    processor
}

/// Routes a packet of `len` bytes that arrives on port 0. Returns how often it was counted as
/// forwarded, as dropped for want of space, and as not sent.
fn counted(len: usize, ttl: u8) -> [u64; 3] {
    let mut processor = processor();
    let (src, dst) = (Ipv4Addr::new(10, 1, 0, 2), Ipv4Addr::new(10, 100, 0, 9));
    let ip = IpSpec::V4(Ipv4Spec { src, dst, ttl, dont_fragment: false, ..Ipv4Spec::default() });
    let src_mac = MacAddr([2, 0, 0, 0, 9, 9]);
    let spec = FrameSpec { src_mac, dst_mac: OWN_MAC, ip, ..FrameSpec::default() };
    processor.frames = vec![(spec.build(len).unwrap().bytes, FibPortIndex(0))];
    processor.used = 1;
    processor.route(&mut WorkerQueues::new([]), 0);
    let SubinterfaceCounters { forwarded, full, unsent, .. } = processor.subinterfaces[0].counters;
    [forwarded, full, unsent]
}

#[test]
fn a_packet_whose_fragments_find_no_space_is_counted_once() {
    assert_eq!(counted(1400, 64), [1, 0, 3], "three fragments");
    assert_eq!(counted(500, 64), [0, 1, 0]);
}

#[test]
fn an_answer_that_finds_no_space_is_not_the_packet_that_it_is_about() {
    assert_eq!(counted(500, 1), [0, 0, 1]);
}

#[test]
fn frames_are_taken_only_after_all_packets_of_the_previous_router_were_handed() {
    let mut processor = processor();
    let shared = processor.shared.clone();
    shared.has_begun.store(false, Ordering::Release);
    // The other thread completes the takeover while this one runs its tasks.
    shared.tasks.push(Box::new(|it: &mut SubinterfaceProcessor| {
        let packet = (FibPortIndex(0), Vec::new());
        it.shared.tasks.push(Box::new(|it| it.handed.push(packet)));
        it.shared.has_begun.store(true, Ordering::Release);
    }));
    let mut turn = || {
        let takes_frames = processor.run_tasks(&mut WorkerQueues::new([]), &MachineClock);
        (takes_frames, processor.handed.len())
    };
    assert_eq!([turn(), turn()], [(false, 0), (true, 1)]);
}
