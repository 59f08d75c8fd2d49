//! DNS relay for a command, if the name server answers only to programs of the outer namespace
//! (127.0.0.53 and the like).
//!
//! Each UDP query and each TCP connection has its own thread, and the number of threads is limited.
//! Queries and connections beyond the limit are dropped, as DNS permits.
//!
//! Not for: parsing DNS messages.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Port of DNS.
const DNS_PORT: u16 = 53;
/// Maximum time for an answer of the name server.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of queries that wait for their answers: this many over UDP, and this many over
/// TCP.
const MAX_QUESTIONS: usize = 64;
/// Longest datagram, in bytes.
const MAX_DATAGRAM_BYTES: usize = 65_535;

/// Starts to answer DNS queries at address `gateway`, in the outer namespace, with the answers of
/// name server `server`. The threads end with the process.
///
/// # Errors
/// `AddrInUse` if a name server that listens on all addresses already answers at `gateway`.
pub(super) fn start(gateway: IpAddr, server: IpAddr) -> io::Result<()> {
    let datagrams = UdpSocket::bind((gateway, DNS_PORT))?;
    let streams = TcpListener::bind((gateway, DNS_PORT))?;
    let server = SocketAddr::new(server, DNS_PORT);
    thread::spawn(move || answer_datagrams(Arc::new(datagrams), server));
    thread::spawn(move || answer_streams(&streams, server));
    Ok(())
}

fn answer_datagrams(socket: Arc<UdpSocket>, server: SocketAddr) {
    let under_way = Arc::new(());
    let mut bytes = vec![0; MAX_DATAGRAM_BYTES];
    loop {
        // If a client has ended, the answer that was sent to it causes an ICMP error, which the
        // next call returns. The error does not concern other queries, so it is ignored.
        let Ok((len, from)) = socket.recv_from(&mut bytes) else { continue };
        if Arc::strong_count(&under_way) > MAX_QUESTIONS {
            continue;
        }
        let (question, socket, counted) =
            (bytes[..len].to_vec(), socket.clone(), under_way.clone());
        thread::spawn(move || {
            if let Ok(answer) = query(&question, server) {
                let _ = socket.send_to(&answer, from);
            }
            drop(counted);
        });
    }
}

fn query(question: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
    socket.send(question)?;
    let mut answer = vec![0; MAX_DATAGRAM_BYTES];
    let len = socket.recv(&mut answer)?;
    answer.truncate(len);
    Ok(answer)
}

fn answer_streams(listener: &TcpListener, server: SocketAddr) {
    let under_way = Arc::new(());
    for asking in listener.incoming().flatten() {
        if Arc::strong_count(&under_way) > MAX_QUESTIONS {
            continue;
        }
        let counted = under_way.clone();
        thread::spawn(move || {
            // The client or the server may close the connection early; that is not an error.
            let _ = relay_stream(&asking, server);
            drop(counted);
        });
    }
}

fn relay_stream(asking: &TcpStream, server: SocketAddr) -> io::Result<()> {
    let answering = TcpStream::connect_timeout(&server, REPLY_TIMEOUT)?;
    for stream in [asking, &answering] {
        stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    }
    thread::scope(|scope| {
        scope.spawn(|| copy_stream(asking, &answering));
        copy_stream(&answering, asking)
    })
}

fn copy_stream(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let result = io::copy(&mut from, &mut to);
    to.shutdown(std::net::Shutdown::Write)?;
    result.map(drop)
}
