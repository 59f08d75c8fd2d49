//! Tests of an interface that takes no frames for a while, so that frames wait in the router's tx
//! rings: they leave later, or they are counted when the router ends.
//!
//! ```text
//!   A --> router --> tx ring, 1024 slots --> ring of B's veth device, 256 --| polled once a period
//! ```
//!
//! The kernel polls B's device seldom if it defers interrupts (`napi_defer_hard_irqs`,
//! `gro_flush_timeout`). With a queueing discipline, veth refuses frames while its ring is full; an
//! older kernel drops them, and counts that at the device.

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use slipring_test_support::{Program, eventually};

use crate::continuity::{Stream, is_forwarding};
use crate::packet::Packet;
use crate::rig::{Rig, Setup, Subject, v4};
use crate::takeover::counted;
use crate::topology::SLIPRING;

crate::program_checks! {
    for crate::rig::Setup:
    a_takeover_while_an_interface_takes_no_frames_loses_none_uncounted,
    the_end_of_a_router_while_an_interface_takes_no_frames_loses_none_uncounted,
}

crate::instances! {
    in_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    a_takeover_waits_for_a_queue_until_the_device_has_sent_the_frames_of_the_old_router,
    a_router_that_waits_for_a_queue_ends_by_a_signal
}

macro_rules! with_threads {
    ($($check:ident),* $(,)?) => {
        crate::instances!(with_xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"), $($check),*);
        crate::instances!(with_packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"), $($check),*);
    };
}

with_threads! {
    a_takeover_while_an_interface_takes_frames_slowly_loses_none,
    the_end_of_a_router_while_an_interface_takes_frames_slowly_loses_none,
}

/// More frames than B's device holds, but fewer than the device and the router's ring hold
/// together.
const WAITING: u32 = 768;
/// Number of frames that are sent before the router's counters are checked: fewer than the rings on
/// the way to the router hold.
const BURST: u32 = 192;
/// Polling period of B's device. A router that ends does not wait this long.
const LONG_PERIOD: Duration = Duration::from_secs(3);
const SHORT_PERIOD: Duration = Duration::from_millis(100);
/// With this period, the device takes no frames until the test changes that.
const NO_END: Duration = Duration::from_hours(1);
/// Part of the message of a router that waits for a queue.
const WAITS: &str = "the kernel forwards until it has";

/// A router, and a stream of packets that wait for B's device.
struct SlowEgress<'r> {
    rig: &'r Rig,
    stream: Stream<'r>,
    /// Number of frames that e1 had dropped before the stream began.
    dropped_before: u64,
}

/// Starts the router, between links on which the kernel may refuse frames.
fn start(setup: Setup) -> Rig {
    setup.router.command("tc", "qdisc add dev e1 root pfifo limit 10000");
    start_without_queue(setup)
}

/// Starts the router, between links on which the kernel drops frames while B's ring is full.
fn start_without_queue(setup: Setup) -> Rig {
    // Without an XDP program at the peer, veth uses the peer's ring only for frames of a device
    // without TSO.
    setup.router.command("ethtool", "-K e1 tso off");
    setup.by_workers().start()
}

impl<'r> SlowEgress<'r> {
    /// Makes the kernel poll B's device once in a `period`, and sends at least [`WAITING`] frames.
    /// With a period of [`LONG_PERIOD`] or more, sends frames until [`WAITING`] are on their way.
    fn fill(rig: &'r Rig, period: Duration) -> Self {
        let dropped_before = dropped_by_device(rig);
        let mut stream = Stream::new(rig);
        defer_polls(rig, period);
        let mut bursts = 0..WAITING.div_ceil(BURST);
        while bursts.next().is_some() || (period >= LONG_PERIOD && stream.on_their_way() < WAITING)
        {
            let (before, sent) = (counted(rig), rig.a.sent());
            stream.send(BURST);
            eventually("the router to have all frames", || {
                (counted(rig) - before == rig.a.sent() - sent).then_some(())
            });
            stream.collect();
        }
        Self { rig, stream, dropped_before }
    }

    /// Waits until each frame has arrived once or was counted as dropped. `counted` is the number
    /// of drops that the routers have counted.
    fn assert_accounted_for(self, counted: u64) {
        let Self { rig, mut stream, dropped_before } = self;
        let by_device = || match rig.subject {
            // With XDP, the router itself counts what the driver drops.
            Subject::Slipring("xdp") => 0,
            _ => dropped_by_device(rig) - dropped_before,
        };
        stream.ends_with_losses(|| counted + by_device());
    }
}

/// Makes the kernel poll the ring of B's device once in a `period`.
fn defer_polls(rig: &Rig, period: Duration) {
    let script = format!(
        "mount -t sysfs none /sys && cd /sys/class/net/e0 && echo 1 > napi_defer_hard_irqs && \
         echo {} > gro_flush_timeout",
        period.as_nanos()
    );
    let set = rig.b.namespace.run(move || {
        Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap()
    });
    assert!(set.status.success(), "{set:?}");
}

/// Number of frames that the driver of e1 has dropped.
fn dropped_by_device(rig: &Rig) -> u64 {
    let shown = rig.router.ip("-s -j link show dev e1");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown[0]["stats64"]["tx"]["dropped"].as_u64().unwrap()
}

/// Number of packets that a router has counted as dropped at its end.
fn dropped_at_the_end(program: Program) -> u64 {
    let output = program.finish().well().stdout;
    let count =
        |line: &str| line.split_once(": dropped ")?.1.split(' ').next()?.parse::<u64>().ok();
    output.lines().filter_map(count).sum()
}

fn dropped_while_running(rig: &Rig) -> u64 {
    let answer = rig.ask(&["interface"]);
    let interfaces = answer["interfaces"].as_array().unwrap();
    let dropped = interfaces.iter().flat_map(|it| it["dropped"].as_object().unwrap().values());
    dropped.map(|count| count.as_u64().unwrap()).sum()
}

/// Number of packets that a router has counted as unsent at its end, after another router has taken
/// over from it.
fn unsent_at_the_end(program: Program) -> u64 {
    let output = program.finish().well().stdout;
    let count =
        |line: &str| line.strip_suffix(" tx_unsent")?.rsplit(' ').next()?.parse::<u64>().ok();
    output.lines().filter_map(count).sum()
}

/// Lets a second router take over, and ends it. Returns the number of packets that both routers
/// have counted as dropped: the counters of the second one go on from those of the first one.
fn take_over(slow: &mut SlowEgress<'_>) -> u64 {
    let running = slow.rig.take_program();
    let next = slow.rig.launch_program("--takeover");
    slow.stream.flow_until("a takeover", |_| {
        assert!(!next.has_ended(), "{:#?}", next.so_far());
        is_forwarding(&next) && running.has_ended()
    });
    let dropped = unsent_at_the_end(running) + dropped_while_running(slow.rig);
    next.signal(Signal::INT);
    next.finish().well();
    dropped
}

fn end(slow: &SlowEgress<'_>) -> u64 {
    let running = slow.rig.take_program();
    running.signal(Signal::INT);
    dropped_at_the_end(running)
}

fn a_takeover_while_an_interface_takes_no_frames_loses_none_uncounted(setup: Setup) {
    let rig = start(setup);
    let mut slow = SlowEgress::fill(&rig, LONG_PERIOD);
    let dropped = take_over(&mut slow);
    slow.assert_accounted_for(dropped);
}

fn the_end_of_a_router_while_an_interface_takes_no_frames_loses_none_uncounted(setup: Setup) {
    let rig = start(setup);
    let slow = SlowEgress::fill(&rig, LONG_PERIOD);
    let dropped = end(&slow);
    slow.assert_accounted_for(dropped);
}

/// Makes B's device take the frames that come, and drop those that it holds.
fn empty_device(rig: &Rig) {
    rig.b.namespace.command("ethtool", "-K e0 gro off");
}

/// Former defects: the new router ended after a second, because the queue was in use; or at once,
/// if another program of the namespace had AF_XDP sockets.
fn a_takeover_waits_for_a_queue_until_the_device_has_sent_the_frames_of_the_old_router(
    setup: Setup,
) {
    let rig = start_without_queue(setup);
    // Sockets of another program, at another interface, do not keep the queue.
    rig.router.ip_batch("link add x0 up type veth peer name x1\nlink set x1 up");
    let other = Program::start(&rig.router, SLIPRING, "gen -i xdp:x0 -f rx");
    other.wait_for_text("kind=xdp");
    SlowEgress::fill(&rig, NO_END);
    let running = rig.take_program();
    let next = rig.launch_program("--takeover");
    next.wait_for_text(WAITS);
    running.finish().well();
    let meanwhile = Packet::udp(v4().b, v4().a, b"the kernel forwards");
    rig.b.send(&meanwhile);
    let expected = meanwhile.forwarded();
    rig.a.receive("a packet", |frame| (frame.packet()? == expected).then_some(()));
    empty_device(&rig);
    eventually("a takeover", || {
        assert!(!next.has_ended(), "{:#?}", next.so_far());
        is_forwarding(&next).then_some(())
    });
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"the new router forwards")]);
    let interfaces = &rig.ask(&["interface", "e1"])["interfaces"];
    let left = interfaces[0]["passed"]["disabled"].as_u64();
    assert!(left > Some(0), "{interfaces}");
    next.stop(Signal::INT).well();
    other.stop(Signal::INT).well();
}

fn a_router_that_waits_for_a_queue_ends_by_a_signal(setup: Setup) {
    let rig = start_without_queue(setup);
    SlowEgress::fill(&rig, NO_END);
    rig.take_program().stop(Signal::INT).well();
    let next = rig.launch_program("");
    next.wait_for_text(WAITS);
    let ended = next.stop(Signal::TERM).well();
    assert!(ended.stderr.contains("ended before the queue was free"), "{}", ended.stderr);
    let again = rig.launch_program("");
    again.wait_for_text(WAITS);
    empty_device(&rig);
    again.wait_for_text("forwarding");
    rig.forwards(&[Packet::udp(v4().a, v4().b, b"as before")]);
    again.stop(Signal::INT).well();
}

fn a_takeover_while_an_interface_takes_frames_slowly_loses_none(setup: Setup) {
    let rig = start(setup);
    let mut slow = SlowEgress::fill(&rig, SHORT_PERIOD);
    assert_eq!(take_over(&mut slow), 0);
    slow.assert_accounted_for(0);
}

fn the_end_of_a_router_while_an_interface_takes_frames_slowly_loses_none(setup: Setup) {
    let rig = start(setup);
    let slow = SlowEgress::fill(&rig, SHORT_PERIOD);
    assert_eq!(end(&slow), 0);
    slow.assert_accounted_for(0);
}
