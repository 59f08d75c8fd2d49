//! The hash by which a flow chooses among several next hops.
//!
//! All engines of a router must choose the same next hop, and one of them is a BPF program, which
//! has neither rotations nor wide multiplications. So the hash is a chain of xor, multiply and
//! shift over the words of the flow, read from the packet in little-endian order:
//!
//! ```text
//!   h = seed
//!   IPv4: one word     source | destination << 32
//!   IPv6: four words   the source's 16 bytes, then the destination's
//!   then one word      source port | destination port << 16 | protocol << 32
//!   each word:         h = (h ^ word) * M;  h ^= h >> 32
//!   at the end:        h *= M;  the bucket is h >> 56
//! ```
//!
//! The ports are those of TCP, UDP and SCTP directly after the IP header. They are 0 for all
//! fragments, of which only the first has ports, and for packets whose ports are cut off.
//! `protocol` is IPv4's protocol, or IPv6's next header field.

/// Odd, with no pattern in its bits (2^64 divided by the golden ratio).
pub(crate) const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
/// TCP, UDP, SCTP.
pub(crate) const HAS_PORTS: [u8; 3] = [6, 17, 132];

/// Returns the number of the bucket of a flow. `addresses` are the source and the destination as
/// they are in the header, `ports` the first four bytes of the transport header or zeros.
#[must_use]
pub fn flow_bucket(seed: u64, addresses: &[u8], ports: [u8; 4], protocol: u8) -> u8 {
    let (words, _) = addresses.as_chunks::<8>();
    let last = u64::from(u32::from_le_bytes(ports)) | u64::from(protocol) << 32;
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).chain([last]);
    let hash = words.fold(seed, |hash, word| {
        let hash = (hash ^ word).wrapping_mul(MULTIPLIER);
        hash ^ hash >> 32
    });
    (hash.wrapping_mul(MULTIPLIER) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_flows_fill_the_buckets_evenly() {
        let mut counts = [0_u32; 256];
        for client in 0..1024_u32 {
            for port in 0..64_u16 {
                let address = (0x0a00_0000 | client).to_be_bytes();
                let addresses = [address, [10, 9, 8, 7]].concat();
                let [high, low] = (40000 + port).to_be_bytes();
                counts[usize::from(flow_bucket(5, &addresses, [high, low, 0, 80], 6))] += 1;
            }
        }
        // 256 flows a bucket on average; the deviation of a random choice is 16.
        assert!(counts.iter().all(|&count| (176..=336).contains(&count)), "{counts:?}");
    }

    #[test]
    fn another_seed_distributes_otherwise() {
        let bucket = |seed, port| flow_bucket(seed, &[1, 2, 3, 4, 5, 6, 7, 8], [0, port, 0, 80], 6);
        assert!((0..=255).any(|port| bucket(1, port) != bucket(2, port)));
    }
}
