//! The flow hash that selects outputs.

use slipring_wire::flow::FlowKind;
use slipring_wire::{FlowHasher, FlowKey};

use crate::tunnel;

/// The result of hashing a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowHash {
    /// The hash. It is equal for all frames of a flow, in both directions.
    pub hash: u64,
    /// Whether the frame that was hashed is an IP packet. With [`FlowSplitter::decapsulating`],
    /// this may be a frame inside another.
    pub is_ip: bool,
}

/// Hashes flows.
///
/// ```
/// use slipring_balance::FlowSplitter;
///
/// let splitter = FlowSplitter::new([1, 2]);
/// let there = [&[2; 6][..], &[4; 6], &[0x88, 0xb5], &[0; 46]].concat();
/// let back = [&[4; 6][..], &[2; 6], &[0x88, 0xb5], &[7; 46]].concat();
/// assert_eq!(splitter.split(&there), splitter.split(&back));
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FlowSplitter {
    hasher: FlowHasher,
    decapsulates: bool,
}

impl FlowSplitter {
    /// Makes a splitter with a secret key. The key should be random, unless runs must be
    /// reproducible.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Self {
        Self { hasher: FlowHasher::new(secret).symmetric(), decapsulates: false }
    }

    /// Makes the splitter hash the Ethernet frames inside VXLAN, Geneve and GRE packets instead of
    /// the packets themselves. Fragments, and GRE or Geneve packets without an Ethernet frame, are
    /// hashed as they are.
    #[must_use]
    pub fn decapsulating(self) -> Self {
        Self { decapsulates: true, ..self }
    }

    /// Returns the hash of a frame's flow.
    #[must_use]
    #[inline]
    pub fn split(&self, frame: &[u8]) -> FlowHash {
        let frame = if self.decapsulates { tunnel::innermost(frame) } else { frame };
        let key = FlowKey::of(frame);
        let is_ip = matches!(key.kind, FlowKind::V4(_) | FlowKind::V6(_));
        FlowHash { hash: self.hasher.hash(&key), is_ip }
    }
}

#[cfg(test)]
mod tests;
