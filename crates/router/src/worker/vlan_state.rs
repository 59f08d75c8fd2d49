//! A worker's state of the VLAN subinterfaces, and access to their queues.

use std::sync::{Arc, OnceLock};

use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::slots;
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_port::Nanos;
use slipring_route::MAX_ROUTE_BATCH;

use crate::subinterface::{QueueRole, SharedSubinterfaces, SubinterfaceCounters, tags};

/// One function per worker, which wakes that worker when packets that waited for a neighbour's
/// address can continue. They are set after all workers exist.
pub(super) type WorkerWakers = Arc<OnceLock<Vec<Box<dyn Fn() + Send + Sync>>>>;

/// A frame from the wire, and the number of its subinterface.
#[derive(Default)]
pub(super) struct WireFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) number: usize,
}

/// A worker's state of the subinterfaces.
pub(super) struct WorkerSubinterfaces {
    /// The state that all workers share.
    pub(super) shared: Arc<SharedSubinterfaces>,
    pub(super) wakers: WorkerWakers,
    /// The roles of the queues from `first` on.
    roles: Vec<QueueRole>,
    first: usize,
    pub(super) priorities: [u8; 8],
    /// By number, whether packets from and for the subinterface are left to the kernel.
    pub(super) left: Vec<bool>,
    /// By number, whether this worker has changed the link in this loop iteration.
    pub(super) changed: Vec<bool>,
    pub(super) counters: Vec<SubinterfaceCounters>,
    pub(super) frames: Vec<WireFrame>,
}

impl WorkerSubinterfaces {
    /// Creates the state. The queues from `first` on have these roles.
    pub(super) fn new(
        shared: Arc<SharedSubinterfaces>,
        wakers: WorkerWakers,
        (first, roles): (usize, Vec<QueueRole>),
        priorities: [u8; 8],
    ) -> Self {
        let count = shared.all().len();
        Self {
            shared,
            wakers,
            roles,
            first,
            priorities,
            left: vec![false; count],
            changed: vec![false; count],
            counters: vec![SubinterfaceCounters::default(); count],
            frames: Vec::new(),
        }
    }

    /// Returns the role of a queue; `None` for queues that are not queues of subinterfaces.
    #[inline]
    pub(super) fn role(&self, queue: usize) -> Option<QueueRole> {
        self.roles.get(queue.checked_sub(self.first)?).copied()
    }

    /// Returns the number of the subinterface of a port.
    #[inline]
    pub(super) fn number(&self, port: FibPortIndex) -> Option<usize> {
        let all = self.shared.all();
        // The ports of subinterfaces are numbered consecutively.
        let number = usize::from(port.0).checked_sub(usize::from(all.first()?.port.0))?;
        (number < all.len()).then_some(number)
    }

    /// Whether packets that would leave by subinterface `number` are left to the kernel.
    pub(super) fn is_left(&self, number: usize) -> bool {
        self.left[number]
    }

    /// Whether the packets that would leave by at least one of the subinterfaces are left to the
    /// kernel.
    pub(super) fn has_left(&self) -> bool {
        self.left.contains(&true)
    }

    /// Applies a snapshot's addresses to the links of the subinterfaces.
    pub(super) fn set_addresses(&self, tables: &ForwardingTables) {
        self.shared.set_tables(tables);
    }

    /// Returns when the first timer of any link is due; `None` if none is set.
    pub(super) fn next_ns(&self) -> Option<Nanos> {
        self.shared.next_ns()
    }

    /// Copies frames of the subinterfaces of interface `parent` from the queue `input` into
    /// `frames`. Returns the number of copied frames, and the number of slots that were taken from
    /// the queue.
    pub(super) fn take_wire(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        parent: u32,
    ) -> (usize, u32) {
        let (shared, frames) = (&self.shared, &mut self.frames);
        let (mut used, mut scratch) = (0, Vec::new());
        let taken = queues[input].take_frames(MAX_ROUTE_BATCH as u32, |rx, at, count| {
            if used == MAX_ROUTE_BATCH {
                return false;
            }
            let bytes = slots::bytes(rx, at, count, &mut scratch);
            // Other frames are skipped; the kernel gets its own copies of them.
            let Some(number) = shared.number_of(parent, bytes) else { return true };
            if used == frames.len() {
                frames.push(WireFrame::default());
            }
            frames[used].number = number;
            frames[used].bytes.clear();
            frames[used].bytes.extend_from_slice(bytes);
            used += 1;
            true
        });
        (used, taken)
    }

    /// Sends a frame by the queue with this role. Returns whether there was space.
    pub(super) fn send(
        &self,
        queues: &mut WorkerQueues,
        to: QueueRole,
        frame: &mut Vec<u8>,
    ) -> bool {
        tags::pad(frame);
        let at = self.roles.iter().position(|role| *role == to);
        at.is_some_and(|at| queues[self.first + at].copy_frame(frame))
    }
}
