//! One flow: its ends as seen from both sides, and its lifetime.

use core::net::Ipv4Addr;

use slipring_wire::assigned::IpProto;

/// One end of a flow: an address, and a port or ICMP identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NatEndpoint {
    /// The IPv4 address of this end.
    pub address: Ipv4Addr,
    /// The port or ICMP identifier; 0 if there is none.
    pub port: u16,
}

impl NatEndpoint {
    /// Creates an end.
    #[must_use]
    pub const fn new(address: Ipv4Addr, port: u16) -> Self {
        Self { address, port }
    }
}

/// Lifetimes of flows after their last packet, in seconds. The defaults are those of libalias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatLifetimes {
    /// Lifetime of ICMP queries.
    pub icmp: u32,
    /// Lifetime of UDP flows.
    pub udp: u32,
    /// Lifetime of TCP connections until both sides have sent a SYN.
    pub tcp_opening: u32,
    /// Lifetime of TCP connections while both sides are open.
    pub tcp_open: u32,
    /// Lifetime of TCP connections after one side has sent a FIN or RST.
    pub tcp_closing: u32,
    /// Lifetime of TCP connections after both sides have sent a FIN or RST.
    pub tcp_closed: u32,
    /// Lifetime of flows of all other protocols.
    pub other: u32,
    /// Time for which a packet's translated address is remembered for its later fragments.
    pub fragments: u32,
}

impl Default for NatLifetimes {
    fn default() -> Self {
        Self {
            icmp: 60,
            udp: 60,
            tcp_opening: 300,
            tcp_open: 86_400,
            tcp_closing: 90,
            tcp_closed: 10,
            other: 60,
            fragments: 10,
        }
    }
}

/// The state of one side of a TCP connection: the last of these segments that it sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TcpSideState {
    #[default]
    Idle,
    Syn,
    /// The side has sent a FIN or a RST.
    FinOrRst,
}

/// A flow: packets between one inside host's end and one remote end, in both directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatFlow {
    /// The protocol above IP.
    pub proto: IpProto,
    /// The inside host's end as seen from inside (its real address and port).
    pub inside: NatEndpoint,
    /// The inside host's end as seen from outside (the translated address and port).
    pub outside: NatEndpoint,
    /// The remote end.
    pub remote: NatEndpoint,
    /// Time in ns at which the flow expires if no further packet comes.
    pub expires_ns: u64,
    /// Time in ns at which the flow is checked next; not after `expires_ns`.
    pub(crate) wake_ns: u64,
    /// The TCP state of the inside host's side, then of the remote side.
    tcp_states: [TcpSideState; 2],
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl NatFlow {
    pub(crate) fn new(proto: IpProto, [inside, outside, remote]: [NatEndpoint; 3]) -> Self {
        let tcp_states = [TcpSideState::default(); 2];
        Self { proto, inside, outside, remote, expires_ns: 0, wake_ns: u64::MAX, tcp_states }
    }

    /// Updates the state and the expiry time of the flow for one of its packets. `tcp_flags` is
    /// ignored unless the flow is TCP.
    pub(crate) fn touch(&mut self, outwards: bool, tcp_flags: u8, life: &NatLifetimes, now: u64) {
        if self.proto == IpProto::TCP {
            self.track_tcp(usize::from(!outwards), tcp_flags);
        }
        self.expires_ns = now.saturating_add(u64::from(self.lifetime(life)) * 1_000_000_000);
    }

    fn track_tcp(&mut self, side: usize, flags: u8) {
        if flags & (SYN | ACK) == SYN && self.tcp_states.contains(&TcpSideState::FinOrRst) {
            // This packet opens a new connection that reuses the ports of a closed one.
            self.tcp_states = [TcpSideState::Idle; 2];
        }
        self.tcp_states[side] = match self.tcp_states[side] {
            _ if flags & (FIN | RST) != 0 => TcpSideState::FinOrRst,
            TcpSideState::Idle if flags & SYN != 0 => TcpSideState::Syn,
            as_before => as_before,
        };
    }

    fn lifetime(&self, life: &NatLifetimes) -> u32 {
        match (self.proto, self.tcp_states) {
            (IpProto::ICMP, _) => life.icmp,
            (IpProto::UDP, _) => life.udp,
            (IpProto::TCP, [TcpSideState::FinOrRst, TcpSideState::FinOrRst]) => life.tcp_closed,
            (IpProto::TCP, states) if states.contains(&TcpSideState::FinOrRst) => life.tcp_closing,
            (IpProto::TCP, [TcpSideState::Syn, TcpSideState::Syn]) => life.tcp_open,
            (IpProto::TCP, _) => life.tcp_opening,
            _ => life.other,
        }
    }
}
