//! Segmentation in software: splits a super-frame into frames of the size that the wire supports.
//!
//! A segment consists of header bytes, which are generated here with their checksums, and a slice
//! of the super-frame's payload. So the payload is copied only once, by the caller.
//!
//! These fields differ between the segments: the IP length; the IPv4 id, which increases by 1, and
//! the IPv4 checksum; the TCP sequence number, FIN and PSH (only in the last segment), CWR (only in
//! the first); the UDP length; the transport checksum.

use super::partial::checksum_offset;
use crate::assigned::IpProto;
use crate::checksum::{Sum, nonzero, of};
use crate::field::{array, be16, be32, put, put_be16};
use crate::view::{FragmentPosition, Headers, IpVersion, ViewError};

/// Maximum length in bytes of Ethernet, IP and transport headers together. Two tags, an IPv4 header
/// with options and a TCP header with options need 142.
const MAX_HEADER_LEN: usize = 192;
const UDP_LEN: usize = 8;
const TCP_MIN_LEN: usize = 20;
const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
/// Offset of the flags in a TCP header.
const TCP_FLAGS_OFFSET: usize = 13;

/// How a super-frame must be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gso {
    /// The protocol of the super-frame.
    pub kind: GsoKind,
    /// Number of payload bytes per segment, without the transport header.
    pub size: u16,
}

/// The protocols that can be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4 or IPv6. Each segment is a datagram (USO).
    Udp,
}

impl GsoKind {
    fn fits(self, version: IpVersion, proto: IpProto) -> bool {
        match self {
            Self::Tcp4 => version == IpVersion::V4 && proto == IpProto::TCP,
            Self::Tcp6 => version == IpVersion::V6 && proto == IpProto::TCP,
            Self::Udp => proto == IpProto::UDP,
        }
    }
}

/// Why a super-frame cannot be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The link or IP headers of the super-frame are invalid.
    #[error(transparent)]
    View(#[from] ViewError),
    /// The protocol of the super-frame differs from the requested one.
    #[error("segmentation asks for {expected:?}, the frame carries something else")]
    Kind {
        /// The protocol that the [`Gso`] requests.
        expected: GsoKind,
    },
    /// The requested segment size is zero.
    #[error("segment size 0")]
    ZeroSize,
    /// The frame is already a fragment.
    #[error("a fragment cannot be segmented")]
    Fragment,
    /// The frame has an IPv6 routing header with segments left. So the checksum covers an address
    /// in that header, not the one in the IPv6 header.
    #[error("an IPv6 packet with routing stops left cannot be segmented")]
    Rerouted,
    /// The frame ends before its IP packet ends, or the packet ends before its transport header
    /// ends.
    #[error("the frame ends at byte {have}, what it claims to hold at byte {need}")]
    Truncated {
        /// The minimum length that would be valid, in bytes.
        need: u32,
        /// The actual length, in bytes.
        have: u32,
    },
    /// The TCP header gives its length as less than 20 bytes.
    #[error("a TCP header of {found} bytes is shorter than 20")]
    TcpHeaderLength {
        /// The length that the TCP header gives, in bytes.
        found: u8,
    },
    /// All headers together are longer than this module supports.
    #[error("{found} bytes of headers are more than {MAX_HEADER_LEN}")]
    HeaderTooLong {
        /// The length of the headers, in bytes.
        found: u32,
    },
}

/// Splits one super-frame. It returns the segments one by one, so that a caller whose ring is full
/// can continue later.
///
/// ```
/// use slipring_wire::offload::{Gso, GsoKind, Segmenter};
/// # use slipring_wire::frame::{FrameSpec, L4Spec, TcpSpec};
/// let spec = FrameSpec { l4: L4Spec::Tcp(TcpSpec::default()), ..FrameSpec::default() };
/// let super_frame = spec.build(54 + 3000)?.bytes;
/// let mut segments = Segmenter::new(&super_frame, Gso { kind: GsoKind::Tcp4, size: 1460 })?;
/// assert_eq!(segments.remaining(), 3);
/// while let Some((header, payload)) = segments.next_segment() {
///     assert!(header.len() == 54 && payload.len() <= 1460);
/// }
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Segmenter<'f> {
    /// The headers of the segment that was returned last. Initially, those of the super-frame.
    header: [u8; MAX_HEADER_LEN],
    layout: SegmentLayout,
    /// The part of the payload that has not been returned yet.
    payload: &'f [u8],
    size: usize,
    /// FIN and PSH of the super-frame. Only the last segment gets them.
    last_flags: u8,
    started: bool,
    finished: bool,
}

/// Offsets of the headers, in bytes.
#[derive(Clone, Copy, Debug)]
struct SegmentLayout {
    version: IpVersion,
    proto: IpProto,
    l3: usize,
    l4: usize,
    len: usize,
    /// Whether the super-frame is a UDP datagram over IPv4 without a checksum.
    unchecked: bool,
}

impl<'f> Segmenter<'f> {
    /// Checks that `frame` matches `gso`, and prepares to split it.
    ///
    /// # Errors
    /// [`SegmentError`] if the frame is invalid, truncated, a fragment or rerouted, if its headers
    /// are too long or have another protocol than `gso`, or if the segment size is 0.
    pub fn new(frame: &'f [u8], gso: Gso) -> Result<Self, SegmentError> {
        if gso.size == 0 {
            return Err(SegmentError::ZeroSize);
        }
        let (layout, payload) = split(frame, gso.kind)?;
        let mut header = [0; MAX_HEADER_LEN];
        let kept = header.get_mut(..layout.len).zip(frame.get(..layout.len));
        let (to, from) = kept.ok_or(SegmentError::HeaderTooLong { found: layout.len as u32 })?;
        to.copy_from_slice(from);
        let last_flags = match layout.proto {
            IpProto::TCP => header[layout.l4 + TCP_FLAGS_OFFSET] & (TCP_FIN | TCP_PSH),
            _ => 0,
        };
        let size = usize::from(gso.size);
        Ok(Self { header, layout, payload, size, last_flags, started: false, finished: false })
    }

    /// Returns how many segments are left. A super-frame without payload is one segment.
    #[must_use]
    pub fn remaining(&self) -> usize {
        if self.finished { 0 } else { self.payload.len().div_ceil(self.size).max(1) }
    }

    /// Returns the headers and the payload of the next segment; `None` after the last segment. The
    /// frame to send consists of the headers followed by the payload.
    pub fn next_segment(&mut self) -> Option<(&[u8], &'f [u8])> {
        if self.finished {
            return None;
        }
        let (chunk, rest) = self.payload.split_at(self.size.min(self.payload.len()));
        self.payload = rest;
        self.finished = rest.is_empty();
        let written = self.rewrite(chunk);
        debug_assert!(written.is_some(), "split() checked that the header holds its fields");
        self.started = true;
        Some((&self.header[..self.layout.len], chunk))
    }

    /// Changes the headers of the previous segment to those of the next one, whose payload is
    /// `chunk`.
    ///
    /// Returns `None` if a field is outside the headers. This cannot happen, because [`split`] has
    /// checked it.
    fn rewrite(&mut self, chunk: &[u8]) -> Option<()> {
        let layout = self.layout;
        if layout.proto == IpProto::TCP {
            self.advance_tcp(layout.l4)?;
        }
        let header = &mut self.header[..layout.len];
        let l4_len = layout.len - layout.l4 + chunk.len();
        let pseudo = rewrite_ip(header, layout, l4_len, self.started)?;
        let field = layout.l4 + checksum_offset(layout.proto)?;
        put_be16(header, field, 0)?;
        if layout.proto == IpProto::UDP {
            put_be16(header, layout.l4 + 4, l4_len as u16)?;
        }
        if !layout.unchecked {
            let sum = pseudo.bytes(&header[layout.l4..]).bytes(chunk).checksum();
            let is_udp = layout.proto == IpProto::UDP;
            put_be16(header, field, if is_udp { nonzero(sum) } else { sum })?;
        }
        Some(())
    }

    /// Updates the TCP sequence number and flags. Must be called once for each segment, after
    /// `finished` was updated and before `started` is.
    fn advance_tcp(&mut self, l4: usize) -> Option<()> {
        let flags = &mut self.header[l4 + TCP_FLAGS_OFFSET];
        *flags &= !(TCP_FIN | TCP_PSH);
        if self.finished {
            *flags |= self.last_flags;
        }
        if self.started {
            // CWR is set only in the first segment, FIN and PSH only in the last.
            *flags &= !TCP_CWR;
            let sequence = be32(&self.header, l4 + 4)?.wrapping_add(self.size as u32);
            put(&mut self.header, l4 + 4, sequence.to_be_bytes())?;
        }
        Some(())
    }
}

/// Splits `frame`, and passes the headers and the payload of each segment to `emit`. Returns the
/// number of segments.
///
/// # Errors
/// The errors of [`Segmenter::new`]. `emit` is not called then.
pub fn segment(
    frame: &[u8],
    gso: Gso,
    mut emit: impl FnMut(&[u8], &[u8]),
) -> Result<usize, SegmentError> {
    let mut segmenter = Segmenter::new(frame, gso)?;
    let count = segmenter.remaining();
    while let Some((header, payload)) = segmenter.next_segment() {
        emit(header, payload);
    }
    Ok(count)
}

/// Returns the offsets of the headers, and the payload. Checks everything that
/// [`Segmenter::rewrite`] relies on, except that the headers fit in [`MAX_HEADER_LEN`].
fn split(frame: &[u8], kind: GsoKind) -> Result<(SegmentLayout, &[u8]), SegmentError> {
    let headers = Headers::parse(frame)?;
    let ip = headers.ip.ok_or(SegmentError::Kind { expected: kind })?;
    if !kind.fits(ip.version, ip.proto) {
        return Err(SegmentError::Kind { expected: kind });
    }
    if ip.fragment != FragmentPosition::Whole {
        return Err(SegmentError::Fragment);
    }
    if ip.rerouted {
        return Err(SegmentError::Rerouted);
    }
    let l4 = usize::from(ip.l4);
    let cut =
        |need: usize, have: usize| SegmentError::Truncated { need: need as u32, have: have as u32 };
    let packet = frame.get(..ip.end as usize).ok_or(cut(ip.end as usize, frame.len()))?;
    let len = l4 + transport_len(packet, l4, ip.proto)?;
    let payload = packet.get(len..).ok_or(cut(len, packet.len()))?;
    let unchecked =
        ip.proto == IpProto::UDP && ip.version == IpVersion::V4 && be16(packet, l4 + 6) == Some(0);
    let l3 = usize::from(headers.l3);
    Ok((SegmentLayout { version: ip.version, proto: ip.proto, l3, l4, len, unchecked }, payload))
}

fn transport_len(packet: &[u8], l4: usize, proto: IpProto) -> Result<usize, SegmentError> {
    if proto == IpProto::UDP {
        return Ok(UDP_LEN);
    }
    let [offset] = array(packet, l4 + 12).ok_or(SegmentError::Truncated {
        need: (l4 + TCP_MIN_LEN) as u32,
        have: packet.len() as u32,
    })?;
    let len = usize::from(offset >> 4) * 4;
    if len < TCP_MIN_LEN {
        return Err(SegmentError::TcpHeaderLength { found: len as u8 });
    }
    Ok(len)
}

/// Writes the length in the IP header and, for IPv4, the id and the checksum. Returns the sum of
/// the pseudo header.
fn rewrite_ip(
    header: &mut [u8],
    layout: SegmentLayout,
    l4_len: usize,
    started: bool,
) -> Option<Sum> {
    let SegmentLayout { l3, l4, proto, .. } = layout;
    match layout.version {
        IpVersion::V4 => {
            put_be16(header, l3 + 2, (l4 - l3 + l4_len) as u16)?;
            let id = be16(header, l3 + 4)?.wrapping_add(u16::from(started));
            put_be16(header, l3 + 4, id)?;
            put_be16(header, l3 + 10, 0)?;
            let checksum = of(header.get(l3..l4)?);
            put_be16(header, l3 + 10, checksum)?;
            Some(Sum::pseudo::<8>(array(header, l3 + 12)?, proto, l4_len as u32))
        }
        IpVersion::V6 => {
            put_be16(header, l3 + 4, (l4 - l3 - 40 + l4_len) as u16)?;
            Some(Sum::pseudo::<32>(array(header, l3 + 8)?, proto, l4_len as u32))
        }
    }
}

#[cfg(test)]
mod tests;
