//! The state of a packet between stages.

/// Properties of a packet. Except for [`Self::V6`], the fast paths do not handle them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PacketTraits(u8);

impl PacketTraits {
    /// IPv6; otherwise IPv4.
    pub(crate) const V6: Self = Self(1);
    /// The frame was a broadcast or multicast of the link.
    pub(crate) const LINK_GROUP: Self = Self(1 << 1);
    /// The transport checksum may be incomplete.
    pub(crate) const PARTIAL: Self = Self(1 << 2);
    /// The router itself sends the packet, such as an ICMP error, so its TTL is not decremented.
    pub(crate) const OWN: Self = Self(1 << 3);
    /// A policer changes the DSCP.
    pub(crate) const REMARK: Self = Self(1 << 4);
    /// The link header is longer than 14 bytes.
    pub(crate) const TAGGED: Self = Self(1 << 5);
    /// The source is a link-local IPv6 address, so the packet must not leave its link.
    pub(crate) const LINK_SOURCE: Self = Self(1 << 6);

    /// Returns these traits and `other`.
    #[inline(always)]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these traits, and also `other` if `condition` is true.
    pub(crate) const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }

    /// Returns whether the packet has at least one of the traits `other`.
    #[inline(always)]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the packet has no trait except [`Self::V6`].
    #[inline(always)]
    pub(crate) const fn is_plain(self) -> bool {
        self.0 & !Self::V6.0 == 0
    }
}

/// A packet between stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoutedPacket {
    /// Offset of the end of the IP packet in the frame.
    pub(crate) end: u32,
    /// MTU of the route, in bytes; 0 if the route has none.
    pub(crate) mtu: u32,
    /// Offset of the IP header in the frame.
    pub(crate) l3: u16,
    /// Index of the ingress port.
    pub(crate) port: u16,
    /// Index of the VRF.
    pub(crate) vrf: u16,
    /// Index of the target that the looked-up address matches.
    pub(crate) target: u16,
    /// Index of the adjacency.
    pub(crate) adjacency: u16,
    /// Further properties of the packet.
    pub(crate) traits: PacketTraits,
    /// The new DSCP, if [`PacketTraits::REMARK`] is set.
    pub(crate) dscp: u8,
}

impl RoutedPacket {
    /// Length of the IP packet in bytes.
    #[inline(always)]
    pub(crate) const fn ip_len(&self) -> u32 {
        self.end - self.l3 as u32
    }

    /// Offset of the IP header.
    #[inline(always)]
    pub(crate) const fn l3(&self) -> usize {
        self.l3 as usize
    }

    /// Returns whether the packet is IPv6.
    #[inline(always)]
    pub(crate) const fn is_v6(&self) -> bool {
        self.traits.has(PacketTraits::V6)
    }
}
