//! Active queue management and marks, on the emulated queue.

use slipring_link::{DelaySpec, Discipline, LinkDropCause, LinkQueueSpec, LinkSpec};
use slipring_model::aqm::{CoDelSpec, DualPi2Spec, FairSpec, PieSpec, RedSpec, RedUnit};
use slipring_wire::{FrameSpec, checksum};

use crate::rate::constant;
use crate::support::Sim;

const MS: u64 = 1_000_000;

fn managed(discipline: Discipline, ecn: bool) -> LinkSpec {
    let queue = LinkQueueSpec { discipline, ecn, ..LinkQueueSpec::default() };
    LinkSpec { queue, ..constant(10_000_000) }
}

/// Builds a UDP frame of 1250 bytes from `port`; a line of 10 Mbit/s sends one frame per ms.
fn frame(port: u16, ecn: u8) -> Vec<u8> {
    let mut bytes = FrameSpec::default().build(1250).unwrap().bytes;
    bytes[34..36].copy_from_slice(&port.to_be_bytes());
    let (before, old) = (u16::from_be_bytes([bytes[14], bytes[15]]), &bytes[24..26]);
    let old = u16::from_be_bytes([old[0], old[1]]);
    bytes[15] |= ecn;
    let after = u16::from_be_bytes([bytes[14], bytes[15]]);
    let fixed = checksum::Delta::new().u16(before, after).apply(old);
    bytes[24..26].copy_from_slice(&fixed.to_be_bytes());
    bytes
}

/// Sends frames at twice the line rate over a link, for `ms` milliseconds.
fn overload(spec: LinkSpec, ecn: u8, ms: u64) -> Sim {
    let mut sim = Sim::link(spec);
    let bytes = frame(1000, ecn);
    for number in 0..2 * ms {
        sim.push_frame(number * MS / 2, &bytes);
        sim.run(number * MS / 2);
    }
    sim.finish();
    assert!(sim.counters().is_balanced());
    sim
}

/// Returns the longest wait among the later half of the frames that went on the line.
fn settled_wait(sim: &Sim) -> u64 {
    let later = &sim.memory.queued[sim.memory.queued.len() / 2..];
    later.iter().map(|queued| queued.delay_ns).max().unwrap()
}

#[test]
fn a_queue_without_limit_grows_without_limit() {
    let sim = overload(managed(Discipline::DropTail, false), 0, 2_000);
    assert!(settled_wait(&sim) > 1_900 * MS);
}

#[test]
fn codel_waits_an_interval_then_drops_from_the_head() {
    let sim = overload(managed(Discipline::CoDel(CoDelSpec::default()), false), 0, 3_000);
    let first = sim.memory.lost.first().unwrap();
    assert_eq!(first.cause, LinkDropCause::Aqm);
    // The wait exceeds 5 ms after about 10 ms; the first frame is dropped one interval of 100 ms
    // later.
    assert!((105 * MS..120 * MS).contains(&first.at_ns), "{first:?}");
    // The intervals between drops become shorter and shorter.
    let times: Vec<u64> = sim.memory.lost.iter().map(|lost| lost.at_ns).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] > 60 * MS && gaps[60] < 20 * MS, "{gaps:?}");
}

#[test]
fn marks_spare_frames_that_can_carry_them() {
    let sim = overload(managed(Discipline::CoDel(CoDelSpec::default()), true), 2, 1_000);
    assert_eq!(sim.memory.lost.len(), 0);
    let marked: Vec<_> = sim.memory.bytes.iter().filter(|bytes| bytes[15] & 3 == 3).collect();
    assert!(marked.len() > 10);
    assert_eq!(sim.counters().marked.packets as usize, marked.len());
    assert!(marked.iter().all(|bytes| checksum::of(&bytes[14..34]) == 0), "checksums are right");
    let dropped = overload(managed(Discipline::CoDel(CoDelSpec::default()), true), 0, 1_000);
    assert!(dropped.memory.lost.len() > 10, "others are dropped");
}

#[test]
fn marks_of_ipv6_are_set_in_its_traffic_class() {
    let mut bytes = vec![0u8; 1250];
    bytes[12..14].copy_from_slice(&[0x86, 0xdd]);
    bytes[14] = 0x60;
    // ECT(0) has the value 2. The traffic class ends in the upper half of the IPv6 header's second
    // byte.
    bytes[15] = 0x20;
    bytes[18..20].copy_from_slice(&(1250u16 - 54).to_be_bytes());
    bytes[20] = 59;
    let queue = LinkQueueSpec { mark_above_ns: Some(0), ..LinkQueueSpec::default() };
    let mut sim = Sim::link(LinkSpec { queue, ..constant(10_000_000) });
    sim.push_frame(0, &bytes);
    sim.finish();
    bytes[15] = 0x30;
    assert_eq!(sim.memory.bytes, [bytes]);
}

#[test]
fn a_step_marks_what_waited_longer() {
    let queue = LinkQueueSpec { mark_above_ns: Some(2 * MS), ..LinkQueueSpec::default() };
    let mut sim = Sim::link(LinkSpec { queue, ..constant(10_000_000) });
    let bytes = frame(1, 1);
    (0..5).for_each(|_| _ = sim.push_frame(0, &bytes));
    sim.finish();
    let marks: Vec<bool> = sim.memory.bytes.iter().map(|bytes| bytes[15] & 3 == 3).collect();
    assert_eq!(marks, [false, false, true, true, true]);
}

#[test]
fn pie_holds_its_delay() {
    let sim = overload(managed(Discipline::Pie(PieSpec::default()), false), 0, 20_000);
    let later = &sim.memory.queued[sim.memory.queued.len() / 2..];
    let mean = later.iter().map(|queued| queued.delay_ns).sum::<u64>() / later.len() as u64;
    assert!((5 * MS..30 * MS).contains(&mean), "{mean}");
    assert!(sim.memory.lost.iter().all(|lost| lost.cause == LinkDropCause::Aqm));
}

#[test]
fn red_drops_early_and_keeps_the_average() {
    let red = RedSpec {
        unit: RedUnit::Bytes,
        min: 20_000.0,
        max: 60_000.0,
        max_p: 0.5,
        weight: 0.02,
        ..RedSpec::default()
    };
    let sim = overload(managed(Discipline::Red(red), false), 0, 5_000);
    assert!(settled_wait(&sim) < 80 * MS, "{}", settled_wait(&sim));
    assert!(sim.memory.lost_to(LinkDropCause::Aqm) > 1_000);
}

#[test]
fn fair_queues_let_a_sparse_flow_pass_a_bulky_one() {
    let worst = |discipline| {
        let mut sim = Sim::link(managed(discipline, false));
        let (bulk, sparse) = (frame(1, 0), frame(2, 0));
        let mut sent = Vec::new();
        for number in 0..2_000 {
            sim.push_frame(number * MS / 2, &bulk);
            if number % 50 == 0 {
                sent.push((sim.push_frame(number * MS / 2, &sparse), number * MS / 2));
            }
            sim.run(number * MS / 2);
        }
        sim.finish();
        assert!(sim.counters().is_balanced());
        let released = |handle| {
            let mut all = sim.memory.delivered.iter();
            all.find(|delivery| delivery.handle == handle).map(|delivery| delivery.release_ns)
        };
        sent.iter().filter_map(|&(handle, at)| Some(released(handle)? - at)).max().unwrap()
    };
    let fair = worst(Discipline::FqCoDel(FairSpec::default(), CoDelSpec::default()));
    assert!(fair < 5 * MS, "{fair}");
    assert!(worst(Discipline::DropTail) > 400 * MS);
}

#[test]
fn the_low_latency_queue_is_served_first() {
    let mut sim = Sim::link(managed(Discipline::DualPi2(DualPi2Spec::default()), false));
    let (classic, scalable) = (frame(1, 0), frame(2, 1));
    (0..20).for_each(|_| _ = sim.push_frame(0, &classic));
    let last = sim.push_frame(0, &scalable);
    sim.finish();
    let position = sim.memory.delivered.iter().position(|delivery| delivery.handle == last);
    assert!(position.unwrap() < 5, "{position:?}");
}

#[test]
fn drop_head_keeps_the_newest() {
    let queue = LinkQueueSpec {
        packets: Some(3),
        discipline: Discipline::DropHead,
        ..LinkQueueSpec::default()
    };
    let mut sim = Sim::link(LinkSpec { queue, ..constant(10_000_000) });
    (0..10).for_each(|_| _ = sim.push(0, 1250));
    sim.finish();
    // The first frame is already on the line, so it cannot be dropped.
    assert_eq!(sim.memory.handles(), [0, 8, 9]);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Queue), 7);
}

#[test]
fn a_limit_of_packets_holds_for_fair_queues_too() {
    let queue = LinkQueueSpec {
        packets: Some(10),
        discipline: Discipline::FqCoDel(FairSpec::default(), CoDelSpec::default()),
        ..LinkQueueSpec::default()
    };
    let mut sim =
        Sim::link(LinkSpec { queue, delay: DelaySpec::constant(1), ..constant(10_000_000) });
    (0..50).for_each(|_| _ = sim.push_frame(0, &frame(1, 0)));
    sim.finish();
    assert!(sim.memory.delivered.len() <= 11, "{}", sim.memory.delivered.len());
    assert!(sim.memory.lost_to(LinkDropCause::Queue) >= 39);
}

#[test]
fn marks_are_made_if_the_queue_or_the_algorithm_asks_for_them() {
    let red = |ecn| RedSpec {
        unit: RedUnit::Bytes,
        min: 5_000.0,
        max: 50_000.0,
        ecn,
        ..RedSpec::default()
    };
    let codel = |ecn| CoDelSpec { ecn, ..CoDelSpec::default() };
    let pie = |ecn| PieSpec { ecn, ..PieSpec::default() };
    for own in [false, true] {
        let disciplines = [
            Discipline::Red(red(own)),
            Discipline::CoDel(codel(own)),
            Discipline::Pie(pie(own)),
            Discipline::FqCoDel(FairSpec::default(), codel(own)),
            Discipline::FqPie(FairSpec::default(), pie(own)),
        ];
        for discipline in disciplines {
            for asked in [false, true] {
                let marked =
                    overload(managed(discipline.clone(), asked), 2, 1_000).counters().marked;
                assert_eq!(marked.packets > 0, own || asked, "{discipline:?} {asked}");
            }
        }
    }
}

#[test]
fn limits_of_the_queue_replace_those_of_the_algorithm() {
    let taken = |discipline: Discipline, bytes, packets| {
        let queue = LinkQueueSpec { discipline, bytes, packets, ..LinkQueueSpec::default() };
        let mut sim = Sim::link(LinkSpec { queue, ..constant(10_000_000) });
        (0..40).for_each(|_| _ = sim.push_frame(0, &frame(1000, 0)));
        sim.finish();
        assert_eq!(sim.memory.lost_to(LinkDropCause::Queue), 40 - sim.memory.delivered.len());
        sim.memory.delivered.len()
    };
    let disciplines = || {
        [
            Discipline::FqCoDel(
                FairSpec::default(),
                CoDelSpec {
                    target_ns: 1_000 * MS,
                    interval_ns: 1_000 * MS,
                    ..CoDelSpec::default()
                },
            ),
            Discipline::FqPie(
                FairSpec::default(),
                PieSpec { target_ns: 1_000 * MS, ..PieSpec::default() },
            ),
            Discipline::DualPi2(DualPi2Spec { target_ns: 1_000 * MS, ..DualPi2Spec::default() }),
        ]
    };
    for discipline in disciplines() {
        assert_eq!(taken(discipline.clone(), None, None), 40, "{discipline:?}");
        for (bytes, packets) in [(Some(5_000), None), (None, Some(4))] {
            // A discipline may or may not count the frame on the line as waiting, so it takes 4 or
            // 5 frames.
            let taken = taken(discipline.clone(), bytes, packets);
            assert!((4..=5).contains(&taken), "{discipline:?} {bytes:?} {packets:?}: {taken}");
        }
    }
}

/// A PIE algorithm that started again would at first drop nothing, because of its burst allowance
/// of 150 ms (RFC 8033, section 4.4).
#[test]
fn a_change_of_parameters_keeps_the_probability_of_pie() {
    let pie =
        |target_ns| managed(Discipline::Pie(PieSpec { target_ns, ..PieSpec::default() }), false);
    let mut sim = Sim::link(pie(15 * MS));
    let bytes = frame(1000, 0);
    let offer = |sim: &mut Sim, from_ms: u64, until_ms: u64| {
        for half_ms in 2 * from_ms..2 * until_ms {
            sim.push_frame(half_ms * MS / 2, &bytes);
            sim.run(half_ms * MS / 2);
        }
    };
    offer(&mut sim, 0, 5_000);
    let plan = slipring_link::NetworkSpec::single(pie(16 * MS));
    sim.network.change(5_000 * MS, &plan).unwrap();
    let before = sim.memory.lost.len();
    offer(&mut sim, 5_000, 5_140);
    assert!(sim.memory.lost.len() > before, "none of 280 frames within 140 ms");
}
