//! Limits the number of a server's connections, and decides which connection is closed for a new
//! one.
//!
//! A connection is *half-open* until the server has admitted one of its requests. An attacker can
//! create half-open connections at no cost, so a new connection never has to wait for them. The
//! rules are:
//!
//! 1. A peer that is not trusted has at most `MAX_HALF_OPEN_PER_PEER` half-open connections. If it
//!    opens one more, its oldest half-open one is closed.
//! 2. When there are `MAX_CONNECTIONS` connections, the peer with the most half-open connections
//!    loses the oldest of these. Among peers with equally many, one that is not trusted is chosen
//!    first.
//! 3. If no connection is half-open, the oldest one that waits for its next request is closed.
//! 4. If requests of all connections are being answered, the new connection is refused.
//!
//! The server decides whether a request is admitted; this module does not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::socket_owner;

/// Maximum number of connections.
pub const MAX_CONNECTIONS: usize = 64;
/// Maximum number of half-open connections of one peer.
const MAX_HALF_OPEN_PER_PEER: usize = 16;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionPeer {
    /// A program of this user, of root or, under sudo, of the user who called sudo. Rule 1 of this
    /// module does not apply to it.
    Trusted,
    /// Another user of this machine. `None` stands for all users whose id could not be determined.
    /// Together, they count as one peer.
    User(Option<u32>),
    /// Another machine, identified by its IPv4 address or by its IPv6 network. An IPv6 machine may
    /// use many addresses of its network, so a single address would not identify it.
    Host(IpAddr),
}

impl ConnectionPeer {
    /// Returns the peer for the machine with this address.
    #[must_use]
    pub fn machine(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Host(Ipv6Addr::from_bits(network).into())
            }
            address => Self::Host(address),
        }
    }

    /// Returns the peer for the user `owner` of this machine; `None` if the user is unknown.
    #[must_use]
    pub fn user(owner: Option<u32>) -> Self {
        if owner.is_some_and(socket_owner::is_trusted) { Self::Trusted } else { Self::User(owner) }
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// The server has not admitted a request yet.
    HalfOpen,
    /// At least one request was admitted, and none is pending.
    Waiting,
    /// This many requests are being answered.
    Busy(u32),
}

#[derive(Debug)]
struct PeerEntry<T> {
    peer: ConnectionPeer,
    state: ConnectionState,
    value: T,
}

/// All connections, the oldest first, each with a value of the server's choice.
#[derive(Debug)]
pub struct PeerTable<T> {
    next: u64,
    entries: BTreeMap<u64, PeerEntry<T>>,
}

impl<T> Default for PeerTable<T> {
    fn default() -> Self {
        Self { next: 0, entries: BTreeMap::new() }
    }
}

impl<T> PeerTable<T> {
    /// Adds a connection. Returns its number, and the values of the connections that must be closed
    /// for it. Returns `None` if requests of all connections are being answered.
    pub fn acquire(&mut self, peer: ConnectionPeer, value: T) -> Option<(u64, Vec<T>)> {
        let evicted = self.make_room(peer)?;
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, PeerEntry { peer, state: ConnectionState::HalfOpen, value });
        Some((number, evicted))
    }

    /// Removes a connection and returns its value, if it still exists.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.entries.remove(&number).map(|entry| entry.value)
    }

    /// Removes the connections for which `keep` returns false.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(|_, entry| keep(&entry.value));
    }

    /// Returns the value of a connection, if it still exists.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|entry| &mut entry.value)
    }

    /// Changes the state of a connection, if it still exists.
    pub fn change(&mut self, number: u64, next: impl FnOnce(ConnectionState) -> ConnectionState) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.state = next(entry.state);
        }
    }

    /// Returns the numbers and values of all connections, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(number, entry)| (*number, &entry.value))
    }

    /// Removes connections until there is space for a new one of `peer`, and returns the values of
    /// the removed ones.
    /// Returns `None` if requests of all connections are being answered.
    fn make_room(&mut self, peer: ConnectionPeer) -> Option<Vec<T>> {
        let half_open = self.half_open_by_peer();
        let own = half_open
            .get(&peer)
            .filter(|own| own.len() >= MAX_HALF_OPEN_PER_PEER && peer != ConnectionPeer::Trusted);
        let mut evicted: Vec<T> = Vec::new();
        evicted.extend(own.and_then(|own| self.remove(own[0])));
        if self.entries.len() < MAX_CONNECTIONS {
            return Some(evicted);
        }
        let most = half_open.iter().max_by_key(|(peer, numbers)| {
            (numbers.len(), **peer != ConnectionPeer::Trusted, Reverse(numbers[0]))
        });
        let waiting =
            self.entries.iter().find(|(_, entry)| entry.state == ConnectionState::Waiting);
        let most = most.map(|(_, numbers)| numbers[0]);
        let number = most.or(waiting.map(|(number, _)| *number))?;
        evicted.extend(self.remove(number));
        Some(evicted)
    }

    /// Returns the numbers of each peer's half-open connections, the oldest first.
    fn half_open_by_peer(&self) -> BTreeMap<ConnectionPeer, Vec<u64>> {
        let mut peers: BTreeMap<ConnectionPeer, Vec<u64>> = BTreeMap::new();
        let entries = self.entries.iter();
        for (number, entry) in entries.filter(|(_, entry)| entry.state == ConnectionState::HalfOpen)
        {
            peers.entry(entry.peer).or_default().push(*number);
        }
        peers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(last: u8) -> ConnectionPeer {
        ConnectionPeer::machine(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn a_peer_with_many_half_open_connections_loses_its_own() {
        let mut table = PeerTable::default();
        let (other, _) = table.acquire(machine(2), ()).unwrap();
        let many: Vec<_> = (0..100).map(|_| table.acquire(machine(1), ()).unwrap().0).collect();
        assert!(table.get_mut(other).is_some());
        let ended: Vec<_> = many.iter().map(|number| table.get_mut(*number).is_none()).collect();
        assert!(ended[..84].iter().all(|ended| *ended) && !ended[84..].contains(&true));
    }

    #[test]
    fn half_open_connections_of_many_peers_make_room_for_the_next() {
        let mut table = PeerTable::default();
        let (busy, _) = table.acquire(ConnectionPeer::Trusted, ()).unwrap();
        table.change(busy, |_| ConnectionState::Busy(1));
        for n in 0..200 {
            table.acquire(machine(n), ()).unwrap();
        }
        assert!(table.get_mut(busy).is_some() && table.iter().count() == MAX_CONNECTIONS);
        assert!(table.acquire(ConnectionPeer::Trusted, ()).is_some());
    }

    #[test]
    fn whoever_has_fewer_connections_than_others_keeps_them() {
        let mut table = PeerTable::default();
        let (own, _) = table.acquire(ConnectionPeer::Trusted, ()).unwrap();
        let (few, _) = table.acquire(ConnectionPeer::User(Some(7)), ()).unwrap();
        for round in 0..1000 {
            let user = ConnectionPeer::User(Some(1000 + round % 8));
            table.acquire(user, ()).unwrap();
            table.acquire(ConnectionPeer::User(None), ()).unwrap();
        }
        assert!(table.get_mut(own).is_some() && table.get_mut(few).is_some());
    }

    #[test]
    fn what_is_being_answered_is_never_ended() {
        let mut table = PeerTable::default();
        let all: Vec<_> = (0..MAX_CONNECTIONS)
            .map(|_| table.acquire(ConnectionPeer::Trusted, ()).unwrap().0)
            .collect();
        all.iter().for_each(|number| table.change(*number, |_| ConnectionState::Busy(1)));
        assert!(table.acquire(ConnectionPeer::Trusted, ()).is_none());
        table.change(all[7], |_| ConnectionState::Waiting);
        assert!(table.acquire(ConnectionPeer::Trusted, ()).is_some());
        assert!(table.get_mut(all[7]).is_none() && table.get_mut(all[6]).is_some());
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |text: &str| ConnectionPeer::machine(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), machine(1));
    }
}
