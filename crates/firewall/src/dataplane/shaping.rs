//! Moves frames into pipes and queues, and out of them.

use slipring_dummynet::{ShaperEvent, ShaperPacket as Shaped, ShaperTarget};
use slipring_ipfw::run::{PacketMetadata, mark_congestion};
use slipring_rules::flow_of;

use super::{Dataplane, DataplaneLoss, DataplaneNanos, DataplaneOutput};

impl Dataplane {
    pub(super) fn shape(
        &mut self,
        object: fn(u16) -> ShaperTarget,
        number: u32,
        frame: &[u8],
        crossing: PacketMetadata,
        now: DataplaneNanos,
    ) {
        let Ok(number) = u16::try_from(number) else {
            return self.counters.count_loss(DataplaneLoss::NoNumber);
        };
        let object = object(number);
        if self.remote.shapes_elsewhere() {
            return self.hand_off(object, frame, crossing);
        }
        let handle = self.frames.insert(frame, (crossing, self.remote.own_id()));
        self.submit(object, handle, now);
    }

    /// Passes the frame with this handle to a pipe or queue.
    pub(super) fn submit(&mut self, object: ShaperTarget, handle: u32, now: DataplaneNanos) {
        let frame = &self.frames.get_mut(handle).bytes;
        let (key, ecn) = flow_of(frame);
        // The shaper does not need the rule's number. The frame store keeps it with the frame.
        let packet = Shaped { handle, rule: 0, len: frame.len() as u32, ecn };
        let events = &mut self.events;
        self.shaper.submit(now, object, &key, packet, &mut |event| events.push(event));
    }

    /// Handles the events of the shaper. A frame that leaves a pipe and continues in the rules may
    /// cause further events, which are also handled.
    pub(super) fn process_shaper_events(
        &mut self,
        now: DataplaneNanos,
        outlet: &mut impl DataplaneOutput,
    ) {
        let mut at = 0;
        while let Some(&event) = self.events.get(at) {
            at += 1;
            match event {
                ShaperEvent::Dropped { handle, .. } => self.count_shaper_drop(handle),
                ShaperEvent::Marked { handle } => {
                    mark_congestion(&mut self.frames.get_mut(handle).bytes)
                }
                ShaperEvent::Released { handle, .. } => self.released(handle, now, outlet),
            }
        }
        self.events.clear();
    }

    fn released(&mut self, handle: u32, now: DataplaneNanos, outlet: &mut impl DataplaneOutput) {
        let mut waiting = self.frames.take_frame(handle);
        if waiting.owner != self.remote.own_id() {
            self.frames.release(handle, None);
            return self.hand_back(waiting);
        }
        let crossing = std::mem::replace(&mut waiting.crossing, PacketMetadata::incoming(0));
        self.resume(&mut waiting.bytes, crossing, now, outlet);
        self.frames.release(handle, Some(waiting));
    }
}
