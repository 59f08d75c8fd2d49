//! Splits a TCP super-frame, as a TAP device with offloads delivers it, into frames for the wire.

use slipring_wire::frame::{Fill, FrameSpec, L4Spec, TcpSpec};
use slipring_wire::offload::{Segmenter, VnetForm, VnetHeader};
use slipring_wire::summary::Summary;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The kernel writes a virtio header, followed by a single frame with 9 kB of TCP.
    let spec = FrameSpec {
        l4: L4Spec::Tcp(TcpSpec { flags: 0x18, ..TcpSpec::default() }),
        fill: Fill::Counting,
        ..FrameSpec::default()
    };
    let super_frame = spec.build(spec.header_len() + 9000)?.bytes;
    let header = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_TCPV4,
        gso_size: 1460,
        ..VnetHeader::default()
    };
    let read = [&header.encode()[..VnetForm::Short.byte_len()], &super_frame].concat();

    // slipring splits the frame into segments.
    let (header, frame) = read.split_at(VnetForm::Short.byte_len());
    let header = VnetHeader::parse(header, VnetForm::Short)?;
    println!("in:  {}", Summary::new(frame));
    let gso = header.gso()?.ok_or("a super-frame asks for segmentation")?;
    let mut segments = Segmenter::new(frame, gso)?;
    let mut slot = Vec::new();
    while let Some((header, payload)) = segments.next_segment() {
        slot.clear();
        slot.extend_from_slice(header);
        slot.extend_from_slice(payload);
        println!("out: {}", Summary::new(&slot));
    }
    Ok(())
}
