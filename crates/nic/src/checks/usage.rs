//! Checks what the machine uses a card for.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use slipring_port::netlink::{LinkSnapshot, NetlinkLink};

use super::{CardCheck, Verdict};
use crate::alias;
use crate::host::NicHost;
use crate::sysfs::{self, PciNic};

/// The checks that make `--force` require `--confirm-within`.
pub(crate) const REACHED_BY: [&str; 3] = ["default route", "member", "connection"];

/// The check for a TAP device of an earlier bind.
pub(crate) const LEFT_OVER: &str = "stand-in";

pub(super) fn examine(host: &dyn NicHost, nic: &PciNic) -> Vec<CardCheck> {
    let links = match host.links() {
        Ok(links) => links,
        Err(error) => return vec![unknown("links", &error.to_string())],
    };
    let mut results = Vec::new();
    for name in &nic.interfaces {
        let Some(link) =
            links.iter().find(|link| link.name == *name && is_shown(host.root(), link))
        else {
            results.push(elsewhere(name, nic));
            continue;
        };
        results.extend(left_over(nic, &links));
        match host.snapshot(link.index) {
            Ok(snapshot) => {
                results.push(kernel_driver(host, link));
                results.extend(of_link(host.root(), link, &links, &snapshot));
            }
            Err(error) => results.push(unknown("addresses", &error.to_string())),
        }
    }
    results
}

/// Returns whether sysfs shows this link. A sysfs shows the network namespace in which it was
/// mounted; another interface there may have the same name.
fn is_shown(root: &Path, link: &NetlinkLink) -> bool {
    let index = sysfs::read(&root.join(format!("sys/class/net/{}/ifindex", link.name)));
    index == Some(link.index.to_string())
}

/// The result if the card's interface is in another namespace, so that its use cannot be found out.
fn elsewhere(name: &str, nic: &PciNic) -> CardCheck {
    CardCheck::bad(
        "namespace",
        Verdict::Machine,
        format!("`{name}`, the interface of {}, is not in this network namespace", nic.bdf),
        format!("run it where the interface is: nsenter -t 1 -n -m slipring nic bind {}", nic.bdf),
    )
}

/// Returns a refusal if a TAP device of an earlier bind, whose state was deleted by hand, still has
/// the card's alias and addresses.
fn left_over(nic: &PciNic, links: &[NetlinkLink]) -> Option<CardCheck> {
    let taps: Vec<_> = alias::taps_of(links, &nic.bdf).map(|tap| &*tap.name).collect();
    let first = taps.first()?;
    let commands: Vec<_> = taps.iter().map(|name| format!("ip link delete {name}")).collect();
    Some(CardCheck::bad(
        LEFT_OVER,
        Verdict::Machine,
        format!("{first} is the TAP device of this card from an earlier bind"),
        commands.join("\n"),
    ))
}

/// Reports whether the kernel's driver would be sufficient.
fn kernel_driver(host: &dyn NicHost, link: &NetlinkLink) -> CardCheck {
    const CHECK: &str = "kernel driver";
    let name = &link.name;
    match host.has_zero_copy(link.index) {
        Some(true) => CardCheck::bad(
            CHECK,
            Verdict::Warn,
            "it has AF_XDP zero-copy, which is as fast as a native driver",
            format!("leave {name} to the kernel, and open netmap:{name}"),
        ),
        Some(false) => CardCheck::ok(CHECK, "it has no AF_XDP zero-copy"),
        None => CardCheck::ok(CHECK, "this kernel cannot say whether it has AF_XDP zero-copy"),
    }
}

/// The result if it cannot be found out whether the machine uses the card. The card then counts as
/// used, because it may carry this session.
fn unknown(check: &'static str, error: &str) -> CardCheck {
    let finding = format!("cannot be listed: {error}");
    CardCheck::bad(check, Verdict::InUse, finding, "ip link")
}

fn of_link(
    root: &Path,
    link: &NetlinkLink,
    links: &[NetlinkLink],
    snapshot: &LinkSnapshot,
) -> Vec<CardCheck> {
    let own: Vec<_> = snapshot.addresses.iter().map(|address| address.text.as_str()).collect();
    let results = [
        default_route(link, snapshot),
        connections(root, link, &own),
        addresses(link, &own),
        master(link, links),
        uppers(link, links),
        only_carrier(link, links),
    ];
    let found: Vec<_> = results.into_iter().flatten().collect();
    if found.is_empty() {
        return vec![CardCheck::ok(
            "use",
            format!("{} carries nothing of the machine's", link.name),
        )];
    }
    found
}

fn in_use(check: &'static str, finding: String, help: String) -> Option<CardCheck> {
    Some(CardCheck::bad(check, Verdict::InUse, finding, help))
}

fn default_route(link: &NetlinkLink, snapshot: &LinkSnapshot) -> Option<CardCheck> {
    if !snapshot.has_default_route {
        return None;
    }
    let name = &link.name;
    in_use(
        "default route",
        format!("a default route leads out of {name}: taking it may cut this machine off"),
        format!(
            "slipring nic bind {name} --force --confirm-within 60, then: slipring nic confirm {name}"
        ),
    )
}

fn addresses(link: &NetlinkLink, own: &[&str]) -> Option<CardCheck> {
    let first = own.first()?;
    let more = if own.len() > 1 { format!(" and {} more", own.len() - 1) } else { String::new() };
    in_use(
        "addresses",
        format!("{} has the address {first}{more}", link.name),
        format!("ip address flush dev {}, or add --force: a TAP device keeps them", link.name),
    )
}

fn master(link: &NetlinkLink, links: &[NetlinkLink]) -> Option<CardCheck> {
    let master = links.iter().find(|other| Some(other.index) == link.master)?;
    in_use(
        "member",
        format!("{} is a member of {} ({})", link.name, master.name, master.kind),
        format!("ip link set {} nomaster", link.name),
    )
}

/// Returns a refusal if VLAN interfaces or the like are built on a link. They are lost with the
/// card's interface, and are not created again, so `--force` does not take the card.
fn uppers(link: &NetlinkLink, links: &[NetlinkLink]) -> Option<CardCheck> {
    let uppers: Vec<_> = links.iter().filter(|other| other.lower == Some(link.index)).collect();
    let first = uppers.first()?;
    let names: Vec<_> = uppers.iter().map(|upper| upper.name.as_str()).collect();
    let commands: Vec<_> = names.iter().map(|name| format!("ip link delete {name}")).collect();
    Some(CardCheck::bad(
        "upper",
        Verdict::Machine,
        format!(
            "{} ({}) lies on {}, and would be lost: nothing makes it again",
            names.join(", "),
            first.kind,
            link.name
        ),
        commands.join("\n"),
    ))
}

fn only_carrier(link: &NetlinkLink, links: &[NetlinkLink]) -> Option<CardCheck> {
    let is_hardware = |link: &&NetlinkLink| link.kind.is_empty() && link.name != "lo";
    let others = links.iter().filter(is_hardware).filter(|other| other.index != link.index);
    if !link.running || others.into_iter().any(|other| other.running) {
        return None;
    }
    in_use(
        "carrier",
        format!("{} is the only card of this machine with a carrier", link.name),
        "plug a cable into another card, or add --force".to_owned(),
    )
}

/// A TCP connection of this machine.
#[derive(Debug, PartialEq, Eq)]
struct TcpConnection {
    local: IpAddr,
    local_port: u16,
    peer: IpAddr,
    peer_port: u16,
}

fn connections(root: &Path, link: &NetlinkLink, own: &[&str]) -> Option<CardCheck> {
    let own: BTreeSet<IpAddr> =
        own.iter().filter_map(|text| text.split_once('/')?.0.parse().ok()).collect();
    let tables = ["tcp", "tcp6"].map(|table| {
        sysfs::read(&root.join("proc/thread-self/net").join(table)).unwrap_or_default()
    });
    let all = tables.iter().flat_map(|table| established(table));
    let by_link: Vec<_> = all.filter(|connection| own.contains(&connection.local)).collect();
    let told = by_link.iter().find(|one| service(one).is_some()).or(by_link.first())?;
    let what = service(told).unwrap_or("a TCP connection");
    in_use(
        "connection",
        format!("{what} with {} leads through {}", told.peer, link.name),
        format!("ss -tn src {}", told.local),
    )
}

/// Returns the service that a connection belongs to, if the machine or its user depends on it;
/// `None` for other connections.
fn service(connection: &TcpConnection) -> Option<&'static str> {
    match (connection.local_port, connection.peer_port) {
        (22, _) => Some("an ssh session"),
        (_, 2049) => Some("a file system by NFS"),
        (_, 3260) => Some("a disk by iSCSI"),
        _ => None,
    }
}

/// Reads the established connections of `/proc/net/tcp` or `tcp6`.
fn established(table: &str) -> impl Iterator<Item = TcpConnection> + '_ {
    const ESTABLISHED: &str = "01";
    table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, peer, state) = (words.next()?, words.next()?, words.next()?);
        let (local, local_port) = endpoint(local)?;
        let (peer, peer_port) = endpoint(peer)?;
        (state == ESTABLISHED).then_some(TcpConnection { local, local_port, peer, peer_port })
    })
}

/// Reads an address and a port: words in the machine's byte order, as hexadecimal digits.
fn endpoint(text: &str) -> Option<(IpAddr, u16)> {
    let (address, port) = text.split_once(':')?;
    let word = |at: usize| {
        let word = u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some((ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn established_connections_are_read_and_others_left_out() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100000A:0016 0200000A:C350 01 00000000:00000000\n\
            1: 00000000:0016 00000000:0000 0A 00000000:00000000\n\
            2: 0000000000000000FFFF00000100000A:0016 0000000000000000FFFF00000300000A:0800 01 0\n";
        let peers: Vec<_> = established(table).map(|one| (one.local, one.peer)).collect();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(peers, [(ip("10.0.0.1"), ip("10.0.0.2")), (ip("10.0.0.1"), ip("10.0.0.3"))]);
    }
}
