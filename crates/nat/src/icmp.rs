//! ICMP errors: each error quotes the packet that caused it, in the form in which the sender of the
//! error saw it.

use slipring_wire::checksum::Delta;

use crate::flow::NatEndpoint;
use crate::packet::{Ipv4View, L4Content, SrcOrDst};
use crate::rewrite::{self, be16, put16};

/// Maximum number of bytes of a quoted packet that translation can change: the IP header, and the
/// TCP header up to its checksum.
const MAX_REWRITTEN_LEN: usize = 60 + 18;

/// The packet that an error quotes.
pub(crate) struct QuotedPacket {
    at: usize,
    pub(crate) view: Ipv4View,
    pub(crate) load: L4Content,
}

/// Parses the packet quoted at offset `at`; `None` if it cannot belong to a flow.
pub(crate) fn parse_quoted(packet: &[u8], at: usize) -> Option<QuotedPacket> {
    let inner = packet.get(at..)?;
    let view =
        Ipv4View::read(inner).filter(|view| view.part != crate::packet::FragmentPart::Later)?;
    let load = view.load(inner)?;
    let known = !matches!(load, L4Content::Error(_) | L4Content::Message);
    known.then_some(QuotedPacket { at, view, load })
}

impl QuotedPacket {
    /// Sets one end of the quoted packet. Also updates the checksum of the ICMP error, which begins
    /// after the IP header of `outer`.
    pub(crate) fn set_end(
        &self,
        packet: &mut [u8],
        outer: &Ipv4View,
        side: SrcOrDst,
        end: NatEndpoint,
    ) {
        let Some(inner) = packet.get_mut(self.at..) else { return };
        let changed = inner.len().min(MAX_REWRITTEN_LEN);
        let mut before = [0; MAX_REWRITTEN_LEN];
        before[..changed].copy_from_slice(&inner[..changed]);
        rewrite::set_end(inner, &self.view, side, end);
        let delta = Delta::new().bytes(&before[..changed], &inner[..changed]);
        if let Some(sum) = be16(packet, outer.l4 + 2) {
            put16(packet, outer.l4 + 2, delta.apply(sum));
        }
    }
}
