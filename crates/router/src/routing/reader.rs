//! Passes the kernel's messages to the mirror.

use slipring_fib::{DumpKind, Mirror};
use slipring_rtnetlink::NetlinkMessage;

use crate::feed::FeedReader;
use crate::neighbours::NeighbourRequests;
use crate::router_events::RouterEvents;

/// Passes the kernel's messages on to the mirror.
pub(super) struct MirrorReader<'r> {
    pub(super) mirror: &'r mut Mirror,
    pub(super) neighbours: &'r mut NeighbourRequests,
    pub(super) dumps: &'r mut u64,
    pub(super) events: &'r RouterEvents,
    pub(super) has_read: bool,
    pub(super) has_lost: bool,
}

impl FeedReader for MirrorReader<'_> {
    fn begin(&mut self, kind: DumpKind) {
        self.mirror.begin_dump(kind);
    }

    fn end(&mut self, kind: DumpKind) {
        self.mirror.end_dump(kind);
        *self.dumps += 1;
        self.has_read = true;
    }

    fn abort(&mut self, kind: DumpKind) {
        self.mirror.abort_dump(kind);
    }

    fn message(&mut self, message: &NetlinkMessage<'_>) {
        self.neighbours.note(message);
        self.mirror.receive(message);
        self.events.note(message, self.mirror);
        self.has_read = true;
    }

    fn overrun(&mut self) {
        self.mirror.overrun();
        self.has_lost = true;
    }
}
