use alloc::string::String;

/// A command for the shaper, as written: the shaper parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaperCommand {
    /// The text from `pipe`, `queue` or `sched` on.
    pub text: String,
    /// Column of its first character, from 1.
    pub column: u32,
}
