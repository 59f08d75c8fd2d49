//! Has the kernel resolve and refresh neighbours for whose packets it is not asked.
//!
//! The kernel keeps the neighbours, but it does not see the packets that the programs forward. It
//! would take a neighbour that is used every moment for an unused one: the entry becomes
//! stale, and a change of the host's MAC address goes unnoticed. So each entry that becomes stale is
//! used once more (`NTF_USE` of linux/neighbour.h), and the kernel asks the host again (RFC 4861,
//! 7.3.3).
//!
//! ```text
//!   routing thread: note, want --> waiting --> channel --> thread --> helper process --> kernel
//! ```
//!
//! The kernel may keep the helper waiting while others change its interfaces, so a thread of its own
//! waits for the answers, and not the one that keeps the tables.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::Builder;

use slipring_fib::GatewayRequest;
use slipring_port::{Nanos, now};
use slipring_privileged::{HelperRequest, PrivilegedHelper};
use slipring_rtnetlink::{Change, MessageBody, NetlinkMessage, NudState};

/// Shortest time between two requests for the same neighbour.
const REPEAT_NS: Nanos = 1_000_000_000;
/// Requests that may wait, and neighbours whose last request is remembered.
const MAX_WAITING: usize = 65_536;
/// Requests on the way to the helper.
const CHANNEL_LEN: usize = 64;

/// Requests to the kernel, with the limits of their rate.
pub(crate) struct NeighbourRequests {
    /// To the thread that makes the requests.
    channel: SyncSender<GatewayRequest>,
    ifindexes: Vec<u32>,
    waiting: VecDeque<GatewayRequest>,
    asked: BTreeMap<(u32, IpAddr), Nanos>,
    pruned_at: Nanos,
    /// Requests for which there was no space: they are made when the neighbour is wanted again.
    pub(crate) dropped: u64,
    /// Neighbours that were asked for and did not answer.
    failed: Vec<GatewayRequest>,
}

impl NeighbourRequests {
    /// Takes requests about neighbours on these interfaces. Without a helper, nothing may be
    /// requested, and neighbours become stale.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn new(
        helper: Option<Arc<PrivilegedHelper>>,
        ifindexes: Vec<u32>,
    ) -> io::Result<Self> {
        Self::with(ifindexes, move |GatewayRequest { ifindex, address }| {
            if let Some(helper) = &helper {
                // A neighbour, or its interface, that is gone needs no refreshing.
                let _ = helper.request(&HelperRequest::UseNeighbour { ifindex, address }, None);
            }
        })
    }

    /// Has a thread `make` the requests, until this is dropped.
    fn with(
        ifindexes: Vec<u32>,
        make: impl Fn(GatewayRequest) + Send + 'static,
    ) -> io::Result<Self> {
        let (channel, requests) = sync_channel(CHANNEL_LEN);
        Builder::new()
            .name("neighbours".into())
            .spawn(move || requests.into_iter().for_each(make))?;
        let (waiting, asked) = (VecDeque::new(), BTreeMap::new());
        let failed = Vec::new();
        Ok(Self { channel, ifindexes, waiting, asked, pruned_at: 0, dropped: 0, failed })
    }

    /// The neighbours of which the kernel has told since the last call that they do not answer.
    pub(crate) fn take_failed(&mut self) -> Vec<GatewayRequest> {
        std::mem::take(&mut self.failed)
    }

    /// Notes a message of the kernel: an entry that has become stale is to be refreshed, and one that
    /// has failed may be asked for again.
    pub(crate) fn note(&mut self, message: &NetlinkMessage<'_>) {
        let MessageBody::Neighbour(Change::New, neighbour) = &message.body else { return };
        if neighbour.state == NudState(NudState::STALE) {
            self.want(GatewayRequest { ifindex: neighbour.ifindex, address: neighbour.address });
        } else if neighbour.state == NudState(NudState::FAILED)
            && self.asked.remove(&(neighbour.ifindex, neighbour.address)).is_some()
        {
            let (ifindex, address) = (neighbour.ifindex, neighbour.address);
            self.failed.push(GatewayRequest { ifindex, address });
        }
    }

    /// Has a neighbour resolved, unless it was asked for in the last second.
    pub(crate) fn want(&mut self, request: GatewayRequest) {
        let time = now();
        let key = (request.ifindex, request.address);
        let is_recent = self.asked.get(&key).is_some_and(|at| time < at + REPEAT_NS);
        if is_recent || !self.ifindexes.contains(&request.ifindex) {
            return;
        }
        if self.asked.len() >= MAX_WAITING && time >= self.pruned_at + REPEAT_NS {
            self.pruned_at = time;
            self.asked.retain(|_, at| time < *at + REPEAT_NS);
        }
        if self.waiting.len() < MAX_WAITING && self.asked.len() < MAX_WAITING {
            self.asked.insert(key, time);
            self.waiting.push_back(request);
        } else {
            self.dropped += 1;
        }
    }

    /// Whether [`Self::send`] has requests to pass on.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Passes on as many of the waiting requests as the thread takes; the others wait for the next
    /// call. What becomes of a neighbour is told by a notification.
    pub(crate) fn send(&mut self) {
        while let Some(request) = self.waiting.pop_front() {
            if let Err(TrySendError::Full(request)) = self.channel.try_send(request) {
                self.waiting.push_front(request);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_helper_that_does_not_answer_keeps_nobody_waiting_and_is_asked_for_all_later() {
        let (answer, answers) = channel::<()>();
        let (asked, requests) = channel();
        let make = move |request| {
            asked.send(request).unwrap();
            let _ = answers.recv();
        };
        let mut neighbours = NeighbourRequests::with(vec![1], make).unwrap();
        let request = |at: u32| GatewayRequest { ifindex: 1, address: IpAddr::V4(at.into()) };
        for at in 0..3 * CHANNEL_LEN as u32 {
            neighbours.want(request(at));
        }
        // The first request has no answer yet, and this returns nevertheless.
        neighbours.send();
        assert_eq!(requests.recv(), Ok(request(0)));
        assert!(!neighbours.waiting.is_empty() && neighbours.dropped == 0);
        drop(answer);
        for at in 1..3 * CHANNEL_LEN as u32 {
            // As the turns of the routing thread do.
            neighbours.send();
            assert_eq!(requests.recv(), Ok(request(at)));
        }
        assert!(neighbours.waiting.is_empty());
    }

    #[test]
    fn more_neighbours_than_are_remembered_are_counted() {
        let mut neighbours = NeighbourRequests::with(vec![1], |_| {}).unwrap();
        for at in 0..=MAX_WAITING as u32 {
            neighbours.want(GatewayRequest { ifindex: 1, address: IpAddr::V4(at.into()) });
        }
        assert_eq!(neighbours.dropped, 1);
    }
}
