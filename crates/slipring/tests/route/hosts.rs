//! Tests with real hosts and routers around the router, from the view of their kernels and tools.
//!
//! ```text
//!   hA e0 ---- e0 rA e1 ---- e0 rT e1 ---- e0 rB e1 ---- e0 hB
//!      10.1.0/24    10.12.0/24    10.23.0/24    10.3.0/24        fd01, fd12, fd23, fd03 alike
//! ```
//! rT is the subject; rA and rB are kernels. In each link's network the left end has number 1 and
//! the right end 2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread::JoinHandle;

use slipring_test_support::{Namespace, Program, eventually, installed};

use crate::host::receive_datagram;
use crate::topology::{Subject, ip, launch, set, wait_for_own_addresses};

checks! {
    for crate::hosts::Chain:
    ping_works_in_both_families,
    traceroute_shows_every_hop,
    a_tcp_transfer_arrives_whole_both_ways,
    a_tcp_transfer_finds_the_smaller_mtu_of_a_later_link,
    a_large_datagram_arrives_in_fragments,
    a_tcp_connection_to_the_router_itself_works,
}

/// The five namespaces, and the program in the middle.
pub(crate) struct Chain {
    // Dropped first: the program must end before its interfaces are removed.
    _program: Option<Program>,
    pub(crate) left: Namespace,
    pub(crate) near: Namespace,
    pub(crate) router: Namespace,
    pub(crate) far: Namespace,
    right: Namespace,
    _run_dir: tempfile::TempDir,
}

impl Chain {
    /// Builds the chain and starts the router; returns `None`, and prints why, if that is not
    /// permitted.
    pub(crate) fn new(subject: Subject) -> Option<Self> {
        let new = Namespace::new;
        let (left, near, router, far, right) = (new()?, new()?, new()?, new()?, new()?);
        for namespace in [&left, &near, &router, &far, &right] {
            for name in ["ipv6/conf/all/accept_dad", "ipv6/conf/default/accept_dad"] {
                set(namespace, name, "0");
            }
        }
        for namespace in [&near, &router, &far] {
            set(namespace, "ipv4/ip_forward", "1");
            set(namespace, "ipv6/conf/all/forwarding", "1");
        }
        cable(&left, "e0", &near, 1);
        cable(&near, "e1", &router, 12);
        cable(&router, "e1", &far, 23);
        cable(&far, "e1", &right, 3);
        let routes = |namespace: &Namespace, lines: &[(&str, &str)]| {
            let lines = lines.iter().map(|(to, via)| {
                format!(
                    "route add 10.{to}.0.0/24 via 10.{via}
                     route add fd{to:0>2}::/64 via fd{}\n",
                    via.replacen(".0.", "::", 1)
                )
            });
            namespace.ip_batch(&lines.collect::<String>());
        };
        left.ip_batch("route add default via 10.1.0.2\nroute add default via fd01::2");
        right.ip_batch("route add default via 10.3.0.1\nroute add default via fd03::1");
        routes(&near, &[("23", "12.0.2"), ("3", "12.0.2")]);
        routes(&router, &[("1", "12.0.1"), ("3", "23.0.2")]);
        routes(&far, &[("12", "23.0.1"), ("1", "23.0.1")]);
        [&left, &near, &router, &far, &right].into_iter().for_each(wait_for_own_addresses);
        let run_dir = tempfile::tempdir().unwrap();
        let program = launch(&router, subject, "e0 e1", run_dir.path());
        Some(Self { _program: program, left, near, router, far, right, _run_dir: run_dir })
    }
}

impl Chain {
    /// Removes the static routes of the three routers.
    pub(crate) fn forget_routes(&self) {
        for router in [&self.near, &self.router, &self.far] {
            for family in ["-4", "-6"] {
                router.ip(&format!("{family} route flush proto boot"));
            }
        }
    }
}

/// Connects an interface of one namespace with `e0` of another, and adds the addresses of the link.
fn cable(left: &Namespace, ifname: &str, right: &Namespace, number: u32) {
    left.veth(ifname, right, "e0", "");
    set(left, &format!("ipv6/conf/{ifname}/disable_ipv6"), "0");
    right.ip("link set e0 up");
    for (namespace, ifname, host) in [(left, ifname, 1), (right, "e0", 2)] {
        namespace.attempt("ethtool", &format!("-K {ifname} gro on"));
        namespace.wait_for_carrier(ifname);
        namespace.ip_batch(&format!(
            "addr add 10.{number}.0.{host}/24 dev {ifname}
             addr add fd{number:02}::{host}/64 dev {ifname} nodad"
        ));
    }
}

/// Addresses of the right host.
pub(crate) const RIGHT: [&str; 2] = ["10.3.0.2", "fd03::2"];

fn ping_works_in_both_families(chain: Chain) {
    for to in RIGHT {
        for size in [56, 1400, 4000] {
            let words = format!("-n -c 3 -i 0.01 -W 30 -s {size} {to}");
            let ping = Program::start(&chain.left, "ping", &words).finish().well();
            assert!(ping.stdout.contains(" 0% packet loss"), "{ping:?}");
        }
    }
    for (to, router) in [(RIGHT[0], "10.12.0.2"), (RIGHT[1], "fd12::2")] {
        let expired = Program::start(&chain.left, "ping", &format!("-n -c 1 -W 30 -t 2 {to}"));
        let expired = expired.finish();
        let told = format!("From {router} icmp_seq=1 Time");
        assert!(expired.stdout.contains(&told), "{expired:?}");
    }
}

fn traceroute_shows_every_hop(chain: Chain) {
    if !installed("traceroute") {
        return;
    }
    for (to, hops) in [
        (RIGHT[0], ["10.1.0.2", "10.12.0.2", "10.23.0.2", "10.3.0.2"]),
        (RIGHT[1], ["fd01::2", "fd12::2", "fd23::2", "fd03::2"]),
    ] {
        // Sends one probe at a time, so that no rate limit of a router matters.
        let traced = chain.left.command("traceroute", &format!("-n -q 1 -N 1 -w 30 {to}"));
        let shown: Vec<_> = traced
            .lines()
            .skip(1)
            .map(|line| line.split_ascii_whitespace().nth(1).unwrap_or_default())
            .collect();
        assert_eq!(shown, hops, "{traced}");
    }
}

/// Number of bytes of a transfer: many times as many as the queues hold.
const TRANSFER: usize = 8 << 20;

fn byte(at: usize) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

/// Starts a thread that accepts a connection, reads [`TRANSFER`] bytes, and then sends as many
/// back.
fn serve(listener: TcpListener) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        receive(&mut stream);
        send(&mut stream);
    })
}

fn send(stream: &mut TcpStream) {
    let bytes: Vec<_> = (0..TRANSFER).map(byte).collect();
    stream.write_all(&bytes).unwrap();
}

fn receive(stream: &mut TcpStream) {
    let mut bytes = vec![0; TRANSFER];
    stream.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().enumerate().all(|(at, &got)| got == byte(at)), "bytes differ");
}

/// Connects from one namespace to `address` in another, and transfers data in both directions.
fn transfer(from: &Namespace, to: &Namespace, address: &str) {
    let address = SocketAddr::new(ip(address), 5201);
    let listener = to.run(move || TcpListener::bind(address).unwrap());
    let server = serve(listener);
    let mut stream = from.run(move || TcpStream::connect(address).unwrap());
    let limit = Some(slipring_test_support::TIMEOUT);
    stream.set_read_timeout(limit).unwrap();
    stream.set_write_timeout(limit).unwrap();
    send(&mut stream);
    receive(&mut stream);
    server.join().unwrap();
}

/// The hosts leave checksums and segmentation to their interfaces. These are veth interfaces, which
/// do neither.
fn a_tcp_transfer_arrives_whole_both_ways(chain: Chain) {
    for to in RIGHT {
        transfer(&chain.left, &chain.right, to);
    }
}

fn a_tcp_transfer_finds_the_smaller_mtu_of_a_later_link(chain: Chain) {
    chain.router.ip("link set e1 mtu 1300");
    chain.far.ip("link set e0 mtu 1300");
    for to in RIGHT {
        transfer(&chain.left, &chain.right, to);
    }
}

fn a_large_datagram_arrives_in_fragments(chain: Chain) {
    for (from, to) in ["10.1.0.1", "fd01::1"].into_iter().zip(RIGHT) {
        let (from, to) = (SocketAddr::new(ip(from), 0), SocketAddr::new(ip(to), 5000));
        let receiver = chain.right.run(move || UdpSocket::bind(to).unwrap());
        let sender = chain.left.run(move || UdpSocket::bind(from).unwrap());
        let data: Vec<_> = (0..30_000).map(byte).collect();
        sender.send_to(&data, to).unwrap();
        let (received, _) = receive_datagram(&receiver);
        assert!(received == data, "{} bytes", received.len());
    }
}

fn a_tcp_connection_to_the_router_itself_works(chain: Chain) {
    for to in ["10.12.0.2", "10.23.0.1", "fd12::2", "fd23::1"] {
        transfer(&chain.left, &chain.router, to);
    }
    eventually("a way to the next router", || {
        chain.near.attempt("ping", "-n -c 1 -W 1 10.23.0.1").0.then_some(())
    });
}
