//! The Ethernet header and its VLAN tags.

use slipring_fib::VlanTags;
use slipring_wire::assigned::{EtherType, VlanTag};

use super::outcome::ParseRefusal;
use crate::batch::RouteFrame;
use crate::cause::RouteDropCause;
use crate::field::{array, be16, mac_word};
use crate::punt::{PuntClass, PuntReason, classify};
use crate::view::RouteView;

/// Length of an Ethernet header without tags.
pub(super) const UNTAGGED_LEN: u16 = 14;
const TAG_LEN: u16 = 4;
/// Maximum number of tags in the frame's bytes, priority tags included. A frame with more is not
/// parsed further, so it is never forwarded.
const MAX_TAGS: usize = 3;

/// A parsed link header.
pub(super) struct ParsedLink {
    pub(super) ethertype: EtherType,
    /// Offset of the payload.
    pub(super) l3: u16,
    pub(super) port: u16,
    pub(super) vrf: u16,
    /// Whether the frame is a broadcast or multicast.
    pub(super) is_group: bool,
    /// Whether the frame is for another host.
    pub(super) is_other_mac: bool,
}

/// Parses the link header of a frame, and finds the frame's port by its tags.
pub(super) fn parse(view: &RouteView, frame: &RouteFrame<'_>) -> Result<ParsedLink, ParseRefusal> {
    let bytes = &*frame.bytes;
    let Some(mac) = array::<6>(bytes, 0).filter(|_| bytes.len() >= usize::from(UNTAGGED_LEN))
    else {
        return Err(ParseRefusal::Drop(RouteDropCause::Runt));
    };
    let mut tags = TagStack::default();
    if let Some(tag) = frame.stripped_tag {
        tags.push(tag.ethertype, tag.tag);
    }
    let mut ethertype = EtherType(be16(bytes, 12));
    let mut l3 = UNTAGGED_LEN;
    let mut left = MAX_TAGS;
    while ethertype.is_vlan() && left > 0 {
        let Some([a, b, c, d]) = array(bytes, usize::from(l3)) else {
            return Err(ParseRefusal::Drop(RouteDropCause::TruncatedTag));
        };
        tags.push(ethertype, VlanTag(u16::from_be_bytes([a, b])));
        ethertype = EtherType(u16::from_be_bytes([c, d]));
        l3 += TAG_LEN;
        left -= 1;
    }
    let port = match tags.found {
        _ if tags.is_beyond_two => None,
        tags if tags == VlanTags::default() => view.untagged(frame.ingress),
        tags => view.tagged(frame.ingress, tags),
    };
    let facts = port.and_then(|port| Some((port, view.port(port)?)));
    let Some((port, facts)) = facts else {
        let class = classify(bytes, ethertype, usize::from(l3));
        // A frame of an unknown VLAN may be for a VLAN device of the kernel, whatever its
        // destination address is.
        let class = if ethertype.is_vlan() { PuntClass::Other } else { class };
        return Err(ParseRefusal::Kernel(class, PuntReason::UnknownVlan));
    };
    let is_group = mac[0] & 1 != 0;
    let is_other_mac = !is_group && mac_word(mac) != facts.mac;
    Ok(ParsedLink { ethertype, l3, port, vrf: facts.vrf, is_group, is_other_mac })
}

/// The tags found so far. Priority tags (VLAN identifier 0) do not count (IEEE 802.1Q, 9.6).
#[derive(Default)]
struct TagStack {
    found: VlanTags,
    is_beyond_two: bool,
}

impl TagStack {
    fn push(&mut self, ethertype: EtherType, tag: VlanTag) {
        let tag = (ethertype.0, tag.vid());
        match &mut self.found {
            _ if tag.1 == 0 => {}
            VlanTags { outer: outer @ None, .. } => *outer = Some(tag),
            VlanTags { inner: inner @ None, .. } => *inner = Some(tag),
            _ => self.is_beyond_two = true,
        }
    }
}
