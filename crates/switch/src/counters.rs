//! Counters of frames: what the ports sent and received, and why frames were dropped.

/// Why a frame was not delivered, or not to all destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SwitchDropReason {
    /// The frame is shorter than an Ethernet header or, in a VLAN-aware switch, than the header
    /// with its tag.
    Runt,
    /// The destination port is the port that the frame came from.
    SamePort,
    /// The destination address is unknown, and the switch is configured to drop such frames.
    UnknownUnicast,
    /// The frame should be flooded, but no other port may receive it.
    NoDestination,
    /// The frame's slot or a [`crate::SwitchLookup`] names a destination port that does not exist.
    NoSuchPort,
    /// The source port and the destination port are both isolated, and isolated ports exchange no
    /// frames.
    Isolated,
    /// The source port does not accept this VLAN.
    VlanIngress,
    /// The destination port is not in this VLAN.
    VlanEgress,
    /// The source port has sent more broadcasts than its storm limit allows.
    StormBroadcast,
    /// The source port has sent more multicasts than its storm limit allows.
    StormMulticast,
    /// The source port has sent more frames to unknown addresses, or frames that a lookup floods,
    /// than its storm limit allows.
    StormUnknown,
    /// A [`crate::SwitchLookup`] dropped the frame.
    Lookup,
    /// The destination ring was full. This is counted at the destination port, not at the source
    /// port.
    DestinationFull,
    /// The frame is longer than the maximum, so the caller reported it with
    /// [`crate::Switch::refuse`] instead of passing it to the switch.
    TooLong,
    /// The frame was in transit when the switch's process was killed, and may have been delivered.
    /// The successor of the process reports it with [`crate::Switch::refuse`].
    Restart,
}

impl SwitchDropReason {
    /// All reasons, in the order of their declaration.
    pub const ALL: [Self; 15] = [
        Self::Runt,
        Self::SamePort,
        Self::UnknownUnicast,
        Self::NoDestination,
        Self::NoSuchPort,
        Self::Isolated,
        Self::VlanIngress,
        Self::VlanEgress,
        Self::StormBroadcast,
        Self::StormMulticast,
        Self::StormUnknown,
        Self::Lookup,
        Self::DestinationFull,
        Self::TooLong,
        Self::Restart,
    ];

    /// The name of the reason in reports. Names never change.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Runt => "runt",
            Self::SamePort => "same_port",
            Self::UnknownUnicast => "unknown_unicast",
            Self::NoDestination => "no_destination",
            Self::NoSuchPort => "no_such_port",
            Self::Isolated => "isolated",
            Self::VlanIngress => "vlan_ingress",
            Self::VlanEgress => "vlan_egress",
            Self::StormBroadcast => "storm_broadcast",
            Self::StormMulticast => "storm_multicast",
            Self::StormUnknown => "storm_unknown",
            Self::Lookup => "lookup",
            Self::DestinationFull => "destination_full",
            Self::TooLong => "too_long",
            Self::Restart => "restart",
        }
    }
}

/// A number of frames, and the sum of their bytes without CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchTraffic {
    /// The number of complete frames.
    pub packets: u64,
    /// The sum of the frames' lengths in bytes.
    pub bytes: u64,
}

impl core::ops::AddAssign for SwitchTraffic {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// One port's counters, since the port was attached.
///
/// Summed over all ports of a switch, including detached ones, `rx + copies = tx + drops` in frames
/// once every batch is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SwitchPortCounters {
    /// Frames that arrived at this port. Those that [`crate::Switch::refuse`] was told of are among
    /// them, without their bytes.
    pub rx: SwitchTraffic,
    /// Frames delivered to this port.
    pub tx: SwitchTraffic,
    /// Frames in `rx` that went to more than one port.
    pub flooded: u64,
    /// Additional frames made by sending frames of `rx` to more than one port.
    pub copies: u64,
    /// Addresses learned at this port.
    pub learned: u64,
    /// Addresses that moved to this port from another one.
    pub moved: u64,
    /// Addresses that were not learned because the table was full.
    pub not_learned: u64,
    drops: [u64; SwitchDropReason::ALL.len()],
}

impl SwitchPortCounters {
    /// The number of frames that were lost for `reason`.
    #[must_use]
    pub fn dropped(&self, reason: SwitchDropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Each reason for which frames were lost, with the number of these frames.
    pub fn drops(&self) -> impl Iterator<Item = (SwitchDropReason, u64)> + '_ {
        SwitchDropReason::ALL.into_iter().zip(self.drops).filter(|&(_, count)| count > 0)
    }

    pub(crate) fn drop(&mut self, reason: SwitchDropReason, packets: u64) {
        self.drops[reason as usize] += packets;
    }
}
