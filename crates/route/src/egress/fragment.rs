//! IPv4 fragmentation (RFC 791, 2.3 and 3.2).
//!
//! Fragments can be fragmented again. The first fragment has all options. Later fragments have only
//! the options whose copied flag is set.

use alloc::vec::Vec;

use slipring_wire::checksum;

use crate::field::be16;

const MIN_HEADER_LEN: usize = 20;
/// Maximum length of the options of an IPv4 header.
const MAX_OPTIONS_LEN: usize = 40;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_BITS: u16 = 0x1fff;

/// The fragments of a packet.
#[derive(Clone, Debug)]
pub(super) struct Fragments<'p> {
    header: &'p [u8],
    data: &'p [u8],
    /// Number of data bytes in the fragments so far.
    done: usize,
    mtu: usize,
    /// The options of later fragments.
    options: [u8; MAX_OPTIONS_LEN],
    options_len: usize,
}

/// A part of a packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fragment<'f> {
    /// The first 20 bytes of the packet's header.
    base: &'f [u8],
    options: [u8; MAX_OPTIONS_LEN],
    options_len: usize,
    data: &'f [u8],
    /// The flags and the fragment offset, as in the header.
    position: u16,
}

impl<'p> Fragments<'p> {
    /// Prepares to split a complete, valid packet. `None` if a fragment has no space for data.
    pub(super) fn new(packet: &'p [u8], mtu: u32) -> Option<Self> {
        let header_len = usize::from(packet.first()? & 0xf) * 4;
        let (header, data) = packet.split_at_checked(header_len.max(MIN_HEADER_LEN))?;
        let mtu = mtu as usize;
        let (options, options_len) = copied(&header[MIN_HEADER_LEN..]);
        (mtu >= header.len() + 8).then_some(Self {
            header,
            data,
            done: 0,
            mtu,
            options,
            options_len,
        })
    }
}

impl<'p> Iterator for Fragments<'p> {
    type Item = Fragment<'p>;

    fn next(&mut self) -> Option<Fragment<'p>> {
        let rest = self.data.get(self.done..).filter(|rest| !rest.is_empty())?;
        let (mut options, mut options_len) = (self.options, self.options_len);
        if self.done == 0 {
            let all = &self.header[MIN_HEADER_LEN..];
            options = [0; MAX_OPTIONS_LEN];
            options[..all.len()].copy_from_slice(all);
            options_len = all.len();
        }
        let space = self.mtu - MIN_HEADER_LEN - options_len;
        let is_last = rest.len() <= space;
        let len = if is_last { rest.len() } else { space / 8 * 8 };
        let whole = be16(self.header, 6);
        let offset = (whole & OFFSET_BITS) as usize + self.done / 8;
        let more = if is_last { whole & MORE_FRAGMENTS } else { MORE_FRAGMENTS };
        let position = more | offset as u16 & OFFSET_BITS;
        self.done += len;
        let base = &self.header[..MIN_HEADER_LEN];
        Some(Fragment { base, options, options_len, data: &rest[..len], position })
    }
}

impl Fragment<'_> {
    /// Appends the fragment, as a packet.
    pub(super) fn write(&self, frame: &mut Vec<u8>) {
        let start = frame.len();
        let header_len = MIN_HEADER_LEN + self.options_len;
        frame.extend_from_slice(self.base);
        frame.extend_from_slice(&self.options[..self.options_len]);
        let header = &mut frame[start..];
        header[0] = 0x40 | (header_len / 4) as u8;
        header[2..4].copy_from_slice(&((header_len + self.data.len()) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&self.position.to_be_bytes());
        header[10..12].fill(0);
        let checksum = checksum::of(header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        frame.extend_from_slice(self.data);
    }
}

/// The options whose copied flag is set, padded to a multiple of 4 with the end-of-list option.
fn copied(mut options: &[u8]) -> ([u8; MAX_OPTIONS_LEN], usize) {
    let (mut kept, mut len) = ([0; MAX_OPTIONS_LEN], 0);
    while let Some(&kind) = options.first().filter(|kind| **kind != 0) {
        let option_len = if kind == 1 { 1 } else { options.get(1).map_or(0, |len| (*len).into()) };
        let Some((option, rest)) = options.split_at_checked(option_len).filter(|_| option_len > 0)
        else {
            break;
        };
        if kind & 0x80 != 0 {
            kept[len..len + option.len()].copy_from_slice(option);
            len += option.len();
        }
        options = rest;
    }
    (kept, len.next_multiple_of(4))
}
