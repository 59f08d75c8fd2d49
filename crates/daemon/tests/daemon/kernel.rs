//! Tests of `kernel:` ports. They are clients of the device, like any program that was written for
//! netmap.

use clap::ArgMatches;
use slipring_cli::{Failure, Job, Verb};
use slipring_datapath::captured_run::run_captured;
use slipring_port::{DropCause, OpenError, Port, forward};
use slipring_test_support::sandbox::FRAMES_WITHIN_RING;
use slipring_test_support::{Sandbox, eventually};

use crate::SLIPRING;
use crate::numbered;

/// A number of frames that is several times the number of slots in a pipe's rings.
const FRAMES_BEYOND_RING: u64 = 5000;

/// Returns `kernel:NAME` for the device of the test's own daemon.
fn named(site: &Sandbox, name: &str) -> String {
    format!("kernel:{name}@{}", site.run_dir().join("netmap").display())
}

/// Opens a port in the daemon's namespaces.
fn try_open(site: &Sandbox, name: String) -> Result<Port, OpenError> {
    site.inside.run(move || slipring_core::open(&name))
}

pub(crate) fn open(site: &Sandbox, name: &str) -> Port {
    try_open(site, named(site, name)).unwrap()
}

/// Builds a broadcast frame that contains a number.
fn frame(number: u64) -> [u8; 64] {
    let mut frame = [0xff; 64];
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame[20..28].copy_from_slice(&number.to_be_bytes());
    frame
}

fn pass(from: &mut Port, to: &mut Port, count: u64) {
    numbered::pass(frame, from, to, count);
}

#[test]
fn both_ends_of_a_pipe_count_every_frame_and_get_every_slot_back() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    assert_eq!((a.info.kind, a.info.mode.get("mode")), ("kernel", Some("netmap")));
    pass(&mut a, &mut b, FRAMES_BEYOND_RING);
    pass(&mut b, &mut a, FRAMES_BEYOND_RING);
    for port in [&mut a, &mut b] {
        // One more sync returns the slots of the frames that were just read.
        port.rx_sync().unwrap();
    }
    for port in [&mut a, &mut b] {
        port.tx_sync().unwrap();
        let stats = port.stats();
        assert_eq!((stats.tx.packets, stats.rx.packets), (FRAMES_BEYOND_RING, FRAMES_BEYOND_RING));
        assert_eq!((stats.tx.bytes, stats.in_flight), (64 * FRAMES_BEYOND_RING, 0));
        assert!(DropCause::ALL.iter().all(|cause| stats.dropped(*cause) == 0));
    }
}

#[test]
fn a_program_written_for_netmap_is_at_the_other_end() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let mut port = open(&site, "x}1");
    let mut null = slipring_core::open("null:").unwrap();
    let sender = site.client(&format!("send x{{1 {FRAMES_WITHIN_RING}"));
    eventually("what it sends", || {
        forward(&mut port, &mut null, u32::MAX).unwrap();
        (null.stats().tx.packets == u64::from(FRAMES_WITHIN_RING)).then_some(())
    });
    assert_eq!(port.stats().rx.packets, u64::from(FRAMES_WITHIN_RING));
    port.rx_sync().unwrap();
    sender.finish().well();
}

#[test]
fn frames_are_forwarded_from_pipe_to_pipe_and_to_ports_of_this_process() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut source, mut sink) = (open(&site, "x{1"), open(&site, "z}1"));
    let (mut from, mut to) = (open(&site, "x}1"), open(&site, "z{1"));
    let mut own = slipring_core::open("own{1").unwrap();
    let mut other = slipring_core::open("own}1").unwrap();
    for number in 0..100 {
        assert!(source.queues[0].rings().tx.push(&frame(number)));
    }
    source.tx_sync().unwrap();
    assert_eq!(forward(&mut from, &mut own, u32::MAX).unwrap(), 100);
    assert_eq!(forward(&mut other, &mut to, u32::MAX).unwrap(), 100);
    sink.rx_sync().unwrap();
    let mut scratch = Vec::new();
    for number in 0..100 {
        let same = |bytes: &mut [u8]| bytes == frame(number);
        assert_eq!(sink.queues[0].rings().rx.packet(&mut scratch, same), Some(true));
    }
}

#[test]
fn every_ring_pair_is_a_queue_of_its_own() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1@conf:rings=3"), open(&site, "x}1@conf:rings=3"));
    assert_eq!((a.queues.len(), b.queues.len()), (3, 3));
    numbered::queues_keep_apart(frame, &mut a, &mut b);
}

#[test]
fn ports_of_a_switch_and_interfaces_go_by_their_names_there() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    for [from, to] in [["vale0:a", "vale0:b"], ["e0", "e1"]] {
        let (mut to, mut from) = (open(&site, to), open(&site, from));
        pass(&mut from, &mut to, 100);
    }
    // The interface drops longer frames without an error, so the port must know the limit.
    assert_eq!(open(&site, "e0").info.caps.max_packet, 1500 + 22);
}

#[test]
fn a_monitor_sees_what_its_port_sends() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    let mut monitor = open(&site, "x{1/t");
    assert!(monitor.info.caps.rx && !monitor.info.caps.tx);
    pass(&mut a, &mut b, 100);
    let mut scratch = Vec::new();
    monitor.rx_sync().unwrap();
    for number in 0..100 {
        let same = |bytes: &mut [u8]| bytes == frame(number);
        assert_eq!(monitor.queues[0].rings().rx.packet(&mut scratch, same), Some(true));
    }
}

#[test]
fn a_monitor_of_several_rings_sees_what_each_of_them_sends() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1@conf:rings=3"), open(&site, "x}1@conf:rings=3"));
    let mut monitor = open(&site, "x{1/t");
    assert_eq!(monitor.queues.len(), 3);
    numbered::queues_keep_apart(frame, &mut a, &mut b);
    for (number, queue) in (0..).zip(&mut monitor.queues) {
        queue.rx_sync().unwrap();
        let same = |bytes: &mut [u8]| bytes == frame(number);
        assert_eq!(queue.rings().rx.packet(&mut Vec::new(), same), Some(true));
        assert_eq!(queue.rings().rx.avail(), 0);
    }
}

#[test]
fn an_interface_that_goes_down_and_up_goes_on_and_one_that_is_removed_is_gone() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "e0"), open(&site, "e1"));
    pass(&mut a, &mut b, 20);
    site.inside.ip("link set e0 down");
    for _ in 0..20 {
        a.rx_sync().unwrap();
        a.tx_sync().unwrap();
    }
    site.inside.ip("link set e0 up");
    site.inside.wait_for_carrier("e1");
    pass(&mut a, &mut b, 20);
    site.inside.ip("link del e0");
    let error = site.inside.run(move || eventually("its end", || a.rx_sync().err()));
    assert_eq!(error.to_string().rsplit(": ").next(), Some("the interface is gone"));
}

#[test]
fn an_interface_that_is_down_is_bound_and_starts_when_it_is_up() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    site.inside.ip("link set e0 down");
    let (mut a, mut b) = (open(&site, "e0"), open(&site, "e1"));
    site.inside.ip("link set e0 up");
    site.inside.wait_for_carrier("e1");
    pass(&mut a, &mut b, 20);
    pass(&mut b, &mut a, 20);
}

#[test]
fn what_a_monitor_had_no_room_for_is_counted_where_it_is_read() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "vale0:a"), open(&site, "vale0:b"));
    let mut monitor = open(&site, "vale0:a/t@conf:rx-slots=64");
    pass(&mut a, &mut b, 100);
    monitor.rx_sync().unwrap();
    assert_eq!(monitor.stats().rx.packets, 63);
    assert_eq!(monitor.stats().dropped(DropCause::RxRingFull), 37);
    assert_eq!(b.stats().dropped(DropCause::RxRingFull), 0);
}

static VERBS: [Verb; 1] = [Verb {
    name: "dump",
    classic: &[],
    command: slipring_dump::command,
    plan: planned,
    no_metrics: None,
}];

fn planned(matches: &ArgMatches) -> Result<Job, Failure> {
    slipring_dump::plan(matches, |_| Vec::new())
}

#[test]
fn dump_captures_from_the_device() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let mut sender = open(&site, "x{1");
    for length in [60, 70, 80] {
        assert!(sender.queues[0].rings().tx.push(&vec![0xff; length]));
    }
    sender.tx_sync().unwrap();
    // In these arguments, a single `@` would stand for a file of the test, so it is doubled.
    let port = named(&site, "x}1").replace('@', "@@");
    let args = format!("-i {port} -c 3 --json");
    let outcome = site.inside.run(move || {
        let outcome = run_captured(&VERBS, "dump", &args, std::path::Path::new(""));
        (outcome.stdout, outcome.stderr)
    });
    let report: serde_json::Value = serde_json::from_str(&outcome.0).expect(&outcome.1);
    assert_eq!((&report["captured"], &report["dropped"]), (&3.into(), &0.into()));
    assert_eq!(report["ports"][0]["kind"], "kernel");
    assert_eq!(report["frames"][2]["length_bytes"], 80);
    assert!(outcome.1.contains("is taken for this capture"), "{}", outcome.1);
    assert!(!outcome.1.contains("monitoring"), "{}", outcome.1);
}

/// Runs `slipring dump` with these arguments; returns its report.
fn dumped(args: &str) -> serde_json::Value {
    let outcome = run_captured(&VERBS, "dump", &format!("{args} --json"), std::path::Path::new(""));
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect(&outcome.stderr)
}

#[test]
fn dump_of_a_monitor_tells_both_ways_and_ends_with_its_port() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    let capture = site.run_dir().join("seen.pcapng");
    let port = named(&site, "x{1/rt").replace('@', "@@");
    let watching = format!("-i {port} -w {}", capture.display());
    let watching = site.inside.run(move || std::thread::spawn(move || dumped(&watching)));
    // The header of the file is written once the port is open, so this waits for the header.
    eventually("the capture", || capture.metadata().ok().filter(|file| file.len() > 0));
    pass(&mut a, &mut b, 3);
    pass(&mut b, &mut a, 2);
    drop((a, b));
    let report = watching.join().unwrap();
    assert_eq!(report["captured"], 5);
    let report = dumped(&format!("-r {}", capture.display()));
    let frames = report["frames"].as_array().unwrap().iter();
    let ways: Vec<_> = frames.map(|frame| &frame["direction"]).collect();
    assert_eq!(ways, ["out", "out", "out", "in", "in"]);
}

#[test]
fn what_is_not_there_is_told_with_what_to_do() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let refused = |name: String| try_open(&site, name).unwrap_err();
    let error = refused("kernel:x{1@/nowhere/netmap".into());
    assert_eq!(error.code(), "SR0111");
    let help = error.help().unwrap();
    assert!(help.ends_with("slipring daemon --link /nowhere/netmap"), "{help}");
    assert_eq!(refused(named(&site, "nosuch0")).code(), "SR0102");
    assert_eq!(refused(named(&site, "e0@offset=8")).code(), "SR0111");
    assert_eq!(refused("kernel:x{1@/dev/null".into()).code(), "SR0199");
    let mut port = open(&site, "x{1");
    daemon.stop(rustix::process::Signal::TERM).well();
    assert!(port.rx_sync().is_err(), "the daemon is gone");
}
