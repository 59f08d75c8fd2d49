//! Tests of the daemon's pipes through its native socket API. The programs sync the pipes
//! themselves, whatever program is at the other end.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use slipring_abi::name::PortName;
use slipring_native_proto::{NativeCall, NativeClient, NativeOp, receive, send};
use slipring_port::{
    DropCause, Interest, OpenError, OpenOptions, Port, Queue, WaitStrategy, Waiter, native,
};
use slipring_test_support::frames::Xorshift;
use slipring_test_support::sandbox::{FRAMES_WITHIN_RING, NOBODY};
use slipring_test_support::{Sandbox, TIMEOUT, eventually};

use crate::SLIPRING;
use crate::numbered;

/// A number of frames that is several times the number of slots in a pipe's rings.
const FRAMES_BEYOND_RING: u64 = 5000;

fn door(site: &Sandbox) -> PathBuf {
    native::socket_path(&site.run_dir())
}

pub(crate) fn try_open(site: &Sandbox, name: &str) -> Result<Port, OpenError> {
    let (name, daemon) = (name.to_owned(), Some(door(site)));
    let options = OpenOptions { daemon, ..OpenOptions::default() };
    site.inside.run(move || slipring_core::open_all([&name], &options)).map(|[port]| port)
}

pub(crate) fn open(site: &Sandbox, name: &str) -> Port {
    try_open(site, name).unwrap()
}

/// Builds a frame as the C program sends it and expects it.
fn frame(number: u64) -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].fill(0xff);
    frame[6..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 0xb5]);
    frame[14..22].copy_from_slice(&number.to_ne_bytes());
    frame
}

pub(crate) fn fill(from: &mut Port, sent: &mut u64, count: u64) {
    numbered::fill(frame, from, sent, count);
}

pub(crate) fn check(to: &mut Port, seen: &mut u64, scratch: &mut Vec<u8>) {
    numbered::check(frame, to, seen, scratch);
}

fn pass(from: &mut Port, to: &mut Port, count: u64) {
    numbered::pass(frame, from, to, count);
}

/// Sends frames to a program or receives frames from it, in another thread, which sleeps whenever
/// it has to wait. The thread returns the port when all frames were sent or received.
fn asleep(mut port: Port, sends: bool) -> thread::JoinHandle<Port> {
    thread::spawn(move || {
        let mut waiter = Waiter::new(
            port.queues.iter().map(|queue| &**queue as &dyn Queue),
            WaitStrategy::Sleep,
        )
        .unwrap();
        let (mut done, mut scratch) = (0, Vec::new());
        while done < FRAMES_BEYOND_RING {
            match sends {
                true => fill(&mut port, &mut done, FRAMES_BEYOND_RING),
                false => check(&mut port, &mut done, &mut scratch),
            }
            if done < FRAMES_BEYOND_RING {
                let wish = if sends { Interest::TX } else { Interest::RX };
                waiter.wait_ports(&mut [&mut port], wish, Some(TIMEOUT)).unwrap();
            }
        }
        // One more sync returns the slots of the frames that were just read.
        port.rx_sync().unwrap();
        port
    })
}

#[test]
fn both_ends_pass_every_frame_and_get_every_slot_back() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    assert_eq!((a.info.kind, a.info.mode.get("mode")), ("native", Some("swap")));
    pass(&mut a, &mut b, FRAMES_BEYOND_RING);
    pass(&mut b, &mut a, FRAMES_BEYOND_RING);
    for port in [&mut a, &mut b] {
        port.rx_sync().unwrap();
        let stats = port.stats();
        assert_eq!((stats.tx.packets, stats.rx.packets), (FRAMES_BEYOND_RING, FRAMES_BEYOND_RING));
        assert_eq!(
            (stats.tx.bytes, stats.rx.bytes),
            (60 * FRAMES_BEYOND_RING, 60 * FRAMES_BEYOND_RING)
        );
        assert!(DropCause::ALL.iter().all(|cause| stats.dropped(*cause) == 0));
    }
    a.tx_sync().unwrap();
    assert_eq!(a.queues[0].rings().tx.avail(), 1023, "all came back");
}

#[test]
fn ends_that_sleep_wake_each_other() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let receiver = asleep(open(&site, "x}1"), false);
    let sender = asleep(open(&site, "x{1"), true);
    sender.join().unwrap();
    assert_eq!(receiver.join().unwrap().stats().rx.packets, FRAMES_BEYOND_RING);
}

#[test]
fn an_unmodified_program_at_the_other_end_sleeps_and_is_woken() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let receiver = site.client(&format!("receive x}}1 {FRAMES_BEYOND_RING}"));
    receiver.wait_for_text("bound");
    let sender = asleep(open(&site, "x{1"), true);
    receiver.wait_for_text("received");
    drop(sender.join().unwrap());
    receiver.finish().well();
    // Now the other direction.
    let receiver = asleep(open(&site, "x{1"), false);
    site.client(&format!("send x}}1 {FRAMES_BEYOND_RING}")).finish().well();
    assert_eq!(receiver.join().unwrap().stats().rx.packets, FRAMES_BEYOND_RING);
}

#[test]
fn a_monitor_sees_what_passes_and_then_the_ends_sync_themselves_again() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    pass(&mut a, &mut b, 10);
    let device = site.run_dir().join("netmap").display().to_string();
    let name = format!("kernel:x{{1/rt@{device}");
    let mut monitor = site.inside.run(move || slipring_core::open(&name)).unwrap();
    pass(&mut a, &mut b, 100);
    pass(&mut b, &mut a, 50);
    monitor.rx_sync().unwrap();
    let (mut scratch, mut seen) = (Vec::new(), 0);
    let rings = monitor.queues[0].rings();
    while rings.rx.packet(&mut scratch, |_| ()).is_some() {
        seen += 1;
    }
    assert_eq!(seen, 150, "what had passed before is not seen");
    assert_eq!((a.stats().tx.packets, b.stats().rx.packets), (110, 110));
    drop(monitor);
    pass(&mut a, &mut b, FRAMES_BEYOND_RING);
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
fn what_an_end_has_sent_waits_for_one_that_is_opened_again() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, b) = (open(&site, "x{1"), open(&site, "x}1"));
    let mut sent = 0;
    fill(&mut a, &mut sent, FRAMES_WITHIN_RING.into());
    drop(b);
    let mut b = eventually("the end to be free", || try_open(&site, "x}1").ok());
    let (mut seen, mut scratch) = (0, Vec::new());
    check(&mut b, &mut seen, &mut scratch);
    assert_eq!(seen, u64::from(FRAMES_WITHIN_RING));
}

#[test]
fn one_program_at_a_time_syncs_an_end_and_others_share_it_by_the_device() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "x{1"), open(&site, "x}1"));
    let error = try_open(&site, "x{1").unwrap_err();
    assert!(error.to_string().contains("another program syncs this end"), "{error}");
    assert!(error.help().unwrap().contains("kernel:"), "{error}");
    assert_eq!(site.bind("x{1"), "bound");
    pass(&mut a, &mut b, 100);
}

#[test]
fn without_a_daemon_pipes_are_this_process_s() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let (mut a, mut b) = (open(&site, "alone{1"), open(&site, "alone}1"));
    assert_eq!(a.info.kind, "pipe");
    pass(&mut a, &mut b, 100);
}

#[test]
fn who_may_not_open_the_device_is_not_let_in_and_users_do_not_meet() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("--mode 600");
    let mut a = open(&site, "x{1");
    let ask = |site: &Sandbox| {
        let mut ask = Command::new("setpriv");
        let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
        ask.args(ids).arg("--clear-groups").arg(site.copy_of(std::env::current_exe().unwrap()));
        ask.args(["native::ask_as_somebody", "--exact", "--nocapture"]).env(ASK, door(site));
        let done = ask.output().unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let output = ask(&site);
    assert!(output.contains("refused: ") && output.contains("Permission denied"), "{output}");
    daemon.stop(rustix::process::Signal::TERM).well();
    assert!(a.rx_sync().is_err() || eventually("the end", || a.rx_sync().err()).code() == "SR0499");
    let _daemon = site.daemon("--mode 666");
    let mut a = open(&site, "x{1");
    fill(&mut a, &mut 0, 10);
    let output = ask(&site);
    assert!(output.contains("received: 0"), "{output}");
}

const ASK: &str = "SLIPRING_NATIVE_TEST_DOOR";

/// This is not a test of its own. A test runs it as another user, in a process of its own.
#[test]
fn ask_as_somebody() {
    let Some(socket) = std::env::var_os(ASK) else { return };
    let options = OpenOptions { daemon: Some(socket.into()), ..OpenOptions::default() };
    match slipring_core::open_all(["x}1"], &options) {
        Err(error) => eprintln!("refused: {error} {:?}", error.cause),
        Ok([mut port]) => {
            assert_eq!(port.info.kind, "native");
            port.rx_sync().unwrap();
            eprintln!("received: {}", port.stats().rx.packets);
        }
    }
}

#[test]
fn a_program_that_says_and_writes_nonsense_hurts_nobody_else() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "good{1"), open(&site, "good}1"));
    let mut random = Xorshift::new(7);
    for round in 0..200 {
        let client = NativeClient::connect(&door(&site)).unwrap();
        for _ in 0..5 {
            let len = random.next() as usize % 4000;
            let mut bytes: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            if round % 2 == 0 && len > 16 {
                // The first bytes are those of a correct call.
                let op = 1 + random.next() as u16 % 4;
                bytes[..2].copy_from_slice(&op.to_ne_bytes());
                bytes[2..4].fill(0);
                bytes[8..12].copy_from_slice(&(len as u32 - 16).to_ne_bytes());
            }
            if send(client.as_fd(), &bytes, &[]).is_err() {
                break;
            }
        }
    }
    spoil(&site, &mut random);
    pass(&mut a, &mut b, 100);
}

/// Binds one end of a pipe whose other end a program has bound. Writes nonsense to words that both
/// ends share.
fn spoil(site: &Sandbox, random: &mut Xorshift) {
    let victim = site.client("hold bad}1");
    victim.wait_for_text("bound");
    let client = NativeClient::connect(&door(site)).unwrap();
    let name = PortName::parse("bad{1").unwrap();
    client.register(&name.to_header().unwrap(), &name.to_register()).unwrap();
    let (file, bytes) = client.memory().unwrap();
    let lent = client.lend().unwrap();
    let file = std::fs::File::from(file);
    for _ in 0..2000 {
        let ring = &lent.rings[random.next() as usize % lent.rings.len()];
        let offsets = [ring.layout.words, ring.layout.words + 128, ring.layout.tx, ring.layout.rx];
        let at = offsets[random.next() as usize % 4] + 4 * (random.next() % 8);
        assert!(at < bytes);
        let word = (random.next() as u32 % 2048).to_ne_bytes();
        std::os::unix::fs::FileExt::write_at(&file, &word, at).unwrap();
        rustix::io::write(&lent.kick, &1u64.to_ne_bytes()).unwrap();
        let _ = client.tx_sync();
        let _ = client.poll(5, true);
    }
    drop(client);
    drop(victim);
}

#[test]
fn a_program_that_does_not_read_its_answers_is_cut_off() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let (mut a, mut b) = (open(&site, "good{1"), open(&site, "good}1"));
    let client = NativeClient::connect(&door(&site)).unwrap();
    let call = NativeCall::plain(NativeOp::Poll, 1).to_bytes();
    eventually("the end", || send(client.as_fd(), &call, &[]).err());
    let mut buffer = [0; 64];
    while receive(client.as_fd(), &mut buffer).is_ok_and(|got| got.len > 0) {}
    pass(&mut a, &mut b, 100);
}
