//! Tests of both formats, byte by byte. Files are read in both byte orders, and written in
//! little-endian order.

#![allow(clippy::unwrap_used)]

use slipring_pcap::{
    CapturedPacket, InterfaceInfo, InterfaceStats, LinkType, PacketRecord, PcapDirection,
    PcapError, PcapFileReader, PcapWriter, PcapngWriter, SectionInfo, TcVerdict,
};

fn read(file: &[u8]) -> Result<Vec<CapturedPacket<'_>>, PcapError> {
    PcapFileReader::new(file).collect()
}

/// Returns the words as bytes in big-endian order.
fn big(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn little(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn two_halves(words: &[u16], big: bool) -> Vec<u8> {
    words.iter().flat_map(|w| if big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
}

/// Returns a classic file with one packet, of which 3 of 60 bytes were captured. The time of the
/// packet is 5.000007 s or 5.000000007 s, depending on the unit.
fn classic(magic: u32, is_big: bool) -> Vec<u8> {
    let order = if is_big { big } else { little };
    let mut file = order(&[magic]);
    file.extend(two_halves(&[2, 4], is_big));
    file.extend(order(&[0, 0, 65535, 1]));
    file.extend(order(&[5, 7, 3, 60]));
    file.extend(b"abc");
    file
}

#[test]
fn all_four_magics_of_classic_pcap_are_read() {
    for is_big in [false, true] {
        for (magic, ts_ns) in [(0xa1b2_c3d4, 5_000_007_000), (0xa1b2_3c4d, 5_000_000_007)] {
            let file = classic(magic, is_big);
            let packets = read(&file).unwrap();
            assert_eq!(packets.len(), 1);
            let packet = packets[0];
            assert_eq!((packet.ts_ns, packet.orig_len, packet.data), (ts_ns, 60, &b"abc"[..]));
            assert_eq!((packet.link_type, packet.interface), (LinkType::ETHERNET, 0));
            assert_eq!(packet.offset, 24);
        }
    }
}

#[test]
fn classic_pcap_is_written_to_the_byte() {
    let mut file = Vec::new();
    let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 65535);
    writer.packet(&mut file, 5_000_000_007, 60, b"abc").unwrap();
    assert_eq!(file, classic(0xa1b2_3c4d, false));
}

#[test]
fn the_link_type_word_may_tell_of_a_frame_check_sequence() {
    let mut file = classic(0xa1b2_c3d4, false);
    file[20..24].copy_from_slice(&0x2400_0001u32.to_le_bytes());
    let mut reader = PcapFileReader::new(&file);
    assert_eq!(reader.next().unwrap().unwrap().link_type, LinkType::ETHERNET);
    assert_eq!(reader.interfaces()[0].fcs_len, Some(4));
}

/// Returns a section with two interfaces. The first one has times in microseconds (the default).
/// The second one has times in 2^-10 s, with an offset of 100 s. A block of an unknown type and a
/// packet of each kind follow.
fn sections(is_big: bool) -> Vec<u8> {
    let order = if is_big { big } else { little };
    let mut file = order(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d]);
    file.extend(two_halves(&[1, 0], is_big));
    file.extend(order(&[u32::MAX, u32::MAX, 28]));

    file.extend(order(&[1, 20]));
    file.extend(two_halves(&[1, 0], is_big));
    file.extend(order(&[5, 20]));

    file.extend(order(&[1, 56]));
    file.extend(two_halves(&[101, 0], is_big));
    file.extend(order(&[0]));
    file.extend(two_halves(&[2, 5], is_big));
    file.extend(b"veth0\0\0\0");
    file.extend(two_halves(&[9, 1], is_big));
    file.extend([0x8a, 0, 0, 0]);
    file.extend(two_halves(&[14, 8], is_big));
    file.extend(if is_big { big(&[0, 100]) } else { little(&[100, 0]) });
    file.extend(order(&[0, 56]));

    file.extend(order(&[0x0bad_cafe, 20, 1, 2, 20]));

    // An enhanced packet block: interface 1, 512 ticks, 4 of 9 bytes, outbound, 3 dropped.
    file.extend(order(&[6, 60, 1, 0, 512, 4, 9]));
    file.extend(b"wxyz");
    file.extend(two_halves(&[2, 4], is_big));
    file.extend(order(&[2]));
    file.extend(two_halves(&[4, 8], is_big));
    file.extend(if is_big { big(&[0, 3]) } else { little(&[3, 0]) });
    file.extend(order(&[0, 60]));

    // A simple packet block: 9 bytes, of which the first interface keeps 5.
    file.extend(order(&[3, 24, 9]));
    file.extend(b"hello\0\0\0");
    file.extend(order(&[24]));

    // An obsolete packet block: interface 0 with 7 drops, 2^32 + 1 microseconds, 2 of 2 bytes.
    file.extend(order(&[2, 36]));
    file.extend(two_halves(&[0, 7], is_big));
    file.extend(order(&[1, 1, 2, 2]));
    file.extend(b"ab\0\0");
    file.extend(order(&[36]));
    file
}

#[test]
fn every_packet_block_is_read_in_either_byte_order() {
    for is_big in [false, true] {
        let file = sections(is_big);
        let mut reader = PcapFileReader::new(&file);
        let packets: Vec<_> = reader.by_ref().collect::<Result<_, _>>().unwrap();
        assert_eq!(reader.interfaces()[1].name, "veth0");
        let seen: Vec<_> =
            packets.iter().map(|p| (p.ts_ns, p.interface, p.orig_len, p.data)).collect();
        let expected: [(u64, u32, u32, &[u8]); 3] = [
            (100_500_000_000, 1, 9, b"wxyz"),
            (0, 0, 9, b"hello"),
            (((1 << 32) + 1) * 1000, 0, 2, b"ab"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(packets[0].link_type, LinkType::RAW);
        assert_eq!(packets[0].direction(), Some(PcapDirection::Outbound));
        assert_eq!(packets[0].drop_count(), Some(3));
        assert_eq!((packets[0].comment(), packets[0].queue()), (None, None));
    }
}

#[test]
fn a_new_section_brings_its_own_byte_order_and_interfaces() {
    let file = [sections(false), sections(true), sections(false)].concat();
    assert_eq!(read(&file).unwrap().len(), 9);
    let mut reader = PcapFileReader::new(&file);
    assert_eq!(reader.by_ref().count(), 9);
    assert_eq!(reader.interfaces().len(), 2);

    // The second section describes no interface. It does not inherit the interfaces of the first
    // section.
    let first = sections(false);
    let offset = first.len() as u64 + 28;
    let file = [&first[..], &first[..28], &first[124..184]].concat();
    assert_eq!(read(&file), Err(PcapError::UnknownInterface { offset, found: 1, count: 0 }));
}

#[test]
fn pcapng_is_written_to_the_byte() {
    let mut file = Vec::new();
    let section = SectionInfo { application: "gen", ..SectionInfo::default() };
    let mut writer = PcapngWriter::begin(&mut file, &section).unwrap();
    let info = InterfaceInfo { name: "a{1", link_type: LinkType::ETHERNET, ..Default::default() };
    let interface = writer.interface(&mut file, &info).unwrap();
    let record = PacketRecord {
        interface,
        ts_ns: 0x1_0000_0002,
        orig_len: 60,
        data: b"abcde",
        direction: Some(PcapDirection::Inbound),
        queue: Some(2),
        ..PacketRecord::default()
    };
    writer.packet(&mut file, &record).unwrap();
    let stats = InterfaceStats {
        interface,
        ts_ns: 0x1_0000_0003,
        end_ns: Some(0x1_0000_0004),
        dropped: Some(9),
        ..InterfaceStats::default()
    };
    writer.statistics(&mut file, &stats).unwrap();

    let mut expected = little(&[0x0a0d_0d0a, 40, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
    expected.extend(little(&[3 << 16 | 4]));
    expected.extend(b"gen\0");
    expected.extend(little(&[0, 40]));
    expected.extend(little(&[1, 40, 1, 262_144, 3 << 16 | 2]));
    expected.extend(b"a{1\0");
    expected.extend(little(&[1 << 16 | 9, 9, 0, 40]));
    expected.extend(little(&[6, 60, 0, 1, 2, 5, 60]));
    expected.extend(b"abcde\0\0\0");
    expected.extend(little(&[4 << 16 | 2, 1, 4 << 16 | 6, 2, 0, 60]));
    expected.extend(little(&[5, 52, 0, 1, 3, 8 << 16 | 3, 1, 4, 8 << 16 | 5, 9, 0, 0, 52]));
    assert_eq!(file, expected);
}

#[test]
fn a_verdict_is_written_as_traffic_control_has_it_and_read_back() {
    for (verdict, number) in [(TcVerdict::Passed, 0), (TcVerdict::Dropped, 2)] {
        let mut file = Vec::new();
        let mut writer = PcapngWriter::begin(&mut file, &SectionInfo::default()).unwrap();
        let interface = writer.interface(&mut file, &InterfaceInfo::default()).unwrap();
        let start = file.len();
        let record = PacketRecord {
            interface,
            orig_len: 60,
            verdict: Some(verdict),
            ..PacketRecord::default()
        };
        writer.packet(&mut file, &record).unwrap();

        let mut expected = little(&[6, 52, 0, 0, 0, 0, 60, 9 << 16 | 7]);
        expected.extend([1, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend(little(&[0, 52]));
        assert_eq!(file[start..], expected);
        assert_eq!(PcapFileReader::new(&file).next().unwrap().unwrap().verdict(), Some(verdict));
    }
}
