//! The hash by which frames are split.

use slipring_wire::flow::FlowKind;
use slipring_wire::{FlowHasher, FlowKey};

use crate::tunnel;

/// The hash of a frame's flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowHash {
    /// The same for all frames of a flow, both ways.
    pub hash: u64,
    /// Whether the frame carries IP.
    pub is_ip: bool,
}

/// Hashes flows.
///
/// ```
/// use slipring_balance::Splitter;
///
/// let splitter = Splitter::new([1, 2]);
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
    /// A splitter keyed by a secret, which should be random unless runs are to be alike.
    #[must_use]
    pub fn new(secret: [u64; 2]) -> Self {
        Self { hasher: FlowHasher::new(secret).symmetric(), decapsulates: false }
    }

    /// The same, but frames inside of VXLAN, Geneve and GRE count instead of those around them.
    #[must_use]
    pub fn decapsulating(self) -> Self {
        Self { decapsulates: true, ..self }
    }

    /// The hash of a frame's flow.
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
