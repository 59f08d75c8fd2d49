//! How much information a summary contains.

/// How much detail to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Detail {
    /// Whether to print less information about protocols, as with tcpdump's `-q`.
    pub is_quick: bool,
    /// The number of tcpdump's `-v` options. From 1 on, prints header fields and options as well,
    /// on separate lines.
    pub verbose: u8,
    /// Whether to verify checksums of IPv4, TCP and UDP and print the results, with `verbose`.
    pub checksums: bool,
    /// Whether to print TCP sequence numbers as in the header, instead of relative to the start of
    /// the conversation: `-S`.
    pub is_absolute: bool,
    /// Whether the caller prints all bytes in any case, so undecoded bytes need not be printed
    /// here.
    pub bytes_follow: bool,
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            is_quick: false,
            verbose: 0,
            checksums: true,
            is_absolute: false,
            bytes_follow: true,
        }
    }
}
