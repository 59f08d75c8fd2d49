use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::table::IpfwFlowKey;

/// The lookup hash of a flow, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHash(pub(super) u64);

/// Passes hashes through unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Not used in practice: keys are `u64` and use the method below.
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl StateHash {
    /// Computes the hash for both directions of a flow. A sender that does not know the secret
    /// cannot construct colliding flows.
    pub(super) fn of(flow: &IpfwFlowKey, secret: [u64; 2]) -> Self {
        let [(low, low_port), (high, high_port)] = ends(flow);
        let hasher = SipHasher13::new_with_keys(secret[0], secret[1]);
        let ports = u64::from(low_port) << 24 | u64::from(high_port) << 8 | u64::from(flow.proto);
        if flow.is_v6 {
            let mut bytes = [0; 40];
            bytes[..16].copy_from_slice(&low.to_le_bytes());
            bytes[16..32].copy_from_slice(&high.to_le_bytes());
            bytes[32..].copy_from_slice(&ports.to_le_bytes());
            return Self(hasher.hash(&bytes));
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&(low as u64 | (high as u64) << 32).to_le_bytes());
        bytes[8..].copy_from_slice(&ports.to_le_bytes());
        Self(hasher.hash(&bytes))
    }
}

/// Returns source and destination, the lower one first, so that both directions are equal.
fn ends(flow: &IpfwFlowKey) -> [(u128, u16); 2] {
    let ends = [(flow.src, flow.src_port), (flow.dst, flow.dst_port)];
    if ends[0] <= ends[1] { ends } else { [ends[1], ends[0]] }
}
