//! The OpenMetrics endpoint: a small HTTP server in a separate thread.
//!
//! It answers `GET /metrics` with the text that the program's [`Metrics`] function returns, `GET /`
//! with a reference to that path, and any other request with an error. Each connection carries one
//! request. A client has two seconds and eight kilobytes for its request, and two seconds to read
//! the answer.
//!
//! ```text
//!   metrics.rs          address, start, end
//!   metrics/server.rs   one thread polls all connections, and ends some when there are many
//!   metrics/exchange.rs one request and its answer, without I/O
//! ```
//!
//! Silent clients cannot delay others. The server never blocks on a single connection. The number
//! of connections of each user of the machine, and of each other machine, is bounded. The end of
//! the program does not wait for any connection.
//!
//! Not for the web page, which `slipring serve` serves.

mod exchange;
mod server;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, eventfd};
use slipring_native_proto::listen_stream;

use server::{MetricsListener, MetricsServer};

/// The HTTP content type of the answer: OpenMetrics, version 1.0.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A running endpoint, which ends when it is dropped.
#[derive(Debug)]
pub struct MetricsEndpoint {
    address: MetricsAddress,
    /// An event that wakes the thread when the endpoint is dropped, so that the thread ends.
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// The address on which the endpoint listens.
#[derive(Debug, Clone)]
enum MetricsAddress {
    /// A TCP address and port.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(String),
}

impl MetricsEndpoint {
    /// Checks the syntax of an address. It must have a port, as `127.0.0.1:9100`, `[::1]:9100` and
    /// `localhost:9100` have, or be the path of a socket, which must contain a slash.
    ///
    /// # Errors
    /// A message that says which part of the address is missing or wrong.
    pub fn check(text: &str) -> Result<(), &'static str> {
        if text.contains('/') {
            return Ok(());
        }
        if text.parse::<IpAddr>().is_ok() {
            return Err("it has no port");
        }
        match text.rsplit_once(':') {
            None => Err("it is neither an address with a port nor a path with a slash"),
            Some(("", _)) => Err("it has no address"),
            Some((_, port)) if port.parse::<u16>().is_ok() => Ok(()),
            Some(_) => Err("its port is no number up to 65535"),
        }
    }

    /// Listens on `address`, which is an address with a port, or the path of a socket.
    ///
    /// If a killed program left a socket at the path, the socket is replaced.
    ///
    /// # Errors
    /// The system's error if `address` is neither an address with a port nor a path, or if it is in
    /// use.
    pub fn open(address: &str, metrics: Metrics) -> io::Result<Self> {
        let (address, listener) = if address.contains('/') {
            let listener = listen_stream(Path::new(address))?;
            (MetricsAddress::Unix(address.to_owned()), MetricsListener::Unix(listener))
        } else {
            let listener = TcpListener::bind(address)?;
            (MetricsAddress::Tcp(listener.local_addr()?), MetricsListener::Tcp(listener))
        };
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let server = MetricsServer::new(listener, stop.clone(), metrics)?;
        let thread = thread::Builder::new().name("metrics".to_owned());
        let thread = thread.spawn(move || server.run())?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Returns the TCP address on which the endpoint listens; `None` if it listens on a path. If
    /// the port was requested as 0, the address has the port that the system chose.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.address {
            MetricsAddress::Tcp(address) => Some(address),
            MetricsAddress::Unix(_) => None,
        }
    }
}

/// Returns the current metrics as OpenMetrics text with its end mark, or says why they are not
/// available.
pub type Metrics = Box<dyn Fn() -> Result<String, String> + Send>;

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        // If the eventfd's counter is full, the write fails, but the thread is woken anyway.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        if let MetricsAddress::Unix(path) = &self.address {
            // The user may have removed the socket.
            let _ = std::fs::remove_file(path);
        }
        if let Some(thread) = self.thread.take() {
            // No client can make the thread panic. If it panicked nevertheless, there would be
            // nothing left to do, because the endpoint ends here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use std::time::Instant;

    use slipring_test_support::eventually;

    use super::exchange::MAX_REQUEST_BYTES;
    use super::server::CLIENT_TIMEOUT;
    use super::*;

    fn ask(endpoint: &MetricsEndpoint, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(endpoint.address().unwrap()).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn metrics_are_served_as_they_are_at_that_moment() {
        let count = AtomicU32::new(0);
        let metrics = move || Ok(format!("x {}\n# EOF\n", count.fetch_add(1, Ordering::Relaxed)));
        let endpoint = MetricsEndpoint::open("127.0.0.1:0", Box::new(metrics)).unwrap();
        for expected in ["x 0\n# EOF\n", "x 1\n# EOF\n"] {
            let answer = ask(&endpoint, b"GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
            assert!(answer.contains(CONTENT_TYPE), "{answer}");
            assert!(answer.ends_with(&format!("\r\n\r\n{expected}")), "{answer}");
        }
    }

    #[test]
    fn whatever_a_client_sends_the_next_one_is_served() {
        let endpoint =
            MetricsEndpoint::open("127.0.0.1:0", Box::new(|| Ok("# EOF\n".to_owned()))).unwrap();
        for (request, status) in [
            (&b"GET /other HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
            (b"\xff\xfe\r\n\r\n", "400"),
            (b"GET", "400"),
            (b"", "400"),
            (&[b'x'; 3 * MAX_REQUEST_BYTES], "400"),
        ] {
            // If the server closes the connection before it has read the whole request, the
            // connection may be reset.
            if request.len() <= MAX_REQUEST_BYTES {
                let answer = ask(&endpoint, request);
                assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
            } else {
                let _ = TcpStream::connect(endpoint.address().unwrap()).unwrap().write_all(request);
            }
        }
        assert!(ask(&endpoint, b"GET /metrics HTTP/1.0\r\n\r\n").contains("200 OK"));
    }

    #[test]
    fn figures_that_are_not_known_are_an_error_and_not_an_empty_page() {
        let metrics = || Err("the program ends".to_owned());
        let endpoint = MetricsEndpoint::open("127.0.0.1:0", Box::new(metrics)).unwrap();
        let answer = ask(&endpoint, b"GET /metrics HTTP/1.1\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("the program ends\n"));
    }

    #[test]
    fn an_address_has_a_port_or_is_a_path() {
        for good in ["127.0.0.1:9100", "[::1]:9100", "localhost:0", "./x.sock", "/run/x"] {
            assert_eq!(MetricsEndpoint::check(good), Ok(()), "{good}");
        }
        for bad in ["127.0.0.1", "::1", "9100", ":9100", "localhost:x", "localhost:70000", ""] {
            assert!(MetricsEndpoint::check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_socket_is_gone_with_its_endpoint() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.sock");
        let address = path.to_str().unwrap();
        let endpoint =
            MetricsEndpoint::open(address, Box::new(|| Ok("# EOF\n".to_owned()))).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("# EOF\n"));
        assert!(MetricsEndpoint::open(address, Box::new(|| Ok(String::new()))).is_err());
        drop(endpoint);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_a_killed_program_left_is_replaced_and_no_other_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.sock");
        let open = || MetricsEndpoint::open(path.to_str().unwrap(), Box::new(|| Ok(String::new())));
        drop(UnixListener::bind(&path).unwrap());
        drop(open().unwrap());
        std::fs::write(&path, "notes").unwrap();
        assert_eq!(open().unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read(&path).unwrap(), b"notes");
    }

    fn endpoint() -> MetricsEndpoint {
        MetricsEndpoint::open("127.0.0.1:0", Box::new(|| Ok("# EOF\n".to_owned()))).unwrap()
    }

    /// Sends the first half of a request on many connections, then a whole request on another one.
    /// After its answer, sends the second halves. Returns all answers, or an error if the server
    /// has closed a connection.
    fn answers_beside_silence() -> io::Result<Vec<String>> {
        let endpoint = endpoint();
        let address = endpoint.address().unwrap();
        // 60 of the 64 connections that the server has at most.
        let silent =
            (0..60).map(|_| TcpStream::connect(address)).collect::<io::Result<Vec<_>>>()?;
        for mut half in &silent {
            half.write_all(b"GET /metrics")?;
        }
        let mut answers = vec![ask(&endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")];
        for mut half in &silent {
            half.write_all(b" HTTP/1.1\r\n\r\n")?;
            let mut answer = String::new();
            half.read_to_string(&mut answer)?;
            answers.push(answer);
        }
        Ok(answers)
    }

    #[test]
    fn silent_connections_delay_nobody_who_asks() {
        let is_good = |answers: &Vec<String>| answers.iter().all(|one| one.contains("200 OK"));
        // On a busy machine, this may take longer than the time that each client has for its
        // request. So it is attempted several times.
        let answers = eventually("an attempt that is quick enough", || {
            let start = Instant::now();
            let answers = answers_beside_silence();
            let counts = answers.as_ref().is_ok_and(is_good) || start.elapsed() < CLIENT_TIMEOUT;
            counts.then_some(answers)
        });
        let answers = answers.unwrap();
        assert!(is_good(&answers), "{answers:?}");
    }

    #[test]
    fn a_client_that_trickles_has_no_more_time_than_others() {
        let endpoint = endpoint();
        let mut stream = TcpStream::connect(endpoint.address().unwrap()).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (mut writer, seen) = (stream.try_clone().unwrap(), ended.clone());
        let trickle = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) && writer.write_all(b"x").is_ok() {
                thread::yield_now();
                thread::park_timeout(std::time::Duration::from_millis(50));
            }
        });
        // The connection ends with a close or a reset, although the client keeps sending.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        ended.store(true, Ordering::Relaxed);
        trickle.join().unwrap();
        assert!(answer.is_empty());
    }

    #[test]
    fn the_end_waits_for_no_client() {
        let endpoint = endpoint();
        let mut silent = TcpStream::connect(endpoint.address().unwrap()).unwrap();
        assert!(ask(&endpoint, b"GET / HTTP/1.1\r\n\r\n").contains("200 OK"));
        drop(endpoint);
        // The server has closed the connection after the timeout, without an answer.
        silent.set_nonblocking(true).unwrap();
        assert!(
            !matches!(silent.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
        );
    }
}
