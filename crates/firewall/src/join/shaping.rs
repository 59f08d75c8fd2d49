//! Frames on their way into pipes and queues and out of them.

use slipring_dummynet::flow::FlowKey;
use slipring_dummynet::{Event, Object, Packet as Shaped};
use slipring_ipfw::packet::{Packet, Version};
use slipring_ipfw::run::{Crossing, mark_congestion};
use slipring_model::aqm::Ecn;

use super::{Join, Loss, Nanos, Outlet};

impl Join {
    pub(super) fn shape(
        &mut self,
        object: fn(u16) -> Object,
        number: u32,
        frame: &[u8],
        crossing: Crossing,
        now: Nanos,
    ) {
        let Ok(number) = u16::try_from(number) else {
            return self.tally.lose(Loss::NoNumber);
        };
        let object = object(number);
        if self.abroad.shapes_elsewhere() {
            return self.send_away(object, frame, crossing);
        }
        let handle = self.hall.keep(frame, (crossing, self.abroad.own()));
        self.submit(object, handle, now);
    }

    /// Has the shaper take a frame that is in the hall.
    pub(super) fn submit(&mut self, object: Object, handle: u32, now: Nanos) {
        let frame = &self.hall.get_mut(handle).bytes;
        let (key, ecn) = flow_of(frame);
        // The rule is in the crossing.
        let packet = Shaped { handle, rule: 0, len: frame.len() as u32, ecn };
        let events = &mut self.events;
        self.shaper.submit(now, object, &key, packet, &mut |event| events.push(event));
    }

    /// Does what the shaper told of. Frames that go on may have it tell more.
    pub(super) fn settle(&mut self, now: Nanos, outlet: &mut impl Outlet) {
        let mut at = 0;
        while let Some(&event) = self.events.get(at) {
            at += 1;
            match event {
                Event::Dropped { handle, .. } => self.gave_up(handle),
                Event::Marked { handle } => mark_congestion(&mut self.hall.get_mut(handle).bytes),
                Event::Released { handle, .. } => self.released(handle, now, outlet),
            }
        }
        self.events.clear();
    }

    fn released(&mut self, handle: u32, now: Nanos, outlet: &mut impl Outlet) {
        let mut waiting = self.hall.take(handle);
        if waiting.home != self.abroad.own() {
            self.hall.free(handle, None);
            return self.send_home(waiting);
        }
        let crossing = std::mem::replace(&mut waiting.crossing, Crossing::incoming(0));
        self.go_on(&mut waiting.bytes, crossing, now, outlet);
        self.hall.free(handle, Some(waiting));
    }
}

/// What masks of the shaper ask for.
fn flow_of(frame: &[u8]) -> (FlowKey, Ecn) {
    let Ok(packet) = Packet::parse(frame) else { return (FlowKey::default(), Ecn::NotEct) };
    if packet.version == Version::None {
        return (FlowKey::default(), Ecn::NotEct);
    }
    let key = FlowKey {
        is_v6: packet.version == Version::V6,
        proto: packet.proto,
        src_port: packet.src_port,
        dst_port: packet.dst_port,
        flow_label: packet.flow_label,
        src: packet.src,
        dst: packet.dst,
    };
    (key, Ecn::from_tos(packet.tos))
}
