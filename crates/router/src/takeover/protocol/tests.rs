//! Tests of a takeover in which either router ends, or the running one refuses, at different steps;
//! and of the channel between the routers.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;

/// Which of the routers take frames.
#[derive(Default)]
struct Takers {
    old: AtomicBool,
    new: AtomicBool,
}

impl Takers {
    fn take(&self, own: impl Fn(&Self) -> &AtomicBool, other: impl Fn(&Self) -> &AtomicBool) {
        own(self).store(true, Ordering::SeqCst);
        assert!(!other(self).load(Ordering::SeqCst), "both take frames");
    }

    fn both(&self) -> (bool, bool) {
        (self.old.load(Ordering::SeqCst), self.new.load(Ordering::SeqCst))
    }
}

/// The fault of the running router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldFault {
    None,
    OfferRefused,
    ReleaseRefused,
    EndInRelease,
}

/// The step after which the new router ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NewEnd {
    Start,
    Offer,
    Ready,
    Yours,
    Taken,
    Never,
}

const OLD: [OldFault; 4] =
    [OldFault::None, OldFault::OfferRefused, OldFault::ReleaseRefused, OldFault::EndInRelease];
const NEW: [NewEnd; 6] =
    [NewEnd::Start, NewEnd::Offer, NewEnd::Ready, NewEnd::Yours, NewEnd::Taken, NewEnd::Never];

struct Running<'t> {
    takers: &'t Takers,
    fault: OldFault,
    stream: UnixStream,
    /// Stands for a device, which lasts as long as a router has a descriptor; `None` after the end.
    device: Option<OwnedFd>,
}

impl Predecessor for Running<'_> {
    fn offer(&mut self) -> Result<OfferMessage, String> {
        match self.fault {
            OldFault::OfferRefused => Err("no".to_owned()),
            _ => {
                let fds = self.device.iter().map(|device| device.try_clone().unwrap()).collect();
                Ok(OfferMessage { document: json!({ "step": "offer" }), fds })
            }
        }
    }

    fn release(&mut self, _: Vec<OwnedFd>) -> Result<Value, String> {
        self.takers.old.store(false, Ordering::SeqCst);
        match self.fault {
            OldFault::ReleaseRefused => Err("not now".to_owned()),
            OldFault::EndInRelease => {
                self.device = None;
                self.stream.shutdown(std::net::Shutdown::Both).unwrap();
                Err("it has ended".to_owned())
            }
            _ => Ok(json!({ "positions": [] })),
        }
    }

    fn resume(&mut self) {
        if self.device.is_some() {
            self.takers.take(|it| &it.old, |it| &it.new);
        }
    }
}

/// Executes the successor's side. Returns the devices that it has got, if it does not end at `end`.
fn successor(mut channel: Channel, end: NewEnd, takers: &Takers) -> io::Result<Vec<OwnedFd>> {
    let ended = |step: NewEnd| match end == step {
        true => Err(io::Error::other("this router ends")),
        false => Ok(()),
    };
    ended(NewEnd::Start)?;
    let devices = receive_offer(&mut channel)?.fds;
    ended(NewEnd::Offer)?;
    if end == NewEnd::Ready {
        channel.send(&json!({ "step": "ready" }), &[])?;
        return ended(NewEnd::Ready).map(|()| devices);
    }
    take_over(&mut channel, &[], |_| ended(NewEnd::Yours))?;
    ended(NewEnd::Taken)?;
    takers.take(|it| &it.new, |it| &it.old);
    Ok(devices)
}

/// Runs a takeover. Returns its result, whether the old and the new router take frames, and whether
/// the old and the new router have the device.
fn run(fault: OldFault, end: NewEnd) -> (HandedOver, (bool, bool), (bool, bool)) {
    let takers = Takers::default();
    takers.old.store(true, Ordering::SeqCst);
    let (old, new) = UnixStream::pair().unwrap();
    let (device, other_end) = UnixStream::pair().unwrap();
    let (handed, of_old, of_new) = thread::scope(|scope| {
        let (takers, channel) = (&takers, Channel::new(new));
        let successor = scope.spawn(move || successor(channel, end, takers).unwrap_or_default());
        let stream = old.try_clone().unwrap();
        let mut router = Running { takers, fault, stream, device: Some(device.into()) };
        let handed = hand_over(&mut Channel::new(old), &mut router);
        // A router that has handed over ends.
        let of_old = router.device.filter(|_| handed != HandedOver::Yes);
        (handed, of_old, successor.join().unwrap())
    });
    let has = (of_old.is_some(), !of_new.is_empty());
    let is_kept = has.0 || has.1;
    assert_eq!(is_held(&other_end, is_kept), is_kept, "no other descriptor is left");
    (handed, takers.both(), has)
}

/// Whether a process has a descriptor of the other end. If none should have one, waits for up to 10
/// s, because a program that another test starts has copies of all descriptors for a moment.
fn is_held(end: &UnixStream, should_be: bool) -> bool {
    let mut fds = [PollFd::new(end, PollFlags::IN)];
    let limit = Timespec { tv_sec: if should_be { 0 } else { 10 }, tv_nsec: 0 };
    poll(&mut fds, Some(&limit)).unwrap();
    !fds[0].revents().contains(PollFlags::HUP)
}

#[test]
fn whoever_ends_or_refuses_one_router_takes_frames_and_has_the_devices() {
    for fault in OLD {
        for end in NEW {
            for _ in 0..20 {
                let (handed, (old, new), has) = run(fault, end);
                let is_handed = handed == HandedOver::Yes;
                let what = format!("{fault:?}, {end:?}: {handed:?}, old {old}, new {new}");
                let is_expected = fault == OldFault::None && end >= NewEnd::Taken;
                assert_eq!(is_handed, is_expected, "{what}");
                let has_ended = fault == OldFault::EndInRelease && end >= NewEnd::Ready;
                assert_eq!(old, !is_handed && !has_ended, "{what}");
                assert_eq!(new, is_handed && end == NewEnd::Never, "{what}");
                assert_eq!(has, (old, new), "{what}: only who takes frames has the device");
            }
        }
    }
}

#[test]
fn descriptors_arrive_in_their_order_with_their_message() {
    let (one, other) = UnixStream::pair().unwrap();
    let files: Vec<_> = (0..300).map(|_| tempfile()).collect();
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let inode = |fd: BorrowedFd<'_>| rustix::fs::fstat(fd).unwrap().st_ino;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut channel = Channel::new(one);
            channel.send(&json!({ "step": "offer", "text": "x".repeat(1 << 20) }), &fds).unwrap();
            channel.send(&json!({ "step": "yours" }), &[]).unwrap();
        });
        let mut channel = Channel::new(other);
        let (message, got) = channel.receive(READY_LIMIT).unwrap();
        assert_eq!(message["text"].as_str().map(str::len), Some(1 << 20));
        let got: Vec<_> = got.iter().map(|fd| inode(fd.as_fd())).collect();
        assert_eq!(got, fds.iter().map(|fd| inode(*fd)).collect::<Vec<_>>());
        assert_eq!(channel.receive(READY_LIMIT).unwrap().0["step"], "yours");
        assert_eq!(channel.receive(READY_LIMIT).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn a_router_that_is_silent_for_too_long_can_send_nothing_any_more() {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut waiting, mut silent) = (Channel::new(one), Channel::new(other));
    let late = waiting.receive(Duration::from_millis(1)).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    assert!(silent.send(&json!({ "step": "taken" }), &[]).is_err());
    assert!(waiting.receive(READY_LIMIT).is_err());
}

#[test]
fn a_router_that_is_cut_off_in_a_message_has_not_sent_it() {
    let (one, mut other) = UnixStream::pair().unwrap();
    io::Write::write_all(&mut other, &[9, 0, 0, 0, 0]).unwrap();
    let mut waiting = Channel::new(one);
    let late = waiting.receive(Duration::from_millis(1)).unwrap_err();
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    assert!(io::Write::write_all(&mut other, &[0]).is_err());
}

#[test]
fn what_a_router_has_sent_before_it_is_cut_off_is_read() {
    let (one, other) = UnixStream::pair().unwrap();
    let (mut waiting, mut sender) = (Channel::new(one.try_clone().unwrap()), Channel::new(other));
    sender.send(&json!({ "step": "taken" }), &[]).unwrap();
    one.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(waiting.receive(READY_LIMIT).unwrap().0["step"], "taken");
}

/// Creates a file in memory.
fn tempfile() -> OwnedFd {
    rustix::fs::memfd_create("takeover", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}
