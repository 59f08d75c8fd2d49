//! Why packets are dropped: one counter for each cause.

macro_rules! drop_causes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why the router dropped a packet. Each cause has a counter of its own.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum RouteDropCause {
            $($(#[$doc])* $name,)*
        }

        impl RouteDropCause {
            /// All causes, in the order of their counters.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
            /// Number of causes.
            pub const COUNT: usize = Self::ALL.len();

            /// The name of the cause in metrics and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

drop_causes! {
    /// The frame ends inside its Ethernet header.
    Runt = "runt",
    /// The frame ends inside a VLAN tag.
    TruncatedTag = "truncated-tag",
    /// The destination MAC address belongs to another host.
    OtherMac = "other-mac",
    /// The frame is a broadcast or multicast of the link, but its IP destination is a remote host
    /// (RFC 1812, 5.3.4).
    LinkGroup = "link-group",
    /// The frame ends inside its IPv4 header.
    V4Truncated = "v4-truncated",
    /// The EtherType is IPv4, but the header has another version.
    V4Version = "v4-version",
    /// The IPv4 header claims to be shorter than 20 bytes.
    V4HeaderLength = "v4-header-length",
    /// The IPv4 total length is less than the header's length.
    V4TotalLength = "v4-total-length",
    /// The IPv4 total length goes beyond the end of the frame.
    V4BeyondFrame = "v4-beyond-frame",
    /// The IPv4 header checksum is wrong.
    V4Checksum = "v4-checksum",
    /// The IPv4 packet has a source route (RFC 7126, 4.3 and 4.4).
    V4SourceRoute = "v4-source-route",
    /// An IPv4 source in 127.0.0.0/8 (RFC 1812, 5.3.7).
    V4SourceLoopback = "v4-source-loopback",
    /// An IPv4 source in 0.0.0.0/8.
    V4SourceZero = "v4-source-zero",
    /// An IPv4 source in 224.0.0.0/4.
    V4SourceMulticast = "v4-source-multicast",
    /// The IPv4 source 255.255.255.255.
    V4SourceBroadcast = "v4-source-broadcast",
    /// An IPv4 source that is an address of this router.
    V4SourceOwn = "v4-source-own",
    /// An IPv4 destination in 0.0.0.0/8.
    V4DestinationZero = "v4-destination-zero",
    /// An IPv4 destination in 127.0.0.0/8.
    V4DestinationLoopback = "v4-destination-loopback",
    /// The frame ends inside its IPv6 header.
    V6Truncated = "v6-truncated",
    /// The EtherType is IPv6, but the header has another version.
    V6Version = "v6-version",
    /// The IPv6 payload length goes beyond the end of the frame.
    V6BeyondFrame = "v6-beyond-frame",
    /// The IPv6 source `::` in a packet that is not for the link (RFC 4291, 2.5.2).
    V6SourceUnspecified = "v6-source-unspecified",
    /// The IPv6 source `::1` (RFC 4291, 2.5.3).
    V6SourceLoopback = "v6-source-loopback",
    /// An IPv6 source in `ff00::/8` (RFC 4291, 2.7).
    V6SourceMulticast = "v6-source-multicast",
    /// A link-local IPv6 source and a destination beyond the link (RFC 4291, 2.5.6).
    V6SourceLinkLocal = "v6-source-link-local",
    /// An IPv6 source that is an address of this router.
    V6SourceOwn = "v6-source-own",
    /// The IPv6 destination `::`.
    V6DestinationUnspecified = "v6-destination-unspecified",
    /// The IPv6 destination `::1`.
    V6DestinationLoopback = "v6-destination-loopback",
    /// The route to the source does not lead through the ingress port (RFC 3704, 2.2).
    ReversePathStrict = "reverse-path-strict",
    /// No route to the source forwards packets (RFC 3704, 2.4).
    ReversePathLoose = "reverse-path-loose",
    /// The packet exceeds the rate of the ingress port's policer.
    Policed = "policed",
    /// A filter rule drops the packet.
    Rules = "rules",
    /// There is no route to the destination.
    NoRoute = "no-route",
    /// The route is a black hole.
    Blackhole = "blackhole",
    /// The route is of type `unreachable`.
    Unreachable = "unreachable",
    /// The route is of type `prohibit`.
    Prohibited = "prohibited",
    /// The IPv4 TTL expired.
    TtlExpired = "ttl-expired",
    /// The IPv6 hop limit expired.
    HopLimitExpired = "hop-limit-expired",
    /// The egress port is down.
    PortDown = "port-down",
    /// The IPv4 packet is larger than the MTU and must not be fragmented.
    V4TooBig = "v4-too-big",
    /// The IPv6 packet is larger than the MTU.
    V6TooBig = "v6-too-big",
    /// The MTU is too small for a fragment with 8 bytes of data.
    MtuTooSmall = "mtu-too-small",
    /// The neighbour did not answer.
    NeighbourUnanswered = "neighbour-unanswered",
    /// Too many packets waited for neighbours.
    HoldQueueFull = "hold-queue-full",
    /// The queue of the router's own packets was full.
    OutputQueueFull = "output-queue-full",
    /// The egress port's transmit queue was full.
    TransmitQueueFull = "transmit-queue-full",
    /// The queue of the thread that was to process the frame was full.
    ThreadQueueFull = "thread-queue-full",
}

impl core::fmt::Display for RouteDropCause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}
