//! How much information a summary contains.

/// How much detail a summary has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Detail {
    /// Whether less information about protocols is printed, as with tcpdump's `-q`.
    pub is_quick: bool,
    /// The number of tcpdump's `-v` options. From 1 on, more header fields and options are printed,
    /// partly on separate lines.
    pub verbose: u8,
    /// Whether checksums of IPv4, TCP and UDP are verified. The results are printed only if
    /// `verbose` is at least 1 (for UDP over IPv4, at least 2).
    pub checksums: bool,
    /// Whether TCP sequence numbers are printed as they are in the header, as with tcpdump's `-S`.
    /// Otherwise they are relative to the start of the conversation if it is known.
    pub is_absolute: bool,
    /// Whether the caller prints all bytes of the frame anyway. The summary then omits the payload
    /// of an unknown EtherType, LLC or SNAP type. It still prints other bytes that are not decoded,
    /// such as those of an ICMPv6 message of unknown type.
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
