//! The connections of the gateway. If there are too many, a new connection closes an existing one.
//!
//! [`slipring_control::peer_table`] decides which connection is closed.
//!
//! Not for admitting requests, which the guard does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use slipring_control::peer_table::{ConnectionPeer, ConnectionState, PeerTable};
use tokio::sync::Notify;

/// All open connections of the gateway.
#[derive(Debug, Default)]
pub(crate) struct ConnectionTable {
    peers: Mutex<PeerTable<Arc<Notify>>>,
}

/// A connection's place in the table. It becomes free on drop.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    number: u64,
    evicted: Arc<Notify>,
}

impl ConnectionTable {
    /// Takes a place in the table for a connection. If the table is full, or if the peer has too
    /// many half-open connections, closes another connection. Returns `None` if the table is full
    /// and requests of all connections are being answered.
    pub(crate) fn acquire(self: &Arc<Self>, peer: ConnectionPeer) -> Option<ConnectionSlot> {
        let end = Arc::new(Notify::new());
        let (number, evicted) = self.lock().acquire(peer, end.clone())?;
        // If a connection does not wait at this moment, the notification is stored until it does.
        evicted.iter().for_each(|evicted| evicted.notify_one());
        Some(ConnectionSlot { table: self.clone(), number, evicted: end })
    }

    fn lock(&self) -> MutexGuard<'_, PeerTable<Arc<Notify>>> {
        // No code panics while it holds this lock. So the data is consistent even after a panic.
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Waits until the connection must be closed.
    pub(crate) async fn wait_evicted(&self) {
        self.evicted.notified().await;
    }

    /// Counts a request as admitted until the returned value is dropped.
    pub(crate) fn admit(slot: &Arc<Self>) -> ActiveRequest {
        slot.table.lock().change(slot.number, |state| match state {
            ConnectionState::Busy(count) => ConnectionState::Busy(count + 1),
            ConnectionState::HalfOpen | ConnectionState::Waiting => ConnectionState::Busy(1),
        });
        ActiveRequest(slot.clone())
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().remove(self.number);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<ConnectionSlot>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.table.lock().change(self.0.number, |state| match state {
            ConnectionState::Busy(count @ 2..) => ConnectionState::Busy(count - 1),
            _ => ConnectionState::Waiting,
        });
    }
}

#[cfg(test)]
mod tests {
    use slipring_control::peer_table::MAX_CONNECTIONS;

    use super::*;

    #[test]
    fn what_is_being_answered_is_never_ended_and_what_was_answered_is() {
        let table = Arc::new(ConnectionTable::default());
        let all: Vec<_> = (0..MAX_CONNECTIONS)
            .map(|_| Arc::new(table.acquire(ConnectionPeer::Trusted).unwrap()))
            .collect();
        let mut answers: Vec<_> = all.iter().map(ConnectionSlot::admit).collect();
        assert!(table.acquire(ConnectionPeer::Trusted).is_none());
        answers.remove(7);
        assert!(table.acquire(ConnectionPeer::Trusted).is_some());
        let is_ended = |slot: &ConnectionSlot| table.lock().get_mut(slot.number).is_none();
        assert!(is_ended(&all[7]) && !is_ended(&all[6]));
    }
}
