//! Frames that the rules are not asked about: FreeBSD's bridge passes ARP by itself, too.
//!
//! | frame | setting | by default |
//! |---|---|---|
//! | IPv4, IPv6 (neighbour discovery is IPv6) | | meets the rules |
//! | ARP, RARP | `net.link.bridge.ipfw_arp` | passes |
//! | any other EtherType | `net.link.bridge.pfil_onlyip` | meets the rules |
//!
//! VLAN tags are looked through. A frame too short to tell meets the rules, and is malformed there.

use slipring_ipfw::packet::{Packet, Version};
use slipring_ipfw::run::{Frames, NonIp, PortId, Settings};

use super::{Join, Loss, Outlet};

const ARP: u16 = 0x0806;
const RARP: u16 = 0x8035;

/// What becomes of a frame without the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bypass {
    /// ARP or RARP: it passes.
    Arp,
    /// Neither IP nor ARP: it passes.
    NonIp,
    /// Neither IP nor ARP: it is dropped.
    Dropped,
}

/// What becomes of a frame without the rules; `None`: the rules are asked.
#[inline]
pub(crate) fn bypass(settings: &Settings, frame: &[u8]) -> Option<Bypass> {
    // The two EtherTypes of nearly all frames.
    if matches!(frame.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd])) {
        return None;
    }
    bypass_of_others(settings, frame)
}

#[inline(never)]
fn bypass_of_others(settings: &Settings, frame: &[u8]) -> Option<Bypass> {
    let packet = Packet::parse(frame).ok()?;
    if packet.version != Version::None || !settings.enable {
        return None;
    }
    match (packet.ethertype, settings.non_ip) {
        (ARP | RARP, _) => (!settings.arp_meets_rules).then_some(Bypass::Arp),
        (_, NonIp::Pass) => Some(Bypass::NonIp),
        (_, NonIp::Drop) => Some(Bypass::Dropped),
        (_, NonIp::Rules) => None,
    }
}

/// Some of many frames.
pub(super) struct FrameRange<'f, F: ?Sized> {
    pub(super) frames: &'f mut F,
    pub(super) first: usize,
}

impl<F: Frames + ?Sized> Frames for FrameRange<'_, F> {
    #[inline]
    fn frame(&mut self, at: usize) -> &mut [u8] {
        self.frames.frame(self.first + at)
    }
}

impl Join {
    /// Where a frame goes that the rules are not asked about.
    pub(super) fn go_unasked(
        &mut self,
        what: Bypass,
        frame: &[u8],
        from: PortId,
        outlet: &mut impl Outlet,
    ) -> Option<PortId> {
        match what {
            Bypass::Arp => self.tally.bypassed.arp += 1,
            Bypass::NonIp => self.tally.bypassed.non_ip += 1,
            Bypass::Dropped => {
                self.tally.lose(Loss::NonIp);
                return None;
            }
        }
        let Some(last) = self.map.targets(from).len().checked_sub(1) else {
            self.tally.lose(Loss::NoTarget);
            return None;
        };
        for at in 0..last {
            self.tally.copies += 1;
            self.send(self.map.targets(from)[at], frame, outlet);
        }
        Some(self.map.targets(from)[last])
    }
}
