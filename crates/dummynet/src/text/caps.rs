//! The maximum values in commands.

/// The maximum sizes of queues. Each description begins with the name of the sysctl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCaps {
    /// `net.inet.ip.dummynet.pipe_slot_limit`: maximum queue size in slots. Default: 100.
    pub slots: u32,
    /// `net.inet.ip.dummynet.pipe_byte_limit`: maximum queue size in bytes. Default: 1 MiB.
    pub bytes: u32,
}

impl Default for QueueCaps {
    fn default() -> Self {
        Self { slots: 100, bytes: 1 << 20 }
    }
}

impl QueueCaps {
    /// No limits, for commands whose values another program checks.
    pub const NONE: Self = Self { slots: u32::MAX, bytes: u32::MAX };

    /// Returns these limits with `value`, unchecked, for the one that the sysctl `name` sets. Only
    /// the part of the name after its last dot counts. Other sysctls change nothing.
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
