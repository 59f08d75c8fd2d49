//! The server thread: it polls all connections together and never blocks on a single one.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Metrics;
use super::exchange::{answer, is_complete};
use crate::peer_table::{ConnectionPeer, PeerTable};
use crate::socket_owner;

/// Maximum time for a client to send its request. It has the same time again to read the answer.
pub(super) const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the server accepts no connections after accepting one has failed, usually because the
/// process had no free descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of connections accepted before existing connections are served again.
const ACCEPT_BATCH: usize = 16;

/// The listening socket of the endpoint.
#[derive(Debug)]
pub(super) enum MetricsListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The state of the server thread.
pub(super) struct MetricsServer {
    listener: MetricsListener,
    stop: Arc<OwnedFd>,
    metrics: Metrics,
    /// All connections stay half-open in the sense of [`PeerTable`], because their requests are
    /// never admitted: reading answers slowly costs an attacker as little as staying silent.
    clients: PeerTable<MetricsConnection>,
    /// If set, the server accepts no connection before this time.
    accept_after: Option<Instant>,
}

/// One client's connection.
#[derive(Debug)]
struct MetricsConnection {
    stream: MetricsStream,
    state: ExchangeState,
    deadline: Instant,
}

#[derive(Debug)]
enum MetricsStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The state of a connection.
#[derive(Debug)]
enum ExchangeState {
    Asking(Vec<u8>),
    /// The answer, and how many of its bytes have been written.
    Answering(Vec<u8>, usize),
}

impl MetricsServer {
    /// Creates the state of the thread that serves `listener`.
    ///
    /// # Errors
    /// The system's error if the listener cannot be polled.
    pub(super) fn new(
        listener: MetricsListener,
        stop: Arc<OwnedFd>,
        metrics: Metrics,
    ) -> io::Result<Self> {
        match &listener {
            MetricsListener::Tcp(listener) => listener.set_nonblocking(true)?,
            MetricsListener::Unix(listener) => listener.set_nonblocking(true)?,
        }
        Ok(Self { listener, stop, metrics, clients: PeerTable::default(), accept_after: None })
    }

    /// Serves clients until the endpoint is dropped.
    pub(super) fn run(mut self) {
        while let Some(ready) = self.wait() {
            // Requests that have already arrived are read first, because accepting a new connection
            // may close an old one.
            for number in ready {
                self.advance(number);
            }
            self.accept_waiting();
            let now = Instant::now();
            self.clients.retain(|client| client.deadline > now);
        }
    }

    /// Waits for events. Returns the numbers of the connections that are ready, or `None` when the
    /// server must stop.
    fn wait(&mut self) -> Option<Vec<u64>> {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|after| *after > now);
        let accepts = if self.accept_after.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut polled = vec![
            PollFd::new(&self.stop, PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), accepts),
        ];
        polled.extend(self.clients.iter().map(|(_, client)| client.polled()));
        let deadlines = self.clients.iter().map(|(_, client)| client.deadline);
        let next = deadlines.chain(self.accept_after).min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if poll(&mut polled, timeout.as_ref()).is_err() {
            // A signal has interrupted the poll. Descriptors that are ready will still be ready at
            // the next poll.
            return Some(Vec::new());
        }
        if !polled[0].revents().is_empty() {
            return None;
        }
        let clients = self.clients.iter().zip(&polled[2..]);
        let ready = clients.filter(|(_, polled)| !polled.revents().is_empty());
        Some(ready.map(|((number, _), _)| number).collect())
    }

    /// Reads and writes on one connection until this would block.
    fn advance(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(number) else { return };
        // An error ends only this connection.
        if client.advance(&self.metrics).unwrap_or(true) {
            self.clients.remove(number);
        }
    }

    fn accept_waiting(&mut self) {
        for _ in 0..ACCEPT_BATCH {
            if self.accept_after.is_some() {
                return;
            }
            match self.listener.accept() {
                Ok((stream, peer)) => self.admit(stream, peer),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The client disconnected before its connection was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Usually, the process has no free descriptors. Some may be closed before the next
                // attempt.
                Err(_) => self.accept_after = Some(Instant::now() + ACCEPT_RETRY_DELAY),
            }
        }
    }

    fn admit(&mut self, stream: MetricsStream, peer: ConnectionPeer) {
        if stream.set_nonblocking().is_err() {
            return;
        }
        let deadline = Instant::now() + CLIENT_TIMEOUT;
        let state = ExchangeState::Asking(Vec::new());
        let client = MetricsConnection { stream, state, deadline };
        // The evicted connections are closed by dropping them.
        if let Some((number, _evicted)) = self.clients.acquire(peer, client) {
            self.advance(number);
        }
    }
}

impl MetricsListener {
    fn accept(&self) -> io::Result<(MetricsStream, ConnectionPeer)> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, client) = listener.accept()?;
                let peer = tcp_peer(client, stream.local_addr()?);
                (MetricsStream::Tcp(stream), peer)
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let credentials = rustix::net::sockopt::socket_peercred(&stream);
                let owner = credentials.ok().map(|credentials| credentials.uid.as_raw());
                (MetricsStream::Unix(stream), ConnectionPeer::user(owner))
            }
        })
    }
}

/// Returns the peer of a TCP connection: a user if the client is on this machine, otherwise a host.
fn tcp_peer(client: SocketAddr, server: SocketAddr) -> ConnectionPeer {
    let ip = client.ip().to_canonical();
    if !ip.is_loopback() && ip != server.ip().to_canonical() {
        return ConnectionPeer::machine(ip);
    }
    ConnectionPeer::user(socket_owner::owner(client, server))
}

impl AsFd for MetricsListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

impl MetricsConnection {
    fn polled(&self) -> PollFd<'_> {
        let interest = match self.state {
            ExchangeState::Asking(_) => PollFlags::IN,
            ExchangeState::Answering(..) => PollFlags::OUT,
        };
        PollFd::from_borrowed_fd(self.stream.as_fd(), interest)
    }

    /// Reads and writes until this would block. Returns whether the answer has been sent
    /// completely.
    fn advance(&mut self, metrics: &Metrics) -> io::Result<bool> {
        loop {
            match self.step(metrics) {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn step(&mut self, metrics: &Metrics) -> io::Result<bool> {
        match &mut self.state {
            ExchangeState::Asking(request) => {
                let mut piece = [0; 1024];
                let read = self.stream.read(&mut piece)?;
                request.extend_from_slice(&piece[..read]);
                if read == 0 || is_complete(request) {
                    self.state = ExchangeState::Answering(answer(request, metrics), 0);
                    self.deadline = Instant::now() + CLIENT_TIMEOUT;
                }
                Ok(false)
            }
            ExchangeState::Answering(answer, written) => {
                *written += self.stream.write(&answer[*written..])?;
                Ok(*written == answer.len())
            }
        }
    }
}

impl MetricsStream {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        }
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(into),
            Self::Unix(stream) => stream.read(into),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}
