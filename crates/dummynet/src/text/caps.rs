//! Upper limits on the values in commands.

/// Upper limits on configured queue sizes, with their sysctl names and defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCaps {
    /// `net.inet.ip.dummynet.pipe_slot_limit`: maximum of a size in slots; 100.
    pub slots: u32,
    /// `net.inet.ip.dummynet.pipe_byte_limit`: maximum of a size in bytes; 1 MiB.
    pub bytes: u32,
}

impl Default for QueueCaps {
    fn default() -> Self {
        Self { slots: 100, bytes: 1 << 20 }
    }
}

impl QueueCaps {
    /// No limits, for values that are checked elsewhere.
    pub const NONE: Self = Self { slots: u32::MAX, bytes: u32::MAX };

    /// Returns these limits with the sysctl `name`, given with or without its prefix, set to
    /// `value`.
    #[must_use]
    pub fn with_sysctl(mut self, name: &str, value: u32) -> Self {
        match name.rsplit('.').next() {
            Some("pipe_slot_limit") => self.slots = value,
            Some("pipe_byte_limit") => self.bytes = value,
            _ => {}
        }
        self
    }
}
