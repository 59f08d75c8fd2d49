//! Flows: a packet's flow results from its fields and a mask, which selects bits of these fields.
//!
//! Not for parsing packets: the caller has already parsed them for its rules.

/// The fields of a packet from which masks can select bits. Fields that the packet does not have
/// are 0. In a frame without IP, all of them are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperFlowKey {
    /// Whether the packet is IPv6. If not, it is IPv4 or not IP at all.
    pub is_v6: bool,
    /// The protocol number in the IP header.
    pub proto: u8,
    /// Source port; 0 if the protocol has no ports.
    pub src_port: u16,
    /// Destination port; 0 if the protocol has no ports.
    pub dst_port: u16,
    /// The 20-bit flow label of IPv6.
    pub flow_label: u32,
    /// Source address; an IPv4 address is in the low 32 bits.
    pub src: u128,
    /// Destination address; an IPv4 address is in the low 32 bits.
    pub dst: u128,
}

/// A [`ShaperFlowKey`] after a [`FlowMask`] was applied to it. Packets with equal ids belong to the
/// same flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShaperFlowId {
    /// The fields. All bits that the mask does not select are 0.
    pub key: ShaperFlowKey,
    /// Number of the flowset through which the packet came, if the mask has `queue`; otherwise 0.
    pub queue: u32,
}

impl ShaperFlowId {
    /// Returns a hash of the flow. `keys` must be secret, so that senders cannot choose flows with
    /// equal hashes.
    #[inline]
    pub(crate) fn hash(&self, keys: [u64; 2]) -> u64 {
        let ShaperFlowKey { is_v6, proto, src_port, dst_port, flow_label, src, dst } = self.key;
        let ports = u64::from(src_port) | u64::from(dst_port) << 16 | u64::from(proto) << 32;
        let kind = u64::from(is_v6) | u64::from(flow_label) << 1 | u64::from(self.queue) << 32;
        let low = fold(src as u64 ^ keys[0], dst as u64 ^ keys[1]);
        let high = fold((src >> 64) as u64 ^ keys[1], (dst >> 64) as u64 ^ keys[0]);
        let rest = fold(ports ^ keys[0], kind ^ keys[1]);
        fold(low ^ rest ^ keys[1], high ^ rest.rotate_left(32) ^ keys[0])
    }
}

/// Multiplies `a` and `b` to 128 bits and combines both halves. So every input bit can affect every
/// bit of the result.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let wide = a as u128 * b as u128;
    wide as u64 ^ (wide >> 64) as u64
}

/// A mask selects bits of a packet's fields. Packets of the same IP version belong to the same flow
/// if they agree in these bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowMask {
    /// The selected bits of the protocol number.
    pub proto: u8,
    /// The selected bits of the source port.
    pub src_port: u16,
    /// The selected bits of the destination port.
    pub dst_port: u16,
    /// The selected bits of an IPv4 source address.
    pub src4: u32,
    /// The selected bits of an IPv4 destination address.
    pub dst4: u32,
    /// The selected bits of an IPv6 source address.
    pub src6: u128,
    /// The selected bits of an IPv6 destination address.
    pub dst6: u128,
    /// The selected bits of the flow label.
    pub flow_label: u32,
    /// The word `queue`: packets that arrive through different flowsets belong to different flows.
    pub queue: bool,
    /// Whether the last address or `flow-id` in the command was of IPv6. Listings show the mask in
    /// the form of that address family.
    pub shown_as_v6: bool,
}

impl FlowMask {
    /// The mask with which all packets belong to one flow.
    pub const NONE: Self = Self {
        proto: 0,
        src_port: 0,
        dst_port: 0,
        src4: 0,
        dst4: 0,
        src6: 0,
        dst6: 0,
        flow_label: 0,
        queue: false,
        shown_as_v6: false,
    };

    /// The word `all`: all bits of all fields, but not `queue`.
    pub const ALL: Self = Self {
        proto: u8::MAX,
        src_port: u16::MAX,
        dst_port: u16::MAX,
        src4: u32::MAX,
        dst4: u32::MAX,
        src6: u128::MAX,
        dst6: u128::MAX,
        flow_label: u32::MAX,
        queue: false,
        shown_as_v6: false,
    };

    /// Returns whether all packets belong to one flow with this mask.
    #[inline]
    #[must_use]
    pub fn is_none(&self) -> bool {
        Self { shown_as_v6: false, ..*self } == Self::NONE
    }

    /// Returns the id of the flow of a packet that has the fields `key` and came through the
    /// flowset with the number `queue`.
    #[inline]
    #[must_use]
    pub fn apply(&self, key: &ShaperFlowKey, queue: u32) -> ShaperFlowId {
        let (src, dst) = if key.is_v6 {
            (self.src6, self.dst6)
        } else {
            (u128::from(self.src4), u128::from(self.dst4))
        };
        let key = ShaperFlowKey {
            is_v6: key.is_v6,
            proto: key.proto & self.proto,
            src_port: key.src_port & self.src_port,
            dst_port: key.dst_port & self.dst_port,
            flow_label: key.flow_label & self.flow_label,
            src: key.src & src,
            dst: key.dst & dst,
        };
        ShaperFlowId { key, queue: if self.queue { queue } else { 0 } }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key(src: u128) -> ShaperFlowKey {
        ShaperFlowKey {
            proto: 6,
            src_port: 1024,
            dst_port: 80,
            src,
            dst: 7,
            ..ShaperFlowKey::default()
        }
    }

    #[test]
    fn only_masked_bits_tell_flows_apart() {
        let mask = FlowMask { src4: 0xff, ..FlowMask::NONE };
        assert_eq!(mask.apply(&key(0x0a00_0001), 1), mask.apply(&key(0x0b00_0001), 2));
        assert_ne!(mask.apply(&key(0x0a00_0001), 1), mask.apply(&key(0x0a00_0002), 1));
    }

    #[test]
    fn masks_of_ipv4_addresses_leave_ipv6_addresses_alone() {
        let mask = FlowMask { src4: u32::MAX, ..FlowMask::NONE };
        let v6 = |src| mask.apply(&ShaperFlowKey { is_v6: true, ..key(src) }, 1);
        assert_eq!(v6(1), v6(2));
        assert_ne!(v6(1), mask.apply(&key(1), 1));
    }

    #[test]
    fn queue_tells_objects_apart_and_all_does_not() {
        let by_queue = FlowMask { queue: true, ..FlowMask::NONE };
        assert_ne!(by_queue.apply(&key(1), 1), by_queue.apply(&key(1), 2));
        assert_eq!(FlowMask::ALL.apply(&key(1), 1), FlowMask::ALL.apply(&key(1), 2));
        assert!(FlowMask::NONE.is_none() && !by_queue.is_none());
    }

    #[test]
    fn hashes_of_neighbours_spread_over_low_and_high_bits() {
        const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];
        let id = |key| ShaperFlowId { key, queue: 0 };
        let plain = key(1);
        let fields: [fn(u32) -> ShaperFlowKey; 7] = [
            |n| key(n.into()),
            |n| key(u128::from(n) << 64),
            |n| ShaperFlowKey { dst: n.into(), ..key(1) },
            |n| ShaperFlowKey { dst: u128::from(n) << 100, ..key(1) },
            |n| ShaperFlowKey { src_port: n as u16, ..key(1) },
            |n| ShaperFlowKey { dst_port: n as u16, ..key(1) },
            |n| ShaperFlowKey { flow_label: n, is_v6: true, ..key(1) },
        ];
        for (number, field) in fields.into_iter().enumerate() {
            spread(&std::format!("field {number}"), |n| id(field(n)).hash(KEYS));
        }
        spread("queue", |queue| ShaperFlowId { key: plain, queue }.hash(KEYS));
        spread("both ends", |n| {
            let (src, dst) = (u128::from(n % 64), u128::from(n / 64));
            id(ShaperFlowKey { src, dst, ..plain }).hash(KEYS)
        });
        spread("first key", |n| id(plain).hash([KEYS[0] ^ u64::from(n), KEYS[1]]));
        spread("second key", |n| id(plain).hash([KEYS[0], KEYS[1] ^ u64::from(n)]));
        let v6 = ShaperFlowKey { is_v6: true, ..plain };
        assert_ne!(id(plain).hash(KEYS), id(v6).hash(KEYS));
        let protocols: BTreeSet<_> =
            (0..=255).map(|proto| id(ShaperFlowKey { proto, ..plain }).hash(KEYS)).collect();
        assert_eq!(protocols.len(), 256);
    }

    fn spread(what: &str, hash: impl Fn(u32) -> u64) {
        let (mut low, mut high) = (BTreeSet::new(), BTreeSet::new());
        for hash in (0..4096).map(hash) {
            low.insert(hash as u16 & 0xfff);
            high.insert(hash >> 52);
        }
        // 4096 random values fall into 63 % of 4096 bins on average, which are about 2590.
        assert!(low.len() > 2400 && high.len() > 2400, "{what}: {} {}", low.len(), high.len());
    }

    #[test]
    fn each_field_has_its_own_mask() {
        let key = ShaperFlowKey {
            is_v6: false,
            proto: 0b1100,
            src_port: 0b1100,
            dst_port: 0b1100,
            flow_label: 0b1100,
            src: 0b1100,
            dst: 0b1100,
        };
        let one = |mask: FlowMask| mask.apply(&key, 9).key;
        let v6 = |mask: FlowMask| mask.apply(&ShaperFlowKey { is_v6: true, ..key }, 9).key;
        let none = ShaperFlowKey::default();
        let none6 = ShaperFlowKey { is_v6: true, ..none };
        let mask = FlowMask::NONE;
        assert_eq!(
            one(FlowMask { proto: 0b1010, ..mask }),
            ShaperFlowKey { proto: 0b1000, ..none }
        );
        let ports = FlowMask { src_port: 0b1010, dst_port: 0b0110, ..mask };
        assert_eq!(one(ports), ShaperFlowKey { src_port: 0b1000, dst_port: 0b0100, ..none });
        let label = FlowMask { flow_label: 0b1010, ..mask };
        assert_eq!(one(label), ShaperFlowKey { flow_label: 0b1000, ..none });
        let addresses = FlowMask { src4: 0b1010, dst4: 0b0110, src6: 0b0101, dst6: 0b1001, ..mask };
        assert_eq!(one(addresses), ShaperFlowKey { src: 0b1000, dst: 0b0100, ..none });
        assert_eq!(v6(addresses), ShaperFlowKey { src: 0b0100, dst: 0b1000, ..none6 });
        assert_eq!(FlowMask { queue: true, ..mask }.apply(&key, 9).queue, 9);
        assert!(FlowMask { shown_as_v6: true, ..mask }.is_none());
    }
}
