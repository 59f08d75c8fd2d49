//! The native door: the same calls over a socket, for programs that know of us. Beside them such a
//! program gets its user's memory as a descriptor, and rings that it syncs in its own process.
//!
//! ```text
//!   program                         this thread                                 elsewhere
//!   connect       ------------->    who is it, may it?  --> Open
//!   Call          ------------->    syncs, polls, lends; requests  ---------->  desk
//!                 <-------------    Answer  <---------------------------------
//!   asleep        <-------------    Wake    <---------------------------------  Notify
//!   hangs up      ------------->    ------------------------------------------> closers: Open is dropped
//! ```
//!
//! # Invariants
//! 1. The thread never waits for a program: it neither reads its memory nor lets a full socket stop
//!    it, which ends the connection instead.
//! 2. Who may open the device may connect, and nobody else.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{Shutdown, UCred, shutdown};
use rustix::process::{Resource, getrlimit};
use slipring_netmap::{CallerMemory, Errno, Events, Kicks, Lent, Netmap, Notify, Open};
use slipring_proto::{
    Answer, Call, LentRing, Listener, MAX_MESSAGE, MAX_RINGS, Op, Piece, Said, receive, send,
};
use slipring_ring::Doorbell;

use crate::caller::opener;
use crate::server::{Server, perform};

/// One user's share of all descriptors, as a divisor: a program takes two, and a few while it is
/// lent rings. Root has no limit.
const SHARE: u64 = 32;

/// The socket and who is connected.
#[derive(Debug)]
pub(crate) struct Native {
    server: Arc<Server>,
    kicks: Arc<Kicks>,
    listener: Listener,
    epoll: OwnedFd,
    stop: Doorbell,
    stopped: AtomicBool,
}

/// The events' numbers of what is no program.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST: u64 = 2;

/// A program's connection.
struct Connection {
    socket: OwnedFd,
}

impl Connection {
    /// Says something. A program that does not read what it asked for is cut off.
    fn say(&self, said: &Said, fds: &[OwnedFd]) {
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        if send(&self.socket, &said.to_bytes(), &fds).is_err() {
            // It may be gone already.
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    fn answer(&self, answer: Result<Reply, Errno>) {
        let refused = |error: Errno| Reply::from(Answer::plain(-error.raw_os_error()));
        let Reply { answer, fds } = answer.unwrap_or_else(refused);
        self.say(&Said::Answer(answer), &fds);
    }
}

/// What an answer carries.
struct Reply {
    answer: Answer,
    fds: Vec<OwnedFd>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self { answer, fds: Vec::new() }
    }
}

/// Wakes the program, as long as it is connected.
struct Bell(Weak<Connection>);

impl Notify for Bell {
    fn notify(&self, _: u64) {
        if let Some(connection) = self.0.upgrade() {
            connection.say(&Said::Wake, &[]);
        }
    }
}

/// A program.
struct Program {
    connection: Arc<Connection>,
    /// Why it is not let in is told when it asks for something.
    open: Result<Arc<Open>, Errno>,
    uid: u32,
}

/// Who is connected, by the numbers of their events.
struct Hall {
    programs: HashMap<u64, Program>,
    next: u64,
    /// Given up for a moment where there are no descriptors left, to send somebody away.
    spare: Option<OwnedFd>,
}

/// The parts of a program's memory that it has sent along.
struct Pieces(Vec<Piece>);

impl Pieces {
    /// The bytes at `addr`, if one piece has them all.
    fn at(&mut self, addr: u64, len: usize) -> Result<&mut [u8], Errno> {
        let found = self.0.iter_mut().find_map(|piece| {
            let from = usize::try_from(addr.checked_sub(piece.addr)?).ok()?;
            piece.bytes.get_mut(from..from.checked_add(len)?)
        });
        found.ok_or(Errno::FAULT)
    }
}

impl CallerMemory for Pieces {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        out.copy_from_slice(self.at(addr, out.len())?);
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.at(addr, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Native {
    pub(crate) fn new(
        server: Arc<Server>,
        kicks: Arc<Kicks>,
        listener: Listener,
    ) -> io::Result<Arc<Self>> {
        let (epoll, stop) = (epoll::create(CreateFlags::CLOEXEC)?, Doorbell::new()?);
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
        let stopped = AtomicBool::new(false);
        Ok(Arc::new(Self { server, kicks, listener, epoll, stop, stopped }))
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.stop.ring();
    }

    /// Serves until it is stopped; then all programs are cut off.
    pub(crate) fn work(&self) {
        let spare = self.epoll.try_clone().ok();
        let mut hall = Hall { programs: HashMap::new(), next: FIRST, spare };
        let mut events = Vec::with_capacity(64);
        let mut buffer = vec![0; MAX_MESSAGE];
        while !self.stopped.load(Ordering::Acquire) {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    STOP => {}
                    LISTENER => self.let_in(&mut hall),
                    number => {
                        let program = hall.programs.get(&number);
                        if program.is_some_and(|program| !self.hear(program, &mut buffer)) {
                            hall.programs
                                .remove(&number)
                                .into_iter()
                                .for_each(|one| self.close(one));
                        }
                    }
                }
            }
        }
        hall.programs.into_values().for_each(|program| self.close(program));
    }

    fn let_in(&self, hall: &mut Hall) {
        let (socket, who) = match self.listener.accept() {
            Ok(new) => new,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => {
                drop(hall.spare.take());
                drop(self.listener.accept());
                hall.spare = self.epoll.try_clone().ok();
                return;
            }
        };
        let uid = who.uid.as_raw();
        let theirs = hall.programs.values().filter(|one| one.uid == uid).count() as u64;
        let share = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE;
        if uid != 0 && theirs >= share {
            return;
        }
        let connection = Arc::new(Connection { socket });
        let open = self.open(&connection, &who).map(Arc::new);
        let data = EventData::new_u64(hall.next);
        if epoll::add(&self.epoll, &connection.socket, data, EventFlags::IN).is_ok() {
            hall.programs.insert(hall.next, Program { connection, open, uid });
            hall.next += 1;
        }
    }

    fn open(&self, connection: &Arc<Connection>, who: &UCred) -> Result<Open, Errno> {
        let uid = who.uid.as_raw();
        let pid = who.pid.as_raw_nonzero().get() as u32;
        let namespaces = self.server.namespaces();
        let mut opener = opener(namespaces, pid, uid)?;
        // That of the very thread, where the process has several.
        let (netns, held) = namespaces.of_socket(connection.socket.as_fd(), uid)?;
        (opener.netns, opener.netns_fd) = (netns, Some(held));
        if !self.server.permissions().admit(uid, &opener.gids) {
            return Err(Errno::ACCESS);
        }
        let domain = self.server.domain(uid)?;
        let bell = Arc::new(Bell(Arc::downgrade(connection)));
        Ok(self.server.netmap().open(domain, opener, bell))
    }

    /// What a program says; false if it is gone, or should be.
    fn hear(&self, program: &Program, buffer: &mut [u8]) -> bool {
        match receive(&program.connection.socket, buffer) {
            Ok(got) if got.len == 0 => false,
            Ok(got) => match Call::read(&buffer[..got.len]) {
                Some(call) => match &program.open {
                    Ok(open) => {
                        self.obey(&program.connection, open, call);
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

    fn obey(&self, connection: &Arc<Connection>, open: &Arc<Open>, call: Call) {
        match call.op {
            Op::Ioctl if !Netmap::is_quick(call.cmd) => self.later(connection, open, call),
            Op::Ioctl => connection.answer(ioctl(self.server.netmap(), open, call)),
            Op::Poll => {
                let events = open.poll(Events(call.cmd), call.arm.then_some(0), Duration::ZERO);
                connection.answer(Ok(Answer::plain(events.0 as i32).into()));
            }
            Op::Memory => connection.answer(memory(open)),
            Op::Sockets => connection.answer(sockets(self.server.netmap(), open, &call)),
            Op::Lend => connection.answer(open.lend(&self.kicks).and_then(lent)),
        }
    }

    /// Requests may take their time, by what they bind or attach.
    fn later(&self, connection: &Arc<Connection>, open: &Arc<Open>, call: Call) {
        let (connection, open) = (connection.clone(), open.clone());
        let (server, uid) = (self.server.clone(), open.uid());
        self.server.desk().submit(uid, move || {
            server.wait_for_closes(uid);
            let answer = ioctl(server.netmap(), &open, call);
            // Before the answer, as in `server.rs`.
            drop(open);
            connection.answer(answer);
        });
    }

    fn close(&self, program: Program) {
        let _ = epoll::delete(&self.epoll, &program.connection.socket);
        if let Ok(open) = program.open {
            self.server.close(open);
        }
    }
}

fn ioctl(netmap: &Netmap, open: &Open, call: Call) -> Result<Reply, Errno> {
    let Call { cmd, mut argument, pieces, .. } = call;
    let size = (cmd >> 16 & 0x3fff) as usize;
    if argument.len() != size {
        return Err(Errno::INVAL);
    }
    // A sync loop lasts, and has the caller's memory all the time.
    if Netmap::is_long(cmd, &argument) {
        return Err(Errno::OPNOTSUPP);
    }
    let mut pieces = Pieces(pieces);
    let done = perform(netmap, open, cmd, &mut argument, &mut pieces);
    let result = done.unwrap_or_else(|error| -error.raw_os_error());
    Ok(Answer { result, argument, pieces: pieces.0 }.into())
}

fn memory(open: &Open) -> Result<Reply, Errno> {
    let (file, bytes) = open.memory()?;
    let argument = bytes.to_ne_bytes().to_vec();
    Ok(Reply { answer: Answer { argument, ..Answer::plain(0) }, fds: vec![file] })
}

fn sockets(netmap: &Netmap, open: &Open, call: &Call) -> Result<Reply, Errno> {
    let token = call.argument.as_slice().try_into().map_err(|_| Errno::INVAL)?;
    let fds = netmap.sockets(open.uid(), u64::from_ne_bytes(token))?;
    Ok(Reply { answer: Answer::plain(fds.len() as i32), fds })
}

fn lent(lent: Lent) -> Result<Reply, Errno> {
    if lent.halves.len() > MAX_RINGS {
        return Err(Errno::OPNOTSUPP);
    }
    let Lent { who, stamps, kick, halves } = lent;
    let rings = halves.into_iter().map(|half| LentRing {
        receives: half.dir == slipring_netmap::Dir::Rx,
        ring: half.ring as u32,
        place: half.place,
        bell: half.bell,
        peer: half.peer,
    });
    let said = slipring_proto::Lent { who, stamps, kick, rings: rings.collect() };
    let (argument, fds) = said.into_parts();
    Ok(Reply { answer: Answer { argument, ..Answer::plain(0) }, fds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_memory_is_what_it_has_sent_along() {
        let piece = |addr, bytes: &[u8]| Piece { addr, bytes: bytes.to_vec() };
        let mut pieces = Pieces(vec![piece(0x1000, &[1, 2, 3, 4]), piece(u64::MAX - 1, &[5])]);
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
