//! Reads and writes capture files in the formats pcap and pcapng. It does no input and output: the
//! caller passes bytes and gets packets, or the reverse.
//!
//! | type | purpose |
//! |---|---|
//! | [`PcapFileReader`] | iterates over the packets of a file in memory |
//! | [`Decoder`] | the incremental reader, for a stream of any length |
//! | [`PcapWriter`] | classic pcap with nanosecond times |
//! | [`PcapngWriter`] | pcapng: interface names, direction, drop counts, comments, statistics |
//!
//! # Contract
//! All times are in nanoseconds since 1970-01-01 UTC, whatever the unit in the file is. No length
//! in a file causes a large allocation: packets borrow their bytes from the caller's buffer, and
//! the decoder asks for at most [`MAX_BLOCK_LEN`] bytes at once. The result of an invalid number is
//! a [`PcapError`] with the byte offset. No input makes a function of this crate panic.
//!
//! Not for the contents of packets, compressed files, or editing a file in place.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod classic;
mod decode;
mod endian;
mod error;
mod interface;
mod limits;
mod ng;
mod options;
mod packet;
mod reader;
mod scan;
mod time;
mod write;
mod write_ng;

pub use decode::{DecodeProgress, DecodeStep, Decoder};
pub use error::{PcapError, WriteError};
pub use interface::{CaptureInterface, LinkType};
pub use limits::{MAX_BLOCK_LEN, MAX_PACKET_LEN};
pub use options::PcapngOptions;
pub use packet::{CapturedPacket, PcapDirection, TcVerdict};
pub use reader::PcapFileReader;
pub use write::PcapWriter;
pub use write_ng::{
    InterfaceId, InterfaceInfo, InterfaceStats, PacketRecord, PcapngWriter, SectionInfo,
};
