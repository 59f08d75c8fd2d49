//! The limit on connections, and which connection is closed when it is reached.
//!
//! A connection is *half-open* until one of its requests was admitted. Half-open connections cost an
//! attacker nothing, so new connections never have to wait for them:
//!
//! 1. One peer has at most [`MAX_HALF_OPEN_PER_PEER`] of them; its next one closes its oldest.
//! 2. If the limit is reached, the peer with the most half-open connections loses its oldest one.
//! 3. If none is half-open, the oldest one that waits for its next request is closed.
//! 4. If all are busy, the new connection is rejected.
//!
//! Not for: admitting requests, which the guard does.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Maximum connections.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// Maximum half-open connections of one peer.
const MAX_HALF_OPEN_PER_PEER: usize = 16;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionPeer {
    /// A program that needs no token. Rule 1 does not apply to it.
    Trusted,
    /// All other users of this machine together.
    OtherUsers,
    /// A machine; for IPv6 its /64 network, in which it can use any address.
    Host(IpAddr),
}

impl ConnectionPeer {
    /// Returns the peer for the address of a machine.
    pub(crate) fn machine(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Host(Ipv6Addr::from_bits(network).into())
            }
            address => Self::Host(address),
        }
    }
}

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    HalfOpen,
    /// Idle after at least one answer.
    Waiting,
    /// This many requests are being answered.
    Busy(u32),
}

#[derive(Debug)]
struct ConnectionEntry {
    peer: ConnectionPeer,
    state: ConnectionState,
    evicted: Arc<Notify>,
}

/// All connections, in the order in which they were accepted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    entries: Mutex<(u64, BTreeMap<u64, ConnectionEntry>)>,
}

/// The slot of a connection, freed on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    number: u64,
    evicted: Arc<Notify>,
}

impl ConnectionTable {
    /// Takes a slot, closing another connection if necessary; `None` if all are busy.
    pub(crate) fn acquire(self: &Arc<Self>, peer: ConnectionPeer) -> Option<ConnectionSlot> {
        let mut taken = self.lock();
        let (next, entries) = &mut *taken;
        make_room(entries, peer)?;
        let (number, end) = (*next, Arc::new(Notify::new()));
        *next += 1;
        entries.insert(
            number,
            ConnectionEntry { peer, state: ConnectionState::HalfOpen, evicted: end.clone() },
        );
        Some(ConnectionSlot { table: self.clone(), number, evicted: end })
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, ConnectionEntry>)> {
        // No code in here panics halfway.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, number: u64, next: impl FnOnce(ConnectionState) -> ConnectionState) {
        if let Some(entry) = self.lock().1.get_mut(&number) {
            entry.state = next(entry.state);
        }
    }
}

impl ConnectionSlot {
    /// Waits until the connection must close.
    pub(crate) async fn wait_evicted(&self) {
        self.evicted.notified().await;
    }

    /// Marks a request as admitted; it is over when the result is dropped.
    pub(crate) fn admit(place: &Arc<Self>) -> ActiveRequest {
        place.table.change(place.number, |state| match state {
            ConnectionState::Busy(count) => ConnectionState::Busy(count + 1),
            ConnectionState::HalfOpen | ConnectionState::Waiting => ConnectionState::Busy(1),
        });
        ActiveRequest(place.clone())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().1.remove(&self.number);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionSlot>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.table.change(self.0.number, |state| match state {
            ConnectionState::Busy(count @ 2..) => ConnectionState::Busy(count - 1),
            _ => ConnectionState::Waiting,
        });
    }
}

/// Makes room for one more connection of `peer`.
fn make_room(entries: &mut BTreeMap<u64, ConnectionEntry>, peer: ConnectionPeer) -> Option<()> {
    let half_open = by_peer(entries);
    let own = half_open
        .get(&peer)
        .filter(|own| own.len() >= MAX_HALF_OPEN_PER_PEER && peer != ConnectionPeer::Trusted);
    if let Some(own) = own {
        evict(entries, own[0]);
    }
    if entries.len() < MAX_CONNECTIONS {
        return Some(());
    }
    let most = half_open.values().max_by_key(|numbers| numbers.len());
    let waiting = entries.iter().find(|(_, entry)| entry.state == ConnectionState::Waiting);
    let number = most.map(|numbers| numbers[0]).or(waiting.map(|(number, _)| *number))?;
    evict(entries, number);
    Some(())
}

/// Returns the half-open connections of each peer, the oldest first.
fn by_peer(entries: &BTreeMap<u64, ConnectionEntry>) -> BTreeMap<ConnectionPeer, Vec<u64>> {
    let mut peers: BTreeMap<ConnectionPeer, Vec<u64>> = BTreeMap::new();
    for (number, entry) in
        entries.iter().filter(|(_, entry)| entry.state == ConnectionState::HalfOpen)
    {
        peers.entry(entry.peer).or_default().push(*number);
    }
    peers
}

fn evict(entries: &mut BTreeMap<u64, ConnectionEntry>, number: u64) {
    if let Some(entry) = entries.remove(&number) {
        // `notify_one` stores a permit if the connection does not wait yet.
        entry.evicted.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(last: u8) -> ConnectionPeer {
        ConnectionPeer::machine(IpAddr::from([192, 0, 2, last]))
    }

    fn is_ended(place: &ConnectionSlot) -> bool {
        !place.table.lock().1.contains_key(&place.number)
    }

    #[test]
    fn a_peer_with_many_half_open_connections_loses_its_own() {
        let places = Arc::new(ConnectionTable::default());
        let other = places.acquire(machine(2)).unwrap();
        let many: Vec<_> = (0..100).map(|_| places.acquire(machine(1)).unwrap()).collect();
        assert!(!is_ended(&other));
        let ended: Vec<_> = many.iter().map(is_ended).collect();
        assert!(ended[..84].iter().all(|ended| *ended) && !ended[84..].contains(&true));
    }

    #[test]
    fn half_open_connections_of_many_peers_make_room_for_the_next() {
        let places = Arc::new(ConnectionTable::default());
        let busy = Arc::new(places.acquire(ConnectionPeer::Trusted).unwrap());
        let _admitted = ConnectionSlot::admit(&busy);
        let _many: Vec<_> = (0..200).map(|n| places.acquire(machine(n)).unwrap()).collect();
        assert!(!is_ended(&busy) && places.lock().1.len() == MAX_CONNECTIONS);
        assert!(places.acquire(ConnectionPeer::Trusted).is_some());
    }

    #[test]
    fn what_is_being_answered_is_never_ended() {
        let places = Arc::new(ConnectionTable::default());
        let all: Vec<_> = (0..MAX_CONNECTIONS)
            .map(|_| Arc::new(places.acquire(ConnectionPeer::Trusted).unwrap()))
            .collect();
        let mut answers: Vec<_> = all.iter().map(ConnectionSlot::admit).collect();
        assert!(places.acquire(ConnectionPeer::Trusted).is_none());
        answers.remove(7);
        assert!(places.acquire(ConnectionPeer::Trusted).is_some());
        assert!(is_ended(&all[7]) && !is_ended(&all[6]));
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |text: &str| ConnectionPeer::machine(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), machine(1));
    }
}
