//! The answer to [`NativeOp::Lend`](crate::NativeOp::Lend): the layout of the lent rings, and their
//! descriptors.

use std::os::fd::OwnedFd;

use slipring_ring::DirectionLayout;

/// Maximum number of rings lent with one bind. Each needs two descriptors, and all descriptors must
/// fit in one message.
pub const MAX_RINGS: usize = 64;

/// One lent ring.
#[derive(Debug)]
pub struct DelegatedRing {
    /// Whether the ring is an rx ring.
    pub receives: bool,
    /// The ring's number among the port's rings of its direction.
    pub ring: u32,
    /// The layout of the ring and its control words, as offsets in bytes from the start of the
    /// user's netmap memory.
    pub layout: DirectionLayout,
    /// The eventfd that the program at the ring's other end signals when frames or free slots
    /// become available while this program is marked as asleep.
    pub doorbell: OwnedFd,
    /// The eventfd that this program signals if the program at the other end is marked as asleep.
    pub peer_doorbell: OwnedFd,
}

/// All rings that the daemon lends to a program, and what the program needs to sync them.
#[derive(Debug)]
pub struct RingDelegation {
    /// The number that identifies this program among all programs that sync rings.
    pub client_id: u32,
    /// Whether each rx sync writes its time to the ring, even if the program does not request it.
    pub writes_timestamps: bool,
    /// The eventfd that this program signals so that the daemon wakes other threads that wait for
    /// the ports.
    pub kick: OwnedFd,
    /// The lent rings.
    pub rings: Vec<DelegatedRing>,
}

/// Length of the header in bytes: the client id, and the flag for timestamps.
const HEADER_LEN: usize = 8;
/// Length of one ring's entry in bytes: direction, number, number of slots, 0, and the positions of
/// the control words, the tx ring and the rx ring.
const RING_LEN: usize = 40;

impl RingDelegation {
    /// Encodes the delegation as the argument of an answer; returns it with the descriptors.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Vec<OwnedFd>) {
        let (mut bytes, mut fds) = (Vec::new(), vec![self.kick]);
        for word in [self.client_id, self.writes_timestamps.into()] {
            bytes.extend(word.to_ne_bytes());
        }
        for DelegatedRing { receives, ring, layout, doorbell: bell, peer_doorbell: peer } in
            self.rings
        {
            for word in [receives.into(), ring, layout.num_slots, 0] {
                bytes.extend(word.to_ne_bytes());
            }
            for at in [layout.words, layout.tx, layout.rx] {
                bytes.extend(at.to_ne_bytes());
            }
            fds.extend([bell, peer]);
        }
        (bytes, fds)
    }

    /// Decodes a delegation from the argument and the descriptors of an answer; `None` if they are
    /// malformed.
    #[must_use]
    pub fn from_parts(bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEADER_LEN)?;
        let word = |from: &[u8], i: usize| {
            from.as_chunks::<4>().0.get(i).map(|word| u32::from_ne_bytes(*word))
        };
        let mut fds = fds.into_iter();
        let kick = fds.next()?;
        let (rings, behind) = rest.as_chunks::<RING_LEN>();
        if !behind.is_empty() {
            return None;
        }
        let rings = rings.iter().map(|ring| {
            let long = |i: usize| ring.as_chunks::<8>().0.get(i).map(|at| u64::from_ne_bytes(*at));
            let num_slots = word(ring, 2)?;
            let layout = DirectionLayout { words: long(2)?, tx: long(3)?, rx: long(4)?, num_slots };
            let (receives, number) = (word(ring, 0)? != 0, word(ring, 1)?);
            let (bell, peer) = (fds.next()?, fds.next()?);
            Some(DelegatedRing {
                receives,
                ring: number,
                layout,
                doorbell: bell,
                peer_doorbell: peer,
            })
        });
        let rings = rings.collect::<Option<Vec<_>>>()?;
        Some(Self {
            client_id: word(head, 0)?,
            writes_timestamps: word(head, 1)? != 0,
            kick,
            rings,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn fd() -> OwnedFd {
        File::open("/dev/null").unwrap().into()
    }

    #[test]
    fn what_is_lent_comes_out_as_it_went_in() {
        let layout = DirectionLayout { words: 1 << 40, tx: 2, rx: 3, num_slots: 1024 };
        let ring = |receives, ring| DelegatedRing {
            receives,
            ring,
            layout,
            doorbell: fd(),
            peer_doorbell: fd(),
        };
        let rings = vec![ring(false, 0), ring(true, 7)];
        let lent = RingDelegation { client_id: 5, writes_timestamps: true, kick: fd(), rings };
        let (bytes, fds) = lent.into_parts();
        assert_eq!(fds.len(), 5);
        for len in 1..bytes.len() {
            let cut = RingDelegation::from_parts(&bytes[..len], (0..5).map(|_| fd()).collect());
            assert!(cut.is_none() || len % RING_LEN == HEADER_LEN, "{len}");
        }
        assert!(
            RingDelegation::from_parts(&bytes, vec![fd(), fd()]).is_none(),
            "too few descriptors"
        );
        let read = RingDelegation::from_parts(&bytes, fds).unwrap();
        assert_eq!((read.client_id, read.writes_timestamps, read.rings.len()), (5, true, 2));
        assert_eq!(read.rings[1].layout, layout);
        assert_eq!((read.rings[1].receives, read.rings[1].ring), (true, 7));
    }
}
