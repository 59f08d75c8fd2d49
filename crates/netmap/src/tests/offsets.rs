//! Tests of the option OFFSETS: what is refused, what is granted, and where frames begin.

use super::*;

/// Offsets in the low 16 bits, initially 128 and at most 256.
fn usual() -> NmreqOptOffsets {
    NmreqOptOffsets {
        nro_opt: NmreqOption { nro_reqtype: NETMAP_REQ_OPT_OFFSETS, ..NmreqOption::default() },
        nro_max_offset: 256,
        nro_initial_offset: 128,
        nro_offset_bits: 16,
        ..NmreqOptOffsets::default()
    }
}

impl Client<'_> {
    /// Binds the port; returns the result, and the option as the call has written it back.
    fn register_with(
        &mut self,
        name: &str,
        wish: &NmreqRegister,
        option: &NmreqOptOffsets,
    ) -> (Result<NmreqRegister, Errno>, NmreqOptOffsets) {
        self.memory.put(BODY, wish);
        self.memory.put(OPTIONS, option);
        let request = NmreqHeader { nr_options: OPTIONS, ..header(name, NETMAP_REQ_REGISTER) };
        let done = self.control(&request);
        (done.map(|_| self.memory.get(BODY)), self.memory.get(OPTIONS))
    }
}

/// A program with the offsets of its first tx ring and its first rx ring.
struct Station<'w> {
    client: Client<'w>,
    tx: u64,
    rx: u64,
}

impl<'w> Station<'w> {
    fn new(world: &'w World, name: &str, wish: &NmreqRegister, with: bool) -> Self {
        let mut client = world.open();
        let got = match with {
            true => client.register_with(name, wish, &usual()).0,
            false => client.register(name, wish),
        };
        let got = got.unwrap();
        let rx = client.ring_at(&got, u64::from(got.nr_tx_rings) + 1);
        Self { tx: client.ring_at(&got, 0), rx, client }
    }

    fn byte_at(&self, ring: u64, slot: &NetmapSlot, at: u64) -> u64 {
        let buf = u64::from(slot.buf_idx) * BUF;
        (ring as i64 + self.client.ring(ring).buf_ofs) as u64 + buf + at
    }

    /// Sends a frame with one slot for each part, each at its offset.
    fn send(&mut self, parts: &[(&[u8], u64)]) {
        for (left, &(part, offset)) in (0..parts.len()).rev().zip(parts) {
            let i = self.client.ring(self.tx).head;
            let slot = self.client.slot(self.tx, i);
            let (real, file) = (offset.min(256), self.client.world.domain.file());
            rustix::io::pwrite(file, part, self.byte_at(self.tx, &slot, real)).unwrap();
            // Bits outside the mask belong to the program.
            self.client.poke(slot_at(self.tx, i), &NetmapSlot { ptr: 7 << 16 | offset, ..slot });
            let more = if left > 0 { NS_MOREFRAG } else { 0 };
            self.client.queue(self.tx, i, part.len() as u16, more);
        }
        self.client.ioctl(NIOCTXSYNC).unwrap();
    }

    /// Returns offsets and bytes of the arrived slots.
    fn take(&mut self) -> Vec<(u64, Vec<u8>)> {
        self.client.ioctl(NIOCRXSYNC).unwrap();
        let ring = self.client.ring(self.rx);
        let (mut at, mut got) = (ring.head, Vec::new());
        while at != ring.tail {
            let slot = self.client.slot(self.rx, at);
            let offset = slot.ptr & ring.offset_mask;
            let mut bytes = vec![0; slot.len.into()];
            let from = self.byte_at(self.rx, &slot, offset);
            rustix::io::pread(self.client.world.domain.file(), &mut bytes, from).unwrap();
            got.push((offset, bytes));
            at = (at + 1) % ring.num_slots;
        }
        self.client.advance(self.rx, at);
        self.client.ioctl(NIOCRXSYNC).unwrap();
        got
    }
}

fn frame(mark: u8) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..150).map(|i: u8| i ^ mark).collect();
    bytes[..6].fill(255);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes
}

#[test]
fn rings_show_the_mask_and_slots_begin_with_the_offset() {
    let world = World::new();
    for name in ["x{1", "vale0:a"] {
        let mut client = world.open();
        let option = NmreqOptOffsets { nro_tx_align: 64, ..usual() };
        let (got, option) = client.register_with(name, &all(), &option);
        let got = got.unwrap();
        assert_eq!((option.nro_opt.nro_status, option.nro_max_offset), (0, 256));
        let tx = client.ring_at(&got, 0);
        assert_eq!((client.ring(tx).offset_mask, client.ring(tx).buf_align), (0xffff, 64));
        let last = client.ring(tx).num_slots - 1;
        assert_eq!([0, last].map(|i| client.slot(tx, i).ptr), [128, 128], "{name}");
        let rx = client.ring_at(&got, u64::from(got.nr_tx_rings) + 1);
        assert_eq!(client.ring(rx).offset_mask, 0xffff);
    }
}

#[test]
fn no_bits_mean_all_bits_which_is_told() {
    let world = World::new();
    let option = NmreqOptOffsets { nro_offset_bits: 0, ..usual() };
    let (got, option) = world.open().register_with("vale0:a", &all(), &option);
    assert!(got.is_ok());
    assert_eq!(option.nro_offset_bits, 64);
}

#[test]
fn offsets_that_cannot_be_are_refused_by_name() {
    let world = World::new();
    let cases = [
        NmreqOptOffsets { nro_offset_bits: 65, ..usual() },
        NmreqOptOffsets { nro_max_offset: 2049, ..usual() },
        NmreqOptOffsets { nro_initial_offset: 257, ..usual() },
        NmreqOptOffsets { nro_offset_bits: 8, ..usual() },
    ];
    for case in cases {
        let mut client = world.open();
        let (got, option) = client.register_with("x{1", &all(), &case);
        assert_eq!((got.err(), option.nro_opt.nro_status), (Some(Errno::INVAL), 22), "{case:?}");
        assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::NXIO));
    }
}

#[test]
fn who_comes_later_gets_as_much_and_never_more() {
    let world = World::new();
    let _first = Station::new(&world, "x{1", &all(), true);
    for more in [
        NmreqOptOffsets { nro_max_offset: 257, ..usual() },
        NmreqOptOffsets { nro_offset_bits: 17, ..usual() },
    ] {
        let (got, option) = world.open().register_with("x{1", &all(), &more);
        assert_eq!((got.err(), option.nro_opt.nro_status), (Some(Errno::BUSY), 16));
    }
    let less = NmreqOptOffsets { nro_max_offset: 200, nro_offset_bits: 9, ..usual() };
    let (got, option) = world.open().register_with("x{1", &all(), &less);
    assert!(got.is_ok());
    assert_eq!((option.nro_max_offset, option.nro_offset_bits), (256, 16));
}

#[test]
fn a_bind_that_fails_for_another_reason_does_not_blame_the_option() {
    let world = World::new();
    let loner = NmreqRegister { nr_flags: NR_EXCLUSIVE, ..all() };
    let _loner = Station::new(&world, "x{1", &loner, true);
    let (got, option) = world.open().register_with("x{1", &all(), &usual());
    assert_eq!((got.err(), option.nro_opt.nro_status), (Some(Errno::BUSY), 0));
}

#[test]
fn a_zero_copy_monitor_has_offsets_of_its_own() {
    let world = World::new();
    let mut port = Station::new(&world, "x{1", &all(), true);
    let wish = NmreqRegister { nr_flags: NR_MONITOR_TX | NR_ZCOPY_MON, ..all() };
    let mut own = Station::new(&world, "x{1", &wish, true);
    port.send(&[(&frame(1), 77)]);
    assert_eq!(own.take(), [(128, frame(1))]);
}

#[test]
fn a_pipe_carries_the_offset() {
    let world = World::new();
    let [mut a, mut b] = ["x{1", "x}1"].map(|name| Station::new(&world, name, &all(), true));
    a.send(&[(&frame(1), 200)]);
    assert_eq!(b.take(), [(200, frame(1))]);
}

#[test]
fn a_switch_reads_at_the_senders_offset_and_writes_at_the_receivers() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all(), true);
    let mut b = Station::new(&world, "vale0:b", &all(), true);
    let mut plain = Station::new(&world, "vale0:c", &all(), false);
    for (mark, offset) in [(1, 0), (2, 200), (3, 256)] {
        a.send(&[(&frame(mark), offset)]);
        assert_eq!(b.take(), [(128, frame(mark))]);
        assert_eq!(plain.take(), [(0, frame(mark))]);
    }
    plain.send(&[(&frame(4), 0)]);
    assert_eq!(a.take().len(), 1, "what it got of itself is nothing, of the other a frame");
}

#[test]
fn an_offset_beyond_the_largest_means_the_largest() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all(), true);
    let mut b = Station::new(&world, "vale0:b", &all(), false);
    a.send(&[(&frame(1), 0xffff)]);
    assert_eq!(b.take(), [(0, frame(1))]);
}

#[test]
fn fragments_have_an_offset_each_and_are_cut_anew_where_there_is_less_room() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all(), true);
    let mut b = Station::new(&world, "vale0:b", &all(), true);
    let mut plain = Station::new(&world, "vale0:c", &all(), false);
    let (first, rest) = ([frame(1), vec![9; 1642]].concat(), vec![5; 300]);
    a.send(&[(&first, 16), (&rest, 250)]);
    let whole = [first, rest].concat();
    assert_eq!(plain.take().into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>(), whole);
    let parts = b.take();
    assert!(
        parts
            .iter()
            .all(|(offset, bytes)| *offset == 128 && bytes.len() <= BUF_SIZE as usize - 256)
    );
    assert_eq!(parts.into_iter().flat_map(|(_, bytes)| bytes).collect::<Vec<_>>(), whole);
}

#[test]
fn a_length_that_leads_out_of_the_buffer_is_cropped() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all(), true);
    let mut b = Station::new(&world, "vale0:b", &all(), false);
    let i = a.client.ring(a.tx).head;
    a.send(&[(&frame(1), 256)]);
    b.take();
    let slot = a.client.slot(a.tx, i + 1);
    a.client.poke(slot_at(a.tx, i + 1), &NetmapSlot { ptr: 256, ..slot });
    let at = a.byte_at(a.tx, &slot, 256);
    rustix::io::pwrite(world.domain.file(), &frame(2), at).unwrap();
    a.client.queue(a.tx, i + 1, BUF_SIZE as u16, 0);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    let got = b.take();
    assert_eq!((got.len(), got[0].1.len()), (1, BUF_SIZE as usize - 256));
}

#[test]
fn a_monitor_reads_at_the_ports_offset_and_writes_at_its_own() {
    let world = World::new();
    for name in ["x{1", "vale0:a"] {
        let mut port = Station::new(&world, name, &all(), true);
        let wish = NmreqRegister { nr_flags: NR_MONITOR_TX, ..all() };
        let mut own = Station::new(&world, name, &wish, true);
        let mut plain = Station::new(&world, name, &wish, false);
        port.send(&[(&frame(1), 77)]);
        assert_eq!(own.take(), [(128, frame(1))], "{name}");
        assert_eq!(plain.take(), [(0, frame(1))], "{name}");
    }
}

#[test]
fn an_indirect_frame_is_one_also_where_there_are_offsets() {
    let world = World::new();
    let mut a = Station::new(&world, "vale0:a", &all(), true);
    let mut b = Station::new(&world, "vale0:b", &all(), false);
    a.client.memory.write(BASE + 0x2222, &frame(3)).unwrap();
    let slot = a.client.slot(a.tx, 0);
    a.client.poke(slot_at(a.tx, 0), &NetmapSlot { ptr: BASE + 0x2222, ..slot });
    a.client.queue(a.tx, 0, 150, NS_INDIRECT);
    a.client.ioctl(NIOCTXSYNC).unwrap();
    assert_eq!(b.take(), [(0, frame(3))]);
}

#[test]
fn offsets_end_with_the_last_program_of_a_port() {
    let world = World::new();
    let body = NmreqValeNewif::default();
    world.open().ask("lasting", NETMAP_REQ_VALE_NEWIF, &body).unwrap();
    drop(Station::new(&world, "lasting", &all(), true));
    let again = Station::new(&world, "lasting", &all(), false);
    assert_eq!(again.client.ring(again.tx).offset_mask, 0);
}
