//! Has the kernel resolve and refresh neighbours for whose packets it is not asked.
//!
//! The kernel keeps the neighbours, but it does not see the packets that the programs forward. It
//! would take a neighbour that is used every moment for an unused one: the entry becomes
//! stale, and a change of the host's MAC address goes unnoticed. So each entry that becomes stale is
//! used once more (`NTF_USE` of linux/neighbour.h), and the kernel asks the host again (RFC 4861,
//! 7.3.3).

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use slipring_fib::GatewayRequest;
use slipring_port::{Nanos, now};
use slipring_privileged::{HelperRequest, PrivilegedHelper};
use slipring_rtnetlink::{Change, MessageBody, NetlinkMessage, NudState};

/// Shortest time between two requests for the same neighbour.
const REPEAT_NS: Nanos = 1_000_000_000;
/// Requests that may wait, and neighbours whose last request is remembered.
const MAX_WAITING: usize = 65_536;
/// Requests per turn of the thread; each waits for the helper, some tens of microseconds.
const MAX_PER_TURN: usize = 64;

/// Requests to the kernel, with the limits of their rate.
pub(crate) struct NeighbourRequests {
    /// The process that may make requests; `None` if there is none, so that neighbours become stale.
    helper: Option<Arc<PrivilegedHelper>>,
    ifindexes: Vec<u32>,
    waiting: VecDeque<GatewayRequest>,
    asked: BTreeMap<(u32, IpAddr), Nanos>,
    pruned_at: Nanos,
}

impl NeighbourRequests {
    /// Takes requests about neighbours on these interfaces.
    pub(crate) fn new(helper: Option<Arc<PrivilegedHelper>>, ifindexes: Vec<u32>) -> Self {
        Self { helper, ifindexes, waiting: VecDeque::new(), asked: BTreeMap::new(), pruned_at: 0 }
    }

    /// Notes a message of the kernel: an entry that has become stale is to be refreshed.
    pub(crate) fn note(&mut self, message: &NetlinkMessage<'_>) {
        let MessageBody::Neighbour(Change::New, neighbour) = &message.body else { return };
        if neighbour.state == NudState(NudState::STALE) {
            self.want(GatewayRequest { ifindex: neighbour.ifindex, address: neighbour.address });
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
        }
    }

    /// Sends some of the waiting requests. What becomes of a neighbour is told by a notification.
    pub(crate) fn send(&mut self) {
        let count = MAX_PER_TURN.min(self.waiting.len());
        for GatewayRequest { ifindex, address } in self.waiting.drain(..count) {
            if let Some(helper) = &self.helper {
                // A neighbour, or its interface, that is gone needs no refreshing.
                let _ = helper.request(&HelperRequest::UseNeighbour { ifindex, address }, None);
            }
        }
    }
}
