//! Upper limits on the values in commands.

/// Upper limits on configured values, with their names as sysctls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCaps {
    /// `net.inet.ip.dummynet.pipe_slot_limit`: 100.
    pub slots: u32,
    /// `net.inet.ip.dummynet.pipe_byte_limit`: 1 MiB.
    pub bytes: u32,
}

impl Default for QueueCaps {
    fn default() -> Self {
        Self { slots: 100, bytes: 1 << 20 }
    }
}

impl QueueCaps {
    /// No limits: values are checked elsewhere.
    pub const NONE: Self = Self { slots: u32::MAX, bytes: u32::MAX };

    /// Returns these limits after the sysctl of this name, with or without its prefix, is set to
    /// this value.
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
