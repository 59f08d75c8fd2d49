//! Finishes received frames that the kernel left unfinished.
//!
//! A software device passes frames of local programs on as they are: checksums half done and, in
//! generic mode, up to 64 KiB of TCP in one. XDP shows them so. A frame that goes on from here meets
//! no hardware that would finish it, so it is finished here. Frames of real devices are left alone.
//!
//! # What cannot be finished
//! A UDP super-frame (USO) does not say how long its datagrams are: it is dropped and counted. One
//! that fits the MTU as a whole looks like an ordinary frame and is passed on as one datagram.

use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::offload::{Gso, GsoKind, Segmenter, complete_partial};
use slipring_wire::view::IpVersion;

/// Ethernet header and two tags.
const MAX_LINK_HEADER_LEN: u32 = 22;

/// What a device's frames need; see the module.
#[derive(Debug, Default)]
pub struct OffloadFixup {
    checksums: bool,
    /// Longer frames are super-frames; `u32::MAX` where there are none.
    max_slot_len: u32,
    mtu: u32,
    scratch: Vec<u8>,
}

impl OffloadFixup {
    /// Of a device whose frames come from a wire, and so are finished.
    #[must_use]
    pub fn none() -> Self {
        Self::new(false, false, 0)
    }

    /// `software`: frames come from the kernel itself. `generic`: they may be super-frames.
    #[must_use]
    pub fn new(software: bool, generic: bool, mtu: u32) -> Self {
        let segments = software && generic;
        let max_slot_len =
            if segments { mtu.saturating_add(MAX_LINK_HEADER_LEN) } else { u32::MAX };
        let scratch = Vec::with_capacity(if software { 1 << 16 } else { 0 });
        Self { checksums: software, max_slot_len, mtu, scratch }
    }

    /// Whether a packet of this length has to be cut up.
    #[inline(always)]
    pub(crate) fn is_super_frame(&self, len: u32) -> bool {
        len > self.max_slot_len
    }

    /// Completes the checksum of a frame in one buffer.
    #[inline(always)]
    pub(crate) fn complete_checksum(&self, frame: &mut [u8]) {
        if self.checksums {
            complete_partial(frame);
        }
    }

    /// Whether packets in several buffers need to be looked at.
    pub(crate) fn wants_chains(&self) -> bool {
        self.checksums
    }

    /// Starts a packet in several buffers.
    pub(crate) fn begin_gather(&mut self) {
        self.scratch.clear();
    }

    /// Adds a buffer to the packet. The longest one fits without allocation.
    pub(crate) fn gather(&mut self, bytes: &[u8]) {
        self.scratch.extend_from_slice(bytes);
    }

    /// Completes the checksum of the gathered packet, whose first buffer is `first`.
    pub(crate) fn finish_gathered(&mut self, first: &mut [u8]) {
        if complete_partial(&mut self.scratch) {
            let len = first.len().min(self.scratch.len());
            first[..len].copy_from_slice(&self.scratch[..len]);
        }
    }

    /// How many slots of `part` bytes the gathered super-frame's segments take; `None` if it
    /// cannot be cut.
    pub(crate) fn slots_of_segments(&self, part: u32) -> Option<u32> {
        let gso = self.gso()?;
        let segments = Segmenter::new(&self.scratch, gso).ok()?.remaining() as u32;
        let frame = self.mtu.saturating_add(MAX_LINK_HEADER_LEN);
        Some(segments * frame.div_ceil(part))
    }

    /// Cuts the gathered super-frame; false if it cannot be.
    pub(crate) fn segments(&mut self, mut emit: impl FnMut(&[u8], &[u8])) -> bool {
        let Some(mut segmenter) =
            self.gso().and_then(|gso| Segmenter::new(&self.scratch, gso).ok())
        else {
            return false;
        };
        while let Some((header, payload)) = segmenter.next_segment() {
            emit(header, payload);
        }
        true
    }

    /// How to cut the gathered super-frame so that each segment fits the MTU. The sender's own
    /// segment size is not known, but TCP does not mind another.
    fn gso(&self) -> Option<Gso> {
        let headers = Headers::parse(&self.scratch).ok()?;
        let ip = headers.ip.filter(|ip| ip.proto == IpProto::TCP)?;
        let kind = match ip.version {
            IpVersion::V4 => GsoKind::Tcp4,
            IpVersion::V6 => GsoKind::Tcp6,
        };
        let l4 = usize::from(ip.l4);
        let tcp = u32::from(self.scratch.get(l4 + 12)? >> 4) * 4;
        let before = u32::from(ip.l4) - u32::from(headers.l3) + tcp;
        let size = self.mtu.checked_sub(before).filter(|&size| size > 0)?;
        Some(Gso { kind, size: size.try_into().unwrap_or(u16::MAX) })
    }
}
