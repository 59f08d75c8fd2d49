//! VLAN tags of frames: parses, removes and adds them.

use std::ops::Range;

use slipring_fib::VlanTags;
use slipring_wire::assigned::{EtherType, VlanTag};

/// Length of the two MAC addresses in bytes. The tags follow them.
const MACS_LEN: usize = 12;
/// Length of a tag in bytes.
const TAG_LEN: usize = 4;

/// Returns the tags of a frame, outermost first, and the length of its link header. Priority tags
/// are skipped (IEEE 802.1Q, 9.6). `None` if the frame ends within the header, or has more than two
/// tags.
pub(crate) fn parse(frame: &[u8]) -> Option<(VlanTags, usize)> {
    let mut tags = VlanTags::default();
    let mut at = MACS_LEN;
    loop {
        let ethertype = be16(frame, at)?;
        if !EtherType(ethertype).is_vlan() {
            return Some((tags, at + 2));
        }
        let tag = Some((ethertype, VlanTag(be16(frame, at + 2)?).vid()));
        match &mut tags {
            _ if tag.is_some_and(|(_, id)| id == 0) => {}
            VlanTags { outer: outer @ None, .. } => *outer = tag,
            VlanTags { inner: inner @ None, .. } => *inner = tag,
            _ => return None,
        }
        at += TAG_LEN;
    }
}

/// Removes the tags of a frame whose link header has `header_len` bytes, by moving its MAC
/// addresses towards the payload. Returns the range of the frame without tags.
pub(crate) fn strip(frame: &mut [u8], header_len: usize) -> Range<usize> {
    let start = header_len - MACS_LEN - 2;
    frame.copy_within(..MACS_LEN, start);
    start..frame.len()
}

/// Writes a frame without its tags to `into`. The frame's link header has `header_len` bytes, with
/// the tags.
pub(crate) fn remove(frame: &[u8], header_len: usize, into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&frame[..MACS_LEN]);
    into.extend_from_slice(&frame[header_len - 2..]);
}

/// Writes the frame with these tags to `into`. The priority depends on the class selector of an IP
/// packet's DSCP.
pub(crate) fn add(frame: &[u8], tags: VlanTags, priorities: &[u8; 8], into: &mut Vec<u8>) {
    let (macs, rest) = frame.split_at(MACS_LEN.min(frame.len()));
    let priority = priorities[usize::from(class_selector(frame) & 7)];
    into.clear();
    into.extend_from_slice(macs);
    for (tpid, id) in [tags.outer, tags.inner].into_iter().flatten() {
        into.extend(tpid.to_be_bytes());
        into.extend(VlanTag::new(id, priority).0.to_be_bytes());
    }
    into.extend_from_slice(rest);
}

/// Pads a frame to Ethernet's minimum: without its tags, a frame may be shorter.
pub(crate) fn pad(frame: &mut Vec<u8>) {
    /// Ethernet's minimum frame length in bytes, without the CRC.
    const MIN_LEN: usize = 60;
    if frame.len() < MIN_LEN {
        frame.resize(MIN_LEN, 0);
    }
}

/// Returns the upper three bits of the DSCP (RFC 2474, 4.2.2); 0 for frames that are not IP.
fn class_selector(frame: &[u8]) -> u8 {
    match (be16(frame, MACS_LEN).map(EtherType), be16(frame, MACS_LEN + 2)) {
        (Some(EtherType::IPV4), Some(word)) => (word as u8) >> 5,
        (Some(EtherType::IPV6), Some(word)) => (word >> 9) as u8 & 7,
        _ => 0,
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QINQ: VlanTags = VlanTags { outer: Some((0x88a8, 100)), inner: Some((0x8100, 7)) };

    fn plain(tos: u8) -> Vec<u8> {
        let mut frame: Vec<u8> = (0..12).collect();
        frame.extend([8, 0, 0x45, tos]);
        frame.extend([9; 44]);
        frame
    }

    #[test]
    fn tags_that_were_added_are_found_and_removed_again() {
        for tags in [QINQ, VlanTags { inner: None, ..QINQ }, VlanTags::default()] {
            let (frame, mut tagged) = (plain(0), Vec::new());
            add(&frame, tags, &[0; 8], &mut tagged);
            let (found, header_len) = parse(&tagged).unwrap();
            assert_eq!(found, tags);
            let mut without = vec![7];
            remove(&tagged, header_len, &mut without);
            assert_eq!(without, frame);
            let range = strip(&mut tagged, header_len);
            assert_eq!(tagged[range], frame);
        }
    }

    #[test]
    fn a_priority_tag_is_no_tag() {
        let (frame, mut tagged) = (plain(0), Vec::new());
        let tags = VlanTags { outer: Some((0x8100, 0)), inner: Some((0x8100, 7)) };
        add(&frame, tags, &[0; 8], &mut tagged);
        let found = VlanTags { outer: Some((0x8100, 7)), inner: None };
        assert_eq!(parse(&tagged), Some((found, 22)));
    }

    #[test]
    fn the_priority_follows_the_dscp() {
        let priorities = [0, 1, 2, 3, 4, 6, 5, 7];
        let mut tagged = Vec::new();
        add(&plain(46 << 2), QINQ, &priorities, &mut tagged);
        assert_eq!((tagged[14] >> 5, tagged[18] >> 5), (6, 6));
        let mut v6 = plain(0);
        v6[12..16].copy_from_slice(&[0x86, 0xdd, 0x6c, 0]);
        add(&v6, QINQ, &priorities, &mut tagged);
        assert_eq!(tagged[14] >> 5, 5);
    }

    #[test]
    fn a_frame_that_ends_within_its_header_has_no_tags() {
        let mut tagged = Vec::new();
        add(&plain(0), QINQ, &[0; 8], &mut tagged);
        for len in 0..22 {
            assert_eq!(parse(&tagged[..len]), None, "{len}");
        }
    }
}
