//! Who has a place among the connections, and who loses it when all are taken.
//!
//! A connection is *half-open* until a request on it was admitted. Half-open ones cost a stranger
//! nothing, so they are never what a newcomer waits for:
//!
//! 1. One peer has [`HALF_OPEN`] of them at most; its next one ends its oldest.
//! 2. When all places are taken, the oldest half-open one of the peer that has most of them ends.
//! 3. When none is half-open, the oldest one that waits for its next request ends.
//! 4. When all are being answered, the newcomer is sent away.
//!
//! Not for: whether a request is admitted; that is the guard's.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections at a time.
pub(crate) const CONNECTIONS: usize = 64;
/// Of them, those of one peer that have not asked for anything yet.
const HALF_OPEN: usize = 16;

/// Whose a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Peer {
    /// A program that may ask without a token. It is not limited by rule 1.
    Own,
    /// Other users of this machine, all together.
    Stranger,
    /// A machine; of IPv6, its network, in which it has as many addresses as it likes.
    Machine(IpAddr),
}

impl Peer {
    /// A machine by its address.
    pub(crate) fn machine(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self::Machine(Ipv6Addr::from_bits(network).into())
            }
            address => Self::Machine(address),
        }
    }
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    HalfOpen,
    /// Answered before, and silent now.
    Waiting,
    /// So many requests are being answered.
    Busy(u32),
}

#[derive(Debug)]
struct Entry {
    peer: Peer,
    state: State,
    end: Arc<Notify>,
}

/// All places, by the order in which they were taken.
#[derive(Debug, Default)]
pub(crate) struct Places {
    taken: Mutex<(u64, BTreeMap<u64, Entry>)>,
}

/// A place. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    end: Arc<Notify>,
}

impl Places {
    /// Takes a place, ending another connection where that must be; none where all are busy.
    pub(crate) fn take(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        let mut taken = self.lock();
        let (next, entries) = &mut *taken;
        make_room(entries, peer)?;
        let (number, end) = (*next, Arc::new(Notify::new()));
        *next += 1;
        entries.insert(number, Entry { peer, state: State::HalfOpen, end: end.clone() });
        Some(Place { places: self.clone(), number, end })
    }

    fn lock(&self) -> MutexGuard<'_, (u64, BTreeMap<u64, Entry>)> {
        // Nothing in here panics half-way.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, number: u64, next: impl FnOnce(State) -> State) {
        if let Some(entry) = self.lock().1.get_mut(&number) {
            entry.state = next(entry.state);
        }
    }
}

impl Place {
    /// Waits until the place is taken away.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }

    /// Says that a request was admitted; its answer is over when what comes back is dropped.
    pub(crate) fn admit(place: &Arc<Self>) -> Admitted {
        place.places.change(place.number, |state| match state {
            State::Busy(count) => State::Busy(count + 1),
            State::HalfOpen | State::Waiting => State::Busy(1),
        });
        Admitted(place.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().1.remove(&self.number);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Admitted(Arc<Place>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.places.change(self.0.number, |state| match state {
            State::Busy(count @ 2..) => State::Busy(count - 1),
            _ => State::Waiting,
        });
    }
}

/// Sees that there is a place for one more connection of `peer`.
fn make_room(entries: &mut BTreeMap<u64, Entry>, peer: Peer) -> Option<()> {
    let half_open = by_peer(entries);
    let own = half_open.get(&peer).filter(|own| own.len() >= HALF_OPEN && peer != Peer::Own);
    if let Some(own) = own {
        end(entries, own[0]);
    }
    if entries.len() < CONNECTIONS {
        return Some(());
    }
    let most = half_open.values().max_by_key(|numbers| numbers.len());
    let waiting = entries.iter().find(|(_, entry)| entry.state == State::Waiting);
    let number = most.map(|numbers| numbers[0]).or(waiting.map(|(number, _)| *number))?;
    end(entries, number);
    Some(())
}

/// The half-open connections of each peer, the oldest first.
fn by_peer(entries: &BTreeMap<u64, Entry>) -> BTreeMap<Peer, Vec<u64>> {
    let mut peers: BTreeMap<Peer, Vec<u64>> = BTreeMap::new();
    for (number, entry) in entries.iter().filter(|(_, entry)| entry.state == State::HalfOpen) {
        peers.entry(entry.peer).or_default().push(*number);
    }
    peers
}

fn end(entries: &mut BTreeMap<u64, Entry>, number: u64) {
    if let Some(entry) = entries.remove(&number) {
        // Kept for whoever waits later.
        entry.end.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(last: u8) -> Peer {
        Peer::machine(IpAddr::from([192, 0, 2, last]))
    }

    fn is_ended(place: &Place) -> bool {
        !place.places.lock().1.contains_key(&place.number)
    }

    #[test]
    fn a_peer_with_many_half_open_connections_loses_its_own() {
        let places = Arc::new(Places::default());
        let other = places.take(machine(2)).unwrap();
        let many: Vec<_> = (0..100).map(|_| places.take(machine(1)).unwrap()).collect();
        assert!(!is_ended(&other));
        let ended: Vec<_> = many.iter().map(is_ended).collect();
        assert!(ended[..84].iter().all(|ended| *ended) && !ended[84..].contains(&true));
    }

    #[test]
    fn half_open_connections_of_many_peers_make_room_for_the_next() {
        let places = Arc::new(Places::default());
        let busy = Arc::new(places.take(Peer::Own).unwrap());
        let _admitted = Place::admit(&busy);
        let _many: Vec<_> = (0..200).map(|n| places.take(machine(n)).unwrap()).collect();
        assert!(!is_ended(&busy) && places.lock().1.len() == CONNECTIONS);
        assert!(places.take(Peer::Own).is_some());
    }

    #[test]
    fn what_is_being_answered_is_never_ended() {
        let places = Arc::new(Places::default());
        let all: Vec<_> =
            (0..CONNECTIONS).map(|_| Arc::new(places.take(Peer::Own).unwrap())).collect();
        let mut answers: Vec<_> = all.iter().map(Place::admit).collect();
        assert!(places.take(Peer::Own).is_none());
        answers.remove(7);
        assert!(places.take(Peer::Own).is_some());
        assert!(is_ended(&all[7]) && !is_ended(&all[6]));
    }

    #[test]
    fn addresses_of_one_network_are_one_peer() {
        let peer = |text: &str| Peer::machine(text.parse().unwrap());
        assert_eq!(peer("2001:db8::1"), peer("2001:db8::ffff"));
        assert_ne!(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
        assert_eq!(peer("::ffff:192.0.2.1"), machine(1));
    }
}
