//! The OpenMetrics endpoint: a tiny HTTP server on its own thread.
//!
//! It answers `GET /metrics` with the current text of the closure, `GET /` with a pointer to it,
//! and everything else with an error. Each connection serves one request, one connection after the
//! other. A client has two seconds and eight kilobytes for its request.
//!
//! Not for the web page, which `slipring serve` serves.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The content type of the text: OpenMetrics, version 1.0.0.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum time for a client's request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: usize = 8192;

/// A running endpoint, which ends on drop.
#[derive(Debug)]
pub struct MetricsEndpoint {
    address: MetricsAddress,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The address it listens on.
#[derive(Debug, Clone)]
enum MetricsAddress {
    /// An address and a port.
    Tcp(SocketAddr),
    /// The path of a socket.
    Unix(String),
}

impl MetricsEndpoint {
    /// Checks an address: `127.0.0.1:9100`, `[::1]:9100`, `localhost:9100` or the path of a socket,
    /// which has a slash in it.
    ///
    /// # Errors
    /// What is missing in the address.
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

    /// Listens on `place`: an address with a port, or the path of a socket.
    ///
    /// # Errors
    /// If it is neither, or in use.
    pub fn open(place: &str, metrics: Metrics) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (address, thread) = if place.contains('/') {
            let listener = UnixListener::bind(place)?;
            let thread =
                start(&stop, metrics, move || Ok(MetricsClient::Unix(listener.accept()?.0)))?;
            (MetricsAddress::Unix(place.to_owned()), thread)
        } else {
            let listener = TcpListener::bind(place)?;
            let address = listener.local_addr()?;
            let thread =
                start(&stop, metrics, move || Ok(MetricsClient::Tcp(listener.accept()?.0)))?;
            (MetricsAddress::Tcp(address), thread)
        };
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Returns the TCP address it listens on; a port 0 was replaced by a free one.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        match self.address {
            MetricsAddress::Tcp(address) => Some(address),
            MetricsAddress::Unix(_) => None,
        }
    }
}

/// Returns the current metrics, as OpenMetrics text with its end mark, or why they are unavailable.
pub type Metrics = Box<dyn Fn() -> Result<String, String> + Send>;

impl Drop for MetricsEndpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread waits for a client: this connection wakes it for the last time.
        match &self.address {
            MetricsAddress::Tcp(address) => {
                drop(TcpStream::connect_timeout(address, CLIENT_TIMEOUT))
            }
            MetricsAddress::Unix(path) => {
                drop(UnixStream::connect(path));
                // The file may have been removed by hand.
                let _ = std::fs::remove_file(path);
            }
        }
        if let Some(thread) = self.thread.take() {
            // The thread never panics on a client's input; if it did, the run is over anyway.
            let _ = thread.join();
        }
    }
}

/// The connection of a client.
enum MetricsClient {
    Tcp(TcpStream),
    Unix(UnixStream),
}

fn start(
    stop: &Arc<AtomicBool>,
    metrics: Metrics,
    accept: impl Fn() -> io::Result<MetricsClient> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let stop = stop.clone();
    thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let client = accept();
            if stop.load(Ordering::Relaxed) {
                return;
            }
            match client {
                // A client that fails affects only itself.
                Ok(client) => drop(client.serve(&metrics)),
                // Out of descriptors: wait until some are closed.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    })
}

impl MetricsClient {
    fn serve(self, metrics: &Metrics) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
                stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
                answer(stream, metrics)
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
                stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
                answer(stream, metrics)
            }
        }
    }
}

fn answer(mut stream: impl Read + Write, metrics: &Metrics) -> io::Result<()> {
    let request = request(&mut stream)?;
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match target(&request) {
        Some(("GET", "/metrics")) => match metrics() {
            Ok(text) => ("200 OK", CONTENT_TYPE, text),
            Err(why) => ("503 Service Unavailable", plain, format!("{why}\n")),
        },
        Some(("GET", "/")) => ("200 OK", plain, "see /metrics\n".to_owned()),
        Some(("GET", _)) => ("404 Not Found", plain, "only /metrics is here\n".to_owned()),
        Some(_) => ("405 Method Not Allowed", plain, "only GET is answered\n".to_owned()),
        None => ("400 Bad Request", plain, "this is no HTTP request\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Reads up to the empty line that ends the head of a request.
fn request(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        match stream.read(&mut piece)? {
            0 => break,
            read => request.extend_from_slice(&piece[..read]),
        }
    }
    Ok(request)
}

/// Returns method and path of a request, without its query.
fn target(request: &[u8]) -> Option<(&str, &str)> {
    let line = request.split(|&byte| byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let path = path.split('?').next()?;
    version.starts_with("HTTP/1.").then_some((method, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(endpoint: &MetricsEndpoint, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(endpoint.address().unwrap()).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[test]
    fn metrics_are_served_as_they_are_at_that_moment() {
        let count = std::sync::atomic::AtomicU32::new(0);
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
            // If the server closes before reading the whole request, the connection may be reset.
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
        let place = path.to_str().unwrap();
        let endpoint = MetricsEndpoint::open(place, Box::new(|| Ok("# EOF\n".to_owned()))).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("# EOF\n"));
        assert!(MetricsEndpoint::open(place, Box::new(|| Ok(String::new()))).is_err());
        drop(endpoint);
        assert!(!path.exists());
    }
}
