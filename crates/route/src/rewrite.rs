//! Rewrites packets for their next link.
//!
//! The fast path is for packets without special traits, between untagged links, to a known
//! neighbour. All others go through [`egress::depart`], which handles every case.

use slipring_fib::FibPortIndex;

use crate::answer::{AnswerParts, redirect};
use crate::batch::{Bits, RouteBatch, RouteFrame};
use crate::egress::{self, count_hop_v4};
use crate::field::mac_word;
use crate::packet::RoutedPacket;
use crate::verdict::{ForwardedFrame, LinkPrefix, RouteVerdict};
use crate::view::RouteView;

/// Rewrites all live packets. Packets that cannot be sent are left to the stage that sends ICMP
/// errors.
pub(crate) fn run(
    view: &RouteView,
    mut parts: AnswerParts<'_>,
    batch: &mut RouteBatch,
    frames: &mut [RouteFrame<'_>],
    now_ns: u64,
) {
    for at in Bits(batch.live()) {
        let packet = &batch.packets[at];
        let bytes = &mut *frames[at].bytes;
        match rewrite_plain(view, packet, bytes, parts.sends_redirects()) {
            Some(port) => {
                let (end, prepend) = (packet.end, LinkPrefix::default());
                parts.counters.count_sent(port, end);
                let frame = ForwardedFrame { port, start: 0, end, prepend };
                batch.decide(at, RouteVerdict::Forward(frame));
            }
            None => rewrite_any(view, &mut parts, batch, at, bytes, now_ns),
        }
    }
    (batch.v4, batch.v6) = (0, 0);
}

/// Rewrites a packet without special properties, and returns its egress port. If the packet needs
/// [`egress::depart`], leaves the frame unchanged and returns `None`.
#[inline(always)]
fn rewrite_plain(
    view: &RouteView,
    packet: &RoutedPacket,
    bytes: &mut [u8],
    sends_redirects: bool,
) -> Option<FibPortIndex> {
    let adjacency = view.adjacency(packet.adjacency)?;
    let egress = view.port(adjacency.port.0)?;
    let mac = adjacency.mac?;
    let ip_len = packet.ip_len();
    // The value 0 means that the route has no MTU. The subtraction wraps, so 0 becomes the greatest
    // number, and every packet fits.
    let fits = (ip_len <= egress.plain_mtu) & (ip_len - 1 <= packet.mtu.wrapping_sub(1));
    let may_redirect = sends_redirects & (adjacency.port.0 == packet.port);
    if !fits | !packet.traits.is_plain() | may_redirect {
        return None;
    }
    let head = bytes.first_chunk_mut::<{ 14 + 20 }>()?;
    if packet.is_v6() {
        head[21] = head[21].checked_sub(1).filter(|hops| *hops > 0)?;
    } else {
        let hop_fields: &mut [u8; 4] = head[22..26].first_chunk_mut()?;
        if hop_fields[0] <= 1 {
            return None;
        }
        count_hop_v4(hop_fields);
    }
    // The 6 bytes of the destination and the first 2 of the source are one word; the last 4 of the
    // source are another.
    let word = mac_word(mac.0) | egress.mac << 48;
    head[..8].copy_from_slice(&word.to_le_bytes());
    head[8..12].copy_from_slice(&((egress.mac >> 16) as u32).to_le_bytes());
    Some(adjacency.port)
}

/// Rewrites any packet.
#[inline(never)]
fn rewrite_any(
    view: &RouteView,
    parts: &mut AnswerParts<'_>,
    batch: &mut RouteBatch,
    at: usize,
    bytes: &mut [u8],
    now_ns: u64,
) {
    let packet = batch.packets[at];
    redirect(view, parts, bytes, &packet, now_ns);
    match egress::depart(view, parts.counters, parts.output, bytes, packet, batch.keys[at]) {
        Ok(verdict) => batch.settle(parts.counters, at, verdict),
        Err(rejection) => batch.reject(at, rejection),
    }
}
