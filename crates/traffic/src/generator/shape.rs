//! The lengths of successive frames, and the parts of checksums that depend on the length.

use alloc::vec::Vec;

use slipring_model::Stream;
use slipring_wire::assigned::IpProto;
use slipring_wire::frame::FrameLayout;
use slipring_wire::view::IpVersion;

use super::sum::PartialSum;
use crate::sizes::{SizeKind, Sizes};

/// The length of a frame, and the parts of the checksums that are the same in all frames of this
/// length.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameShape {
    pub(super) len: u16,
    /// Sum of the IPv4 header, including its length field, but without the addresses.
    pub(super) ip_sum: PartialSum,
    /// Sum of transport header, payload and pseudo header (ICMPv4 has none), including the length
    /// fields, but without addresses, ports and stamp.
    pub(super) l4_sum: PartialSum,
}

/// The shapes for all lengths of a size distribution. [`Self::next`] returns one for each frame, in
/// turn or at random.
#[derive(Clone, Debug)]
pub(super) struct FrameShapes {
    shapes: Vec<FrameShape>,
    choice: ShapeChoice,
}

#[derive(Clone, Debug)]
enum ShapeChoice {
    InTurn { next: usize },
    Random(Stream),
}

/// Sets to zero all fields of a template that differ from frame to frame.
pub(super) fn blank(frame: &mut [u8], layout: &FrameLayout, head_len: usize) {
    let FrameLayout { l3, l4, .. } = *layout;
    let (ip_len, addresses) = match layout.version {
        IpVersion::V4 => (l3 + 2, 8),
        IpVersion::V6 => (l3 + 4, 32),
    };
    frame[ip_len..][..2].fill(0);
    if let Some(check) = layout.ip_check() {
        frame[check..][..2].fill(0);
    }
    frame[layout.ip_src()..][..addresses].fill(0);
    frame[layout.echo_id().unwrap_or(l4)..][..4].fill(0);
    if layout.proto == IpProto::UDP {
        frame[l4 + 4..][..2].fill(0);
    }
    frame[layout.l4_check..][..2].fill(0);
    frame[layout.payload..head_len].fill(0);
}

impl FrameShapes {
    /// Computes the shapes from `template`. This is a frame of the maximum length in which the
    /// fields that change are zero.
    pub(super) fn new(
        sizes: &Sizes,
        template: &[u8],
        layout: &FrameLayout,
        stream: Stream,
    ) -> Self {
        let sums = TemplateSums::new(template, layout);
        match &sizes.0 {
            SizeKind::Cycle(round) => Self {
                shapes: round.iter().map(|&len| sums.shape(len)).collect(),
                choice: ShapeChoice::InTurn { next: 0 },
            },
            SizeKind::Random { min, max } => Self {
                shapes: (*min..=*max).map(|len| sums.shape(len)).collect(),
                choice: ShapeChoice::Random(stream),
            },
        }
    }

    pub(super) fn is_one(&self) -> bool {
        self.shapes.len() == 1
    }

    /// The shape of the next frame.
    #[inline]
    pub(super) fn next(&mut self) -> FrameShape {
        match &mut self.choice {
            ShapeChoice::InTurn { next } => {
                let shape = self.shapes[*next];
                // This compares instead of computing a remainder. The division would take as long
                // as all other work for a frame.
                *next = if *next + 1 == self.shapes.len() { 0 } else { *next + 1 };
                shape
            }
            ShapeChoice::Random(stream) => {
                self.shapes[stream.below(self.shapes.len() as u64) as usize]
            }
        }
    }
}

/// Sums over a template. The shape of each length is computed from them.
struct TemplateSums<'l> {
    layout: &'l FrameLayout,
    ip: PartialSum,
    /// Entry n is the sum of the first n pairs of bytes, starting at the transport header.
    pairs: Vec<PartialSum>,
    /// The bytes from the transport header on.
    l4_bytes: Vec<u8>,
}

impl<'l> TemplateSums<'l> {
    fn new(template: &[u8], layout: &'l FrameLayout) -> Self {
        let (header, l4_bytes) = template.split_at(layout.l4);
        let mut pairs = Vec::from([PartialSum::default()]);
        let mut sum = PartialSum::default();
        for pair in l4_bytes.chunks_exact(2) {
            sum = sum.plus_u32(u32::from(u16::from_be_bytes([pair[0], pair[1]])));
            pairs.push(sum);
        }
        let words = header[layout.l3..].chunks_exact(2);
        let ip = words.fold(PartialSum::default(), |sum, pair| {
            sum.plus_u32(u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        });
        Self { layout, ip, pairs, l4_bytes: l4_bytes.to_vec() }
    }

    fn shape(&self, len: u16) -> FrameShape {
        let FrameLayout { l3, l4, proto, .. } = *self.layout;
        let l4_len = usize::from(len) - l4;
        let ip_len = (usize::from(len) - l3) as u32;
        let pseudo = u32::from(proto.0) + l4_len as u32;
        let body = self.body(l4_len);
        let l4_sum = match proto {
            IpProto::ICMP => body,
            // UDP contains its length twice: in its header and in the pseudo header.
            IpProto::UDP => body.plus_u32(pseudo).plus_u32(l4_len as u32),
            _ => body.plus_u32(pseudo),
        };
        FrameShape { len, ip_sum: self.ip.plus_u32(ip_len), l4_sum }
    }

    /// Returns the sum of the first `len` bytes, starting at the transport header. If `len` is odd,
    /// a zero byte is added.
    fn body(&self, len: usize) -> PartialSum {
        let whole = self.pairs[len / 2];
        match len % 2 {
            0 => whole,
            _ => whole.plus_u32(u32::from(self.l4_bytes[len - 1]) << 8),
        }
    }
}
