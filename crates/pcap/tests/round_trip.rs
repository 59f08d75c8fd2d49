//! Tests that files which this crate wrote can be read, as a whole or in parts, and that broken
//! files do no harm.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use slipring_pcap::{
    CapturedPacket, DecodeStep, Decoder, InterfaceId, InterfaceInfo, InterfaceStats, LinkType,
    MAX_BLOCK_LEN, MAX_PACKET_LEN, PacketRecord, PcapDirection, PcapError, PcapFileReader,
    PcapWriter, PcapngWriter, SectionInfo, WriteError,
};

/// A randomly generated packet.
#[derive(Clone, Debug)]
struct Drawn {
    interface: u32,
    ts_ns: u64,
    data: Vec<u8>,
    cut: u32,
    direction: Option<bool>,
    drop_count: Option<u64>,
    packet_id: Option<u64>,
    queue: Option<u32>,
    comment: String,
}

impl Drawn {
    fn orig_len(&self) -> u32 {
        self.data.len() as u32 + self.cut
    }

    fn direction(&self) -> Option<PcapDirection> {
        self.direction.map(|out| if out { PcapDirection::Outbound } else { PcapDirection::Inbound })
    }

    fn record(&self) -> PacketRecord<'_> {
        PacketRecord {
            interface: InterfaceId(self.interface),
            ts_ns: self.ts_ns,
            orig_len: self.orig_len(),
            data: &self.data,
            direction: self.direction(),
            drop_count: self.drop_count,
            packet_id: self.packet_id,
            queue: self.queue,
            verdict: None,
            comment: &self.comment,
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let options = (any::<Option<bool>>(), any::<Option<u64>>(), any::<Option<u64>>());
    let data = prop::collection::vec(any::<u8>(), 0..100);
    (0u32..3, any::<u64>(), data, 0u32..2000, options, any::<Option<u32>>(), "[a-zé]{0,9}")
        .prop_map(
            |(interface, ts_ns, data, cut, (direction, drop_count, packet_id), queue, comment)| {
                Drawn {
                    interface,
                    ts_ns,
                    data,
                    cut,
                    direction,
                    drop_count,
                    packet_id,
                    queue,
                    comment,
                }
            },
        )
}

fn write_ng(packets: &[Drawn]) -> Vec<u8> {
    let mut file = Vec::new();
    let section = SectionInfo { hardware: "h", os: "o", application: "a", comment: "c" };
    let mut writer = PcapngWriter::begin(&mut file, &section).unwrap();
    for name in ["netmap:eth0", "", "x"] {
        let link_type = LinkType::ETHERNET;
        let info = InterfaceInfo { name, description: "d", link_type, ..InterfaceInfo::default() };
        writer.interface(&mut file, &info).unwrap();
    }
    for packet in packets {
        writer.packet(&mut file, &packet.record()).unwrap();
    }
    let stats = InterfaceStats { received: Some(1), ..InterfaceStats::default() };
    writer.statistics(&mut file, &stats).unwrap();
    file
}

fn write_classic(packets: &[Drawn]) -> Vec<u8> {
    let mut file = Vec::new();
    let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
    for packet in packets {
        let ts_ns = packet.ts_ns % (u64::from(u32::MAX) * 1_000_000_000);
        writer.packet(&mut file, ts_ns, packet.orig_len(), &packet.data).unwrap();
    }
    file
}

/// Passes a file to the decoder in parts. Calls `each` for every packet.
fn decode_in_pieces(
    file: &[u8],
    piece: usize,
    mut each: impl FnMut(&CapturedPacket<'_>),
) -> Result<(), PcapError> {
    let (mut decoder, mut buffer, mut unread) = (Decoder::new(), Vec::new(), file);
    loop {
        let decoded = decoder.decode(&buffer)?;
        match decoded.step {
            DecodeStep::Packet(packet) => each(&packet),
            DecodeStep::NeedMore(need) => {
                assert!(need <= MAX_BLOCK_LEN && need > buffer.len() - decoded.consumed);
                if unread.is_empty() {
                    return decoder.finish(&buffer[decoded.consumed..]);
                }
            }
        }
        buffer.drain(..decoded.consumed);
        let (now, rest) = unread.split_at(unread.len().min(piece));
        buffer.extend_from_slice(now);
        unread = rest;
    }
}

fn compare(packet: &CapturedPacket<'_>, drawn: &Drawn) -> Result<(), TestCaseError> {
    prop_assert_eq!(packet.ts_ns, drawn.ts_ns);
    prop_assert_eq!((packet.orig_len, packet.data), (drawn.orig_len(), &drawn.data[..]));
    prop_assert_eq!(packet.interface, drawn.interface);
    prop_assert_eq!(packet.direction(), drawn.direction());
    prop_assert_eq!(packet.drop_count(), drawn.drop_count);
    prop_assert_eq!(packet.packet_id(), drawn.packet_id);
    prop_assert_eq!(packet.queue(), drawn.queue);
    prop_assert_eq!(packet.comment().unwrap_or(""), &drawn.comment);
    Ok(())
}

proptest! {
    #[test]
    fn pcapng_packets_come_back(packets in prop::collection::vec(drawn(), 0..20)) {
        let file = write_ng(&packets);
        let mut reader = PcapFileReader::new(&file);
        let read: Vec<CapturedPacket> = reader.by_ref().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), packets.len());
        for (packet, drawn) in read.iter().zip(&packets) {
            compare(packet, drawn)?;
        }
        let names: Vec<_> = reader.interfaces().iter().map(|i| i.name.as_str()).collect();
        prop_assert_eq!(names, ["netmap:eth0", "", "x"]);
    }

    #[test]
    fn classic_packets_come_back(packets in prop::collection::vec(drawn(), 0..20)) {
        let file = write_classic(&packets);
        let read: Vec<CapturedPacket> = PcapFileReader::new(&file).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read.len(), packets.len());
        for (packet, drawn) in read.iter().zip(&packets) {
            let ts_ns = drawn.ts_ns % (u64::from(u32::MAX) * 1_000_000_000);
            prop_assert_eq!((packet.ts_ns, packet.data), (ts_ns, &drawn.data[..]));
        }
    }

    #[test]
    fn pieces_of_any_size_give_the_same_packets(
        packets in prop::collection::vec(drawn(), 0..10), piece in 1usize..300, ng: bool,
    ) {
        let file = if ng { write_ng(&packets) } else { write_classic(&packets) };
        let mut pieces = Vec::new();
        decode_in_pieces(&file, piece, |p| pieces.push((p.offset, p.ts_ns, p.data.to_vec()))).unwrap();
        let whole: Vec<_> = PcapFileReader::new(&file)
            .map(|p| p.map(|p| (p.offset, p.ts_ns, p.data.to_vec())))
            .collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(pieces, whole);
    }

    /// If a file is truncated, this is noticed, unless it ends between two records.
    #[test]
    fn every_truncation_is_noticed(
        packets in prop::collection::vec(drawn(), 1..5), at in 0usize..2000, ng: bool,
    ) {
        let file = if ng { write_ng(&packets) } else { write_classic(&packets) };
        let at = at % file.len();
        let results: Vec<_> = PcapFileReader::new(&file[..at]).collect();
        let count = results.iter().filter(|result| result.is_ok()).count();
        match results.last() {
            Some(Err(PcapError::Truncated { offset, need, have, .. })) => {
                prop_assert!(have < need && *offset <= at as u64);
            }
            Some(Err(other)) => prop_assert!(false, "{other}"),
            // The end is between two records, because a record of the longer file starts at this
            // offset.
            _ => {
                let mut longer = file[..at].to_vec();
                longer.push(file[at]);
                let error = PcapFileReader::new(&longer).find_map(Result::err);
                let cut_here = |error: &PcapError| {
                    matches!(error, PcapError::Truncated { offset, have: 1, .. }
                        if *offset == at as u64)
                };
                prop_assert!(error.is_some_and(|error| cut_here(&error)));
            }
        }
        prop_assert!(count <= packets.len());
    }

    /// Whatever is in a file, the decoder returns packets and at most one error, and ends.
    #[test]
    fn broken_files_do_no_harm(
        packets in prop::collection::vec(drawn(), 1..5), ng: bool, piece in 1usize..200,
        edits in prop::collection::vec((any::<usize>(), any::<u8>()), 1..6),
    ) {
        let mut file = if ng { write_ng(&packets) } else { write_classic(&packets) };
        for (at, value) in edits {
            let at = at % file.len();
            file[at] = value;
        }
        let results: Vec<_> = PcapFileReader::new(&file).collect();
        let errors = results.iter().filter(|result| result.is_err()).count();
        prop_assert!(errors <= 1);
        let mut count = 0;
        let pieces = decode_in_pieces(&file, piece, |_| count += 1);
        prop_assert_eq!((count, pieces.is_err()), (results.len() - errors, errors == 1));
    }

    #[test]
    fn any_bytes_do_no_harm(
        magic in prop::sample::select(vec![
            0x0a0d_0d0au32, 0xa1b2_c3d4, 0xa1b2_3c4d, 0xd4c3_b2a1, 0x4d3c_b2a1,
        ]),
        words in prop::collection::vec(
            prop_oneof![Just(0x1a2b_3c4du32), 0u32..64, any::<u32>()], 0..40,
        ),
    ) {
        let file: Vec<u8> =
            [magic].iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        prop_assert!(PcapFileReader::new(&file).count() <= words.len() + 1);
    }
}

#[test]
fn snap_lengths_cut_what_is_written() {
    let mut file = Vec::new();
    let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 4);
    writer.packet(&mut file, 1, 6, b"abcdef").unwrap();
    let packet = PcapFileReader::new(&file).next().unwrap().unwrap();
    assert_eq!((packet.data, packet.orig_len), (&b"abcd"[..], 6));

    let mut file = Vec::new();
    let mut writer = PcapngWriter::begin(&mut file, &SectionInfo::default()).unwrap();
    let info = InterfaceInfo { snaplen: 3, ..InterfaceInfo::default() };
    let interface = writer.interface(&mut file, &info).unwrap();
    let record = PacketRecord { interface, orig_len: 6, data: b"abcdef", ..Default::default() };
    writer.packet(&mut file, &record).unwrap();
    let packet = PcapFileReader::new(&file).next().unwrap().unwrap();
    assert_eq!((packet.data, packet.orig_len), (&b"abc"[..], 6));
}

#[test]
fn packets_beyond_the_believable_are_cut_to_it() {
    let mut file = Vec::new();
    let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
    writer.packet(&mut file, 1, 300_000, &vec![7; 300_000]).unwrap();
    let packet = PcapFileReader::new(&file).next().unwrap().unwrap();
    assert_eq!((packet.data.len(), packet.orig_len), (MAX_PACKET_LEN as usize, 300_000));
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let mut file = Vec::new();
    let classic = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
    let len = file.len();
    let late = u64::from(u32::MAX) * 1_000_000_000 + 1_000_000_000;
    assert_eq!(classic.packet(&mut file, late, 3, b"abc"), Err(WriteError::Time { ts_ns: late }));
    assert!(classic.packet(&mut file, late - 1, 3, b"abc").is_ok());
    file.truncate(len);
    let exceeds = WriteError::CapturedExceedsOriginal { captured: 3, original: 2 };
    assert_eq!(classic.packet(&mut file, 0, 2, b"abc"), Err(exceeds));
    assert_eq!(exceeds.to_string(), "3 bytes captured of a packet of 2");
    assert_eq!(file.len(), len);

    let mut file = Vec::new();
    let long = "x".repeat(65_536);
    let section = SectionInfo { os: &long, ..SectionInfo::default() };
    let error = PcapngWriter::begin(&mut file, &section).unwrap_err();
    assert_eq!(error, WriteError::OptionTooLong { code: 3, len: 65_536 });
    assert!(file.is_empty());

    let mut writer = PcapngWriter::begin(&mut file, &SectionInfo::default()).unwrap();
    let len = file.len();
    let record = PacketRecord { interface: InterfaceId(1), ..PacketRecord::default() };
    assert_eq!(
        writer.packet(&mut file, &record),
        Err(WriteError::UnknownInterface { found: 1, count: 0 })
    );
    assert!(writer.statistics(&mut file, &InterfaceStats::default()).is_err());
    assert_eq!(file.len(), len);
    let interface = writer.interface(&mut file, &InterfaceInfo::default()).unwrap();
    let len = file.len();
    let record = PacketRecord { interface, comment: &long, ..PacketRecord::default() };
    assert!(writer.packet(&mut file, &record).is_err());
    assert_eq!(file.len(), len);
}
