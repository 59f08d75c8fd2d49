//! Tests of a takeover in which either router ends, or the running one refuses, at different steps;
//! and of the channel between the routers.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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
    has_ended: bool,
}

impl Predecessor for Running<'_> {
    fn offer(&mut self) -> Result<OfferMessage, String> {
        match self.fault {
            OldFault::OfferRefused => Err("no".to_owned()),
            _ => Ok(OfferMessage { document: json!({ "step": "offer" }), fds: Vec::new() }),
        }
    }

    fn release(&mut self, _: Vec<OwnedFd>) -> Result<Value, String> {
        self.takers.old.store(false, Ordering::SeqCst);
        match self.fault {
            OldFault::ReleaseRefused => Err("not now".to_owned()),
            OldFault::EndInRelease => {
                self.has_ended = true;
                self.stream.shutdown(std::net::Shutdown::Both).unwrap();
                Err("it has ended".to_owned())
            }
            _ => Ok(json!({ "positions": [] })),
        }
    }

    fn resume(&mut self) {
        if !self.has_ended {
            self.takers.take(|it| &it.old, |it| &it.new);
        }
    }
}

fn successor(mut channel: Channel, end: NewEnd, takers: &Takers) -> io::Result<()> {
    let ended = |step: NewEnd| match end == step {
        true => Err(io::Error::other("this router ends")),
        false => Ok(()),
    };
    ended(NewEnd::Start)?;
    receive_offer(&mut channel)?;
    ended(NewEnd::Offer)?;
    if end == NewEnd::Ready {
        channel.send(&json!({ "step": "ready" }), &[])?;
        return ended(NewEnd::Ready);
    }
    take_over(&mut channel, &[], |_| ended(NewEnd::Yours))?;
    if end != NewEnd::Taken {
        takers.take(|it| &it.new, |it| &it.old);
    }
    Ok(())
}

fn run(fault: OldFault, end: NewEnd) -> (HandedOver, (bool, bool)) {
    let takers = Takers::default();
    takers.old.store(true, Ordering::SeqCst);
    let (old, new) = UnixStream::pair().unwrap();
    let handed = thread::scope(|scope| {
        let (takers, channel) = (&takers, Channel::new(new));
        scope.spawn(move || drop(successor(channel, end, takers)));
        let stream = old.try_clone().unwrap();
        let mut router = Running { takers, fault, stream, has_ended: false };
        hand_over(&mut Channel::new(old), &mut router)
    });
    (handed, takers.both())
}

#[test]
fn whoever_ends_or_refuses_one_router_takes_frames_and_never_two() {
    for fault in OLD {
        for end in NEW {
            for _ in 0..20 {
                let (handed, (old, new)) = run(fault, end);
                let is_handed = handed == HandedOver::Yes;
                let what = format!("{fault:?}, {end:?}: {handed:?}, old {old}, new {new}");
                let is_expected = fault == OldFault::None && end >= NewEnd::Taken;
                assert_eq!(is_handed, is_expected, "{what}");
                let has_ended = fault == OldFault::EndInRelease && end >= NewEnd::Ready;
                assert_eq!(old, !is_handed && !has_ended, "{what}");
                assert_eq!(new, is_handed && end == NewEnd::Never, "{what}");
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
