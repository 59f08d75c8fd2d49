//! Frames that are not checked by the rules. By default, this includes ARP, as in FreeBSD's bridge.
//!
//! | frame | setting | by default |
//! |---|---|---|
//! | IPv4, IPv6 (neighbour discovery is IPv6) | | checked by the rules |
//! | ARP, RARP | `net.link.bridge.ipfw_arp` | passes |
//! | any other EtherType | `net.link.bridge.pfil_onlyip` | checked by the rules |
//!
//! VLAN tags are skipped. A frame that is too short to be classified is passed to the rules, which
//! count it as malformed.

use slipring_ipfw::packet::{IpFamily, PacketHeaders};
use slipring_ipfw::run::{FrameBatch, IpfwSettings, NonIpPolicy};

const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_RARP: u16 = 0x8035;

/// What happens to a frame that bypasses the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BypassVerdict {
    /// ARP or RARP: the frame passes.
    Arp,
    /// The frame is neither IP nor ARP, and passes.
    NonIp,
    /// The frame is neither IP nor ARP, and a setting says that such frames are dropped.
    Dropped,
}

/// Classifies a frame; `None` if the rules must check it.
#[inline]
pub(crate) fn bypass(settings: &IpfwSettings, frame: &[u8]) -> Option<BypassVerdict> {
    // These are the EtherTypes of IPv4 and IPv6. Nearly all frames have one of them, so they are
    // tested first.
    if matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd])) {
        return None;
    }
    bypass_of_others(settings, frame)
}

#[inline(never)]
fn bypass_of_others(settings: &IpfwSettings, frame: &[u8]) -> Option<BypassVerdict> {
    let packet = PacketHeaders::parse(frame).ok()?;
    if packet.version != IpFamily::None || !settings.enable {
        return None;
    }
    match (packet.ethertype, settings.non_ip) {
        (ETHERTYPE_ARP | ETHERTYPE_RARP, _) => {
            (!settings.arp_meets_rules).then_some(BypassVerdict::Arp)
        }
        (_, NonIpPolicy::Pass) => Some(BypassVerdict::NonIp),
        (_, NonIpPolicy::Drop) => Some(BypassVerdict::Dropped),
        (_, NonIpPolicy::Rules) => None,
    }
}

/// Describes what happens to a frame that bypasses the rules; `None` if the rules check it.
pub(crate) fn bypassed(settings: &IpfwSettings, frame: &[u8]) -> Option<String> {
    let what = bypass(settings, frame).map(|verdict| match verdict {
        BypassVerdict::Arp => "accepted: ARP meets no rules (net.link.bridge.ipfw_arp is 0)",
        BypassVerdict::NonIp => {
            "accepted: neither IP nor ARP, it meets no rules (net.link.bridge.pfil_onlyip is 0)"
        }
        BypassVerdict::Dropped => "dropped: non_ip (net.link.bridge.pfil_onlyip is 1)",
    });
    what.map(str::to_owned)
}

/// The part of a batch that begins at frame index `first`; itself a batch.
pub(super) struct FrameRange<'f, F: ?Sized> {
    pub(super) frames: &'f mut F,
    pub(super) first: usize,
}

impl<F: FrameBatch + ?Sized> FrameBatch for FrameRange<'_, F> {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.frames.frame(self.first + at)
    }
}
