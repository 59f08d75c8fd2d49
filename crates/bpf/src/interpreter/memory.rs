//! The memory that a program can access.

use super::{SimulatedMap, XdpMeta};

pub(super) const CONTEXT: u64 = 1 << 32;
pub(super) const STACK: u64 = 2 << 32;
const PACKET: u64 = 3 << 32;
/// Addresses of the maps themselves, by number; they are only passed to helpers.
pub(super) const MAPS: u64 = 4 << 32;
const FIRST_VALUES_REGION: u64 = 16;

pub(super) const STACK_SIZE: usize = 512;

/// The context, to which `R1` points at the start.
#[derive(Debug)]
pub(super) enum Context {
    Xdp(XdpMeta),
    Plain(Vec<u8>),
}

/// A frame, and the space before and after it.
#[derive(Debug)]
pub(super) struct Packet {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

/// Bytes before a frame that a program may use: XDP_PACKET_HEADROOM without `struct xdp_frame`,
/// which the kernel puts there.
const HEADROOM: usize = 256 - 40;
/// Bytes of a page for the frame and the space after it: the page without XDP_PACKET_HEADROOM at
/// its start and `struct skb_shared_info`, which the kernel puts at its end.
const FRAME_ROOM: usize = 4096 - 256 - 320;
/// A program cannot make a frame shorter than an Ethernet header.
const MIN_FRAME: usize = 14;

impl Packet {
    pub(super) fn new(frame: &[u8]) -> Self {
        let mut buf = vec![0; HEADROOM + FRAME_ROOM.max(frame.len())];
        let end = HEADROOM + frame.len();
        buf[HEADROOM..end].copy_from_slice(frame);
        Self { buf, start: HEADROOM, end }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.buf[self.start..self.end]
    }

    /// Moves the start by `delta`; returns whether there is space.
    pub(super) fn move_start(&mut self, delta: i32) -> bool {
        let moved = self.start.checked_add_signed(delta as isize);
        let moved = moved.filter(|&start| start + MIN_FRAME <= self.end);
        moved.map(|start| self.start = start).is_some()
    }

    /// Moves the end by `delta`, adding zeros; returns whether there is space.
    pub(super) fn move_end(&mut self, delta: i32) -> bool {
        let moved = self.end.checked_add_signed(delta as isize);
        let fits = |&end: &usize| end >= self.start + MIN_FRAME && end <= self.buf.len();
        let Some(end) = moved.filter(fits) else { return false };
        if end > self.end {
            self.buf[self.end..end].fill(0);
        }
        self.end = end;
        true
    }
}

#[derive(Debug)]
pub(super) struct Memory<'m> {
    pub(super) context: Context,
    stack: Vec<u8>,
    pub(super) packet: Packet,
    pub(super) maps: &'m mut Vec<SimulatedMap>,
}

impl<'m> Memory<'m> {
    pub(super) fn new(context: Context, packet: Packet, maps: &'m mut Vec<SimulatedMap>) -> Self {
        Self { context, stack: vec![0; STACK_SIZE], packet, maps }
    }

    /// The address of the bytes at `offset` in the values of a map.
    pub(super) fn value_address(map: usize, offset: usize) -> u64 {
        (FIRST_VALUES_REGION + map as u64) << 32 | offset as u64
    }

    /// The bytes at an address; `None` if they are not all in one region.
    pub(super) fn bytes(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        let (region, offset) = (address >> 32 << 32, (address as u32) as usize);
        let range = offset..offset.checked_add(len)?;
        match region {
            CONTEXT => match &mut self.context {
                Context::Plain(bytes) => bytes.get_mut(range),
                Context::Xdp(_) => None,
            },
            STACK => self.stack.get_mut(range),
            PACKET => {
                let inside = range.start >= self.packet.start && range.end <= self.packet.end;
                self.packet.buf.get_mut(range).filter(|_| inside)
            }
            _ => {
                let map = (region >> 32).checked_sub(FIRST_VALUES_REGION)?;
                self.maps.get_mut(map as usize)?.storage().get_mut(range)
            }
        }
    }

    pub(super) fn read(&mut self, address: u64, width: usize) -> Option<u64> {
        if address & !0xff == CONTEXT
            && let Context::Xdp(meta) = self.context
        {
            return (width == 4).then(|| self.xdp_field(address, meta)).flatten();
        }
        let mut word = [0; 8];
        word[..width].copy_from_slice(self.bytes(address, width)?);
        Some(u64::from_le_bytes(word))
    }

    pub(super) fn write(&mut self, address: u64, width: usize, value: u64) -> Option<()> {
        self.bytes(address, width)?.copy_from_slice(&value.to_le_bytes()[..width]);
        Some(())
    }

    /// A field of `struct xdp_md`. There is no metadata before the frame.
    fn xdp_field(&self, address: u64, meta: XdpMeta) -> Option<u64> {
        match address - CONTEXT {
            0 | 8 => Some(PACKET | self.packet.start as u64),
            4 => Some(PACKET | self.packet.end as u64),
            12 => Some(meta.ifindex.into()),
            16 => Some(meta.rx_queue.into()),
            20 => Some(0),
            _ => None,
        }
    }
}

/// The memory of a run, for functions that replace the kernel's.
#[derive(Debug)]
pub struct MemoryView<'v, 'm>(pub(super) &'v mut Memory<'m>);

impl MemoryView<'_, '_> {
    /// The bytes at an address; `None` if they are not all in one region.
    pub fn bytes(&mut self, address: u64, len: usize) -> Option<&mut [u8]> {
        self.0.bytes(address, len)
    }
}
