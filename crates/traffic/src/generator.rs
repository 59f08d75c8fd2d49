//! Writes one frame after another, as fast as copying it.
//!
//! A generator keeps the first bytes of the next frame (headers and stamp, the *head*) up to date
//! in place, and copies them to the frame. The bytes after the head are the same in all frames.
//! Checksums are not computed over whole frames. The constant parts are summed up once for each
//! length. For each frame, only the few fields that change are added to this sum.
//!
//! ```text
//!   | Ethernet, tags | IP | UDP, TCP or ICMP | stamp | fill ...            |
//!   |<------------- head, written each time ------->|<- body, prepared ->  |
//! ```
//!
//! # Invariants
//! 1. Frame number *n* of a generator depends only on pattern, seed, share, stream id, *n*, and the
//!    time that was passed in for this frame.
//! 2. Every frame has valid checksums.
//!
//! Not for pacing (see `slipring_model::Pacer`), and not for splitting a frame over slots.

mod head;
mod shape;
mod sum;

use alloc::vec::Vec;

use slipring_model::Stream;
use slipring_wire::frame::FrameTemplate;

use crate::flows::{EndpointPairs, GeneratorShare};
use crate::pattern::{PatternError, TrafficPattern};
use crate::stamp::StampForm;
use head::FrameHead;
use shape::{FrameShape, FrameShapes};

/// Writes the frames of one share of a [`TrafficPattern`], one after another.
///
/// ```
/// use slipring_traffic::{Generator, GeneratorShare, TrafficPattern, Stamp, StampCheck};
///
/// let mut generator = Generator::new(&TrafficPattern::default(), 42, GeneratorShare::ONLY)?;
/// let mut buffer = [0; 2048];
/// let len = generator.write(1_000, &mut buffer).unwrap();
/// assert_eq!(len, 60);
/// let stamp = Stamp::read(&buffer[..len], StampCheck::Checksum).unwrap();
/// assert_eq!((stamp.number, stamp.sent_ns), (0, Some(1_000)));
/// # Ok::<(), slipring_traffic::PatternError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator {
    /// A frame of the maximum length. The fields that differ from frame to frame are zero.
    template: Vec<u8>,
    head: FrameHead,
    number: u64,
    shapes: FrameShapes,
    shape: FrameShape,
    one_shape: bool,
    flows: EndpointPairs,
    one_flow: bool,
}

impl Generator {
    /// Creates a generator of the frames of one share. The same seed results in the same frames.
    ///
    /// # Errors
    /// [`PatternError`] if parts of the pattern contradict each other.
    pub fn new(
        pattern: &TrafficPattern,
        seed: u64,
        share: GeneratorShare,
    ) -> Result<Self, PatternError> {
        pattern.check()?;
        let longest = usize::from(pattern.sizes.max());
        let FrameTemplate { mut bytes, layout } = pattern.frame_spec().build(longest)?;
        let form = StampForm::fitting(usize::from(pattern.sizes.min()) - layout.payload);
        shape::blank(&mut bytes, &layout, FrameHead::len_of(&layout, form));

        let stream = |label| Stream::numbered(seed, label, u64::from(share.index()));
        let mut shapes = FrameShapes::new(&pattern.sizes, &bytes, &layout, stream("traffic/sizes"));
        let flows = EndpointPairs::new(pattern, share, stream("traffic/flows"));
        let generator = Self {
            head: FrameHead::new(&bytes, layout, form),
            template: bytes,
            number: 0,
            shape: shapes.next(),
            one_shape: shapes.is_one(),
            shapes,
            one_flow: flows.is_single(),
            flows,
        };
        Ok(generator.with_stream_id(share.index()))
    }

    /// Sets the stream id of the frames. A receiver uses it to distinguish this run from an earlier
    /// one. By default, it is the index of the share.
    #[must_use]
    pub fn with_stream_id(mut self, stream_id: u16) -> Self {
        let (src, dst) = self.flows.current();
        self.head.put_identity(stream_id);
        self.head.put_flow(src, dst);
        self.head.put_shape(&self.shape);
        self
    }

    /// Length of the next frame in bytes. It is needed to send at a rate in bits.
    #[must_use]
    #[inline]
    pub fn next_len(&self) -> usize {
        usize::from(self.shape.len)
    }

    /// Length of the longest frame in bytes. Buffers must have at least this length.
    #[must_use]
    pub fn max_len(&self) -> usize {
        self.template.len()
    }

    /// Number of the next frame, counted from 0. It is also how many frames were written so far.
    #[must_use]
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The form of the stamps in frames; `None` if not even the shortest stamp fits in the shortest
    /// frame.
    #[must_use]
    pub fn stamp_form(&self) -> Option<StampForm> {
        self.head.form()
    }

    /// Writes the next frame to the start of `out`, with `now_ns` as its send time. Returns its
    /// length. If `out` is shorter than the frame, changes nothing and returns `None`.
    #[inline]
    pub fn write(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let (len, head_len) = (self.next_len(), self.head.bytes().len());
        let frame = out.get_mut(..len)?;
        if len > head_len {
            frame[head_len..].copy_from_slice(&self.template[head_len..len]);
        }
        self.patch(now_ns, frame)
    }

    /// Like [`Self::write`], but writes only the head. `out` must have been passed to
    /// [`Self::prepare`] before, or must contain a frame of the same length from this generator.
    #[inline]
    pub fn patch(&mut self, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let len = self.next_len();
        if out.len() < len {
            return None;
        }
        self.head.put_stamp(self.number, now_ns, &self.shape);
        let head = self.head.bytes();
        out[..head.len()].copy_from_slice(head);
        self.advance();
        Some(len)
    }

    /// Writes the bytes that are the same in all frames, as far as they fit in `out`. Afterwards,
    /// [`Self::patch`] can complete a frame there.
    pub fn prepare(&self, out: &mut [u8]) {
        let len = out.len().min(self.template.len());
        out[..len].copy_from_slice(&self.template[..len]);
    }

    /// Updates the head, except for its stamp, for the frame after this one.
    #[inline]
    fn advance(&mut self) {
        self.number += 1;
        let mut stale = !self.one_shape;
        if !self.one_flow {
            self.flows.advance();
            let (src, dst) = self.flows.current();
            stale |= self.head.put_flow(src, dst);
        }
        if !self.one_shape {
            self.shape = self.shapes.next();
        }
        if stale {
            self.head.put_shape(&self.shape);
        }
    }
}

#[cfg(test)]
mod tests;
