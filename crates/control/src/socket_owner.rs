//! Determines the user at the other end of a TCP connection within this machine.
//!
//! The kernel knows the owner of each socket. If both ends of a connection are on this machine,
//! both are sockets of this kernel. So a TCP server can apply the rule of the control socket, which
//! admits the server's own user and root. Under sudo, it also admits the user who called sudo.
//!
//! The owner is queried by sock_diag(7), which looks up the client's socket. If sock_diag is not
//! available, the table of all TCP sockets is read instead
//! (Documentation/networking/proc_net_tcp.rst). The kernel delivers the table in parts. A socket
//! that is opened or closed between two parts shifts others, which may then be in none of the
//! parts. So if the socket is not found, the table is read again.

use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::SOCK_DIAG;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// The state of an established connection. For other states the kernel may no longer know the
/// owner. It then reports 0, which is the id of root.
const ESTABLISHED: u8 = 1;
/// The state [`ESTABLISHED`] as it is written in the table.
const TCP_ESTABLISHED: &str = "01";
/// Maximum number of times that the table is read to find a socket.
const TABLE_READS: u32 = 8;

/// Returns the user who owns the client's end of a connection; `None` if it is not found, for
/// example because that end is not on this machine.
#[must_use]
pub fn owner(client: SocketAddr, server: SocketAddr) -> Option<u32> {
    match diagnosed_owner(client, server) {
        Ok(owner) => owner,
        Err(_) => (0..TABLE_READS)
            .find_map(|_| tables().iter().find_map(|table| table_owner(table, client, server))),
    }
}

/// Returns whether the user is this process's user or root, or is the user who called sudo to start
/// this process as root.
#[must_use]
pub fn is_trusted(user: u32) -> bool {
    allowed(user, rustix::process::geteuid().as_raw(), caller())
}

fn allowed(owner: u32, own: u32, caller: Option<u32>) -> bool {
    owner == own || owner == 0 || (own == 0 && caller == Some(owner))
}

/// Returns the user who called sudo, from `SUDO_UID`; `None` without sudo. Only root may rely on
/// this variable, because any user can set it.
fn caller() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// Returns the owner by means of sock_diag. Returns an error if the kernel does not support
/// sock_diag.
fn diagnosed_owner(client: SocketAddr, server: SocketAddr) -> rustix::io::Result<Option<u32>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    rustix::net::send(&socket, &question(client, server), SendFlags::empty())?;
    let mut answer = [0; 512];
    // The answer can be received immediately, because the kernel looks up the socket within the
    // call that sends the request.
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    diagnosis(&answer[..len], client, server)
}

/// Length of `struct nlmsghdr`.
const HEADER: usize = 16;
/// The netlink message type of both the request and the answer: `SOCK_DIAG_BY_FAMILY`.
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// The netlink message type of an error: `NLMSG_ERROR`.
const NLMSG_ERROR: u16 = 2;

/// Returns the request for the socket at `local` that is connected to `remote`: a `struct nlmsghdr`
/// and a `struct inet_diag_req_v2`.
fn question(local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let mut asked = Vec::with_capacity(72);
    asked.extend(72u32.to_ne_bytes());
    asked.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    // The flags (NLM_F_REQUEST), the sequence number and the sender's port.
    asked.extend(1u16.to_ne_bytes());
    asked.extend([0; 8]);
    let family = match local.ip().to_canonical() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    // The address family, the protocol (IPPROTO_TCP), no extensions, all states.
    asked.extend([family.as_raw() as u8, 6, 0, 0]);
    asked.extend(u32::MAX.to_ne_bytes());
    asked.extend(local.port().to_be_bytes());
    asked.extend(remote.port().to_be_bytes());
    for address in [local, remote] {
        let mut octets = [0; 16];
        match address.ip().to_canonical() {
            IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => octets = ip.octets(),
        }
        asked.extend(octets);
    }
    // No interface, and INET_DIAG_NOCOOKIE.
    asked.extend([0; 4]);
    asked.extend([0xff; 8]);
    asked
}

/// Parses the owner from an answer, which is a `struct inet_diag_msg` or an error.
fn diagnosis(
    answer: &[u8],
    client: SocketAddr,
    server: SocketAddr,
) -> rustix::io::Result<Option<u32>> {
    let half = |at: usize| Some(u16::from_ne_bytes(answer.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(answer.get(at..at + 4)?.try_into().ok()?));
    match half(4) {
        Some(SOCK_DIAG_BY_FAMILY) => {}
        Some(NLMSG_ERROR) => {
            let error = word(HEADER).map_or(0, |error| (error as i32).wrapping_neg());
            let error = rustix::io::Errno::from_raw_os_error(error);
            return if error == rustix::io::Errno::NOENT { Ok(None) } else { Err(error) };
        }
        _ => return Err(rustix::io::Errno::BADMSG),
    }
    // If the connection no longer exists, the kernel may return the socket that listens at the
    // address. So the ports and the state are compared.
    let ports = answer.get(HEADER + 4..HEADER + 8);
    let same = ports == Some(&[client.port().to_be_bytes(), server.port().to_be_bytes()].concat());
    let established = answer.get(HEADER + 1) == Some(&ESTABLISHED);
    // The socket's addresses are followed by its timer and queues, and then by the owner.
    Ok(word(HEADER + 4 + 48 + 12).filter(|_| same && established))
}

/// Returns the TCP tables of this network namespace, for IPv4 and IPv6. A table that cannot be read
/// counts as empty.
fn tables() -> [String; 2] {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
}

/// Returns the user of the socket that is at `local` and connected to `remote`, according to
/// `table`; `None` if the table does not list it.
fn table_owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let forms = [proc_address(local), proc_address(remote)].map(|[own, mapped]| (own, mapped));
    let [(local, local_mapped), (remote, remote_mapped)] = forms;
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, other, state) = (words.next()?, words.next()?, words.next()?);
        let same = own == local && other == remote;
        let mapped = own == local_mapped && other == remote_mapped;
        let found = (same || mapped) && state == TCP_ESTABLISHED;
        // The columns for queues, timer and retransmissions are between the state and the owner.
        found.then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// Returns the two forms in which the tables may list an address, as words in host byte order. The
/// second form of an IPv4 address is the IPv4-mapped IPv6 address, because an IPv6 socket can have
/// an IPv4 peer. Both forms of an IPv6 address are the same.
fn proc_address(address: SocketAddr) -> [String; 2] {
    let port = address.port();
    let word = |bytes: &[u8]| {
        let bytes = bytes.try_into().expect("chunks of four");
        format!("{:08X}", u32::from_ne_bytes(bytes))
    };
    let six = |octets: [u8; 16]| octets.chunks(4).map(word).collect::<String>();
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => [
            format!("{}:{port:04X}", word(&ip.octets())),
            format!("{}:{port:04X}", six(ip.to_ipv6_mapped().octets())),
        ],
        IpAddr::V6(ip) => [(); 2].map(|()| format!("{}:{port:04X}", six(ip.octets()))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn pair(bind: &str) -> Option<[TcpStream; 2]> {
        let listener = TcpListener::bind(bind).ok()?;
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some([client, listener.accept().unwrap().0])
    }

    #[test]
    fn the_owner_of_the_other_end_is_known_on_both_families() {
        let own = Some(rustix::process::geteuid().as_raw());
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let Some(ends) = pair(bind) else { continue };
            let [client, server] = ends.each_ref().map(|end| end.local_addr().unwrap());
            let by_table =
                |client| tables().iter().find_map(|table| table_owner(table, client, server));
            let other = SocketAddr::new(client.ip(), client.port() ^ 1);
            assert_eq!(owner(client, server), own, "{bind}");
            assert_eq!(owner(other, server), None, "{bind}");
            assert_eq!(by_table(other), None, "{bind}");
            match diagnosed_owner(client, server) {
                Ok(found) => assert_eq!(found, own, "{bind}"),
                Err(error) => slipring_test_support::skip!("no sock_diag here: {error}"),
            }
        }
    }

    #[test]
    fn sockets_that_come_and_go_hide_no_owner() {
        let own = Some(rustix::process::geteuid().as_raw());
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut open = VecDeque::new();
                    while !ended.load(Ordering::Relaxed) {
                        open.extend(pair("127.0.0.1:0"));
                        if open.len() > 100 {
                            open.pop_front();
                        }
                    }
                });
            }
            let unknown = (0..300).filter(|_| {
                let ends = pair("127.0.0.1:0").unwrap();
                let [client, server] = ends.each_ref().map(|end| end.local_addr().unwrap());
                owner(client, server) != own
            });
            let unknown = unknown.count();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(unknown, 0);
        });
    }

    #[test]
    fn a_socket_whose_owner_is_lost_has_no_owner() {
        let head =
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n";
        let row = |state: &str| {
            format!(
                "{head}   0: 0100007F:B0CA 0100007F:1F96 {state} 00000000:00000000 00:00000000 00000000  1000        0 1\n"
            )
        };
        let [client, server] = ["127.0.0.1:45258", "127.0.0.1:8086"].map(|at| at.parse().unwrap());
        if cfg!(target_endian = "little") {
            assert_eq!(table_owner(&row("01"), client, server), Some(1000));
        }
        for state in ["06", "08", "0A"] {
            assert_eq!(table_owner(&row(state), client, server), None);
        }
        assert_eq!(table_owner("", client, server), None);
    }

    #[test]
    fn root_believes_sudo_and_nobody_else_does() {
        assert!(allowed(1000, 1000, None) && allowed(0, 1000, None));
        assert!(allowed(1000, 0, Some(1000)));
        assert!(!allowed(1000, 0, None) && !allowed(1001, 0, Some(1000)));
        assert!(!allowed(1001, 1000, Some(1001)));
    }
}
