/// Why a frame cannot be matched against rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MalformedReason {
    /// The frame is shorter than an Ethernet header with its tags.
    ShortLink,
    /// The frame is shorter than its IP header.
    ShortIp,
    /// The version in the IP header is not the one that the Ethernet type implies.
    Version,
    /// The IPv4 header length is below 20 bytes.
    HeaderLength,
    /// The length field says that the IP packet ends within its own headers.
    TotalLength,
    /// There are too many extension headers, or they are truncated.
    Extensions,
    /// An unfragmented packet or first fragment is shorter than its transport header, or gives a
    /// TCP header length below 20 bytes.
    ShortTransport,
    /// An IPv4 TCP fragment at offset 8 bytes, which could overwrite the flags in the first
    /// fragment.
    TinyFragment,
}

/// Number of dropped frames per reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MalformedCounters([u64; 8]);

impl MalformedReason {
    /// All reasons with their names in listings.
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::ShortLink, "short_link"),
        (Self::ShortIp, "short_ip"),
        (Self::Version, "ip_version"),
        (Self::HeaderLength, "header_length"),
        (Self::TotalLength, "total_length"),
        (Self::Extensions, "extensions"),
        (Self::ShortTransport, "short_transport"),
        (Self::TinyFragment, "tiny_fragment"),
    ];
}

impl MalformedCounters {
    /// Counts one frame.
    pub fn count(&mut self, kind: MalformedReason) {
        self.0[kind as usize] += 1;
    }

    /// Adds the counts of `more` to these counts.
    pub fn add(&mut self, more: &Self) {
        self.0.iter_mut().zip(more.0).for_each(|(to, more)| *to += more);
    }

    /// Number of frames with this reason.
    #[must_use]
    pub const fn of(&self, kind: MalformedReason) -> u64 {
        self.0[kind as usize]
    }

    /// Number of frames in total.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
