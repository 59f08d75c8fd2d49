//! A peer writes arbitrary values into a region between the steps of this party, each of which
//! makes one or more calls. No call may panic, hang, lend bytes of the buffer area, or copy from or
//! to bytes outside it.
#![no_main]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libfuzzer_sys::fuzz_target;
use slipring_ring::{
    BufIdx, Geometry, HugePages, KernRing, PipeEnd, PipePair, Region, RingHalves, Rx, RxRing,
    SharedBuf, SlotFlags, Tx, TxRing, copy, forward,
};

const SLOTS: u32 = 8;
const BUFS: u32 = 96;
const PAGE: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let geometry = Geometry { ring_bytes: 2 * PAGE as u64, bufs: BUFS, buf_size: 2048 };
    let region = Region::create_shared(geometry, HugePages::Never).expect("a small region");
    let mut world = World::new(&region);
    let (steps, _) = data.as_chunks::<8>();
    for &[op, a, b, c, value @ ..] in steps {
        world.step(op, u32::from_le_bytes([a, b, c, 0]), u32::from_le_bytes(value));
    }
});

struct World {
    region: Arc<Region>,
    /// Addresses of the data of all buffers. All bytes that are copied from or to the region must
    /// be inside, and all lent bytes outside.
    bufs: Range<usize>,
    a: PipeEnd,
    b: PipeEnd,
    rx: Half<RxRing>,
    tx: Half<TxRing>,
    scratch: Vec<u8>,
}

struct Half<R> {
    app: R,
    kern: KernRing,
}

impl World {
    fn new(region: &Arc<Region>) -> Self {
        let start = region.base().as_ptr() as usize + region.buf_start() as usize;
        let PipePair { a, b } = PipePair::create(region, 0, SLOTS).expect("room for a pipe");
        let RingHalves { app, kern } =
            RingHalves::<Rx>::create(region, 0, SLOTS).expect("room for a ring");
        let rx = Half { app, kern };
        let RingHalves { app, kern } =
            RingHalves::<Tx>::create(region, 0, SLOTS).expect("room for a ring");
        let tx = Half { app, kern };
        // The data of the first buffer begins 256 bytes into the area, and the data of the last
        // buffer ends 256 bytes after the area.
        let bufs = start + 256..start + 256 + BUFS as usize * 2048;
        Self { region: region.clone(), bufs, a, b, rx, tx, scratch: Vec::new() }
    }

    fn step(&mut self, op: u8, which: u32, value: u32) {
        let count = value % (2 * SLOTS);
        match op % 20 {
            // Writes to the ring area: an arbitrary value, or a value that could be an index.
            0..=2 => self.scribble(which, value),
            3..=5 => self.scribble(which, value % (SLOTS + 2)),
            6 => self.fill(count, value),
            7 => self.push(value % 6000),
            8 => _ = self.a.tx_sync(),
            9 => _ = self.b.rx_sync(),
            10 => self.drain(count),
            11 => self.packet(),
            12 => self.move_on(which, count),
            13 => self.drive_tx(),
            14 => self.drive_rx(count),
            15 => self.slots(which % SLOTS, count, value),
            16 => self.sleep(),
            17 => self.copies(which, value),
            18 => self.attach(which),
            _ => self.remap(which, value),
        }
    }

    fn scribble(&mut self, at: u32, value: u32) {
        let words = (self.region.buf_start() as usize - PAGE) / 4;
        let at = PAGE + 4 * (at as usize % words);
        let word = self.region.base().as_ptr().wrapping_add(at);
        // SAFETY: inside the ring area, which all parties access as atomics.
        unsafe { AtomicU32::from_ptr(word.cast()) }.store(value, Ordering::Relaxed);
    }

    fn fill(&mut self, count: u32, value: u32) {
        let bufs = self.bufs.clone();
        let filled = self.a.tx.fill(count, |buf| {
            overwrite(&bufs, buf, value as u8);
            value as usize % 3000
        });
        assert!(filled <= count);
        self.tx.app.fill(count, |buf| {
            overwrite(&bufs, buf, value as u8);
            60
        });
    }

    fn push(&mut self, len: u32) {
        let frame = vec![7; len as usize];
        self.a.tx.push(&frame);
        self.tx.app.push(&frame);
    }

    fn drain(&mut self, count: u32) {
        for frame in self.b.rx.batch(count).frames() {
            overwrite(&self.bufs, frame.bytes, 1);
        }
        self.b.rx.drain_by_value(count, |bytes, _| spoil(&self.bufs, bytes, 1));
        for frame in self.rx.app.batch(count).frames() {
            overwrite(&self.bufs, frame.bytes, 2);
        }
    }

    fn packet(&mut self) {
        self.b.rx.packet(&mut self.scratch, |bytes| bytes.fill(3));
        self.rx.app.packet(&mut self.scratch, |bytes| bytes.fill(4));
        self.b.rx.whole_packets(u32::MAX);
    }

    fn move_on(&mut self, how: u32, count: u32) {
        let moved = match how % 4 {
            0 => forward(&mut self.b.rx, &mut self.tx.app, count),
            1 => copy(&mut self.b.rx, &mut self.tx.app, count),
            2 => forward(&mut self.rx.app, &mut self.a.tx, count),
            _ => copy(&mut self.rx.app, &mut self.b.tx, count),
        };
        assert!(moved <= count);
    }

    fn drive_tx(&mut self) {
        let kern = &mut self.tx.kern;
        let Ok(head) = kern.released() else { return };
        assert!(head < SLOTS && kern.pending(head) < SLOTS);
        let slots: Vec<u32> = kern.slots(kern.hwcur(), head).map(|(i, _)| i).collect();
        for i in slots {
            spoil(&self.bufs, kern.bytes(i), 5);
            spoil(&self.bufs, kern.payload(i), 5);
        }
        kern.complete_to(head);
        kern.set_tail(kern.prev(head));
    }

    fn drive_rx(&mut self, count: u32) {
        let kern = &mut self.rx.kern;
        let Ok(head) = kern.released() else { return };
        kern.complete_to(head);
        for _ in 0..count.min(kern.free_slots()) {
            let at = kern.hwtail();
            spoil(&self.bufs, kern.buffer(at), 6);
            kern.set(at, 60, SlotFlags(count as u16));
            kern.set_tail(kern.next(at));
        }
    }

    fn slots(&mut self, i: u32, j: u32, value: u32) {
        let rx = &mut self.b.rx;
        assert!(rx.avail() < SLOTS && rx.with_driver() < SLOTS);
        if let Some(frame) = rx.frame(i) {
            overwrite(&self.bufs, frame.bytes, 8);
        }
        rx.write_back(i);
        if let Some(bytes) = rx.bytes(j) {
            spoil(&self.bufs, bytes, 9);
        }
        assert!(rx.buffer(j).is_none(), "nothing of the region is lent");
        rx.exchange(i, j);
        rx.swap(i, &mut self.tx.app, j);
        rx.swap_to_driver(i, &mut self.rx.kern, j % SLOTS, SlotFlags(value as u16));
        if let Ok(buf) = self.region.alloc_owned() {
            let (Ok(buf) | Err(buf)) = rx.replace(i, buf);
            assert!(self.region.release_owned(buf));
        }
        rx.set(j, value as usize, SlotFlags(value as u16));
        rx.for_each_frame(i, j, |bytes, _| assert!(bytes.len() <= 2048));
        rx.advance(j);
    }

    fn sleep(&mut self) {
        self.a.announce_sleep(true, true);
        self.b.announce_sleep(true, true);
        let _ = self.a.tx_sync();
        self.a.wake();
        assert!(self.a.in_flight() < SLOTS && self.a.pending_tx().is_none_or(|head| head < SLOTS));
    }

    fn copies(&mut self, buf: u32, value: u32) {
        let mut out = [0; 4096];
        let buf = if value.is_multiple_of(2) { BufIdx(buf % (BUFS + 2)) } else { BufIdx(value) };
        let len = (value % 4097) as usize;
        let inside = (buf.0 < BUFS).then_some(len.min(2048));
        assert_eq!(self.region.copy_out(buf, &mut out[..len]), inside);
        assert_eq!(self.region.copy_in(buf, &out[..len]), inside);
        self.region.release_bufs([buf]);
    }

    /// Attaches to the pipe at an offset at which there may be no pipe.
    fn attach(&mut self, at: u32) {
        let offset = if at.is_multiple_of(2) { self.a.offset() } else { u64::from(at) * 8 };
        let (mine, peers) = self.a.doorbells();
        let (Ok(mine), Ok(peers)) = (mine.try_clone(), peers.try_clone()) else { return };
        let Ok(mut end) = PipeEnd::attach(&self.region, offset, mine, peers) else { return };
        let _ = end.rx_sync();
        for frame in end.rx.batch(u32::MAX).frames() {
            overwrite(&self.bufs, frame.bytes, 10);
        }
        end.tx.fill(u32::MAX, |_| 60);
        let _ = end.tx_sync();
    }

    /// Maps the region a second time, while one word of the region's header has another value.
    fn remap(&mut self, at: u32, value: u32) {
        let Ok(fd) = self.region.fd().try_clone_to_owned() else { return };
        let at = 4 * u64::from(at % 12);
        let mut right = [0; 4];
        if rustix::io::pread(&fd, &mut right, at) != Ok(4) {
            return;
        }
        let _ = rustix::io::pwrite(&fd, &value.to_ne_bytes(), at);
        let again = fd.try_clone().map(Region::attach);
        let _ = rustix::io::pwrite(&fd, &right, at);
        if let Ok(Ok(other)) = again {
            assert_eq!(
                (other.size(), other.buf_start()),
                (self.region.size(), self.region.buf_start())
            );
            let mut last = [0; 4096];
            assert_eq!(
                other.copy_out(BufIdx(other.num_bufs() - 1), &mut last),
                Some(other.buf_size() as usize)
            );
        }
    }
}

/// Checks that a lent slice is in memory of this process only, and fills it with `value`.
fn overwrite(bufs: &Range<usize>, bytes: &mut [u8], value: u8) {
    let lent = bytes.as_ptr_range();
    assert!(
        bytes.len() <= 2048 && (lent.end as usize <= bufs.start || bufs.end <= lent.start as usize)
    );
    bytes.fill(value);
}

/// Checks that a buffer is in the buffer area, and fills it with `value`.
fn spoil(bufs: &Range<usize>, bytes: SharedBuf<'_>, value: u8) {
    let (start, len) = (bytes.address(), bytes.len());
    assert!(len <= 2048 && bufs.start <= start && start + len <= bufs.end);
    assert_eq!(bytes.copy_in(&[value; 2048]), len);
}
