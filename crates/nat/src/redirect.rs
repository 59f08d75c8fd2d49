//! `redirect_port`, `redirect_addr` and `redirect_proto`, to one target, or to several targets that
//! take turns.

use alloc::vec::Vec;
use core::fmt;
use core::net::Ipv4Addr;

use slipring_wire::assigned::IpProto;

use crate::flow::NatEndpoint;

/// A redirection: packets to an outside address are sent to an inside host.
///
/// `Display` writes it as in ipfw's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The protocols and ports that are redirected.
    pub kind: RedirectKind,
    /// The inside ends. If there are several, incoming connections go to them in turn (LSNAT, RFC
    /// 2391). Ports are 0 except for [`RedirectKind::Ports`].
    pub targets: Vec<NatEndpoint>,
    /// The outside address; 0.0.0.0 means the instance's address.
    pub alias: Ipv4Addr,
    /// The remote ends to which the redirection applies.
    pub remote: RedirectRemote,
}

/// The protocols and ports to which a redirection applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectKind {
    /// `redirect_addr`: all protocols and ports.
    Address,
    /// `redirect_proto`: one protocol.
    Protocol(IpProto),
    /// `redirect_port`: ports of a protocol.
    Ports {
        /// TCP, UDP or SCTP.
        proto: IpProto,
        /// The first outside port.
        first: u16,
        /// The number of outside ports. They map to the same number of consecutive ports of the
        /// target, starting with the target's port.
        count: u16,
    },
}

/// The remote ends whose packets are redirected: all remote ends, if address and port are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedirectRemote {
    /// The source address of the packets; 0.0.0.0 means any.
    pub address: Ipv4Addr,
    /// The source port of the packets; 0 means any.
    pub port: u16,
    /// Number of remote ports: 1, or the number of outside ports. If it is above 1, each outside
    /// port is redirected for one remote port only: the first outside port for `port`, the next one
    /// for `port` + 1, and so on.
    pub count: u16,
}

impl RedirectRemote {
    /// All remote ends.
    pub const ANY: Self = Self { address: Ipv4Addr::UNSPECIFIED, port: 0, count: 1 };

    /// Returns how specifically the redirection matches the remote end `far`, as a rank: a more
    /// specific match has a higher rank. `index` is the index of the outside port. `None` if `far`
    /// does not match.
    fn rank(&self, far: NatEndpoint, index: u16) -> Option<u8> {
        let port = if self.count > 1 { self.port.wrapping_add(index) } else { self.port };
        let by_address = !self.address.is_unspecified();
        let fits =
            (!by_address || self.address == far.address) && (self.port == 0 || port == far.port);
        fits.then_some(u8::from(by_address) * 2 + u8::from(self.port != 0))
    }
}

/// A redirection that matches a packet, and the new end for the packet.
pub(crate) struct RedirectMatch {
    /// The index of the redirection in the configuration.
    pub(crate) index: usize,
    /// The inside end for an incoming packet, the outside end for an outgoing one.
    pub(crate) end: NatEndpoint,
}

impl Redirect {
    fn alias(&self, own: Option<Ipv4Addr>) -> Option<Ipv4Addr> {
        if self.alias.is_unspecified() { own } else { Some(self.alias) }
    }

    /// Returns the index of `port` among the redirected ports, which begin at `first`; `None` if
    /// `port` is not redirected.
    fn index(&self, proto: IpProto, port: u16, first: impl Fn(u16) -> u16) -> Option<u16> {
        match self.kind {
            RedirectKind::Address => Some(0),
            RedirectKind::Protocol(ours) => (ours == proto).then_some(0),
            RedirectKind::Ports { proto: ours, first: outside, count } => {
                let index = port.wrapping_sub(first(outside));
                (ours == proto && index < count).then_some(index)
            }
        }
    }

    /// Returns the rank of the match and the inside end for an incoming packet. `turn` is the
    /// number of earlier connections, which selects the target.
    fn inwards(
        &self,
        (proto, near, far): (IpProto, NatEndpoint, NatEndpoint),
        own: Option<Ipv4Addr>,
        turn: usize,
    ) -> Option<(u8, NatEndpoint)> {
        if self.alias(own)? != near.address {
            return None;
        }
        let index = self.index(proto, near.port, |outside| outside)?;
        let rank = self.remote.rank(far, index)?;
        let target = *self.targets.get(turn % self.targets.len().max(1))?;
        let port = match self.kind {
            RedirectKind::Ports { .. } => target.port.wrapping_add(index),
            _ => near.port,
        };
        Some((rank, NatEndpoint { port, ..target }))
    }

    /// Returns the rank of the match and the outside end for a packet from `near` to `far`; `None`
    /// if `near` is not the redirection's only target, or `far` does not match.
    fn outwards(
        &self,
        (proto, near, far): (IpProto, NatEndpoint, NatEndpoint),
        own: Option<Ipv4Addr>,
    ) -> Option<(u8, NatEndpoint)> {
        let &[target] = self.targets.as_slice() else { return None };
        if target.address != near.address {
            return None;
        }
        let index = self.index(proto, near.port, |_| target.port)?;
        let rank = self.remote.rank(far, index)?;
        let port = match self.kind {
            RedirectKind::Ports { first, .. } => first.wrapping_add(index),
            _ => near.port,
        };
        Some((rank, NatEndpoint { address: self.alias(own)?, port }))
    }

    const fn is_address(&self) -> bool {
        matches!(self.kind, RedirectKind::Address)
    }
}

/// The protocol, the inside host's end and the remote end of a packet.
pub(crate) type RedirectTuple = (IpProto, NatEndpoint, NatEndpoint);

/// Finds the redirection of an incoming packet: considers only `redirect_addr` if `addresses` is
/// set, otherwise only the other kinds. `turns` contains the number of uses of each redirection.
pub(crate) fn inwards(
    redirects: &[Redirect],
    turns: &[usize],
    seen: RedirectTuple,
    own: Option<Ipv4Addr>,
    addresses: bool,
) -> Option<RedirectMatch> {
    let turn = |index: usize| turns.get(index).copied().unwrap_or(0);
    best(redirects, addresses, |index, redirect| redirect.inwards(seen, own, turn(index)))
}

/// Finds the redirection whose only target sends an outgoing packet; ignores redirections with
/// several targets. Considers only `redirect_addr` if `addresses` is set, otherwise only the other
/// kinds.
pub(crate) fn outwards(
    redirects: &[Redirect],
    seen: RedirectTuple,
    own: Option<Ipv4Addr>,
    addresses: bool,
) -> Option<RedirectMatch> {
    best(redirects, addresses, |_, redirect| redirect.outwards(seen, own))
}

/// Finds the best match: among `redirect_addr` if `addresses` is set, otherwise among the other
/// kinds. If several match equally well, returns the last of them.
fn best(
    redirects: &[Redirect],
    addresses: bool,
    fit: impl Fn(usize, &Redirect) -> Option<(u8, NatEndpoint)>,
) -> Option<RedirectMatch> {
    let order = |redirect: &Redirect| matches!(redirect.kind, RedirectKind::Ports { .. });
    let all = redirects.iter().enumerate().filter(|(_, it)| it.is_address() == addresses);
    let fitting = all.filter_map(|(index, it)| Some((order(it), fit(index, it)?, index)));
    fitting
        .max_by_key(|(by_port, (rank, _), index)| (*by_port, *rank, *index))
        .map(|(_, (_, end), index)| RedirectMatch { index, end })
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            RedirectKind::Address => {
                f.write_str("redirect_addr ")?;
                self.addresses(f)?;
                write!(f, " {}", self.alias)
            }
            RedirectKind::Protocol(proto) => {
                write!(f, "redirect_proto {} ", keyword(proto))?;
                self.addresses(f)?;
                let has_remote = !self.remote.address.is_unspecified();
                if has_remote || !self.alias.is_unspecified() {
                    write!(f, " {}", self.alias)?;
                }
                if has_remote { write!(f, " {}", self.remote.address) } else { Ok(()) }
            }
            RedirectKind::Ports { proto, first, count } => {
                write!(f, "redirect_port {} ", keyword(proto))?;
                self.ends(f, count)?;
                f.write_str(" ")?;
                if !self.alias.is_unspecified() {
                    write!(f, "{}:", self.alias)?;
                }
                ports(f, first, count)?;
                self.remote(f)
            }
        }
    }
}

impl Redirect {
    fn addresses(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, target) in self.targets.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", target.address)?;
        }
        Ok(())
    }

    fn ends(&self, f: &mut fmt::Formatter<'_>, count: u16) -> fmt::Result {
        for (index, target) in self.targets.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}:", target.address)?;
            ports(f, target.port, count)?;
        }
        Ok(())
    }

    fn remote(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.remote == RedirectRemote::ANY {
            return Ok(());
        }
        write!(f, " {}", self.remote.address)?;
        if self.remote.port == 0 {
            return Ok(());
        }
        f.write_str(":")?;
        ports(f, self.remote.port, self.remote.count)
    }
}

fn ports(f: &mut fmt::Formatter<'_>, first: u16, count: u16) -> fmt::Result {
    write!(f, "{first}")?;
    if count > 1 { write!(f, "-{}", first.wrapping_add(count - 1)) } else { Ok(()) }
}

/// The keyword of a protocol, from protocols(5).
fn keyword(proto: IpProto) -> ProtocolKeyword {
    ProtocolKeyword(proto)
}

struct ProtocolKeyword(IpProto);

impl fmt::Display for ProtocolKeyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0.0 {
            1 => "icmp",
            2 => "igmp",
            6 => "tcp",
            17 => "udp",
            41 => "ipv6",
            47 => "gre",
            50 => "esp",
            51 => "ah",
            132 => "sctp",
            number => return write!(f, "{number}"),
        };
        f.write_str(name)
    }
}
