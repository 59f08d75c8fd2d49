//! Finishes received frames that the kernel left unfinished.
//!
//! A software device passes frames of local programs on unchanged: their checksums may be
//! incomplete and, in generic mode, one frame may hold 64 KiB of TCP. XDP receives these frames as
//! they are. A frame that is forwarded from here passes no hardware that would complete it, so this
//! module does. Frames of real devices are not changed.
//!
//! # What cannot be finished
//! A UDP super-frame (USO) does not say how long its datagrams are, so it is dropped and counted.
//! If such a super-frame as a whole fits the MTU, it looks like an ordinary frame, and is passed on
//! as one datagram.

use slipring_ring::SharedBuf;
use slipring_wire::Headers;
use slipring_wire::assigned::IpProto;
use slipring_wire::offload::{Gso, GsoKind, Segmenter, complete_partial, may_be_partial};
use slipring_wire::view::IpVersion;

/// Length in bytes of an Ethernet header with two VLAN tags.
const MAX_LINK_HEADER_LEN: u32 = 22;
/// Bytes that hold the headers of nearly all frames.
const HEAD: usize = 96;

/// Completes the frames of one device.
#[derive(Debug, Default)]
pub struct OffloadFixup {
    checksums: bool,
    /// Frames longer than this number of bytes are super-frames; `u32::MAX` if there are none.
    max_slot_len: u32,
    mtu: u32,
    scratch: Vec<u8>,
}

impl OffloadFixup {
    /// Creates a fixup that changes nothing: for a device whose frames come from a wire, and are
    /// therefore complete.
    #[must_use]
    pub fn none() -> Self {
        Self::new(false, false, 0)
    }

    /// Creates a fixup. `software` is true if frames come from the kernel itself. `generic` is true
    /// if some of them may be super-frames, which are longer than `mtu` allows.
    #[must_use]
    pub fn new(software: bool, generic: bool, mtu: u32) -> Self {
        let segments = software && generic;
        let max_slot_len =
            if segments { mtu.saturating_add(MAX_LINK_HEADER_LEN) } else { u32::MAX };
        let scratch = Vec::with_capacity(if software { 1 << 16 } else { 0 });
        Self { checksums: software, max_slot_len, mtu, scratch }
    }

    /// Returns whether a packet of this length has to be segmented.
    #[inline(always)]
    pub(crate) fn is_super_frame(&self, len: u32) -> bool {
        len > self.max_slot_len
    }

    /// Completes the checksum of a frame in one buffer.
    #[inline(always)]
    pub(crate) fn complete_checksum(&mut self, frame: SharedBuf<'_>) {
        if self.checksums {
            self.judge(frame);
        }
    }

    /// Completes the checksum if it is incomplete. First checks a copy of the headers, and reads
    /// the whole frame only if they show that the checksum may be incomplete.
    #[inline(always)]
    fn judge(&mut self, frame: SharedBuf<'_>) {
        let mut head = [0; HEAD];
        let len = frame.copy_out(&mut head);
        if may_be_partial(&head[..len], frame.len()) {
            self.complete(frame);
        }
    }

    /// Completes a copy of the frame and writes the copy back. So the result is one consistent
    /// frame, even if another process writes to the frame at the same time.
    #[cold]
    fn complete(&mut self, frame: SharedBuf<'_>) {
        self.scratch.clear();
        frame.append_to(&mut self.scratch);
        if complete_partial(&mut self.scratch) {
            frame.copy_in(&self.scratch);
        }
    }

    /// Returns whether packets in several buffers must be gathered, because they may have to be
    /// completed or segmented.
    pub(crate) fn wants_chains(&self) -> bool {
        self.checksums
    }

    /// Starts to gather a packet that is in several buffers.
    pub(crate) fn begin_gather(&mut self) {
        self.scratch.clear();
    }

    /// Adds a buffer's bytes to the gathered packet. The memory is large enough for the longest
    /// packet.
    pub(crate) fn gather(&mut self, bytes: SharedBuf<'_>) {
        bytes.append_to(&mut self.scratch);
    }

    /// Completes the checksum of the gathered packet, whose first buffer is `first`.
    pub(crate) fn finish_gathered(&mut self, first: SharedBuf<'_>) {
        if complete_partial(&mut self.scratch) {
            first.copy_in(&self.scratch);
        }
    }

    /// Returns the maximum number of slots of `part` bytes that the segments of the gathered
    /// super-frame take; `None` if it cannot be segmented.
    pub(crate) fn slots_of_segments(&self, part: u32) -> Option<u32> {
        let gso = self.gso()?;
        let segments = Segmenter::new(&self.scratch, gso).ok()?.remaining() as u32;
        let frame = self.mtu.saturating_add(MAX_LINK_HEADER_LEN);
        Some(segments * frame.div_ceil(part))
    }

    /// Segments the gathered super-frame and passes header and payload of each segment to `emit`.
    /// Returns false if it cannot be segmented.
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

    /// Returns how to segment the gathered super-frame so that each segment fits the MTU. The
    /// sender's own segment size is not known, but TCP accepts any size.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use slipring_ring::{Geometry, HugePages, Region, RingHalves, Rx};

    use super::*;

    const LEN: usize = 300;

    /// Returns a UDP frame over IPv4 or IPv6 whose checksum field has only the sum of the pseudo
    /// header.
    fn unfinished(v6: bool, fill: u8) -> Vec<u8> {
        let mut frame = vec![fill; LEN];
        let (l4, addresses) = if v6 { (54, 22..54) } else { (34, 26..34) };
        let l4_len = (LEN - l4) as u16;
        if v6 {
            frame[12..21].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17]);
            frame[18..20].copy_from_slice(&l4_len.to_be_bytes());
        } else {
            frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17]);
            frame[16..18].copy_from_slice(&(LEN as u16 - 14).to_be_bytes());
        }
        let pseudo = slipring_wire::checksum::Sum::new().bytes(&frame[addresses]);
        let sum = pseudo.u16(17).u32(l4_len.into()).folded();
        frame[l4 + 6..l4 + 8].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn a_frame_that_is_rewritten_meanwhile_is_completed_as_one_copy_of_it() {
        let geometry = Geometry { ring_bytes: 16 << 10, bufs: 16, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let mut pair = RingHalves::<Rx>::create(&region, 0, 4).unwrap();
        let (buf, mut other_len) = (pair.kern.slot(0).buf, 0);
        let frames = [unfinished(false, 1), unfinished(true, 2), vec![0xff; 2048]];
        let stop = AtomicBool::new(false);
        let (region, stop) = (&region, &stop);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for frame in frames.iter().cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
                    region.copy_in(buf, frame);
                }
            });
            let mut fixup = OffloadFixup::new(true, true, 1500);
            let mut completed = 0;
            while completed < 500 {
                other_len = (other_len + 1) % 2048;
                for len in [LEN as u16, other_len] {
                    fixup.scratch.clear();
                    fixup.complete_checksum(pair.kern.bytes_of(buf, len));
                    let once = fixup.scratch.clone();
                    complete_partial(&mut fixup.scratch);
                    assert_eq!(fixup.scratch, once, "what is completed once is complete");
                    completed += u32::from(!once.is_empty());
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
