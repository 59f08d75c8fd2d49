//! Incomplete HTTP requests, for minutes. Clients connect, send a part of a request or nothing, and
//! keep the connection open. During this, the gateway must answer at least 90 % of the requests of
//! another client.
//!
//! `make soak` runs this. `SLIPRING_SOAK_SECONDS` sets the time.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use slipring_web::{WebGateway, WebOptions};

/// Number of attacking threads. The next constant is the number of connections that each keeps
/// open.
const ATTACKERS: usize = 4;
const KEPT: usize = 100;
/// The bytes that the attacking clients send: nothing, a letter, a line, a head without its end, or
/// a head without its body.
const PARTS: [&[u8]; 5] = [
    b"",
    b"G",
    b"GET /api/v1/running HTTP/1.1\r\n",
    b"GET /api/v1/running HTTP/1.1\r\nHost: localhost\r\nX: ",
    b"POST /api/v1/lab/set HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 9\r\n\r\n",
];

/// Connects again and again until it is stopped. Returns the number of attempts.
fn attack(address: SocketAddr, stop: &AtomicBool) -> usize {
    let mut kept = Vec::new();
    for at in 0.. {
        if stop.load(Ordering::Relaxed) {
            return at;
        }
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.write_all(PARTS[at % PARTS.len()]);
            kept.push(stream);
        }
        if kept.len() > KEPT {
            kept.remove(0);
        }
    }
    unreachable!("it counts until it is stopped")
}

/// Sends one whole request; returns the first line of the response, or the error.
fn ask(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = "GET /api/v1/running HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    // There are thousands of new connections, so the gateway may close this one before it reads the
    // request.
    let asked =
        stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
    match asked {
        Ok(_) => answer.lines().next().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
#[ignore = "takes minutes: make soak"]
fn half_open_http_locks_nobody_out() {
    let seconds = std::env::var("SLIPRING_SOAK_SECONDS").map_or(600, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let options = WebOptions::on("127.0.0.1:0".parse().unwrap(), dir.path());
    let gateway = WebGateway::open(options).unwrap();
    let (address, stop) = (gateway.address(), Arc::new(AtomicBool::new(false)));
    let attackers: Vec<_> = (0..ATTACKERS)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || attack(address, &stop))
        })
        .collect();
    let start = Instant::now();
    let (mut asked, mut answered) = (0_u64, 0_u64);
    while start.elapsed() < Duration::from_secs(seconds) {
        asked += 1;
        answered += u64::from(ask(address) == "HTTP/1.1 200 OK");
    }
    stop.store(true, Ordering::Relaxed);
    let attacks: usize = attackers.into_iter().map(|attacker| attacker.join().unwrap()).sum();
    println!("{attacks} half-open connections; {answered} of {asked} requests were answered");
    assert!(answered * 10 >= asked * 9, "{answered} of {asked} requests were answered");
}
