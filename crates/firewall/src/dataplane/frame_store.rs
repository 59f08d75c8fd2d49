//! Frames in the shaper: their bytes, and what is known of them.

use slipring_ipfw::run::PacketMetadata;

use super::DataplaneId;

/// A frame that waits.
#[derive(Debug)]
pub(super) struct ShapedFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: PacketMetadata,
    /// The join where its flow is known.
    pub(super) owner: DataplaneId,
}

/// All of them, by handle. The room of one that left is given to the next: it is still in the
/// cache.
#[derive(Debug, Default)]
pub(super) struct FrameStore {
    frames: Vec<ShapedFrame>,
    free: Vec<u32>,
}

impl FrameStore {
    /// Keeps a copy.
    pub(super) fn insert(
        &mut self,
        frame: &[u8],
        (crossing, home): (PacketMetadata, DataplaneId),
    ) -> u32 {
        if let Some(handle) = self.free.pop() {
            let place = &mut self.frames[handle as usize];
            place.bytes.clear();
            place.bytes.extend_from_slice(frame);
            (place.crossing, place.owner) = (crossing, home);
            return handle;
        }
        self.frames.push(ShapedFrame { bytes: frame.to_vec(), crossing, owner: home });
        (self.frames.len() - 1) as u32
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> &mut ShapedFrame {
        &mut self.frames[handle as usize]
    }

    /// Lends one out, to be put back by [`Self::free`] with its room.
    pub(super) fn take_frame(&mut self, handle: u32) -> ShapedFrame {
        let empty =
            ShapedFrame { bytes: Vec::new(), crossing: PacketMetadata::incoming(0), owner: 0 };
        std::mem::replace(&mut self.frames[handle as usize], empty)
    }

    /// Takes room back.
    pub(super) fn release(&mut self, handle: u32, room: Option<ShapedFrame>) {
        if let Some(room) = room {
            self.frames[handle as usize] = room;
        }
        self.free.push(handle);
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}
