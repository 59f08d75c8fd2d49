//! Decides which received frames the chip accepts.

use crate::tally::Tally;

/// Bits of RxConfig.
pub(crate) const ACCEPT_ALL: u32 = 1;
pub(crate) const ACCEPT_OWN: u32 = 2;
pub(crate) const ACCEPT_MULTICAST: u32 = 4;
pub(crate) const ACCEPT_BROADCAST: u32 = 8;

/// The class of a frame's destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    Unicast,
    Multicast,
    Broadcast,
}

impl Destination {
    /// The class of a frame of at least 6 bytes.
    pub(crate) fn of(frame: &[u8]) -> Self {
        match frame.get(..6) {
            Some([0xff, 0xff, 0xff, 0xff, 0xff, 0xff]) => Self::Broadcast,
            Some([first, ..]) if first & 1 != 0 => Self::Multicast,
            _ => Self::Unicast,
        }
    }

    /// Counts a delivered frame.
    pub(crate) fn count(self, tally: &mut Tally) {
        match self {
            Self::Unicast => tally.rx_unicast += 1,
            Self::Multicast => tally.rx_multicast = tally.rx_multicast.wrapping_add(1),
            Self::Broadcast => tally.rx_broadcast += 1,
        }
    }
}

/// Returns whether a frame is accepted in the mode of RxConfig.
pub(crate) fn accepts(rx_config: u32, own: [u8; 6], multicast: [u8; 8], frame: &[u8]) -> bool {
    if rx_config & ACCEPT_ALL != 0 {
        return true;
    }
    let Some(to) = frame.first_chunk::<6>() else { return false };
    match Destination::of(frame) {
        Destination::Unicast => rx_config & ACCEPT_OWN != 0 && *to == own,
        Destination::Broadcast => rx_config & ACCEPT_BROADCAST != 0,
        Destination::Multicast => {
            rx_config & ACCEPT_MULTICAST != 0 && is_in_hash(multicast, hash_bit(to))
        }
    }
}

/// Returns whether a bit of the multicast hash is set. On PCI Express chips, the registers are the
/// 64 bits with the most significant byte first.
fn is_in_hash(multicast: [u8; 8], bit: u32) -> bool {
    u64::from_be_bytes(multicast) >> bit & 1 != 0
}

/// The bit of an address in the multicast hash: the six highest bits of the Ethernet checksum,
/// most significant bit first.
fn hash_bit(address: &[u8; 6]) -> u32 {
    let mut crc = u32::MAX;
    for byte in address {
        for bit in 0..8 {
            let carry = (crc >> 31) ^ u32::from(byte >> bit & 1);
            crc = (crc << 1) ^ if carry != 0 { 0x04c1_1db7 } else { 0 };
        }
    }
    crc >> 26
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 0xfb];

    #[test]
    fn a_frame_is_accepted_by_the_bit_of_its_class() {
        for (bit, to) in [(ACCEPT_OWN, OWN), (ACCEPT_BROADCAST, [0xff; 6]), (ACCEPT_ALL, [8; 6])] {
            assert!(accepts(bit, OWN, [0; 8], &to));
            assert!(!accepts(0xf & !bit & !ACCEPT_ALL, OWN, [0; 8], &to));
        }
    }

    #[test]
    fn a_multicast_frame_needs_its_bit_of_the_hash() {
        let bit = hash_bit(&GROUP);
        let only = (1u64 << bit).to_be_bytes();
        assert!(accepts(ACCEPT_MULTICAST, OWN, only, &GROUP));
        assert!(!accepts(ACCEPT_MULTICAST, OWN, (!(1u64 << bit)).to_be_bytes(), &GROUP));
        assert!(!accepts(ACCEPT_OWN, OWN, [0xff; 8], &GROUP));
    }
}
