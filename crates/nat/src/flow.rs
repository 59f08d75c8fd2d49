//! One flow: who talks to whom, as seen from both sides, and how long it is remembered.

use core::net::Ipv4Addr;

use slipring_wire::assigned::IpProto;

/// One end of a flow: an address, and a port or the identifier of ICMP; 0 where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The address.
    pub address: Ipv4Addr,
    /// The port.
    pub port: u16,
}

impl End {
    /// An end without a port.
    #[must_use]
    pub const fn new(address: Ipv4Addr, port: u16) -> Self {
        Self { address, port }
    }
}

/// How long flows are remembered after their last packet, in seconds. The defaults are libalias'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Questions of ICMP.
    pub icmp: u32,
    /// UDP.
    pub udp: u32,
    /// TCP before both sides have said SYN.
    pub tcp_opening: u32,
    /// TCP while both sides are there.
    pub tcp_open: u32,
    /// TCP after one side has said FIN or RST.
    pub tcp_closing: u32,
    /// TCP after both have.
    pub tcp_closed: u32,
    /// Whatever else.
    pub other: u32,
    /// Where the later fragments of a packet go.
    pub fragments: u32,
}

impl Default for Lifetimes {
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

/// What one side of a TCP connection has said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Said {
    #[default]
    Nothing,
    Syn,
    /// FIN or RST.
    End,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The protocol.
    pub proto: IpProto,
    /// Our end as it is inside.
    pub inside: End,
    /// Our end as the world sees it.
    pub outside: End,
    /// The other end.
    pub remote: End,
    /// When it ends if nothing more comes.
    pub expires_ns: u64,
    /// When it is looked at again; at or before `expires_ns`.
    pub(crate) wake_ns: u64,
    /// The inside's, then the outside's.
    said: [Said; 2],
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Flow {
    pub(crate) fn new(proto: IpProto, [inside, outside, remote]: [End; 3]) -> Self {
        let said = [Said::default(); 2];
        Self { proto, inside, outside, remote, expires_ns: 0, wake_ns: u64::MAX, said }
    }

    /// A packet came; `tcp_flags` where it has any.
    pub(crate) fn touch(&mut self, outwards: bool, tcp_flags: u8, life: &Lifetimes, now: u64) {
        if self.proto == IpProto::TCP {
            self.hear(usize::from(!outwards), tcp_flags);
        }
        self.expires_ns = now.saturating_add(u64::from(self.lifetime(life)) * 1_000_000_000);
    }

    fn hear(&mut self, side: usize, flags: u8) {
        if flags & (SYN | ACK) == SYN && self.said.contains(&Said::End) {
            // The same ports begin anew.
            self.said = [Said::Nothing; 2];
        }
        self.said[side] = match self.said[side] {
            _ if flags & (FIN | RST) != 0 => Said::End,
            Said::Nothing if flags & SYN != 0 => Said::Syn,
            as_before => as_before,
        };
    }

    fn lifetime(&self, life: &Lifetimes) -> u32 {
        match (self.proto, self.said) {
            (IpProto::ICMP, _) => life.icmp,
            (IpProto::UDP, _) => life.udp,
            (IpProto::TCP, [Said::End, Said::End]) => life.tcp_closed,
            (IpProto::TCP, said) if said.contains(&Said::End) => life.tcp_closing,
            (IpProto::TCP, [Said::Syn, Said::Syn]) => life.tcp_open,
            (IpProto::TCP, _) => life.tcp_opening,
            _ => life.other,
        }
    }
}
