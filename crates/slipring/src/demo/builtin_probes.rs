//! Built-in probes for machines without ping or iperf3: ordinary sockets in each namespace.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::probes::{NUM_ECHOES, PingResult, RttSummary, TcpResult};
use super::sandbox::{DemoNamespaces, LEFT_ADDR, RIGHT_ADDR};
use slipring_datapath::workers::WorkersStop;

/// How often a blocked call checks whether to stop.
const STOP_CHECK_PERIOD: Duration = Duration::from_millis(200);
/// Maximum time for an echo. The link takes far less, even on a busy machine.
const ECHO_TIMEOUT: Duration = Duration::from_secs(3);
/// Bytes written at a time.
const WRITE_CHUNK_BYTES: usize = 128 << 10;

/// Sends datagrams to a UDP echo server, one after the other, and returns the result; `None` if the
/// demo was stopped before the end.
pub(super) fn echo(net: &DemoNamespaces, stop: &WorkersStop) -> io::Result<Option<PingResult>> {
    let server = net.right.run(|| UdpSocket::bind((RIGHT_ADDR, 7)))?;
    let client = net.left.run(|| UdpSocket::bind((LEFT_ADDR, 0)))?;
    client.connect((RIGHT_ADDR, 7))?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(STOP_CHECK_PERIOD))?;
    }
    let mut times = Vec::new();
    for number in 0..NUM_ECHOES {
        if stop.is_set() {
            return Ok(None);
        }
        times.extend(round_trip(&client, &server, number, stop)?);
    }
    Ok(Some(PingResult {
        by: "slipring's own echo",
        sent: NUM_ECHOES,
        received: times.len() as u32,
        rtt: summed(&times),
    }))
}

/// Returns the time until the echo of one datagram arrives; `None` if none arrives within
/// [`ECHO_TIMEOUT`].
fn round_trip(
    client: &UdpSocket,
    server: &UdpSocket,
    number: u32,
    stop: &WorkersStop,
) -> io::Result<Option<Duration>> {
    let (start, echo) = (Instant::now(), number.to_be_bytes());
    let arrives = |socket| arrival(socket, echo, start + ECHO_TIMEOUT, stop);
    client.send(&echo)?;
    let Some(from) = arrives(server)? else { return Ok(None) };
    server.send_to(&echo, from)?;
    Ok(arrives(client)?.map(|_| start.elapsed()))
}

/// Waits for a datagram with the bytes `echo` and returns its sender; `None` if none arrives before
/// the deadline or the stop. Skips other datagrams, such as late echoes.
fn arrival(
    socket: &UdpSocket,
    echo: [u8; 4],
    deadline: Instant,
    stop: &WorkersStop,
) -> io::Result<Option<SocketAddr>> {
    let mut bytes = [0; 4];
    while Instant::now() < deadline && !stop.is_set() {
        match timeout_as_none(socket.recv_from(&mut bytes))? {
            Some((_, from)) if bytes == echo => return Ok(Some(from)),
            _ => {}
        }
    }
    Ok(None)
}

/// Returns `None` if the call ended early, because its timeout expired or a signal interrupted it.
/// Returns other errors unchanged.
fn timeout_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

fn summed(times: &[Duration]) -> Option<RttSummary> {
    let ns = |time: Duration| time.as_nanos() as u64;
    let sum: Duration = times.iter().sum();
    Some(RttSummary {
        rtt_min_ns: ns(*times.iter().min()?),
        rtt_avg_ns: ns(sum) / times.len() as u64,
        rtt_max_ns: ns(*times.iter().max()?),
    })
}

/// Sends by TCP for `duration`, as much as the connection carries, and returns the result; `None`
/// if the demo was stopped before the end.
pub(super) fn transfer(
    net: &DemoNamespaces,
    duration: Duration,
    stop: &WorkersStop,
) -> io::Result<Option<TcpResult>> {
    let listener = net.right.run(|| TcpListener::bind((RIGHT_ADDR, 0)))?;
    let to = listener.local_addr()?;
    let source = net.left.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(3)))?;
    let (sink, _) = listener.accept()?;
    // A socket belongs to the namespace in which it was created, so any thread can use it from here
    // on.
    thread::scope(|scope| {
        let sender = scope.spawn(|| send(source, duration, stop));
        let received = receive(sink, stop);
        match sender.join() {
            Ok(sent) => sent?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        let (bytes, time) = received?;
        let bits_per_sec = (bytes as f64 * 8.0 / time.as_secs_f64().max(1e-9)) as u64;
        let by = "slipring's own sockets";
        Ok((!stop.is_set()).then_some(TcpResult { by, bits_per_sec, retransmits: None }))
    })
}

/// Sends until the time is over, and then closes the stream, so that the receiver ends too.
fn send(mut stream: TcpStream, duration: Duration, stop: &WorkersStop) -> io::Result<()> {
    stream.set_write_timeout(Some(STOP_CHECK_PERIOD))?;
    let chunk = vec![0x5a; WRITE_CHUNK_BYTES];
    let start = Instant::now();
    while start.elapsed() < duration && !stop.is_set() {
        timeout_as_none(stream.write(&chunk))?;
    }
    Ok(())
}

/// Receives until the sender closes the stream, or `stop` is set; returns the number of bytes and
/// the time that this took.
fn receive(mut stream: TcpStream, stop: &WorkersStop) -> io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(STOP_CHECK_PERIOD))?;
    let start = Instant::now();
    let (mut bytes, mut buffer) = (0, vec![0; WRITE_CHUNK_BYTES]);
    while !stop.is_set() {
        match timeout_as_none(stream.read(&mut buffer))? {
            Some(0) => break,
            Some(len) => bytes += len as u64,
            None => {}
        }
    }
    Ok((bytes, start.elapsed()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::mpsc::channel;

    use slipring_datapath::workers::Workers;

    use super::*;

    #[test]
    fn echoes_that_are_late_are_not_taken_for_the_next_one() {
        let [server, client] = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        client.connect(server.local_addr().unwrap()).unwrap();
        let late = 0_u32.to_be_bytes();
        client.send(&late).unwrap();
        server.send_to(&late, client.local_addr().unwrap()).unwrap();
        let sockets = [&server, &client].map(|socket| socket.try_clone().unwrap());
        let (told, answer) = channel();
        let echo = move |stop: &WorkersStop| {
            told.send(round_trip(&client, &server, 1, stop)).unwrap();
            Ok(())
        };
        let worker = Workers::start(vec![Box::new(echo)]).unwrap();
        assert!(answer.recv().unwrap().unwrap().is_some());
        worker.finish().unwrap();
        for socket in sockets {
            socket.set_nonblocking(true).unwrap();
            assert!(socket.recv(&mut [0; 4]).is_err(), "nothing is left for the next one");
        }
    }

    #[test]
    fn round_trips_are_summed_and_none_is_no_sum() {
        let rtt = summed(&[10, 20, 60].map(Duration::from_micros)).unwrap();
        assert_eq!((rtt.rtt_min_ns, rtt.rtt_avg_ns, rtt.rtt_max_ns), (10_000, 30_000, 60_000));
        assert_eq!(summed(&[]), None);
    }
}
