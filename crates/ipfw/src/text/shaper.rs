use alloc::string::String;

/// The text of a command for the shaper, which parses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShaperCommand {
    /// The text from `pipe`, `queue` or `sched` on.
    pub text: String,
    /// Column of its first character, from 1.
    pub column: u32,
}
