//! The properties of a frame that pipes and queues use.

use slipring_dummynet::flow::ShaperFlowKey;
use slipring_ipfw::packet::{IpFamily, PacketHeaders};
use slipring_model::aqm::Ecn;

/// Returns the flow to which the shaper's masks are applied, and the frame's ECN field.
#[must_use]
pub fn flow_of(frame: &[u8]) -> (ShaperFlowKey, Ecn) {
    let Ok(packet) = PacketHeaders::parse(frame) else {
        return (ShaperFlowKey::default(), Ecn::NotEct);
    };
    if packet.version == IpFamily::None {
        return (ShaperFlowKey::default(), Ecn::NotEct);
    }
    let key = ShaperFlowKey {
        is_v6: packet.version == IpFamily::V6,
        proto: packet.proto,
        src_port: packet.src_port,
        dst_port: packet.dst_port,
        flow_label: packet.flow_label,
        src: packet.src,
        dst: packet.dst,
    };
    (key, Ecn::from_tos(packet.tos))
}
