use alloc::string::String;

/// A command about the objects of the shaper, as it was written: the shaper reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaperCommand {
    /// From `pipe`, `queue` or `sched` on.
    pub text: String,
    /// Column of its first character, from 1.
    pub column: u32,
}
