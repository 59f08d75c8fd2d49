//! Compares this crate with the crate `pcap-file`, in both directions.
//!
//! `pcap-file` always writes the times of pcapng in nanoseconds, whatever unit the interface has.
//! So a test either adds the option that declares nanoseconds, or expects that the numbers are read
//! as microseconds.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::time::Duration;

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, Endianness, TsResolution};
use proptest::prelude::*;
use slipring_pcap::{
    CapturedPacket, InterfaceInfo, LinkType, PacketRecord, PcapFileReader, PcapWriter,
    PcapngWriter, SectionInfo,
};

type Drawn = (u64, u32, Vec<u8>);

fn packets() -> impl Strategy<Value = Vec<Drawn>> {
    let limit = u64::from(u32::MAX) * 1_000_000_000;
    let packet = (0..limit, 0u32..2000, prop::collection::vec(any::<u8>(), 0..80));
    prop::collection::vec(
        packet.prop_map(|(ts, cut, data)| (ts, data.len() as u32 + cut, data)),
        0..12,
    )
}

fn ours(file: &[u8]) -> Vec<Drawn> {
    let drawn = |packet: CapturedPacket<'_>| (packet.ts_ns, packet.orig_len, packet.data.to_vec());
    PcapFileReader::new(file).map(|packet| drawn(packet.unwrap())).collect()
}

proptest! {
    #[test]
    fn it_reads_our_pcap(packets in packets()) {
        let mut file = Vec::new();
        let writer = PcapWriter::begin(&mut file, LinkType::ETHERNET, 0);
        for (ts_ns, orig_len, data) in &packets {
            writer.packet(&mut file, *ts_ns, *orig_len, data).unwrap();
        }
        let mut reader = PcapReader::new(&file[..]).unwrap();
        prop_assert_eq!(reader.header().datalink, DataLink::ETHERNET);
        let mut read = Vec::new();
        while let Some(packet) = reader.next_packet() {
            let packet = packet.unwrap();
            read.push((packet.timestamp.as_nanos() as u64, packet.orig_len, packet.data.to_vec()));
        }
        prop_assert_eq!(read, packets);
    }

    #[test]
    fn we_read_its_pcap(packets in packets(), big: bool, nanos: bool) {
        let header = PcapHeader {
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ts_resolution: if nanos { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            ..PcapHeader::default()
        };
        let mut writer = pcap_file::pcap::PcapWriter::with_header(Vec::new(), header).unwrap();
        for (ts_ns, orig_len, data) in &packets {
            let packet = PcapPacket::new(Duration::from_nanos(*ts_ns), *orig_len, data);
            writer.write_packet(&packet).unwrap();
        }
        let unit = if nanos { 1 } else { 1000 };
        let expected: Vec<Drawn> =
            packets.into_iter().map(|(ts, len, data)| (ts / unit * unit, len, data)).collect();
        prop_assert_eq!(ours(&writer.into_writer()), expected);
    }

    #[test]
    fn it_reads_our_pcapng(packets in packets()) {
        let mut file = Vec::new();
        let section = SectionInfo { application: "slipring", ..SectionInfo::default() };
        let mut writer = PcapngWriter::begin(&mut file, &section).unwrap();
        let link_type = LinkType::ETHERNET;
        let info = InterfaceInfo { name: "eth0", link_type, ..InterfaceInfo::default() };
        let interface = writer.interface(&mut file, &info).unwrap();
        for (ts_ns, orig_len, data) in &packets {
            let (ts_ns, orig_len) = (*ts_ns, *orig_len);
            let record = PacketRecord {
                interface, ts_ns, orig_len, data, comment: "why", drop_count: Some(2),
                ..PacketRecord::default()
            };
            writer.packet(&mut file, &record).unwrap();
        }
        let mut reader = PcapNgReader::new(&file[..]).unwrap();
        let mut read = Vec::new();
        while let Some(block) = reader.next_block() {
            let Block::EnhancedPacket(packet) = block.unwrap() else {
                continue;
            };
            prop_assert!(packet.options.contains(&EnhancedPacketOption::DropCount(2)));
            prop_assert!(packet.options.contains(&EnhancedPacketOption::Comment("why".into())));
            let ts_ns = packet.timestamp.as_nanos() as u64;
            read.push((ts_ns, packet.original_len, packet.data.to_vec()));
        }
        prop_assert_eq!(read, packets);
        let name = InterfaceDescriptionOption::IfName("eth0".into());
        prop_assert!(reader.interfaces()[0].options.contains(&name));
        let resolution = InterfaceDescriptionOption::IfTsResol(9);
        prop_assert!(reader.interfaces()[0].options.contains(&resolution));
    }

    #[test]
    fn we_read_its_pcapng(packets in packets(), resolution: bool) {
        let mut writer = pcap_file::pcapng::PcapNgWriter::new(Vec::new()).unwrap();
        let options = if resolution {
            vec![InterfaceDescriptionOption::IfTsResol(9), InterfaceDescriptionOption::IfName("x".into())]
        } else {
            vec![]
        };
        let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        writer.write_pcapng_block(interface).unwrap();
        for (ts_ns, orig_len, data) in &packets {
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(*ts_ns),
                original_len: *orig_len,
                data: Cow::Borrowed(data),
                options: vec![],
            };
            writer.write_pcapng_block(packet).unwrap();
        }
        // Without the option for the unit, the same ticks are microseconds.
        let unit = if resolution { 1 } else { 1000 };
        let fits = |(ts, ..): &Drawn| ts.checked_mul(unit).is_some();
        if packets.iter().all(fits) {
            let expected: Vec<Drawn> =
                packets.into_iter().map(|(ts, len, data)| (ts * unit, len, data)).collect();
            prop_assert_eq!(ours(&writer.into_inner()), expected);
        }
    }
}
