//! Chunks that go from the store of one thread to that of another, with the frames in them.
//!
//! ```text
//!   giver:  give ---- chunk 3, full of frames ----> adopt  :taker
//!           get back <-- chunk 3, other memory ---- adopt
//! ```
//!
//! The giver keeps the chunk's number, so that it never has more chunks than its limit, and gets
//! memory for it at once: that of a chunk which the taker has emptied. A chunk with little in it
//! is emptied by copying, and goes back as it is: a frame that stays long would hold all of it.
//!
//! Not for: how parcels get to the other thread.

use slipring_link::{Handle, Train};

use super::{CHUNK, Chunk, Frames, Lane, NONE, PLACE_BITS, Store, number, place};

/// A chunk with less in it than this is copied.
const WORTH_KEEPING: usize = CHUNK / 8 * 7;

/// A chunk on its way, from its giver with frames, or back with none.
#[derive(Debug)]
pub(crate) struct Parcel {
    /// Its number at the giver.
    number: u32,
    chunk: Chunk,
    /// All frames in it, in their order. The handles are the giver's, and the taker's once that
    /// has adopted it.
    pub(crate) trains: Vec<Train>,
}

/// Whether two trains of a store are in the same chunk.
#[inline(always)]
pub(crate) fn together(a: &Train, b: &Train) -> bool {
    number(a.handle) == number(b.handle)
}

impl Store {
    /// Chunks that can still be filled: empty ones, and new ones within the limit.
    #[inline]
    pub(crate) fn chunks_left(&self) -> usize {
        self.spare.len() + self.numbers_left()
    }

    fn numbers_left(&self) -> usize {
        self.limit - (self.chunks.len() - self.vacant.len())
    }

    /// Gives the chunk of these frames away; they must be all that are in it.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn give(&mut self, trains: Vec<Train>) -> Parcel {
        let number = number(trains[0].handle);
        let mut chunk = std::mem::take(&mut self.chunks[number]);
        debug_assert_eq!(chunk.live, trains.iter().map(|train| train.packets).sum::<u32>());
        if std::mem::take(&mut chunk.open) {
            self.open[chunk.lane.index()] = NONE;
        }
        Parcel { number: number as u32, chunk, trains }
    }

    /// Takes back what came for a parcel that was given away.
    pub(crate) fn get_back(&mut self, parcel: Parcel) -> Vec<Train> {
        let Parcel { number, chunk, mut trains } = parcel;
        if chunk.bytes.is_empty() {
            self.vacant.push(number);
        } else {
            self.chunks[number as usize] = chunk;
            self.spare.push(number);
        }
        trains.clear();
        trains
    }

    /// Makes the frames of a parcel ones of this store; what is left in it is to go back. Nothing
    /// has happened where there is no room for them.
    pub(crate) fn adopt(&mut self, lane: Lane, parcel: &mut Parcel) -> bool {
        let latest = parcel.trains.last().map_or(0, |train| train.last_ns);
        self.tick(latest);
        if self.chunks_left() == 0 {
            return false;
        }
        if parcel.chunk.taken < WORTH_KEEPING {
            self.copy_from(lane, parcel);
        } else {
            self.keep(lane, parcel);
        }
        true
    }

    /// There is a chunk left, which has room for all that is in one.
    fn copy_from(&mut self, lane: Lane, parcel: &mut Parcel) {
        let Parcel { chunk, trains, .. } = parcel;
        let (latest_ns, old) = (self.latest_ns, std::mem::take(trains));
        let mut loader = self.load(lane, trains);
        for train in &old {
            let rest = chunk.bytes.get(place(train.handle)..).unwrap_or_default();
            let frames = Frames { rest, left: train.packets };
            let mut frames = frames.map(|(head, frame)| (head.arrival_ns(latest_ns), frame));
            while let Some((arrival_ns, frame)) = loader.put_all(&mut frames) {
                let stored = loader.put(arrival_ns, frame);
                assert!(stored, "what fits one chunk fits another");
            }
        }
        loader.end();
        (chunk.taken, chunk.live) = (0, 0);
    }

    /// The chunk becomes one of ours, and the memory of an empty one, if there is any, goes back.
    fn keep(&mut self, lane: Lane, parcel: &mut Parcel) {
        let number = self.pop_spare().unwrap_or_else(|| self.new_number());
        let place = &mut self.chunks[number as usize];
        let empty = Chunk { bytes: std::mem::take(&mut place.bytes), ..Chunk::default() };
        *place = std::mem::replace(&mut parcel.chunk, empty);
        place.lane = lane;
        for train in &mut parcel.trains {
            let place = train.handle.0 & ((1 << PLACE_BITS) - 1);
            train.handle = Handle(number << PLACE_BITS | place);
        }
    }
}
