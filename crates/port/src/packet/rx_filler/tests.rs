use slipring_ring::{Geometry, HugePages, Region, RingHalves, RingOffsets, Rx, RxRing};
use slipring_wire::Headers;
use slipring_wire::frame::{Fill, FrameSpec, L4Spec, TcpSpec};

use super::*;

const TAG_7: [u8; 4] = [0x81, 0x00, 0x00, 0x07];

struct Rig {
    rx: RxRing,
    kern: KernRing,
    counters: QueueCounters,
}

impl Rig {
    fn new(slots: u32) -> Self {
        let geometry = Geometry { ring_bytes: 16 << 10, bufs: 128, buf_size: 2048 };
        let region = Region::create_shared(geometry, HugePages::Never).unwrap();
        let pair = RingHalves::<Rx>::create(&region, 0, slots).unwrap();
        Self { rx: pair.app, kern: pair.kern, counters: QueueCounters::default() }
    }

    /// Delivers one frame; returns the frames that the program can then read.
    fn deliver(&mut self, frame: &[u8], vnet: VnetHeader, tag: Option<[u8; 4]>) -> Vec<Vec<u8>> {
        let mut inlet = RxFiller::new(&mut self.kern, &self.counters);
        let (mut bytes, vnet) = (frame.to_vec(), vnet.encode());
        let (room, bound) = (inlet.room(), inlet.slots_for(frame.len() as u32, &vnet));
        inlet.deliver(RawPacket { bytes: &mut bytes, vnet: &vnet[..10], tag });
        assert!(room - inlet.room() <= bound, "more slots than foretold");
        inlet.publish();
        let (mut frames, mut scratch) = (Vec::new(), Vec::new());
        while let Some(frame) = self.rx.packet(&mut scratch, |frame| frame.to_vec()) {
            frames.push(frame);
        }
        let head = self.kern.released().unwrap();
        self.kern.complete_to(head);
        frames
    }

    fn dropped(&self, cause: DropCause) -> u64 {
        self.counters.snapshot().dropped(cause)
    }
}

#[test]
fn a_frame_begins_at_the_offset_of_its_slot_and_goes_on_at_that_of_the_next() {
    let mut rig = Rig::new(64);
    let view = rig.kern.view();
    view.set_offsets(Some(RingOffsets { mask: 0xffff, max: 256 }), 0);
    view.set_slot_ptr(0, 100);
    view.set_slot_ptr(1, 7 << 16 | 200);
    let mut bytes: Vec<u8> = (0..2200).map(|i: u32| i as u8).collect();
    let whole = bytes.clone();
    let mut inlet = RxFiller::new(&mut rig.kern, &rig.counters);
    assert!(inlet.slots_for(2200, &[0; 10]) >= 2);
    inlet.deliver(RawPacket { bytes: &mut bytes, vnet: &[0; 10], tag: None });
    assert_eq!(inlet.publish(), 1);
    let parts = [0, 1].map(|i| rig.kern.payload(i).to_vec());
    assert_eq!([parts[0].len(), parts[1].len()], [2048 - 100, 2200 - (2048 - 100)]);
    assert_eq!(parts.concat(), whole);
    assert_eq!(view.region().copy_out(view.slot(0).buf, &mut [0; 1]), Some(1));
}

fn tcp(payload: usize) -> Vec<u8> {
    let spec = FrameSpec {
        l4: L4Spec::Tcp(TcpSpec::default()),
        fill: Fill::Counting,
        ..FrameSpec::default()
    };
    spec.build(54 + payload).unwrap().bytes
}

fn tso(gso_size: u16) -> VnetHeader {
    let (csum_start, csum_offset) = (34, 16);
    let flags = VnetHeader::NEEDS_CSUM;
    let gso_type = VnetHeader::GSO_TCPV4;
    VnetHeader { flags, gso_type, gso_size, csum_start, csum_offset, ..VnetHeader::default() }
}

#[test]
fn a_tag_goes_back_behind_the_addresses() {
    let frame = tcp(10);
    let delivered = Rig::new(8).deliver(&frame, VnetHeader::default(), Some(TAG_7));
    let expected = [&frame[..12], &TAG_7, &frame[12..]].concat();
    assert_eq!(delivered, [expected]);
}

#[test]
fn a_super_frame_becomes_tagged_segments_that_add_up() {
    let frame = tcp(5000);
    let delivered = Rig::new(16).deliver(&frame, tso(1448), Some(TAG_7));
    assert_eq!(delivered.len(), 4);
    let mut payload = Vec::new();
    for segment in &delivered {
        assert_eq!(Headers::parse(segment).unwrap().tags_found().len(), 1);
        payload.extend_from_slice(&segment[58..]);
    }
    assert_eq!(payload, frame[54..]);
}

#[test]
fn an_unfinished_checksum_is_finished() {
    let finished = tcp(100);
    let mut frame = finished.clone();
    let pseudo = slipring_wire::checksum::Sum::pseudo_v4(
        [10, 0, 0, 1].into(),
        [10, 1, 0, 1].into(),
        slipring_wire::assigned::IpProto::TCP,
        120,
    );
    frame[50..52].copy_from_slice(&pseudo.folded().to_be_bytes());
    let vnet = VnetHeader { gso_type: VnetHeader::GSO_NONE, ..tso(0) };
    assert_eq!(Rig::new(8).deliver(&frame, vnet, None), [finished]);
}

#[test]
fn a_frame_of_exactly_a_buffer_takes_one_slot_and_one_byte_more_takes_two() {
    for (len, slots) in [(2048, 1), (2049, 2), (4096, 2), (4097, 3)] {
        let mut rig = Rig::new(8);
        let frame = tcp(len - 54);
        assert_eq!(rig.deliver(&frame, VnetHeader::default(), None), [&frame[..]]);
        assert_eq!(rig.kern.hwtail(), slots, "{len} bytes");
    }
}

#[test]
fn what_cannot_be_delivered_is_counted_and_leaves_no_half() {
    let mut rig = Rig::new(4);
    let plain = VnetHeader::default();
    assert!(rig.deliver(&tcp(4 * 2048), plain, None).is_empty());
    assert!(rig.deliver(&[0; 11], plain, None).is_empty());
    assert!(rig.deliver(&tcp(5000), tso(0), None).is_empty());
    let beyond = VnetHeader { gso_type: VnetHeader::GSO_NONE, csum_start: 9000, ..tso(0) };
    assert!(rig.deliver(&tcp(10), beyond, None).is_empty());
    assert_eq!(rig.dropped(DropCause::RxRingFull), 1);
    assert_eq!(rig.dropped(DropCause::RxMalformed), 2);
    assert_eq!(rig.dropped(DropCause::RxTooLong), 1);
    assert_eq!(rig.deliver(&tcp(10), plain, None), [tcp(10)]);
    assert_eq!(rig.counters.snapshot().rx.packets, 1);
}

#[test]
fn a_slot_without_a_buffer_costs_its_frame_only() {
    let mut rig = Rig::new(4);
    let slot = rig.kern.slot(0);
    assert!(
        rig.kern.rename(0, slipring_ring::Slot { buf: slipring_ring::BufIdx(u32::MAX), ..slot })
    );
    let passed = rig.deliver(&tcp(10), VnetHeader::default(), None);
    assert!(passed.iter().all(Vec::is_empty), "the slot comes back empty");
    assert_eq!(rig.dropped(DropCause::RxNoBuffer), 1);
    assert_eq!(rig.deliver(&tcp(10), VnetHeader::default(), None), [tcp(10)]);
    assert_eq!(rig.dropped(DropCause::RxNoBuffer), 1, "the next slot gets the next frame");
    assert!(rig.kern.rename(0, slot));
}
