//! The initial sequence numbers of TCP conversations, relative to which later numbers are printed.

use alloc::collections::{BTreeMap, VecDeque};
use core::net::IpAddr;

/// Maximum number of conversations that are remembered. If there are more, the oldest ones are
/// forgotten. If another segment of a forgotten conversation arrives, the conversation counts as
/// new, and later numbers are relative to this segment.
const MAX_CONVERSATIONS: usize = 1 << 16;

/// The addresses and ports of a conversation. Their order is the same for both directions.
type ConversationKey = (IpAddr, IpAddr, (u16, u16));

/// The initial sequence numbers of the TCP conversations seen so far.
#[derive(Debug, Default)]
pub struct Conversations {
    initial_numbers: BTreeMap<ConversationKey, InitialNumbers>,
    /// The conversations, the oldest first.
    order: VecDeque<ConversationKey>,
}

/// The initial sequence numbers of both sides. `seq` is that of the side with the smaller port or,
/// if the ports are equal, the smaller address.
#[derive(Clone, Copy, Debug)]
struct InitialNumbers {
    seq: u32,
    ack: u32,
}

/// The sequence numbers of a segment, as they are printed.
pub(super) struct SegmentNumbers {
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// The number to subtract from the numbers in the segment's selective acknowledgements.
    pub(super) peer_base: u32,
}

impl Conversations {
    /// Returns the numbers of a segment. They are relative to the start of its conversation if the
    /// start is known. The first segment of a conversation keeps its absolute numbers.
    pub(super) fn numbers(
        &mut self,
        (src, dst): (IpAddr, IpAddr),
        (from, to): (u16, u16),
        (seq, ack): (u32, u32),
        is_start: bool,
    ) -> SegmentNumbers {
        let is_reverse = from > to || (from == to && src > dst);
        let ends = if is_reverse { (dst, src, (to, from)) } else { (src, dst, (from, to)) };
        let known = self.initial_numbers.get(&ends).copied().filter(|_| !is_start);
        let first = known.unwrap_or_else(|| {
            let peer = ack.wrapping_sub(1);
            let first = if is_reverse {
                InitialNumbers { seq: peer, ack: seq }
            } else {
                InitialNumbers { seq, ack: peer }
            };
            self.insert(ends, first);
            first
        });
        let (own, peer) = if is_reverse { (first.ack, first.seq) } else { (first.seq, first.ack) };
        match known {
            Some(_) => SegmentNumbers {
                seq: seq.wrapping_sub(own),
                ack: ack.wrapping_sub(peer),
                peer_base: peer,
            },
            None => SegmentNumbers { seq, ack, peer_base: peer },
        }
    }

    fn insert(&mut self, ends: ConversationKey, first: InitialNumbers) {
        if self.initial_numbers.insert(ends, first).is_some() {
            return;
        }
        self.order.push_back(ends);
        if self.order.len() > MAX_CONVERSATIONS
            && let Some(oldest) = self.order.pop_front()
        {
            self.initial_numbers.remove(&oldest);
        }
    }
}
