//! Assigns the slots for connections of a server, and decides which connection ends when all are
//! taken.
//!
//! A connection is *half-open* until a request on it was admitted. Half-open ones cost a stranger
//! nothing, so they are never what a newcomer waits for:
//!
//! 1. One peer has `MAX_HALF_OPEN_PER_PEER` of them at most; its next one ends its oldest.
//! 2. When all places are taken, the oldest half-open one of the peer that has most of them ends;
//!    where several have as many, trusted ones last.
//! 3. When none is half-open, the oldest one that waits for its next request ends.
//! 4. When all are being answered, the newcomer is sent away.
//!
//! Not for: whether a request is admitted; that is the server's.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use crate::socket_owner;

/// Connections at a time.
pub const MAX_CONNECTIONS: usize = 64;
/// Of them, those of one peer that have not asked for anything yet.
const MAX_HALF_OPEN_PER_PEER: usize = 16;

/// Whose a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionPeer {
    /// A program of this user or root. It is not limited by rule 1.
    Trusted,
    /// Another user of this machine; `None`: those whose names are not known, all together.
    User(Option<u32>),
    /// A machine; of IPv6, its network, in which it has as many addresses as it likes.
    Host(IpAddr),
}

impl ConnectionPeer {
    /// A machine by its address.
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

    /// A user of this machine by number, where that is known.
    #[must_use]
    pub fn user(owner: Option<u32>) -> Self {
        if owner.is_some_and(socket_owner::is_trusted) { Self::Trusted } else { Self::User(owner) }
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionState {
    /// Nothing was asked yet.
    HalfOpen,
    /// Answered before, and silent now.
    Waiting,
    /// Number of requests that are being answered.
    Busy(u32),
}

#[derive(Debug)]
struct PeerEntry<T> {
    peer: ConnectionPeer,
    state: ConnectionState,
    value: T,
}

/// All connections, by the order in which they came, with what the server keeps of each.
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
    /// Takes a place; gives its number, and what was kept of those that had to make room. `None`
    /// where all are busy.
    pub fn acquire(&mut self, peer: ConnectionPeer, value: T) -> Option<(u64, Vec<T>)> {
        let evicted = self.make_room(peer)?;
        let number = self.next;
        self.next += 1;
        self.entries.insert(number, PeerEntry { peer, state: ConnectionState::HalfOpen, value });
        Some((number, evicted))
    }

    /// Frees a place, if it is not free yet.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        self.entries.remove(&number).map(|entry| entry.value)
    }

    /// Frees the places of those that `keep` does not want.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.entries.retain(|_, entry| keep(&entry.value));
    }

    /// What is kept of a connection, if it still has its place.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.entries.get_mut(&number).map(|entry| &mut entry.value)
    }

    /// What a connection does from now on, if it still has its place.
    pub fn change(&mut self, number: u64, next: impl FnOnce(ConnectionState) -> ConnectionState) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.state = next(entry.state);
        }
    }

    /// All numbers and what is kept of them, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.entries.iter().map(|(number, entry)| (*number, &entry.value))
    }

    /// Sees that there is a place for one more connection of `peer`.
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

    /// The half-open connections of each peer, the oldest first.
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
