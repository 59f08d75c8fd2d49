//! Writes one frame after another, at the speed of a copy.
//!
//! A generator keeps the first bytes of the next frame (headers and stamp, the
//! *head*) up to date in place and copies them out; what follows never
//! changes. Checksums are not recomputed over the frame: all that stays the
//! same is summed up once for each length, and a frame adds its few changing
//! numbers to that sum.
//!
//! ```text
//!   | Ethernet, tags | IP | UDP, TCP or ICMP | stamp | fill ...            |
//!   |<------------- head, written each time ------->|<- body, prepared ->  |
//! ```
//!
//! # Invariants
//! 1. Frame number *n* of a lane is a function of pattern, seed, lane, *n* and
//!    the time given for it, and of nothing else.
//! 2. Every frame has valid checksums.
//!
//! Not for: pacing (see `slipring_model::Pacer`) or splitting a frame over slots.

mod shape;
mod sum;

use alloc::vec::Vec;

use slipring_model::Stream;
use slipring_wire::assigned::IpProto;
use slipring_wire::checksum::nonzero;
use slipring_wire::frame::{FrameTemplate, Layout};
use slipring_wire::view::IpVersion;

use crate::flows::{Flows, Lane};
use crate::pattern::{Pattern, PatternError};
use crate::stamp::StampForm;
use shape::{Shape, Shapes};
use sum::PartSum;

/// The frames of one lane of a [`Pattern`], one after another.
///
/// ```
/// use slipring_traffic::{Generator, Lane, Pattern, Stamp, Verify};
///
/// let mut generator = Generator::new(&Pattern::default(), 42, Lane::ONLY)?;
/// let mut buffer = [0; 2048];
/// let len = generator.write(1_000, &mut buffer).unwrap();
/// assert_eq!(len, 60);
/// let stamp = Stamp::read(&buffer[..len], Verify::Checksum).unwrap();
/// assert_eq!((stamp.number, stamp.sent_ns), (0, Some(1_000)));
/// # Ok::<(), slipring_traffic::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    /// The longest frame, zeros where frames differ.
    template: Vec<u8>,
    head: Vec<u8>,
    layout: Layout,
    form: Option<StampForm>,
    stream_id: u16,
    number: u64,
    shapes: Shapes,
    shape: Shape,
    one_shape: bool,
    flows: Flows,
    one_flow: bool,
    /// Of the current addresses: what IPv4's own checksum covers of the flow.
    address_sum: PartSum,
    /// Of everything in the flow and the stamp that the transport checksum
    /// covers and that stays until the flow changes.
    flow_sum: PartSum,
}

impl Generator {
    /// Prepares the frames of `lane`. The same seed gives the same frames.
    ///
    /// # Errors
    /// [`PatternError`] if the pattern contradicts itself.
    pub fn new(pattern: &Pattern, seed: u64, lane: Lane) -> Result<Self, PatternError> {
        pattern.check()?;
        let spec = pattern.frame_spec();
        let FrameTemplate { mut bytes, layout } = spec.build(usize::from(pattern.sizes.max()))?;
        let room = usize::from(pattern.sizes.min()) - layout.payload;
        let form = StampForm::fitting(room);
        let head_len = layout.payload + form.map_or(0, StampForm::bytes);
        shape::blank(&mut bytes, &layout, head_len);

        let stream = |label| Stream::numbered(seed, label, u64::from(lane.index()));
        let mut shapes = Shapes::new(&pattern.sizes, &bytes, &layout, stream("traffic/sizes"));
        let shape = shapes.next();
        let src = (pattern.src.clone(), pattern.src_order);
        let dst = (pattern.dst.clone(), pattern.dst_order);
        let flows = Flows::new(src, dst, lane, stream("traffic/flows"));
        let mut generator = Self {
            head: bytes[..head_len].to_vec(),
            template: bytes,
            layout,
            form,
            stream_id: lane.index(),
            number: 0,
            one_shape: shapes.is_one(),
            shapes,
            shape,
            one_flow: flows.is_single(),
            flows,
            address_sum: PartSum::default(),
            flow_sum: PartSum::default(),
        };
        generator.put_flow();
        generator.put_shape();
        Ok(generator)
    }

    /// Gives the frames another stream id than the lane's number, so that a
    /// receiver can tell this run from an earlier one.
    #[must_use]
    pub fn with_stream_id(mut self, stream_id: u16) -> Self {
        self.stream_id = stream_id;
        self.put_flow();
        self
    }

    /// Length of the next frame in bytes, for pacing by bits.
    #[must_use]
    #[inline]
    pub fn next_len(&self) -> usize {
        usize::from(self.shape.len)
    }

    /// Length of the longest frame in bytes: what a buffer must hold.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.template.len()
    }

    /// Number of the next frame: how many were written.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What the frames say about themselves; `None` when even the shortest
    /// stamp does not fit the shortest frame.
    #[must_use]
    pub fn stamp_form(&self) -> Option<StampForm> {
        self.form
    }

    /// Writes the next frame, sent at `now_ns`, to the start of `out` and
    /// returns its length. `None`, and nothing happens, if `out` is shorter.
    #[inline]
    pub fn write(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let (len, head_len) = (self.next_len(), self.head.len());
        let frame = out.get_mut(..len)?;
        if len > head_len {
            frame[head_len..].copy_from_slice(&self.template[head_len..len]);
        }
        self.patch(now_ns, frame)
    }

    /// As [`Self::write`], for a buffer that already went through
    /// [`Self::prepare`] or held a frame of this length from this generator: only
    /// the head is written.
    #[inline]
    pub fn patch(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let len = self.next_len();
        if out.len() < len {
            return None;
        }
        self.stamp(now_ns);
        out[..self.head.len()].copy_from_slice(&self.head);
        self.advance();
        Some(len)
    }

    /// Writes what all frames have in common, so that [`Self::patch`] suffices
    /// from now on. Does nothing beyond the end of `out`.
    pub fn prepare(&self, out: &mut [u8]) {
        let len = out.len().min(self.template.len());
        out[..len].copy_from_slice(&self.template[..len]);
    }

    /// Puts number, time and transport checksum into the head.
    #[inline]
    fn stamp(&mut self, now_ns: u64) {
        let number = self.number & ((1 << crate::Stamp::NUMBER_BITS) - 1);
        let (low, high) = (number as u32, (number >> 32) as u16);
        let mut sum = self.shape.l4_sum.plus(self.flow_sum);
        let at = self.layout.payload;
        if self.form.is_some() {
            self.put(at, low.to_be_bytes());
            self.put(at + 8, high.to_be_bytes());
            sum = sum.plus_u32(low).plus_u32(u32::from(high));
        }
        if self.form == Some(StampForm::Timed) {
            self.put(at + 10, now_ns.to_be_bytes());
            sum = sum.plus_u64(now_ns);
        }
        let checksum = sum.checksum();
        let is_udp = self.layout.proto == IpProto::UDP;
        let checksum = if is_udp { nonzero(checksum) } else { checksum };
        self.put(self.layout.l4_check, checksum.to_be_bytes());
    }

    /// Makes the head that of the following frame, but for its stamp.
    #[inline]
    fn advance(&mut self) {
        self.number += 1;
        if !self.one_flow {
            self.flows.advance();
            self.put_flow();
        }
        if !self.one_shape {
            self.shape = self.shapes.next();
        }
        if !(self.one_flow && self.one_shape) {
            self.put_shape();
        }
    }

    fn put_flow(&mut self) {
        let (src, dst) = self.flows.current();
        self.put_addresses(src.address, dst.address);
        let ports = u32::from(src.port) << 16 | u32::from(dst.port);
        let at = self.layout.echo_id().unwrap_or(self.layout.l4);
        self.put(at, ports.to_be_bytes());
        self.flow_sum = self.put_identity().plus_u32(ports);
        // ICMP of version 4 alone does not cover the addresses.
        if self.layout.proto != IpProto::ICMP {
            self.flow_sum = self.flow_sum.plus(self.address_sum);
        }
    }

    fn put_addresses(&mut self, src: u128, dst: u128) {
        let (at_src, at_dst) = (self.layout.ip_src(), self.layout.ip_dst());
        match self.layout.version {
            IpVersion::V4 => {
                self.put(at_src, (src as u32).to_be_bytes());
                self.put(at_dst, (dst as u32).to_be_bytes());
            }
            IpVersion::V6 => {
                self.put(at_src, src.to_be_bytes());
                self.put(at_dst, dst.to_be_bytes());
            }
        }
        self.address_sum = PartSum::default().plus_u128(src).plus_u128(dst);
    }

    /// Puts the parts of the stamp that are the same in all frames.
    fn put_identity(&mut self) -> PartSum {
        let Some(form) = self.form else {
            return PartSum::default();
        };
        let identity = u32::from(form.mark()) << 16 | u32::from(self.stream_id);
        self.put(self.layout.payload + 4, identity.to_be_bytes());
        PartSum::default().plus_u32(identity)
    }

    /// Puts the length fields and the IPv4 checksum, which covers the addresses.
    fn put_shape(&mut self) {
        let Layout { l3, l4, .. } = self.layout;
        let len = self.next_len();
        if self.layout.proto == IpProto::UDP {
            self.put(l4 + 4, ((len - l4) as u16).to_be_bytes());
        }
        let Some(ip_check) = self.layout.ip_check() else {
            return self.put(l3 + 4, ((len - l4) as u16).to_be_bytes());
        };
        self.put(l3 + 2, ((len - l3) as u16).to_be_bytes());
        let checksum = self.shape.ip_sum.plus(self.address_sum).checksum();
        self.put(ip_check, checksum.to_be_bytes());
    }

    #[inline]
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        // Every place is one of the layout's or the stamp's, all inside the
        // head; a place outside would be left alone.
        if let Some(field) = self.head.get_mut(at..at + N) {
            field.copy_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests;
