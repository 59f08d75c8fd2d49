//! Tests of a pipe between two processes: the second process inherits the memfd and the doorbells.
#![allow(clippy::unwrap_used)]

mod support;

use std::env;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::Command;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use slipring_ring::{Doorbell, PipeEnd, PipePair, Region};
use support::{SLOTS, shared_region as region};

const HANDOVER: &str = "SLIPRING_TEST_HANDOVER";
const ROUNDS: u64 = 2000;

/// A copy of a descriptor that stays open in programs started from here.
fn inheritable(fd: BorrowedFd<'_>) -> OwnedFd {
    let fd = fd.try_clone_to_owned().unwrap();
    fcntl_setfd(&fd, FdFlags::empty()).unwrap();
    fd
}

fn wait_for_frame(end: &mut PipeEnd) {
    while end.rx.avail() == 0 {
        end.announce_sleep(true, false);
        if end.rx_sync().unwrap() == 0 {
            poll(&mut [PollFd::new(end.doorbells().0, PollFlags::IN)], None).unwrap();
        }
        end.wake();
        end.rx_sync().unwrap();
    }
}

#[test]
fn another_process_answers_every_frame() {
    use std::os::fd::AsFd;
    let region = region(2048);
    let PipePair { mut a, b } = PipePair::create(&region, 0, SLOTS).unwrap();
    let fds = [region.fd(), b.doorbells().0.as_fd(), b.doorbells().1.as_fd()].map(inheritable);
    drop(b);
    let [memory, mine, peers] = fds.each_ref().map(AsRawFd::as_raw_fd);
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--ignored", "--test-threads=1"])
        .env(HANDOVER, format!("{memory} {mine} {peers} {}", a.offset()))
        .spawn()
        .unwrap();
    drop(fds);
    for round in 0..ROUNDS {
        assert!(a.tx.push(&round.to_ne_bytes()));
        a.tx_sync().unwrap();
        wait_for_frame(&mut a);
        let answer = a.rx.packet(&mut Vec::new(), |bytes| bytes.to_vec()).unwrap();
        assert_eq!(answer, (!round).to_ne_bytes());
        a.rx_sync().unwrap();
    }
    assert!(child.wait().unwrap().success());
}

#[test]
#[ignore = "the second process of another test"]
fn the_other_process() {
    let Ok(handover) = env::var(HANDOVER) else { return };
    let numbers: Vec<u64> = handover.split(' ').map(|part| part.parse().unwrap()).collect();
    // SAFETY: the parent left these three open for this process alone.
    let fd = |i: usize| unsafe { OwnedFd::from_raw_fd(numbers[i] as i32) };
    let region = Region::attach(fd(0)).unwrap();
    let (mine, peers) = (Doorbell::from_fd(fd(1)), Doorbell::from_fd(fd(2)));
    let mut end = PipeEnd::attach(&region, numbers[3], mine, peers).unwrap();
    for _ in 0..ROUNDS {
        wait_for_frame(&mut end);
        let round = end.rx.packet(&mut Vec::new(), |bytes| bytes.to_vec()).unwrap();
        let round = u64::from_ne_bytes(round.try_into().unwrap());
        assert!(end.tx.push(&(!round).to_ne_bytes()));
        end.tx_sync().unwrap();
    }
}
