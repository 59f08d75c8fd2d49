//! Our own witnesses, for machines without ping or iperf3: ordinary sockets in each namespace.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::site::{LEFT, Net, RIGHT};
use super::witness::{ECHOES, Ping, Rtt, Tcp};
use slipring_program::workers::Stop;

/// How long an answer may take, and how often a blocked call looks whether to stop.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes written at a time.
const CHUNK: usize = 128 << 10;

/// Echoes by UDP, one after the other.
pub(super) fn echo(net: &Net, stop: &Stop) -> io::Result<Option<Ping>> {
    let server = net.right.run(|| UdpSocket::bind((RIGHT, 7)))?;
    let client = net.left.run(|| UdpSocket::bind((LEFT, 0)))?;
    client.connect((RIGHT, 7))?;
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    let mut times = Vec::new();
    for number in 0..ECHOES {
        if stop.is_set() {
            return Ok(None);
        }
        times.extend(round_trip(&client, &server, number)?);
    }
    Ok(Some(Ping {
        by: "slipring's own echo",
        sent: ECHOES,
        received: times.len() as u32,
        rtt: summed(&times),
    }))
}

/// The time until one datagram is back; `None` when it is lost.
fn round_trip(client: &UdpSocket, server: &UdpSocket, number: u32) -> io::Result<Option<Duration>> {
    let start = Instant::now();
    client.send(&number.to_be_bytes())?;
    let mut bytes = [0; 4];
    let Some((len, from)) = in_time(server.recv_from(&mut bytes))? else { return Ok(None) };
    server.send_to(&bytes[..len], from)?;
    Ok(in_time(client.recv(&mut bytes))?.map(|_| start.elapsed()))
}

/// Tells a timeout from a failure.
fn in_time<T>(result: io::Result<T>) -> io::Result<Option<T>> {
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

fn summed(times: &[Duration]) -> Option<Rtt> {
    let ns = |time: Duration| time.as_nanos() as u64;
    let sum: Duration = times.iter().sum();
    Some(Rtt {
        rtt_min_ns: ns(*times.iter().min()?),
        rtt_avg_ns: ns(sum) / times.len() as u64,
        rtt_max_ns: ns(*times.iter().max()?),
    })
}

/// As many bytes as TCP carries in `duration`.
pub(super) fn transfer(net: &Net, duration: Duration, stop: &Stop) -> io::Result<Option<Tcp>> {
    let listener = net.right.run(|| TcpListener::bind((RIGHT, 0)))?;
    let to = listener.local_addr()?;
    let source = net.left.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(3)))?;
    let (sink, _) = listener.accept()?;
    // Where a socket was made is where it belongs: from here on any thread will do.
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
        Ok((!stop.is_set()).then_some(Tcp { by, bits_per_sec, retransmits: None }))
    })
}

/// Sends until the time is over; then the end of the stream tells the other side.
fn send(mut stream: TcpStream, duration: Duration, stop: &Stop) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let chunk = vec![0x5a; CHUNK];
    let start = Instant::now();
    while start.elapsed() < duration && !stop.is_set() {
        in_time(stream.write(&chunk))?;
    }
    Ok(())
}

/// Bytes that arrived, and how long that took.
fn receive(mut stream: TcpStream, stop: &Stop) -> io::Result<(u64, Duration)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let start = Instant::now();
    let (mut bytes, mut buffer) = (0, vec![0; CHUNK]);
    while !stop.is_set() {
        match in_time(stream.read(&mut buffer))? {
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
