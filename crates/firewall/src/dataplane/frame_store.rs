//! Stores the frames that wait in the shaper. The shaper itself knows only their handles.

use slipring_ipfw::run::PacketMetadata;

use super::DataplaneId;

/// A stored frame, with the state for continuing its processing after the shaper.
#[derive(Debug)]
pub(super) struct ShapedFrame {
    pub(super) bytes: Vec<u8>,
    pub(super) crossing: PacketMetadata,
    /// The dataplane that handles the frame's flow.
    pub(super) owner: DataplaneId,
}

/// All frames in the shaper, by handle. The most recently freed buffer is reused first, because it
/// is probably still in the CPU cache.
#[derive(Debug, Default)]
pub(super) struct FrameStore {
    frames: Vec<ShapedFrame>,
    free: Vec<u32>,
}

impl FrameStore {
    /// Stores a copy of a frame and returns its handle.
    pub(super) fn insert(
        &mut self,
        frame: &[u8],
        (crossing, home): (PacketMetadata, DataplaneId),
    ) -> u32 {
        if let Some(handle) = self.free.pop() {
            let entry = &mut self.frames[handle as usize];
            entry.bytes.clear();
            entry.bytes.extend_from_slice(frame);
            (entry.crossing, entry.owner) = (crossing, home);
            return handle;
        }
        self.frames.push(ShapedFrame { bytes: frame.to_vec(), crossing, owner: home });
        (self.frames.len() - 1) as u32
    }

    pub(super) fn get_mut(&mut self, handle: u32) -> &mut ShapedFrame {
        &mut self.frames[handle as usize]
    }

    /// Takes a frame out of the store. The caller must later call [`Self::release`], which frees
    /// the handle and, if it gets the frame, reuses its buffer.
    pub(super) fn take_frame(&mut self, handle: u32) -> ShapedFrame {
        let empty =
            ShapedFrame { bytes: Vec::new(), crossing: PacketMetadata::incoming(0), owner: 0 };
        std::mem::replace(&mut self.frames[handle as usize], empty)
    }

    /// Frees a handle. `room`, if given, must be the frame that was taken from that handle; its
    /// buffer is reused.
    pub(super) fn release(&mut self, handle: u32, room: Option<ShapedFrame>) {
        if let Some(room) = room {
            self.frames[handle as usize] = room;
        }
        self.free.push(handle);
    }

    /// Returns the number of stored frames.
    pub(super) fn len(&self) -> usize {
        self.frames.len() - self.free.len()
    }
}
