//! Reads the kernel's routing state over netlink: first all objects, then every change.
//!
//! ```text
//!   socket 1: links, addresses, settings, neighbours   notifications  -----+
//!   socket 2: rules, next hops, IPv4 routes            one dump at a time -+--> FeedReader, in the
//!   socket 3: IPv6 routes                                                          socket's order
//! ```
//!
//! A dump shares its socket with the notifications about the same objects. A part of a dump may be
//! older than notifications that were read before it; the mirror then lets the notifications take
//! precedence. Messages of different sockets have no common order. So when the kernel purges
//! objects without notifications, the mirror requests dumps of all that may be concerned.
//!
//! The kernel composes a dump during the system calls that read it, which takes longer than
//! processing it. So at the start, other threads read the dumps of routes ([`ReadAhead`]), one
//! thread per family.
//!
//! # Invariants
//! 1. A socket has at most one dump in progress; others wait for its end.
//! 2. Every dump that begins ends, or is aborted.
//! 3. One thread reads a socket at a time, and all messages are processed in the order in which
//!    they were read.
//!
//! Not for: deciding what must be dumped.

mod ahead;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, sockopt};
use slipring_fib::DumpKind;
use slipring_rtnetlink::{
    DumpFilter, MessageBody, Messages, NetlinkMessage, RequestBuilder, RouteFamily,
};

use ahead::{AheadPart, ReadAhead};

fn request(kind: DumpKind, sequence: u32) -> Vec<u8> {
    let request = RequestBuilder::new(sequence);
    let routes = |family| DumpFilter { family: Some(family), table: None };
    match kind {
        DumpKind::Links => request.dump_links(),
        DumpKind::Addresses => request.dump_addresses(),
        DumpKind::Neighbours => request.dump_neighbours(),
        DumpKind::Settings => request.dump_netconf(RouteFamily::V4),
        DumpKind::Rules => request.dump_rules(),
        DumpKind::NextHops => request.dump_next_hops(),
        DumpKind::Ipv4Routes => request.dump_routes(routes(RouteFamily::V4)),
        DumpKind::Ipv6Routes => request.dump_routes(routes(RouteFamily::V6)),
    }
}

/// Whether a dump is so long that another thread should read it.
const fn is_long(kind: DumpKind) -> bool {
    matches!(kind, DumpKind::Ipv4Routes | DumpKind::Ipv6Routes)
}

/// `RTNLGRP_*` of linux/rtnetlink.h.
const LINK_GROUPS: [u32; 5] = [1, 3, 5, 9, 24];
const ROUTE_GROUPS: [u32; 4] = [7, 8, 19, 32];
const IPV6_GROUPS: [u32; 1] = [11];
/// Size of the kernel's receive queue in bytes. The kernel doubles it, which is enough for
/// notifications of about 300 000 routes. With the default of 208 KiB, the socket overruns when a
/// full table changes.
const RECEIVE_BUFFER: usize = 128 << 20;
/// Size of the read buffer in bytes. The kernel writes at most 32 KiB of a dump per read, or one
/// notification.
const READ_BYTES: usize = 1 << 16;
/// Maximum number of reads of one socket in a loop iteration, so that many changes do not keep the
/// thread from its other work.
const MAX_READS: u32 = 64;

/// Receives the messages of the kernel.
pub(crate) trait FeedReader {
    /// A dump begins. Until its end, messages also list the existing objects of this kind.
    fn begin(&mut self, kind: DumpKind);
    /// A dump is complete.
    fn end(&mut self, kind: DumpKind);
    /// A dump has failed. It may have listed some of the objects.
    fn abort(&mut self, kind: DumpKind);
    /// An object of a dump, or a change of an object.
    fn message(&mut self, message: &NetlinkMessage<'_>);
    /// The kernel dropped notifications, or sent a message that could not be parsed.
    fn overrun(&mut self);
}

/// What may still be unread after [`KernelFeed::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeedProgress {
    /// Nothing: all sockets are empty.
    Empty,
    /// More of a dump. All notifications that came before the last part that was read have been
    /// read, too.
    Dumping,
    /// Messages that another thread reads: a descriptor becomes readable with the next part.
    Ahead,
    /// Notifications, the oldest of which may have waited for some time.
    Backlog,
}

impl FeedProgress {
    /// Whether there is nothing to process until a descriptor is readable.
    pub(crate) const fn must_wait(self) -> bool {
        matches!(self, Self::Empty | Self::Ahead)
    }
}

/// The netlink sockets.
pub(crate) struct KernelFeed {
    links: FeedSocket,
    routes: FeedSocket,
    ipv6: FeedSocket,
    buffer: Box<[u8]>,
}

impl KernelFeed {
    /// Subscribes to all changes, in the network namespace of the calling thread. Nothing is dumped
    /// yet.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self {
            links: FeedSocket::open(&LINK_GROUPS)?,
            routes: FeedSocket::open(&ROUTE_GROUPS)?,
            ipv6: FeedSocket::open(&IPV6_GROUPS)?,
            buffer: vec![0; READ_BYTES].into(),
        })
    }

    /// Requests a dump, unless one of this kind is already waiting.
    pub(crate) fn request(&mut self, kind: DumpKind) {
        let socket = match kind {
            DumpKind::Links | DumpKind::Addresses | DumpKind::Settings | DumpKind::Neighbours => {
                &mut self.links
            }
            DumpKind::Rules | DumpKind::NextHops | DumpKind::Ipv4Routes => &mut self.routes,
            DumpKind::Ipv6Routes => &mut self.ipv6,
        };
        if !socket.waiting.contains(&kind) {
            socket.waiting.push_back(kind);
        }
    }

    /// Whether no dump is waiting or in progress.
    pub(crate) fn is_quiet(&self) -> bool {
        self.links.is_quiet() && self.routes.is_quiet() && self.ipv6.is_quiet()
    }

    /// Reads what has arrived, up to a bounded number of buffers. With `reads_ahead`, other threads
    /// read long dumps that begin now; then it is not known up to which time all messages have been
    /// read.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn receive(
        &mut self,
        reader: &mut impl FeedReader,
        reads_ahead: bool,
    ) -> io::Result<FeedProgress> {
        let mut progress = FeedProgress::Empty;
        for socket in [&mut self.links, &mut self.routes, &mut self.ipv6] {
            progress = progress.max(socket.receive(&mut self.buffer, reader, reads_ahead)?);
        }
        Ok(progress)
    }

    /// The descriptors to poll. At least one of them is readable when [`Self::receive`] has
    /// something to read.
    pub(crate) fn descriptors(&self) -> [BorrowedFd<'_>; 3] {
        [&self.links, &self.routes, &self.ipv6].map(FeedSocket::descriptor)
    }
}

struct FeedSocket {
    socket: Socket,
    sequence: u32,
    waiting: VecDeque<DumpKind>,
    /// The dump in progress.
    running: Option<DumpKind>,
    /// The thread that reads the socket in place of this one.
    ahead: Option<ReadAhead>,
}

impl FeedSocket {
    fn open(groups: &[u32]) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        enlarge(&socket);
        for group in groups {
            socket.add_membership(*group)?;
        }
        Ok(Self { socket, sequence: 0, waiting: VecDeque::new(), running: None, ahead: None })
    }

    fn is_quiet(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty()
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ahead.as_ref().map_or(self.socket.as_fd(), ReadAhead::arrived)
    }

    /// Starts the next dump if none is in progress.
    fn start(&mut self, reader: &mut impl FeedReader, reads_ahead: bool) -> io::Result<()> {
        if self.running.is_some() {
            return Ok(());
        }
        let Some(kind) = self.waiting.pop_front() else { return Ok(()) };
        self.sequence = self.sequence.wrapping_add(1).max(1);
        self.socket.send_to(&request(kind, self.sequence), &SocketAddr::new(0, 0), 0)?;
        self.running = Some(kind);
        reader.begin(kind);
        if reads_ahead && is_long(kind) {
            // If the thread cannot be started, this thread reads.
            self.ahead = ReadAhead::start(&self.socket).ok();
        }
        Ok(())
    }

    fn receive(
        &mut self,
        buffer: &mut [u8],
        reader: &mut impl FeedReader,
        reads_ahead: bool,
    ) -> io::Result<FeedProgress> {
        let mut progress = FeedProgress::Backlog;
        for _ in 0..MAX_READS {
            if self.ahead.is_some() {
                progress = FeedProgress::Backlog;
                if self.take_ahead(reader)? {
                    continue;
                }
                if self.ahead.is_some() {
                    return Ok(FeedProgress::Ahead);
                }
            }
            self.start(reader, reads_ahead)?;
            if self.ahead.is_some() {
                continue;
            }
            match recv(&self.socket, &mut *buffer, RecvFlags::DONTWAIT) {
                Ok((len, _)) => progress = self.read(&buffer[..len], reader),
                Err(Errno::AGAIN) => return Ok(FeedProgress::Empty),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => reader.overrun(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(progress)
    }

    /// Takes in the next part that the read-ahead thread has read, and returns whether there was
    /// one. After the last part, this thread reads the socket again.
    fn take_ahead(&mut self, reader: &mut impl FeedReader) -> io::Result<bool> {
        let Some(mut ahead) = self.ahead.take() else { return Ok(false) };
        match ahead.next() {
            AheadPart::Read(bytes) => {
                self.read(&bytes, reader);
                ahead.give_back(bytes);
            }
            AheadPart::Failed(Errno::NOBUFS) => reader.overrun(),
            AheadPart::Failed(error) => return Err(error.into()),
            AheadPart::Missing => {
                self.ahead = Some(ahead);
                return Ok(false);
            }
            AheadPart::End => return Ok(false),
        }
        self.ahead = Some(ahead);
        Ok(true)
    }

    /// Passes the messages in a buffer to the reader. Returns `Dumping` if one of them belongs to
    /// the dump in progress, otherwise `Backlog`.
    fn read(&mut self, bytes: &[u8], reader: &mut impl FeedReader) -> FeedProgress {
        let mut progress = FeedProgress::Backlog;
        for message in Messages::new(bytes) {
            let Ok(message) = message else {
                // The message could not be parsed. It may have announced any change, so it counts
                // as a lost notification.
                reader.overrun();
                continue;
            };
            if message.header.sequence == self.sequence {
                progress = FeedProgress::Dumping;
            }
            match message.body {
                MessageBody::Done(done) if message.header.sequence == self.sequence => {
                    self.finish(done.errno == 0, reader);
                }
                MessageBody::Error(error) if error.request == self.sequence => {
                    self.finish(error.errno == 0, reader);
                }
                _ => reader.message(&message),
            }
        }
        progress
    }

    /// Ends the dump in progress.
    fn finish(&mut self, is_whole: bool, reader: &mut impl FeedReader) {
        let Some(kind) = self.running.take() else { return };
        if is_whole { reader.end(kind) } else { reader.abort(kind) }
    }
}

/// Makes the kernel queue many more messages than by default. Without CAP_NET_ADMIN,
/// `net.core.rmem_max` limits the size of the queue. The socket then overruns more often, and each
/// overrun requires new dumps.
fn enlarge(socket: &Socket) {
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER);
    if forced.is_err() {
        // An error is ignored, because the default size works too.
        let _ = sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use slipring_rtnetlink::Change;
    use slipring_test_support::{Namespace, TIMEOUT};

    use super::*;

    /// The routes of the main table that exist according to the messages so far.
    #[derive(Default)]
    struct Routes {
        known: BTreeSet<String>,
        seen: BTreeSet<String>,
        ended: Vec<DumpKind>,
        overruns: u32,
    }

    impl FeedReader for Routes {
        fn begin(&mut self, kind: DumpKind) {
            if kind == DumpKind::Ipv4Routes {
                self.seen.clear();
            }
        }

        fn end(&mut self, kind: DumpKind) {
            if kind == DumpKind::Ipv4Routes {
                self.known = self.seen.clone();
            }
            self.ended.push(kind);
        }

        fn abort(&mut self, kind: DumpKind) {
            panic!("{kind:?} was refused");
        }

        fn message(&mut self, message: &NetlinkMessage<'_>) {
            if let MessageBody::Route(change, route) = message.body
                && route.table == slipring_rtnetlink::TABLE_MAIN
            {
                let name = format!("{}/{}", route.destination, route.prefix_len);
                match change {
                    Change::New => {
                        self.seen.insert(name.clone());
                        self.known.insert(name);
                    }
                    Change::Deleted => {
                        self.seen.remove(&name);
                        self.known.remove(&name);
                    }
                }
            }
        }

        fn overrun(&mut self) {
            self.overruns += 1;
        }
    }

    /// Reads until `done` returns true.
    fn read_until(feed: &mut KernelFeed, routes: &mut Routes, done: impl Fn(&Routes) -> bool) {
        loop {
            while !feed.receive(routes, false).unwrap().must_wait() {}
            if done(routes) && feed.is_quiet() {
                return;
            }
            wait_for_more(feed);
        }
    }

    /// Waits until there is more to read.
    fn wait_for_more(feed: &KernelFeed) {
        let mut fds = feed.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let limit = i64::try_from(TIMEOUT.as_secs()).unwrap();
        let ready = poll(&mut fds, Some(&Timespec { tv_sec: limit, tv_nsec: 0 }));
        // Even if a signal interrupted the poll, the messages that have arrived are read.
        assert_ne!(ready, Ok(0), "nothing more came");
    }

    fn in_namespace(test: impl FnOnce(&Namespace) + Send) {
        let Some(namespace) = Namespace::new() else { return };
        namespace.ip("link add r0 type veth peer name p0");
        namespace.ip("link set lo up");
        namespace.ip("link set p0 up");
        namespace.ip("link set r0 up");
        namespace.ip("addr add 10.1.0.1/24 dev r0");
        test(&namespace);
    }

    #[test]
    fn routes_from_before_and_after_the_dump_are_told() {
        in_namespace(|namespace| {
            namespace.ip("route add 10.9.0.0/16 via 10.1.0.2");
            let (mut feed, mut routes) = namespace.run(|| {
                let mut feed = KernelFeed::open().unwrap();
                for kind in DumpKind::ALL {
                    feed.request(kind);
                }
                (feed, Routes::default())
            });
            read_until(&mut feed, &mut routes, |routes| routes.ended.len() == DumpKind::ALL.len());
            assert!(routes.known.contains("10.1.0.0/24") && routes.known.contains("10.9.0.0/16"));
            namespace.ip("route add 10.8.0.0/16 via 10.1.0.2");
            namespace.ip("route del 10.9.0.0/16");
            read_until(&mut feed, &mut routes, |routes| {
                routes.known.contains("10.8.0.0/16") && !routes.known.contains("10.9.0.0/16")
            });
        });
    }

    #[test]
    fn a_dump_that_is_read_ahead_is_complete_and_in_order_with_changes() {
        // More routes than fit into the buffers that are read ahead.
        const COUNT: u32 = 60_000;
        let prefix =
            |n: u32| format!("10.{}.{}.{}/30", 64 + (n >> 14), n >> 6 & 255, (n & 63) << 2);
        in_namespace(|namespace| {
            let add = |n| format!("route add {} via 10.1.0.2\n", prefix(n));
            namespace.ip_batch(&(0..COUNT).map(add).collect::<String>());
            let (mut feed, mut routes) = namespace.run(|| {
                let mut feed = KernelFeed::open().unwrap();
                feed.request(DumpKind::Ipv4Routes);
                (feed, Routes::default())
            });
            while routes.seen.is_empty() {
                let must_wait = feed.receive(&mut routes, true).unwrap().must_wait();
                assert!(feed.routes.ahead.is_some());
                if must_wait && routes.seen.is_empty() {
                    wait_for_more(&feed);
                }
            }
            namespace.ip(&format!("route del {}", prefix(0)));
            namespace.ip("route add 10.8.0.0/16 via 10.1.0.2");
            read_until(&mut feed, &mut routes, |routes| {
                !routes.ended.is_empty() && routes.known.contains("10.8.0.0/16")
            });
            let is_known = |n: &u32| routes.known.contains(&prefix(*n));
            assert_eq!((1..COUNT).filter(is_known).count(), COUNT as usize - 1);
            assert!(!is_known(&0) && routes.overruns == 0);
        });
    }

    #[test]
    fn an_overrun_is_told_and_a_dump_after_it_is_complete() {
        in_namespace(|namespace| {
            let (mut feed, mut routes) = namespace.run(|| {
                let feed = KernelFeed::open().unwrap();
                // The smallest buffer has space for a few notifications.
                sockopt::set_socket_recv_buffer_size(&feed.routes.socket, 1).unwrap();
                (feed, Routes::default())
            });
            for number in 0..200 {
                namespace.ip(&format!("route add 10.7.{number}.0/24 via 10.1.0.2"));
            }
            while feed.receive(&mut routes, false).unwrap() > FeedProgress::Empty {}
            assert!(routes.overruns > 0 && routes.known.len() < 200);
            feed.request(DumpKind::Ipv4Routes);
            read_until(&mut feed, &mut routes, |routes| routes.ended == [DumpKind::Ipv4Routes]);
            let added = (0..200).filter(|n| routes.known.contains(&format!("10.7.{n}.0/24")));
            assert_eq!(added.count(), 200);
        });
    }
}
