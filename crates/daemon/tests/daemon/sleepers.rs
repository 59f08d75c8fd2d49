//! Tests of programs that sleep on the device, while programs that sync pipes themselves open the
//! other end. With `SLIPRING_SOAK_SECONDS`, the hostile sequences run longer (`make soak`).

use std::fs;
use std::time::{Duration, Instant};

use slipring_port::{Interest, Port, Queue, WaitStrategy, Waiter};
use slipring_test_support::sandbox::output;
use slipring_test_support::{Program, Sandbox, TIMEOUT, eventually};

use crate::SLIPRING;
use crate::native::{check, fill, open};

/// A number of frames that the ring of one end cannot hold.
const FRAMES_BEYOND_RING: u64 = 5000;
/// A number of frames that fit into a ring together.
const FRAMES_WITHIN_RING: u64 = 500;

/// Waits until a program is blocked in `poll`.
fn wait_for_sleep(program: &Program) {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/proc/{}/{file}", program.pid()));
        text.expect("a program that is there")
    };
    let switches = |status: &str| -> Vec<String> {
        status.lines().filter(|line| line.contains("ctxt_switches")).map(str::to_owned).collect()
    };
    let mut before = Vec::new();
    eventually("a program asleep in poll", || {
        let now = switches(&read("status"));
        let polls = read("syscall").starts_with(&format!("{} ", libc_poll()));
        let still = polls && now == before;
        before = now;
        still.then_some(())
    });
}

/// The number of the system call with which programs poll: `poll` on x86-64, `ppoll` on other
/// processors.
const fn libc_poll() -> u32 {
    if cfg!(target_arch = "x86_64") { 7 } else { 73 }
}

/// Sends all frames from number `sent` on. This program itself syncs the ring.
fn send(port: &mut Port, sent: &mut u64, count: u64) {
    until(port, Interest::TX, |port| {
        fill(port, sent, count);
        *sent == count
    });
}

/// Receives all frames. This program itself syncs the ring.
fn read(port: &mut Port, count: u64) {
    let (mut seen, mut scratch) = (0, Vec::new());
    until(port, Interest::RX, |port| {
        check(port, &mut seen, &mut scratch);
        seen == count
    });
    // One more sync returns the slots of the frames that were just read.
    port.rx_sync().unwrap();
}

/// Sleeps until `is_done` returns true.
fn until(port: &mut Port, wish: Interest, mut is_done: impl FnMut(&mut Port) -> bool) {
    let queues = port.queues.iter().map(|queue| &**queue as &dyn Queue);
    let mut waiter = Waiter::new(queues, WaitStrategy::Sleep).unwrap();
    let start = Instant::now();
    while !is_done(port) {
        assert!(start.elapsed() < TIMEOUT, "not all in time");
        waiter.wait_ports(&mut [port], wish, Some(TIMEOUT)).unwrap();
    }
}

#[test]
fn a_program_asleep_for_frames_is_woken_by_a_sender_that_comes_later_by_the_native_door() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let sleeper = site.client(&format!("receive x}}1 {FRAMES_WITHIN_RING}"));
    sleeper.wait_for_text("bound");
    wait_for_sleep(&sleeper);
    let mut sender = open(&site, "x{1");
    send(&mut sender, &mut 0, FRAMES_WITHIN_RING);
    assert_eq!(output(sleeper.finish()), "bound\nreceived");
}

#[test]
fn a_program_asleep_for_room_is_woken_by_a_reader_that_comes_later_by_the_native_door() {
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let sleeper = site.client(&format!("send x{{1 {FRAMES_BEYOND_RING}"));
    wait_for_sleep(&sleeper);
    let mut reader = open(&site, "x}1");
    read(&mut reader, FRAMES_BEYOND_RING);
    assert_eq!(output(sleeper.finish()), "sent");
}

#[test]
fn hostile_orders_of_sleeping_and_sharing_leave_nobody_asleep() {
    let seconds = std::env::var("SLIPRING_SOAK_SECONDS").map_or(3, |text| text.parse().unwrap());
    let Some(site) = Sandbox::new(SLIPRING) else { return };
    let daemon = site.daemon("");
    let (start, mut random, mut rounds) = (Instant::now(), 7u64, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        round(&site, rounds, random >> 32);
        rounds += 1;
    }
    println!("{rounds} sleepers, none left asleep");
    assert_eq!(daemon.so_far().stderr, "");
}

/// Starts a program that opens one end of a new pipe through the device. At a pseudo-random moment,
/// opens the other end with a port that this process syncs. In some rounds, another such port is
/// opened and closed first.
fn round(site: &Sandbox, number: u32, random: u64) {
    let (name, sends, comes_twice) =
        (format!("s{number}"), random.is_multiple_of(2), random.is_multiple_of(3));
    let (verb, own, other) = if sends { ("send", "{", "}") } else { ("receive", "}", "{") };
    let other = format!("{name}{other}1");
    let sleeper = site.client(&format!("{verb} {name}{own}1 {FRAMES_BEYOND_RING}"));
    // The other end is opened before the sleeper has bound its end, while the sleeper falls asleep,
    // or long after that.
    let pause = Instant::now() + Duration::from_micros((random >> 8) % 4000);
    while Instant::now() < pause {
        std::hint::spin_loop();
    }
    let mut sent = 0;
    if comes_twice {
        let mut first = open(site, &other);
        if !sends {
            // If no other program has the pipe open, frames in it are lost together with the pipe.
            // So the frames are sent after the sleeper has bound its end.
            sleeper.wait_for_text("bound");
            fill(&mut first, &mut sent, FRAMES_BEYOND_RING);
        }
        drop(first);
    }
    let mut port = eventually("the end to be free", || crate::native::try_open(site, &other).ok());
    if sends {
        read(&mut port, FRAMES_BEYOND_RING);
    } else {
        send(&mut port, &mut sent, FRAMES_BEYOND_RING);
    }
    let ended = output(sleeper.finish());
    assert!(ended.ends_with(if sends { "sent" } else { "received" }), "{ended}");
}
