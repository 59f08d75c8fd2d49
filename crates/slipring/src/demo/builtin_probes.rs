//! Built-in probes for machines without ping or iperf3: ordinary sockets in each namespace.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::probes::{NUM_ECHOES, PingResult, RttSummary, TcpResult};
use super::sandbox::{DemoNamespaces, LEFT_ADDR, RIGHT_ADDR};
use slipring_datapath::workers::WorkersStop;

/// Maximum time for a reply, and how often a blocked call checks whether to stop.
const REPLY_TIMEOUT: Duration = Duration::from_millis(200);
/// Bytes written at a time.
const WRITE_CHUNK_BYTES: usize = 128 << 10;

/// Sends UDP echoes, one after the other.
pub(super) fn echo(net: &DemoNamespaces, stop: &WorkersStop) -> io::Result<Option<PingResult>> {
    let server = net.right.run(|| UdpSocket::bind((RIGHT_ADDR, 7)))?;
    let client = net.left.run(|| UdpSocket::bind((LEFT_ADDR, 0)))?;
    client.connect((RIGHT_ADDR, 7))?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(REPLY_TIMEOUT))?;
    }
    let mut times = Vec::new();
    for number in 0..NUM_ECHOES {
        if stop.is_set() {
            return Ok(None);
        }
        times.extend(round_trip(&client, &server, number)?);
    }
    Ok(Some(PingResult {
        by: "slipring's own echo",
        sent: NUM_ECHOES,
        received: times.len() as u32,
        rtt: summed(&times),
    }))
}

/// Returns the time until the echo of one datagram arrives; `None` if it is lost.
fn round_trip(client: &UdpSocket, server: &UdpSocket, number: u32) -> io::Result<Option<Duration>> {
    let start = Instant::now();
    client.send(&number.to_be_bytes())?;
    let mut bytes = [0; 4];
    let Some((len, from)) = timeout_as_none(server.recv_from(&mut bytes))? else { return Ok(None) };
    server.send_to(&bytes[..len], from)?;
    Ok(timeout_as_none(client.recv(&mut bytes))?.map(|_| start.elapsed()))
}

/// Turns a timeout into `None`; returns other errors unchanged.
fn timeout_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
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

/// Sends as many bytes as TCP carries in `duration`.
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

/// Sends until the time is over, and then closes the stream, which ends the receiver.
fn send(mut stream: TcpStream, duration: Duration, stop: &WorkersStop) -> io::Result<()> {
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let chunk = vec![0x5a; WRITE_CHUNK_BYTES];
    let start = Instant::now();
    while start.elapsed() < duration && !stop.is_set() {
        timeout_as_none(stream.write(&chunk))?;
    }
    Ok(())
}

/// Returns the number of received bytes, and the time that this took.
fn receive(mut stream: TcpStream, stop: &WorkersStop) -> io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
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
    use super::*;

    #[test]
    fn round_trips_are_summed_and_none_is_no_sum() {
        let rtt = summed(&[10, 20, 60].map(Duration::from_micros)).unwrap();
        assert_eq!((rtt.rtt_min_ns, rtt.rtt_avg_ns, rtt.rtt_max_ns), (10_000, 30_000, 60_000));
        assert_eq!(summed(&[]), None);
    }
}
