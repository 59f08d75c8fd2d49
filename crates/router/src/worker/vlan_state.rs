//! What a worker has of subinterfaces, and the queues that are theirs.

use std::sync::{Arc, OnceLock};

use slipring_datapath::queues::WorkerQueues;
use slipring_datapath::slots;
use slipring_fib::{FibPortIndex, ForwardingTables};
use slipring_port::Nanos;
use slipring_route::MAX_ROUTE_BATCH;

use crate::subinterface::{QueueRole, SharedSubinterfaces, SubinterfaceCounters, tags};

/// Wake each worker whose packets wait no longer. Set once all workers are made.
pub(super) type WorkerWakers = Arc<OnceLock<Vec<Box<dyn Fn() + Send + Sync>>>>;

/// A frame of the wire, and the number of its subinterface.
#[derive(Default)]
pub(super) struct WireFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) number: usize,
}

/// What a worker has of the subinterfaces.
pub(super) struct WorkerSubinterfaces {
    /// What all workers have in common.
    pub(super) shared: Arc<SharedSubinterfaces>,
    pub(super) wakers: WorkerWakers,
    /// The queues from `first` on.
    roles: Vec<QueueRole>,
    first: usize,
    pub(super) priorities: [u8; 8],
    /// Subinterfaces whose packets, and those for them, are left to the kernel.
    pub(super) left: Vec<bool>,
    /// Links that this worker has changed in this turn.
    pub(super) changed: Vec<bool>,
    pub(super) counters: Vec<SubinterfaceCounters>,
    pub(super) frames: Vec<WireFrame>,
}

impl WorkerSubinterfaces {
    /// The queues from `first` on have these roles.
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

    /// What the frames of a queue are; `None` for those that are not of subinterfaces.
    #[inline]
    pub(super) fn role(&self, queue: usize) -> Option<QueueRole> {
        self.roles.get(queue.checked_sub(self.first)?).copied()
    }

    /// The subinterface of a port.
    #[inline]
    pub(super) fn number(&self, port: FibPortIndex) -> Option<usize> {
        let all = self.shared.all();
        // The ports of subinterfaces come one after the other.
        let number = usize::from(port.0).checked_sub(usize::from(all.first()?.port.0))?;
        (number < all.len()).then_some(number)
    }

    /// Whether packets are left to the kernel that would leave by this subinterface.
    pub(super) fn is_left(&self, number: usize) -> bool {
        self.left[number]
    }

    /// Whether that is so for any.
    pub(super) fn has_left(&self) -> bool {
        self.left.contains(&true)
    }

    /// Takes addresses over.
    pub(super) fn set_tables(&self, tables: &ForwardingTables) {
        self.shared.set_tables(tables);
    }

    /// When a link has something to do.
    pub(super) fn next_ns(&self) -> Option<Nanos> {
        self.shared.next_ns()
    }

    /// Copies frames of a wire into `frames`. Returns their number, and that of the slots.
    pub(super) fn take_wire(
        &mut self,
        queues: &mut WorkerQueues,
        input: usize,
        parent: u32,
    ) -> (usize, u32) {
        let (all, frames) = (self.shared.all(), &mut self.frames);
        let (mut used, mut scratch) = (0, Vec::new());
        let taken = queues[input].take_frames(MAX_ROUTE_BATCH as u32, |rx, at, count| {
            if used == MAX_ROUTE_BATCH {
                return false;
            }
            let bytes = slots::bytes(rx, at, count, &mut scratch);
            let tags = tags::parse(bytes).map(|(tags, _)| tags);
            // The socket's filter knows the outer tag only. The kernel has its own copy of the rest.
            let of = |tags| all.iter().position(|it| (it.parent, it.tags) == (parent, tags));
            let Some(number) = tags.and_then(of) else { return true };
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
