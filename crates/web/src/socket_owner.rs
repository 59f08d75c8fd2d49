//! Finds the owner of the program at the other end of a loopback connection.
//!
//! The kernel's table of TCP sockets contains the owner of each socket, and both ends of a loopback
//! connection are in it (proc_net_tcp in the kernel's documentation, Documentation/networking). So
//! the gateway can apply the rule of the control socket: this user and root, and under sudo the
//! user who called it.

use std::net::{IpAddr, SocketAddr};

/// State of an established connection in the table. In all other states the owner may be lost, and
/// the table shows 0, which is root.
const TCP_ESTABLISHED: &str = "01";

/// Whether the client of a connection has access as on the control socket.
pub(crate) fn may_ask(client: SocketAddr, server: SocketAddr) -> bool {
    let owner = tables().iter().find_map(|table| owner(table, client, server));
    owner.is_some_and(|owner| allowed(owner, rustix::process::geteuid().as_raw(), caller()))
}

fn allowed(owner: u32, own: u32, caller: Option<u32>) -> bool {
    owner == own || owner == 0 || (own == 0 && caller == Some(owner))
}

/// Returns the user who called sudo. Only root may rely on it: any user can set the variable.
fn caller() -> Option<u32> {
    std::env::var("SUDO_UID").ok()?.parse().ok()
}

/// Returns the tables of this namespace. An unreadable one is empty.
fn tables() -> [String; 2] {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
}

/// Returns the user whose socket is at `local` and connected to `remote`.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let forms = [proc_address(local), proc_address(remote)].map(|[own, mapped]| (own, mapped));
    let [(local, local_mapped), (remote, remote_mapped)] = forms;
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (own, other, state) = (words.next()?, words.next()?, words.next()?);
        let same = own == local && other == remote;
        let mapped = own == local_mapped && other == remote_mapped;
        let found = (same || mapped) && state == TCP_ESTABLISHED;
        // Queues, timer and retransmissions are between state and owner.
        found.then(|| words.nth(3)?.parse().ok()).flatten()
    })
}

/// Formats an address as in the tables: words in native byte order, in its own family and, for
/// IPv4, also as an IPv4-mapped IPv6 address.
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
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_owner_of_the_other_end_is_known_on_both_families() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(bind) else { continue };
            let server = listener.local_addr().unwrap();
            let stream = TcpStream::connect(server).unwrap();
            let client = stream.local_addr().unwrap();
            assert!(may_ask(client, server), "{bind}");
            let other = SocketAddr::new(client.ip(), client.port() ^ 1);
            assert!(!may_ask(other, server), "{bind}");
        }
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
            assert_eq!(owner(&row("01"), client, server), Some(1000));
        }
        for state in ["06", "08", "0A"] {
            assert_eq!(owner(&row(state), client, server), None);
        }
        assert_eq!(owner("", client, server), None);
    }

    #[test]
    fn root_believes_sudo_and_nobody_else_does() {
        assert!(allowed(1000, 1000, None) && allowed(0, 1000, None));
        assert!(allowed(1000, 0, Some(1000)));
        assert!(!allowed(1000, 0, None) && !allowed(1001, 0, Some(1000)));
        assert!(!allowed(1001, 1000, Some(1001)));
    }
}
