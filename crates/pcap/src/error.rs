//! Errors in capture files, with their positions.

use crate::limits::MAX_PACKET_LEN;

/// Why a capture file cannot be read further. `offset` is that of the record or block in the file,
/// in bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file does not start with a known magic number.
    #[error("byte 0: {found:02x?} is the start of neither a pcap nor a pcapng file")]
    NotACapture {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A version of the format that is not supported.
    #[error("byte {offset}: format version {major}.{minor}, expected {expected}")]
    Version {
        /// Offset of the header in the file.
        offset: u64,
        /// Major number found.
        major: u16,
        /// Minor number found.
        minor: u16,
        /// The supported version.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("byte {offset}: the file ends inside a {what}: {need} bytes expected, {have} there")]
    Truncated {
        /// Offset of the record in the file.
        offset: u64,
        /// The kind of record.
        what: &'static str,
        /// The number of bytes that the record needs, as far as known.
        need: u64,
        /// The bytes in the file from `offset` on.
        have: u64,
    },
    /// A packet longer than any capture program writes.
    #[error("byte {offset}: a packet of {found} captured bytes, at most {MAX_PACKET_LEN} expected")]
    PacketLength {
        /// Offset of the record in the file.
        offset: u64,
        /// The captured length in the record, in bytes.
        found: u32,
    },
    /// The captured length of a packet exceeds its original length.
    #[error("byte {offset}: {captured} bytes captured of a packet of {original}")]
    CapturedExceedsOriginal {
        /// Offset of the record in the file.
        offset: u64,
        /// The captured length in the record, in bytes.
        captured: u32,
        /// The original length in the record, in bytes.
        original: u32,
    },
    /// The fraction of a second in a timestamp is a second or more.
    #[error("byte {offset}: sub-second time {found}, less than {limit} expected")]
    Fraction {
        /// Offset of the record in the file.
        offset: u64,
        /// The fraction in the record, in the file's unit.
        found: u32,
        /// Units per second.
        limit: u32,
    },
    /// A time before 1970 or after 2554.
    #[error("byte {offset}: time of {ticks} ticks does not fit 64 bits of nanoseconds")]
    Time {
        /// Offset of the block in the file.
        offset: u64,
        /// The time in the block, in the interface's unit.
        ticks: u64,
    },
    /// A pcapng section that is neither little nor big endian.
    #[error("byte {offset}: {found:02x?} is no pcapng byte-order mark")]
    ByteOrder {
        /// Offset of the section header in the file.
        offset: u64,
        /// The four bytes that should be the byte-order magic.
        found: [u8; 4],
    },
    /// An invalid pcapng block length.
    #[error("byte {offset}: block length {found}, expected {expected}")]
    BlockLength {
        /// Offset of the block in the file.
        offset: u64,
        /// The length found.
        found: u32,
        /// The valid lengths.
        expected: &'static str,
    },
    /// The lengths before and after a pcapng block differ.
    #[error("byte {offset}: block starts with length {start} and ends with length {end}")]
    BlockTrailer {
        /// Offset of the block in the file.
        offset: u64,
        /// The length at the start of the block.
        start: u32,
        /// The length at the end of the block.
        end: u32,
    },
    /// An option extends beyond its block.
    #[error("byte {offset}: option {code} of {len} bytes in a block with {room} left")]
    Option {
        /// Offset of the block in the file.
        offset: u64,
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
        /// Number of bytes that remain in the block for the option.
        room: usize,
    },
    /// An option whose length is wrong for its kind.
    #[error("byte {offset}: option {code} of {len} bytes, {expected} expected")]
    OptionLength {
        /// Offset of the block in the file.
        offset: u64,
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
        /// The required length.
        expected: usize,
    },
    /// A packet of an interface that the section does not describe.
    #[error("byte {offset}: packet of interface {found}, the section has {count}")]
    UnknownInterface {
        /// Offset of the block in the file.
        offset: u64,
        /// The index of the interface in the packet.
        found: u32,
        /// Number of interfaces described so far.
        count: usize,
    },
    /// More interfaces than any machine has.
    #[error("byte {offset}: more than {limit} interfaces in one section")]
    TooManyInterfaces {
        /// Offset of the block in the file.
        offset: u64,
        /// Maximum number of interfaces.
        limit: usize,
    },
}

/// Why a packet cannot be written; no byte of it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The time does not fit in the 32 bits that classic pcap has for seconds.
    #[error("time {ts_ns} ns is beyond the year 2106, where pcap ends")]
    Time {
        /// The time in nanoseconds since 1970.
        ts_ns: u64,
    },
    /// The caller passed more bytes than the packet's original length.
    #[error("{captured} bytes captured of a packet of {original}")]
    CapturedExceedsOriginal {
        /// Captured bytes.
        captured: usize,
        /// Original length in bytes.
        original: u32,
    },
    /// An interface that was not described to this writer.
    #[error("interface {found} has not been described, {count} have")]
    UnknownInterface {
        /// The index of the interface in the packet.
        found: u32,
        /// Number of interfaces described so far.
        count: u32,
    },
    /// An option is longer than the 16 bits for its length allow.
    #[error("option {code} of {len} bytes, at most 65535 can be written")]
    OptionTooLong {
        /// Number of the option.
        code: u16,
        /// The option's length in bytes.
        len: usize,
    },
}
