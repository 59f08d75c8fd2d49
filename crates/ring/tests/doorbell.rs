//! Tests of the eventfd that wakes a party.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use slipring_ring::Doorbell;

fn rings(bell: &Doorbell) -> bool {
    poll(&mut [PollFd::new(bell, PollFlags::IN)], Some(&Default::default())).unwrap() == 1
}

#[test]
fn a_new_bell_is_silent_and_silencing_it_does_nothing() {
    let bell = Doorbell::new().unwrap();
    bell.clear();
    assert!(!rings(&bell));
}

#[test]
fn a_bell_rings_until_it_is_silenced_however_often_it_was_rung() {
    let bell = Doorbell::new().unwrap();
    for _ in 0..3 {
        bell.ring();
    }
    assert!(rings(&bell) && rings(&bell));
    bell.clear();
    assert!(!rings(&bell));
}

#[test]
fn every_handle_is_the_same_bell() {
    let bell = Doorbell::new().unwrap();
    let clone = bell.try_clone().unwrap();
    let passed_on = Doorbell::from_fd(bell.as_fd().try_clone_to_owned().unwrap());
    clone.ring();
    assert!(rings(&bell) && rings(&passed_on));
    passed_on.clear();
    assert!(!rings(&clone));
}

#[test]
fn ringing_a_saturated_bell_does_not_block() {
    let bell = Doorbell::new().unwrap();
    rustix::io::write(&bell, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    bell.ring();
    assert!(rings(&bell));
}
