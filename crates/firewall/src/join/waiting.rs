//! Frames in the shaper: their bytes, and what is known of them.

use slipring_ipfw::run::Crossing;

use super::Place;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: Crossing,
    /// The join where its flow is known.
    pub(super) home: Place,
}

/// All of them, by handle. The room of one that left is given to the next: it is still in the
/// cache.
#[derive(Debug, Default)]
pub(super) struct Hall {
    places: Vec<Waiting>,
    free: Vec<u32>,
}

impl Hall {
    /// Keeps a copy.
    pub(super) fn keep(&mut self, frame: &[u8], (crossing, home): (Crossing, Place)) -> u32 {
        if let Some(handle) = self.free.pop() {
            let place = &mut self.places[handle as usize];
            place.bytes.clear();
            place.bytes.extend_from_slice(frame);
            (place.crossing, place.home) = (crossing, home);
            return handle;
        }
        self.places.push(Waiting { bytes: frame.to_vec(), crossing, home });
        (self.places.len() - 1) as u32
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> &mut Waiting {
        &mut self.places[handle as usize]
    }

    /// Lends one out, to be put back by [`Self::free`] with its room.
    pub(super) fn take(&mut self, handle: u32) -> Waiting {
        let empty = Waiting { bytes: Vec::new(), crossing: Crossing::incoming(0), home: 0 };
        std::mem::replace(&mut self.places[handle as usize], empty)
    }

    /// Takes room back.
    pub(super) fn free(&mut self, handle: u32, room: Option<Waiting>) {
        if let Some(room) = room {
            self.places[handle as usize] = room;
        }
        self.free.push(handle);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
