//! Tests of the errors that invalid files cause. Most tests compare the messages.

#![allow(clippy::unwrap_used)]

use slipring_pcap::{DecodeStep, Decoder, LinkType, PcapError, PcapFileReader, PcapWriter};

fn error(file: &[u8]) -> PcapError {
    PcapFileReader::new(file).find_map(Result::err).unwrap()
}

fn message(file: &[u8]) -> String {
    error(file).to_string()
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn classic(record: [u32; 4], data: &[u8]) -> Vec<u8> {
    let mut file = Vec::new();
    PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
    file.extend(words(&record));
    file.extend(data);
    file
}

/// Returns a section header that is followed by these blocks.
fn section(blocks: &[&[u32]]) -> Vec<u8> {
    let mut file = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    blocks.iter().for_each(|block| file.extend(words(block)));
    file
}

const ETHERNET: &[u32] = &[1, 20, 1, 0, 20];

#[test]
fn other_files_are_told_apart() {
    assert_eq!(
        message(b"\x7fELF and more"),
        "byte 0: [7f, 45, 4c, 46] is the start of neither a pcap nor a pcapng file"
    );
    assert_eq!(
        message(b""),
        "byte 0: the file ends inside a file header: 4 bytes expected, 0 there"
    );
    assert_eq!(
        message(&classic([0; 4], b"")[..20]),
        "byte 0: the file ends inside a pcap file header: 24 bytes expected, 20 there"
    );
    let mut file = classic([0; 4], b"");
    file[6] = 9;
    assert_eq!(message(&file), "byte 0: format version 2.9, expected 2.4");
}

#[test]
fn classic_records_that_lie() {
    assert_eq!(
        message(&classic([0, 0, u32::MAX, u32::MAX], b"")),
        "byte 24: a packet of 4294967295 captured bytes, at most 262144 expected"
    );
    assert_eq!(
        message(&classic([0, 0, 4, 3], b"abcd")),
        "byte 24: 4 bytes captured of a packet of 3"
    );
    assert_eq!(
        message(&classic([0, 1_000_000_000, 1, 1], b"a")),
        "byte 24: sub-second time 1000000000, less than 1000000000 expected"
    );
    assert_eq!(
        message(&classic([0, 0, 4, 4], b"abc")),
        "byte 24: the file ends inside a packet record: 20 bytes expected, 19 there"
    );
    assert_eq!(
        message(&classic([0; 4], b"abc")),
        "byte 40: the file ends inside a packet record header: 16 bytes expected, 3 there"
    );
}

#[test]
fn packets_before_the_error_are_given() {
    let mut file = Vec::new();
    let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
    writer.packet(&mut file, 0, 3, b"abc").unwrap();
    file.push(0);
    let results: Vec<_> = PcapFileReader::new(&file).collect();
    assert!(matches!(results[..], [Ok(_), Err(PcapError::Truncated { offset: 43, .. })]));
}

#[test]
fn block_lengths_that_lie() {
    assert_eq!(
        message(&section(&[&[1, 18]])),
        "byte 28: block length 18, expected a multiple of 4, at least 12"
    );
    assert_eq!(
        message(&section(&[&[77, 8]])),
        "byte 28: block length 8, expected a multiple of 4, at least 12"
    );
    assert_eq!(
        message(&section(&[&[1, 20, 1, 0, 24]])),
        "byte 28: block starts with length 20 and ends with length 24"
    );
    assert_eq!(
        message(&section(&[&[77, 16, 0, 12]])),
        "byte 28: block starts with length 16 and ends with length 12"
    );
    assert_eq!(
        message(&section(&[&[6, 0x4000_0000]])),
        "byte 28: block length 1073741824, expected at most 1048576 for this type"
    );
    assert_eq!(
        message(&section(&[&[1, 16, 1, 16]])),
        "byte 28: block length 16, expected at least 20 for an interface description"
    );
    assert_eq!(
        message(&section(&[&[6, 12, 12]])),
        "byte 28: block length 12, expected at least 32 for a packet"
    );
    assert_eq!(
        message(&section(&[&[2, 12, 12]])),
        "byte 28: block length 12, expected at least 32 for a packet"
    );
    assert_eq!(
        message(&section(&[&[3, 12, 12]])),
        "byte 28: block length 12, expected at least 16 for a simple packet"
    );
    assert_eq!(
        message(&words(&[0x0a0d_0d0a, 16, 0x1a2b_3c4d, 16])),
        "byte 0: block length 16, expected at least 28 for a section header"
    );
}

#[test]
fn section_headers_that_lie() {
    assert_eq!(
        message(&words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4e])),
        "byte 0: [4e, 3c, 2b, 1a] is no pcapng byte-order mark"
    );
    assert_eq!(
        message(&words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 2, 0, 0, 28])),
        "byte 0: format version 2.0, expected 1.0"
    );
    assert_eq!(
        message(&section(&[])[..10]),
        "byte 0: the file ends inside a section header: 12 bytes expected, 10 there"
    );
    assert_eq!(
        message(&section(&[])[..27]),
        "byte 0: the file ends inside a block: 28 bytes expected, 27 there"
    );
}

#[test]
fn packet_blocks_that_lie() {
    assert_eq!(
        message(&section(&[&[6, 32, 0, 0, 0, 0, 0, 32]])),
        "byte 28: packet of interface 0, the section has 0"
    );
    assert_eq!(
        message(&section(&[&[3, 16, 0, 16]])),
        "byte 28: packet of interface 0, the section has 0"
    );
    assert_eq!(
        message(&section(&[ETHERNET, &[6, 32, 0, 0, 0, 4, 4, 32]])),
        "byte 48: block length 32, expected room for the packet's captured bytes"
    );
    assert_eq!(
        message(&section(&[ETHERNET, &[3, 16, 4, 16]])),
        "byte 48: block length 16, expected room for the packet's captured bytes"
    );
    assert_eq!(
        message(&section(&[ETHERNET, &[6, 32, 0, 0, 0, u32::MAX, u32::MAX, 32]])),
        "byte 48: a packet of 4294967295 captured bytes, at most 262144 expected"
    );
    assert_eq!(
        message(&section(&[ETHERNET, &[6, 32, 0, u32::MAX, 0, 0, 0, 32]])),
        "byte 48: time of 18446744069414584320 ticks does not fit 64 bits of nanoseconds"
    );
}

#[test]
fn options_that_lie() {
    assert_eq!(
        message(&section(&[ETHERNET, &[6, 40, 0, 0, 0, 0, 0, 5 << 16 | 1, 0, 40]])),
        "byte 48: option 1 of 5 bytes in a block with 4 left"
    );
    assert_eq!(
        message(&section(&[&[1, 28, 1, 0, 2 << 16 | 9, 9, 28]])),
        "byte 28: option 9 of 2 bytes, 1 expected"
    );
}

#[test]
fn interfaces_are_limited_in_number() {
    let file = section(&[ETHERNET; 4097]);
    assert_eq!(message(&file), "byte 81948: more than 4096 interfaces in one section");
}

/// An unknown block of a gigabyte needs no buffer of that size, and is an error if the file ends
/// inside it.
#[test]
fn a_huge_unknown_block_is_skipped_in_pieces() {
    let mut decoder = Decoder::new();
    let file = section(&[&[77, 0x4000_0000, 1, 2, 3]]);
    let decoded = decoder.decode(&file).unwrap();
    assert_eq!((decoded.consumed, decoded.step), (file.len(), DecodeStep::NeedMore(1)));
    let piece = vec![0; 1 << 20];
    let mut left = 0x4000_0000usize - 12 - 12;
    while left > 0 {
        let piece = &piece[..left.min(piece.len())];
        let decoded = decoder.decode(piece).unwrap();
        assert_eq!(decoded.consumed, piece.len());
        left -= piece.len();
    }
    assert!(decoder.clone().finish(&[]).is_err());
    let trailer = words(&[0x4000_0000]);
    assert_eq!(decoder.decode(&trailer).unwrap().consumed, 4);
    assert_eq!(decoder.finish(&[]), Ok(()));
    assert_eq!(decoder.offset(), 28 + 0x4000_0000);
}
