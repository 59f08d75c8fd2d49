//! The native socket API: the calls of `/dev/netmap` over a socket, for programs that are written
//! for slipring. Such a program can also get a descriptor of its user's netmap memory. It can
//! borrow rings, which it then syncs in its own process.
//!
//! ```text
//!   program              this thread                                elsewhere
//!   connect      ------->  check credentials and permission  ---->  OpenHandle
//!   NativeCall   ------->  syncs, polls, delegations; requests  ->  blocking pool
//!                <-------  NativeAnswer  <------------------------
//!   asleep       <-------  Wake  <--------------------------------  Notify
//!   hangs up     ------------------------------------------------>  close pool drops OpenHandle
//! ```
//!
//! # Invariants
//! 1. The thread never waits for a program. It does not read the program's memory. If the program's
//!    socket is full, the thread ends the connection instead of waiting.
//! 2. A user may connect if, and only if, the user may open the device.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{Shutdown, UCred, shutdown};
use rustix::process::{Resource, getrlimit};
use slipring_native_proto::{
    DelegatedRing, MAX_MESSAGE, MAX_RINGS, MemoryFragment, NativeAnswer, NativeCall,
    NativeListener, NativeMessage, NativeOp, receive, send,
};
use slipring_netmap::{
    CallerMemory, Errno, KickDispatcher, Netmap, Notify, OpenHandle, PipeDelegation, PollEvents,
};
use slipring_ring::Doorbell;

use crate::caller::opener;
use crate::server::{FuseServer, perform};

/// The connections of one user may be at most this fraction (1 / 32) of the descriptors that this
/// process can have. A connection needs two descriptors, and a few more while its program has
/// borrowed rings. Root has no limit.
const SHARE_DIVISOR: u64 = 32;

/// The listening socket, and what is needed to stop the thread that serves it.
#[derive(Debug)]
pub(crate) struct NativeServer {
    server: Arc<FuseServer>,
    kick_dispatcher: Arc<KickDispatcher>,
    listener: NativeListener,
    epoll: OwnedFd,
    stop: Doorbell,
    stopped: AtomicBool,
}

/// Event number of the listening socket. The next two constants are the event number of the stop
/// event, and the first event number for connections.
const LISTENER_EVENT: u64 = 0;
const STOP_EVENT: u64 = 1;
const FIRST_PEER_EVENT: u64 = 2;

/// The connection of a program.
struct NativeConnection {
    socket: OwnedFd,
}

impl NativeConnection {
    /// Sends a message. If the program does not read its replies, it is disconnected.
    fn send(&self, message: &NativeMessage, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if send(&self.socket, &message.to_bytes(), &fds).is_err() {
            // An error is ignored, because the program may already have ended.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    fn answer(&self, answer: Result<NativeReply, Errno>) {
        let refused = |error: Errno| NativeReply::from(NativeAnswer::plain(-error.raw_os_error()));
        let NativeReply { answer, fds } = answer.unwrap_or_else(refused);
        self.send(&NativeMessage::Answer(answer), &fds);
    }
}

/// A reply to a request, with the descriptors that it passes.
struct NativeReply {
    answer: NativeAnswer,
    fds: Vec<OwnedFd>,
}

impl From<NativeAnswer> for NativeReply {
    fn from(answer: NativeAnswer) -> Self {
        Self { answer, fds: Vec::new() }
    }
}

/// Wakes the program, as long as it is connected.
struct NativeNotifier(Weak<NativeConnection>);

impl Notify for NativeNotifier {
    fn notify(&self, _: u64) {
        if let Some(connection) = self.0.upgrade() {
            connection.send(&NativeMessage::Wake, &[]);
        }
    }
}

/// A connected program.
struct NativePeer {
    connection: Arc<NativeConnection>,
    /// The program's open handle. If the program may not open the device, this is the error that
    /// answers its first request.
    open: Result<Arc<OpenHandle>, Errno>,
    uid: u32,
}

/// The connected programs, by event number.
struct NativePeers {
    peers: HashMap<u64, NativePeer>,
    next: u64,
    /// A descriptor in reserve. If no other descriptor is available, this one is closed for a
    /// moment, so that a new connection can be accepted and then closed.
    reserve_fd: Option<OwnedFd>,
}

/// The fragments of a program's memory that the program has sent with its request.
struct FragmentMemory(Vec<MemoryFragment>);

impl FragmentMemory {
    /// Returns the `len` bytes at address `addr`; an error if no single fragment contains all of
    /// them.
    fn bytes_at(&mut self, addr: u64, len: usize) -> Result<&mut [u8], Errno> {
        let found = self.0.iter_mut().find_map(|piece| {
            let from = usize::try_from(addr.checked_sub(piece.addr)?).ok()?;
            piece.bytes.get_mut(from..from.checked_add(len)?)
        });
        found.ok_or(Errno::FAULT)
    }
}

impl CallerMemory for FragmentMemory {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        out.copy_from_slice(self.bytes_at(addr, out.len())?);
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.bytes_at(addr, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

impl NativeServer {
    pub(crate) fn new(
        server: Arc<FuseServer>,
        kicks: Arc<KickDispatcher>,
        listener: NativeListener,
    ) -> io::Result<Arc<Self>> {
        let (epoll, stop) = (epoll::create(CreateFlags::CLOEXEC)?, Doorbell::new()?);
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER_EVENT), EventFlags::IN)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP_EVENT), EventFlags::IN)?;
        let stopped = AtomicBool::new(false);
        Ok(Arc::new(Self { server, kick_dispatcher: kicks, listener, epoll, stop, stopped }))
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stop.ring();
    }

    /// Serves programs until the server is stopped. Then disconnects all programs.
    pub(crate) fn run(&self) {
        let spare = self.epoll.try_clone().ok();
        let mut clients =
            NativePeers { peers: HashMap::new(), next: FIRST_PEER_EVENT, reserve_fd: spare };
        let mut events = Vec::with_capacity(64);
        let mut buffer = vec![0; MAX_MESSAGE];
        while !self.stopped.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
            for event in &events {
                match event.data.u64() {
                    STOP_EVENT => {}
                    LISTENER_EVENT => self.accept_peer(&mut clients),
                    number => {
                        let program = clients.peers.get(&number);
                        if program.is_some_and(|program| !self.receive_call(program, &mut buffer)) {
                            clients
                                .peers
                                .remove(&number)
                                .into_iter()
                                .for_each(|one| self.close(one));
                        }
                    }
                }
            }
        }
        clients.peers.into_values().for_each(|program| self.close(program));
    }

    fn accept_peer(&self, clients: &mut NativePeers) {
        let (socket, credentials) = match self.listener.accept() {
            Ok(new) => new,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                drop(clients.reserve_fd.take());
                drop(self.listener.accept());
                clients.reserve_fd = self.epoll.try_clone().ok();
                return;
            }
        };
        let uid = credentials.uid.as_raw();
        let theirs = clients.peers.values().filter(|one| one.uid == uid).count() as u64;
        let share = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE_DIVISOR;
        if uid != 0 && theirs >= share {
            return;
        }
        let connection = Arc::new(NativeConnection { socket });
        let open = self.open(&connection, &credentials).map(Arc::new);
        let data = EventData::new_u64(clients.next);
        if epoll::add(&self.epoll, &connection.socket, data, EventFlags::IN).is_ok() {
            clients.peers.insert(clients.next, NativePeer { connection, open, uid });
            clients.next += 1;
        }
    }

    fn open(
        &self,
        connection: &Arc<NativeConnection>,
        credentials: &UCred,
    ) -> Result<OpenHandle, Errno> {
        let uid = credentials.uid.as_raw();
        let pid = credentials.pid.as_raw_nonzero().get() as u32;
        let namespaces = self.server.namespaces();
        let mut opener = opener(namespaces, pid, uid)?;
        // This is the namespace of the thread that made the socket. It may differ from that of the
        // process.
        let (netns, held) = namespaces.of_socket(connection.socket.as_fd(), uid)?;
        (opener.netns, opener.netns_fd) = (netns, Some(held));
        if !self.server.permissions().admit(uid, &opener.gids) {
            return Err(Errno::ACCESS);
        }
        let domain = self.server.domain(uid)?;
        let bell = Arc::new(NativeNotifier(Arc::downgrade(connection)));
        Ok(self.server.netmap().open(domain, opener, bell))
    }

    /// Receives one message. Returns false if the program has ended or must be disconnected.
    fn receive_call(&self, program: &NativePeer, buffer: &mut [u8]) -> bool {
        match receive(&program.connection.socket, buffer) {
            Ok(got) if got.len == 0 => false,
            Ok(got) => match NativeCall::read(&buffer[..got.len]) {
                Some(call) => match &program.open {
                    Ok(open) => {
                        self.handle_call(&program.connection, open, call);
                        true
                    }
                    Err(why) => {
                        program.connection.answer(Err(*why));
                        false
                    }
                },
                None => false,
            },
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    fn handle_call(
        &self,
        connection: &Arc<NativeConnection>,
        open: &Arc<OpenHandle>,
        call: NativeCall,
    ) {
        match call.op {
            NativeOp::Ioctl if !Netmap::is_sync(call.cmd) => {
                self.submit_call(connection, open, call)
            }
            NativeOp::Ioctl => connection.answer(ioctl(self.server.netmap(), open, call)),
            NativeOp::Poll => {
                let events = open.poll(PollEvents(call.cmd), call.arm.then_some(0), Duration::ZERO);
                connection.answer(Ok(NativeAnswer::plain(events.0 as i32).into()));
            }
            NativeOp::Memory => connection.answer(memory(open)),
            NativeOp::Sockets => connection.answer(sockets(self.server.netmap(), open, &call)),
            NativeOp::Lend => {
                connection.answer(open.lend(&self.kick_dispatcher).and_then(delegation_reply))
            }
        }
    }

    /// Runs a request in the blocking pool, because some requests take long, for example binding an
    /// interface.
    fn submit_call(
        &self,
        connection: &Arc<NativeConnection>,
        open: &Arc<OpenHandle>,
        call: NativeCall,
    ) {
        let (connection, open) = (connection.clone(), open.clone());
        let (server, uid) = (self.server.clone(), open.uid());
        self.server.blocking_pool().submit(uid, move || {
            server.wait_for_closes(uid);
            let answer = ioctl(server.netmap(), &open, call);
            // The handle is dropped before the reply is sent, as in `server.rs`.
            drop(open);
            connection.answer(answer);
        });
    }

    fn close(&self, program: NativePeer) {
        let _ = epoll::delete(&self.epoll, &program.connection.socket);
        if let Ok(open) = program.open {
            self.server.close(open);
        }
    }
}

fn ioctl(netmap: &Netmap, open: &OpenHandle, call: NativeCall) -> Result<NativeReply, Errno> {
    let NativeCall { cmd, mut argument, fragments: pieces, .. } = call;
    let size = (cmd >> 16 & 0x3fff) as usize;
    if argument.len() != size {
        return Err(Errno::INVAL);
    }
    // Sync loops are refused, because a sync loop does not return, and always accesses the caller's
    // memory.
    if Netmap::runs_until_cancelled(cmd, &argument) {
        return Err(Errno::OPNOTSUPP);
    }
    let mut pieces = FragmentMemory(pieces);
    let done = perform(netmap, open, cmd, &mut argument, &mut pieces);
    let result = done.unwrap_or_else(|error| -error.raw_os_error());
    Ok(NativeAnswer { result, argument, fragments: pieces.0 }.into())
}

fn memory(open: &OpenHandle) -> Result<NativeReply, Errno> {
    let (file, bytes) = open.memory()?;
    let argument = bytes.to_ne_bytes().to_vec();
    Ok(NativeReply { answer: NativeAnswer { argument, ..NativeAnswer::plain(0) }, fds: vec![file] })
}

fn sockets(netmap: &Netmap, open: &OpenHandle, call: &NativeCall) -> Result<NativeReply, Errno> {
    let token = call.argument.as_slice().try_into().map_err(|_| Errno::INVAL)?;
    let fds = netmap.take_sockets(open.uid(), u64::from_ne_bytes(token))?;
    Ok(NativeReply { answer: NativeAnswer::plain(fds.len() as i32), fds })
}

fn delegation_reply(delegation: PipeDelegation) -> Result<NativeReply, Errno> {
    if delegation.halves.len() > MAX_RINGS {
        return Err(Errno::OPNOTSUPP);
    }
    let PipeDelegation { client_id, writes_timestamps, kick, halves } = delegation;
    let rings = halves.into_iter().map(|half| DelegatedRing {
        receives: half.dir == slipring_netmap::TxRx::Rx,
        ring: half.ring as u32,
        layout: half.layout,
        doorbell: half.doorbell,
        peer_doorbell: half.peer_doorbell,
    });
    let delegation = slipring_native_proto::RingDelegation {
        client_id,
        writes_timestamps,
        kick,
        rings: rings.collect(),
    };
    let (argument, fds) = delegation.into_parts();
    Ok(NativeReply { answer: NativeAnswer { argument, ..NativeAnswer::plain(0) }, fds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_memory_is_what_it_has_sent_along() {
        let piece = |addr, bytes: &[u8]| MemoryFragment { addr, bytes: bytes.to_vec() };
        let mut pieces =
            FragmentMemory(vec![piece(0x1000, &[1, 2, 3, 4]), piece(u64::MAX - 1, &[5])]);
        let mut out = [0; 2];
        pieces.read(0x1002, &mut out).unwrap();
        assert_eq!(out, [3, 4]);
        pieces.write(0x1000, &[9]).unwrap();
        assert_eq!(pieces.0[0].bytes, [9, 2, 3, 4]);
        for addr in [0xfff, 0x1003, 0x1004, u64::MAX - 1, u64::MAX, 0] {
            assert_eq!(pieces.read(addr, &mut out), Err(Errno::FAULT), "{addr:#x}");
        }
    }
}
