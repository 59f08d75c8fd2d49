//! Errors in capture files, with their positions.

use crate::limits::MAX_PACKET_LEN;

/// Why a capture file cannot be read further. `offset` is always the position of the invalid record
/// or block in the file, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file does not start with a known magic number.
    #[error("byte 0: {found:02x?} is the start of neither a pcap nor a pcapng file")]
    NotACapture {
        /// The first four bytes of the file.
        found: [u8; 4],
    },
    /// The version of the format is not supported.
    #[error("byte {offset}: format version {major}.{minor}, expected {expected}")]
    Version {
        /// Offset of the header in the file.
        offset: u64,
        /// Major version in the header.
        major: u16,
        /// Minor version in the header.
        minor: u16,
        /// The supported version.
        expected: &'static str,
    },
    /// The file ends inside a record or block.
    #[error("byte {offset}: the file ends inside a {what}: {need} bytes expected, {have} there")]
    Truncated {
        /// Offset of the record in the file.
        offset: u64,
        /// The kind of the record.
        what: &'static str,
        /// How many bytes the record needs. If its length is not known yet, this is the minimum.
        need: u64,
        /// How many bytes the file has from `offset` on.
        have: u64,
    },
    /// A packet is longer than any that a capture program writes.
    #[error("byte {offset}: a packet of {found} captured bytes, at most {MAX_PACKET_LEN} expected")]
    PacketLength {
        /// Offset of the record in the file.
        offset: u64,
        /// The captured length in the record, in bytes.
        found: u32,
    },
    /// The captured length of a packet is larger than its original length.
    #[error("byte {offset}: {captured} bytes captured of a packet of {original}")]
    CapturedExceedsOriginal {
        /// Offset of the record in the file.
        offset: u64,
        /// The captured length in the record, in bytes.
        captured: u32,
        /// The original length in the record, in bytes.
        original: u32,
    },
    /// The fraction of a second in a timestamp is a whole second or more.
    #[error("byte {offset}: sub-second time {found}, less than {limit} expected")]
    Fraction {
        /// Offset of the record in the file.
        offset: u64,
        /// The fraction in the record, in the file's unit.
        found: u32,
        /// How many units a second has.
        limit: u32,
    },
    /// A timestamp is before 1970 or after 2554.
    #[error("byte {offset}: time of {ticks} ticks does not fit 64 bits of nanoseconds")]
    Time {
        /// Offset of the block in the file.
        offset: u64,
        /// The time in the block, in the interface's unit.
        ticks: u64,
    },
    /// A section of a pcapng file is neither little-endian nor big-endian.
    #[error("byte {offset}: {found:02x?} is no pcapng byte-order mark")]
    ByteOrder {
        /// Offset of the section header in the file.
        offset: u64,
        /// The four bytes that should be the byte-order magic.
        found: [u8; 4],
    },
    /// The length of a pcapng block is invalid.
    #[error("byte {offset}: block length {found}, expected {expected}")]
    BlockLength {
        /// Offset of the block in the file.
        offset: u64,
        /// The length that the block gives.
        found: u32,
        /// A text that says which lengths are valid.
        expected: &'static str,
    },
    /// The length before a pcapng block differs from the length after it.
    #[error("byte {offset}: block starts with length {start} and ends with length {end}")]
    BlockTrailer {
        /// Offset of the block in the file.
        offset: u64,
        /// The length at the start of the block.
        start: u32,
        /// The length at the end of the block.
        end: u32,
    },
    /// An option is longer than the rest of its block.
    #[error("byte {offset}: option {code} of {len} bytes in a block with {room} left")]
    Option {
        /// Offset of the block in the file.
        offset: u64,
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
        /// How many bytes of the block remain for the option.
        room: usize,
    },
    /// An option has a length that its kind does not allow.
    #[error("byte {offset}: option {code} of {len} bytes, {expected} expected")]
    OptionLength {
        /// Offset of the block in the file.
        offset: u64,
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
        /// The length that the kind of the option requires, in bytes.
        expected: usize,
    },
    /// A packet belongs to an interface that its section does not describe.
    #[error("byte {offset}: packet of interface {found}, the section has {count}")]
    UnknownInterface {
        /// Offset of the block in the file.
        offset: u64,
        /// The index of the interface, according to the packet.
        found: u32,
        /// How many interfaces were described so far.
        count: usize,
    },
    /// There are more interfaces than any machine has.
    #[error("byte {offset}: more than {limit} interfaces in one section")]
    TooManyInterfaces {
        /// Offset of the block in the file.
        offset: u64,
        /// How many interfaces there may be.
        limit: usize,
    },
}

/// Why a packet or description cannot be written. No byte of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The time does not fit in the 32 bits that classic pcap has for seconds.
    #[error("time {ts_ns} ns is beyond the year 2106, where pcap ends")]
    Time {
        /// The time in nanoseconds since 1970.
        ts_ns: u64,
    },
    /// The caller has passed more bytes than the packet's original length.
    #[error("{captured} bytes captured of a packet of {original}")]
    CapturedExceedsOriginal {
        /// How many bytes the caller has passed.
        captured: usize,
        /// The original length of the packet, in bytes.
        original: u32,
    },
    /// The interface was not described to this writer.
    #[error("interface {found} has not been described, {count} have")]
    UnknownInterface {
        /// The index of the interface, according to the caller.
        found: u32,
        /// How many interfaces were described so far.
        count: u32,
    },
    /// An option is too long: its length does not fit in 16 bits.
    #[error("option {code} of {len} bytes, at most 65535 can be written")]
    OptionTooLong {
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
    },
}
