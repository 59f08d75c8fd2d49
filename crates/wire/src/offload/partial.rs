//! Completes a checksum that the kernel left incomplete (CHECKSUM_PARTIAL).
//!
//! In such a frame, the checksum field of TCP or UDP contains the folded sum of the pseudo header,
//! not complemented. So a frame whose field has this value counts as incomplete. A complete frame
//! has this value with a probability of 1 in 65,535. Completing it again does no harm, because the
//! field gets the value that it already has.

use crate::assigned::IpProto;
use crate::checksum::{Sum, nonzero};
use crate::field::{array, be16, put_be16};
use crate::view::{FragmentPosition, Headers, Ip, IpVersion};

/// Completes the TCP or UDP checksum of `frame` if its field contains only the sum of the pseudo
/// header. Returns whether the checksum was completed.
///
/// All other frames stay unchanged, as do fragments, frames that end before their IP packet does,
/// IPv6 packets with routing segments left, and invalid frames. For them, this costs at most the
/// parsing of the headers and the sum of the pseudo header. IPv6 extension headers and up to two
/// VLAN tags are skipped.
#[inline]
pub fn complete_partial(frame: &mut [u8]) -> bool {
    match partial_checksum(frame) {
        Some(field) => complete(frame, field),
        None => false,
    }
}

/// Where an incomplete checksum is, and which bytes it covers.
struct PartialChecksum {
    l4: usize,
    end: usize,
    field: usize,
}

#[inline]
fn partial_checksum(frame: &[u8]) -> Option<PartialChecksum> {
    // The compiler inlines `partial_checksum_in` twice. In the first copy, most header fields are
    // constants, so it is faster.
    match Headers::plain_ipv4(frame) {
        Some(headers) => partial_checksum_in(frame, frame.len(), &headers),
        None => partial_checksum_in(frame, frame.len(), &Headers::parse(frame).ok()?),
    }
}

/// Returns whether [`complete_partial`] would complete a frame of `len` bytes that starts with the
/// bytes `head`. If `head` is shorter than `len`, also returns true if `head` ends before the
/// checksum or the headers in it are truncated or invalid.
///
/// This is for a frame in memory that another process can write. Only its first bytes have to be
/// copied and checked; the whole frame has to be copied only if its checksum must be completed.
#[inline]
#[must_use]
pub fn may_be_partial(head: &[u8], len: usize) -> bool {
    let parsed = match Headers::plain_ipv4(head) {
        Some(headers) => told_by(head, len, &headers),
        None => Headers::parse(head).ok().and_then(|headers| told_by(head, len, &headers)),
    };
    parsed.unwrap_or(head.len() < len)
}

/// Returns the result of [`may_be_partial`], according to the headers; `None` if `head` ends before
/// the checksum does.
#[inline(always)]
fn told_by(head: &[u8], len: usize, headers: &Headers) -> Option<bool> {
    let Some(at) = headers.ip.and_then(|ip| Some(usize::from(ip.l4) + checksum_offset(ip.proto)?))
    else {
        return Some(false);
    };
    (at + 2 <= head.len()).then(|| partial_checksum_in(head, len, headers).is_some())
}

#[inline(always)]
fn partial_checksum_in(frame: &[u8], len: usize, headers: &Headers) -> Option<PartialChecksum> {
    let ip = headers.ip?;
    let field = usize::from(ip.l4) + checksum_offset(ip.proto)?;
    let end = ip.end as usize;
    let summable = ip.fragment == FragmentPosition::Whole && !ip.rerouted;
    if !summable || end > len || end < field + 2 {
        return None;
    }
    let l4 = usize::from(ip.l4);
    let pseudo = pseudo_sum(frame, usize::from(headers.l3), ip)?.folded();
    (be16(frame, field)? == pseudo).then_some(PartialChecksum { l4, end, field })
}

/// Returns the offset of the checksum within the transport header; `None` if the protocol is
/// neither TCP nor UDP.
#[inline]
pub(super) fn checksum_offset(proto: IpProto) -> Option<usize> {
    match proto {
        IpProto::TCP => Some(16),
        IpProto::UDP => Some(6),
        _ => None,
    }
}

#[inline]
fn pseudo_sum(frame: &[u8], l3: usize, ip: Ip) -> Option<Sum> {
    let len = ip.l4_len();
    Some(match ip.version {
        IpVersion::V4 => Sum::pseudo::<8>(array(frame, l3 + 12)?, ip.proto, len),
        IpVersion::V6 => Sum::pseudo::<32>(array(frame, l3 + 8)?, ip.proto, len),
    })
}

/// Stores the complete checksum. Returns false only if `what` is outside `frame`. The field still
/// contains the sum of the pseudo header, so adding up header and payload also includes this sum.
fn complete(frame: &mut [u8], what: PartialChecksum) -> bool {
    let Some(covered) = frame.get(what.l4..what.end) else {
        return false;
    };
    // As in Linux, a checksum of 0 is stored as 0xffff, also for TCP, where both are valid. So a
    // complete frame that looked incomplete stays unchanged, because its field cannot be 0.
    let checksum = nonzero(Sum::new().bytes(covered).checksum());
    put_be16(frame, what.field, checksum).is_some()
}

/// A virtio header requests a checksum whose field is outside the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checksum at byte {start} + {offset} asked of a frame of {len} bytes")]
pub struct CompleteError {
    /// The requested offset in the frame at which the checksummed bytes start.
    pub start: u16,
    /// The requested offset of the checksum field, relative to `start`.
    pub offset: u16,
    /// Length of the frame in bytes.
    pub len: usize,
}

/// Completes the checksum that a virtio header requests. The field at `start + offset` must contain
/// the sum of the pseudo header. It gets the checksum of the bytes from `start` to the end of the
/// frame.
///
/// # Errors
/// [`CompleteError`] if the field is not in the frame. Nothing changes then.
pub fn complete_at(frame: &mut [u8], start: u16, offset: u16) -> Result<(), CompleteError> {
    let error = CompleteError { start, offset, len: frame.len() };
    let covered = frame.get(usize::from(start)..).ok_or(error)?;
    let checksum = nonzero(Sum::new().bytes(covered).checksum());
    put_be16(frame, usize::from(start) + usize::from(offset), checksum).ok_or(error)
}

#[cfg(test)]
mod tests;
