//! Converts a capture of any format from standard input to pcapng on standard output. The buffer
//! never becomes larger than the largest block.

use std::error::Error;
use std::io::{self, Read, Write};

use slipring_pcap::{
    CapturedPacket, DecodeStep, Decoder, InterfaceId, InterfaceInfo, PacketRecord, PcapngWriter,
    SectionInfo,
};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut decoder = Decoder::new();
    let mut converter = Converter::new()?;
    let mut buffer = Vec::new();
    loop {
        let decoded = decoder.decode(&buffer)?;
        match decoded.step {
            DecodeStep::Packet(packet) => {
                converter.packet(&decoder, &packet)?;
                buffer.drain(..decoded.consumed);
            }
            DecodeStep::NeedMore(need) => {
                buffer.drain(..decoded.consumed);
                if !refill(&mut input, &mut buffer, need)? {
                    break;
                }
            }
        }
        converter.flush(&mut output)?;
    }
    decoder.finish(&buffer)?;
    Ok(converter.flush(&mut output)?)
}

/// Reads until `buffer` has `need` bytes. Returns `false` if the input ends before that.
fn refill(input: &mut impl Read, buffer: &mut Vec<u8>, need: usize) -> io::Result<bool> {
    let missing = need - buffer.len();
    let got = input.take(missing as u64).read_to_end(buffer)?;
    Ok(got == missing)
}

struct Converter {
    writer: PcapngWriter,
    described: usize,
    out: Vec<u8>,
}

impl Converter {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut out = Vec::new();
        let section = SectionInfo { application: "convert", ..SectionInfo::default() };
        let writer = PcapngWriter::begin(&mut out, &section)?;
        Ok(Self { writer, described: 0, out })
    }

    fn packet(
        &mut self,
        decoder: &Decoder,
        packet: &CapturedPacket<'_>,
    ) -> Result<(), Box<dyn Error>> {
        for interface in decoder.interfaces().iter().skip(self.described) {
            let info = InterfaceInfo {
                name: &interface.name,
                link_type: interface.link_type,
                snaplen: interface.snaplen,
                ..InterfaceInfo::default()
            };
            self.writer.interface(&mut self.out, &info)?;
            self.described += 1;
        }
        let record = PacketRecord {
            interface: InterfaceId(packet.interface),
            ts_ns: packet.ts_ns,
            orig_len: packet.orig_len,
            data: packet.data,
            direction: packet.direction(),
            drop_count: packet.drop_count(),
            packet_id: packet.packet_id(),
            queue: packet.queue(),
            verdict: packet.verdict(),
            comment: packet.comment().unwrap_or_default(),
        };
        Ok(self.writer.packet(&mut self.out, &record)?)
    }

    fn flush(&mut self, output: &mut impl Write) -> io::Result<()> {
        output.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}
