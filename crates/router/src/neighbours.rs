//! Asks the kernel to resolve and refresh the neighbours of packets that do not pass through the
//! kernel.
//!
//! The kernel keeps the neighbours, but it does not see the packets that the programs forward. To
//! the kernel, a busy neighbour would look unused: its entry would become stale, and a change of
//! the host's MAC address would go unnoticed. So the router marks each entry that becomes stale as
//! used (`NTF_USE` of linux/neighbour.h), and the kernel probes the host again (RFC 4861, 7.3.3).
//!
//! ```text
//!   routing thread: note, want --> waiting --> channel --> thread --> helper process --> kernel
//! ```
//!
//! The kernel may block the helper while other processes change its interfaces. So a separate
//! thread waits for the answers, not the routing thread.

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

/// Shortest time between two requests for the same neighbour, unless it has failed in between.
const REPEAT_NS: Nanos = 1_000_000_000;
/// Maximum number of waiting requests, and of neighbours whose last request is remembered.
const MAX_WAITING: usize = 65_536;
/// Maximum number of requests in the channel to the thread that asks the helper.
const CHANNEL_LEN: usize = 64;

/// Requests to the kernel, with the limits of their rate.
pub(crate) struct NeighbourRequests {
    /// The channel to the thread that makes the requests.
    channel: SyncSender<GatewayRequest>,
    ifindexes: Vec<u32>,
    waiting: VecDeque<GatewayRequest>,
    asked: BTreeMap<(u32, IpAddr), Nanos>,
    pruned_at: Nanos,
    /// Requests that were dropped because [`MAX_WAITING`] was reached. They are repeated when the
    /// neighbour is needed again.
    pub(crate) dropped: u64,
    /// Neighbours that did not answer the kernel's requests.
    failed: Vec<GatewayRequest>,
}

impl NeighbourRequests {
    /// Accepts requests for neighbours on these interfaces. Without a helper, no request can be
    /// made, and neighbours become stale.
    ///
    /// # Errors
    /// If the system refuses a thread.
    pub(crate) fn new(
        helper: Option<Arc<PrivilegedHelper>>,
        ifindexes: Vec<u32>,
    ) -> io::Result<Self> {
        Self::with(ifindexes, move |GatewayRequest { ifindex, address }| {
            if let Some(helper) = &helper {
                // This fails if the neighbour or its interface no longer exists. It needs no
                // refresh then.
                let _ = helper.request(&HelperRequest::UseNeighbour { ifindex, address }, None);
            }
        })
    }

    /// Starts a thread that calls `make` for each request, until this value is dropped.
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

    /// Returns the requested neighbours that the kernel has reported as unreachable since the last
    /// call.
    pub(crate) fn take_failed(&mut self) -> Vec<GatewayRequest> {
        std::mem::take(&mut self.failed)
    }

    /// Processes a message of the kernel: an entry that has become stale is refreshed, and a
    /// neighbour that has failed may be requested again.
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

    /// Requests a neighbour, which [`Self::send`] passes on. Does nothing if the neighbour was
    /// already requested in the last second and has not failed since, or if its interface is not
    /// one of those given to [`Self::new`].
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

    /// Passes waiting requests on to the thread until the channel is full; the others wait for the
    /// next call. A notification of the kernel reports the result.
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
    fn a_helper_that_does_not_answer_keeps_no_thread_waiting_and_is_asked_for_all_later() {
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
        // `send` returns although the helper has not answered the first request yet.
        neighbours.send();
        assert_eq!(requests.recv(), Ok(request(0)));
        assert!(!neighbours.waiting.is_empty() && neighbours.dropped == 0);
        drop(answer);
        for at in 1..3 * CHANNEL_LEN as u32 {
            // The routing thread also does this in each iteration of its loop.
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
