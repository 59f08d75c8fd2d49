//! Tests of the option EXTMEM: memory that a program provides.

use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use slipring_ring::RingView;

use super::*;

const MIB: u64 = 1 << 20;

fn file(bytes: u64) -> OwnedFd {
    let file = memfd_create("pages", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, bytes).unwrap();
    file
}

/// An option for `bytes` bytes of memory from `SHARED` on, which leaves the sizes of the pools to
/// the daemon.
fn option(bytes: u64) -> NmreqOptExtmem {
    NmreqOptExtmem {
        nro_opt: NmreqOption { nro_reqtype: NETMAP_REQ_OPT_EXTMEM, ..NmreqOption::default() },
        nro_usrptr: SHARED,
        nro_info: NmreqPoolsInfo { nr_memsize: bytes, ..NmreqPoolsInfo::default() },
    }
}

fn short() -> NmreqRegister {
    NmreqRegister { nr_tx_slots: 64, nr_rx_slots: 64, ..all() }
}

impl Client<'_> {
    fn bring(&mut self, pages: &OwnedFd) {
        self.memory.pages = Some(pages.try_clone().unwrap());
    }

    /// Binds the port; returns the result, and the option as the call has written it back.
    fn register_in(
        &mut self,
        name: &str,
        wish: &NmreqRegister,
        option: &NmreqOptExtmem,
    ) -> (Result<NmreqRegister, Errno>, NmreqOptExtmem) {
        self.memory.put(BODY, wish);
        self.memory.put(OPTIONS, option);
        let request = NmreqHeader { nr_options: OPTIONS, ..header(name, NETMAP_REQ_REGISTER) };
        let done = self.control(&request);
        (done.map(|_| self.memory.get(BODY)), self.memory.get(OPTIONS))
    }

    fn view(&self, dir: TxRx) -> RingView {
        self.open.bound.get().unwrap().port.ring(dir, 0).unwrap().clone()
    }
}

fn read<T: PlainData>(file: &OwnedFd, at: u64) -> T {
    let mut bytes = vec![0; T::SIZE];
    rustix::io::pread(file, &mut bytes, at).unwrap();
    T::read_from(&bytes).unwrap()
}

#[test]
fn everything_lies_in_the_programs_pages_and_counts_from_the_first() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let mut client = world.open();
    client.bring(&pages);
    let at = NmreqOptExtmem { nro_usrptr: SHARED + 4 * MIB, ..option(4 * MIB) };
    let (got, notified) = client.register_in("vale0:a", &short(), &at);
    let got = got.unwrap();
    assert_eq!(notified.nro_opt.nro_status, 0);
    assert!(got.nr_memsize <= 4 * MIB && got.nr_mem_id > 1);
    let record: NetmapIf = read(&pages, 4 * MIB + got.nr_offset);
    assert_eq!((record.ni_tx_rings, &record.ni_name[..8]), (1, &b"vale0:a\0"[..]));
    let ofs: i64 = read(&pages, 4 * MIB + got.nr_offset + NETMAP_IF_RING_OFS as u64);
    let ring: NetmapRing = read(&pages, (4 * MIB + got.nr_offset).wrapping_add_signed(ofs));
    assert_eq!((ring.num_slots, ring.tail), (64, 63));
}

#[test]
fn what_is_brought_counts_in_whole_pages_and_so_does_what_is_told_of_it() {
    let world = World::new();
    let notified = |bytes: u64| {
        let pages = file(4 * MIB);
        let mut client = world.open();
        client.bring(&pages);
        let (got, notified) = client.register_in("vale0:a", &short(), &option(bytes));
        let got = got.unwrap();
        assert_eq!(got.nr_memsize, notified.nro_info.nr_memsize, "{bytes}");
        (got.nr_memsize, notified.nro_info.nr_buf_pool_objtotal)
    };
    let (bytes, bufs) = notified(4 * MIB);
    assert!(bytes % 4096 == 0 && bytes <= 4 * MIB && bytes > u64::from(bufs) * BUF, "{bytes}");
    assert_eq!(notified(4 * MIB - 4095), (bytes, bufs), "a page that was begun is used whole");
    let (fewer, less) = notified(3 * MIB + 1);
    assert!(fewer % 4096 == 0 && less < bufs, "{fewer} {less}");
}

#[test]
fn sizes_that_are_not_said_are_those_of_private_memories_and_are_told() {
    let (world, pages) = (World::new(), file(32 * MIB));
    let mut client = world.open();
    client.bring(&pages);
    let (got, notified) = client.register_in("vale0:a", &short(), &option(32 * MIB));
    got.unwrap();
    let info = notified.nro_info;
    assert_eq!((info.nr_if_pool_objtotal, info.nr_if_pool_objsize), (2, 1024));
    assert_eq!((info.nr_ring_pool_objtotal, info.nr_ring_pool_objsize), (4, 20_480));
    assert_eq!((info.nr_buf_pool_objtotal, info.nr_buf_pool_objsize), (4098, BUF_SIZE));
    assert!(info.nr_buf_pool_offset > info.nr_ring_pool_offset);
    assert!(info.nr_memsize > 4098 * BUF && info.nr_memsize <= 32 * MIB);
}

#[test]
fn sizes_that_are_said_hold_and_buffers_are_as_many_as_fit() {
    let (world, pages) = (World::new(), file(MIB));
    let mut client = world.open();
    client.bring(&pages);
    let mut wish = option(MIB);
    wish.nro_info.nr_ring_pool_objtotal = 8;
    wish.nro_info.nr_ring_pool_objsize = 4096;
    wish.nro_info.nr_buf_pool_objtotal = 100_000;
    wish.nro_info.nr_buf_pool_objsize = 4096;
    let (got, notified) = client.register_in("vale0:a", &short(), &wish);
    got.unwrap();
    let info = notified.nro_info;
    assert_eq!((info.nr_ring_pool_objtotal, info.nr_ring_pool_objsize), (8, 4096));
    assert_eq!(info.nr_buf_pool_objsize, 4096);
    assert!((200..=256).contains(&info.nr_buf_pool_objtotal), "{info:?}");
}

#[test]
fn what_cannot_be_is_refused_by_name_and_nothing_is_bound() {
    let (world, pages) = (World::new(), file(4 * MIB));
    let right = option(4 * MIB);
    let with = |change: fn(&mut NmreqOptExtmem)| {
        let mut option = right;
        change(&mut option);
        option
    };
    let cases = [
        (with(|o| o.nro_info.nr_memsize = 0), Errno::INVAL),
        (with(|o| (o.nro_usrptr, o.nro_info.nr_memsize) = (SHARED + 8, MIB)), Errno::INVAL),
        (with(|o| o.nro_info.nr_ring_pool_objsize = 1 << 20), Errno::INVAL),
        (with(|o| o.nro_info.nr_if_pool_objsize = 8), Errno::INVAL),
        (with(|o| o.nro_info.nr_buf_pool_objsize = 1000), Errno::INVAL),
        (with(|o| o.nro_info.nr_buf_pool_objtotal = 2), Errno::INVAL),
        (with(|o| o.nro_info.nr_memsize = 5 * MIB), Errno::FAULT),
        (with(|o| o.nro_info.nr_memsize = u64::MAX), Errno::FAULT),
        (with(|o| o.nro_info.nr_memsize = 8192), Errno::NOMEM),
        (with(|o| o.nro_usrptr = BASE), Errno::OPNOTSUPP),
    ];
    for (option, wanted) in cases {
        let mut client = world.open();
        client.bring(&pages);
        let (got, notified) = client.register_in("vale0:a", &short(), &option);
        let status = Errno::from_raw_os_error(notified.nro_opt.nro_status as i32);
        assert_eq!((got.err(), status), (Some(wanted), wanted), "{option:?}");
        assert_eq!(client.ioctl(NIOCTXSYNC), Err(Errno::NXIO));
        assert_eq!(notified.nro_info, option.nro_info, "only heads are written back");
    }
}

#[test]
fn the_same_pages_are_the_same_memory() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let bind = |name, at| {
        let mut client = world.open();
        client.bring(&pages);
        let option = NmreqOptExtmem { nro_usrptr: SHARED + at, ..option(4 * MIB) };
        let got = client.register_in(name, &short(), &option).0.unwrap();
        (client, got.nr_mem_id)
    };
    let (_a, first) = bind("vale0:a", 0);
    let (_b, second) = bind("vale0:b", 0);
    let (_c, third) = bind("vale0:c", 4 * MIB);
    assert_eq!(first, second);
    assert_ne!(first, third);
}

#[test]
fn pages_that_overlap_those_of_a_memory_are_refused_until_it_is_freed() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let bind = |name, at, bytes| {
        let mut client = world.open();
        client.bring(&pages);
        let option = NmreqOptExtmem { nro_usrptr: SHARED + at, ..option(bytes) };
        let (got, option) = client.register_in(name, &short(), &option);
        got.map(|_| (client, option.nro_info.nr_memsize))
    };
    let (first, size) = bind("vale0:a", 2 * MIB, 4 * MIB).unwrap();
    assert_eq!(size, 4 * MIB);
    for (at, len) in [(2, 2), (2, 6), (0, 3), (3, 1), (5, 2), (0, 8)] {
        let got = bind("vale0:b", at * MIB, len * MIB);
        assert_eq!(got.err(), Some(Errno::BUSY), "{len} MiB from {at} MiB on");
    }
    let _beside =
        [bind("vale0:c", 0, 2 * MIB).unwrap(), bind("vale0:d", 6 * MIB, 2 * MIB).unwrap()];
    drop(first);
    assert_eq!(bind("vale0:b", 2 * MIB, 2 * MIB).unwrap().1, 2 * MIB);
}

#[test]
fn who_has_not_brought_it_does_not_bind_in_it_but_by_its_number() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let mut client = world.open();
    client.bring(&pages);
    let id = client.register_in("x{1", &short(), &option(8 * MIB)).0.unwrap().nr_mem_id;
    assert_eq!(world.open().register("x}1", &short()), Err(Errno::OPNOTSUPP));
    let request = NmreqRegister { nr_mem_id: id, ..short() };
    assert_eq!(world.open().register("x}1", &request).unwrap().nr_mem_id, id);
}

#[test]
fn frames_pass_between_ports_in_and_outside_of_it() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let (mut inside, outside) = (world.open(), world.bound("vale0:b"));
    inside.bring(&pages);
    inside.register_in("vale0:a", &short(), &option(8 * MIB)).0.unwrap();
    let (tx, rx) = (inside.view(TxRx::Tx), outside.view(TxRx::Rx));
    let slot = tx.slot(0);
    tx.region().copy_in(slot.buf, &[0xff; 60]);
    tx.set_slot(0, slipring_ring::Slot { len: 60, ..slot });
    tx.advance_to(1);
    inside.ioctl(NIOCTXSYNC).unwrap();
    let mut outside = outside;
    outside.ioctl(NIOCRXSYNC).unwrap();
    let (mut bytes, got) = ([0; 60], rx.slot(0));
    rx.region().copy_out(got.buf, &mut bytes);
    assert_eq!((rx.tail(), got.len, bytes), (1, 60, [0xff; 60]));
}

#[test]
fn pages_that_are_taken_away_end_their_port_and_no_other() {
    let (world, pages) = (World::new(), file(8 * MIB));
    let (mut inside, mut outside) = (world.open(), world.bound("vale0:b"));
    inside.bring(&pages);
    inside.register_in("vale0:a", &short(), &option(8 * MIB)).0.unwrap();
    ftruncate(&pages, 0).unwrap();
    outside.view(TxRx::Tx).advance_to(3);
    assert_eq!(outside.ioctl(NIOCTXSYNC), Ok(0));
    assert_eq!(inside.ioctl(NIOCTXSYNC), Err(Errno::IO));
    assert_eq!(inside.ioctl(NIOCRXSYNC), Err(Errno::IO));
    assert!(inside.poll(PollEvents::IN | PollEvents::OUT).intersects(PollEvents::ERR));
    drop(inside);
    ftruncate(&pages, 8 << 20).unwrap();
    let mut again = world.open();
    again.bring(&pages);
    assert!(again.register_in("vale0:a", &short(), &option(8 * MIB)).0.is_ok());
}
