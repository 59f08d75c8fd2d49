//! Frames per second through a switch, sender and receivers in one thread, by frame length and
//! number of receivers; and a plain copy of as many bytes, to compare with.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use slipring_abi::*;
use slipring_netmap::{
    Adapter, CallerMemory, Domain, Errno, Netmap, Notify, Open, Opener, Params, Provider, Wanted,
};

#[derive(Debug)]
struct Nothing;

impl Provider for Nothing {
    fn find(&self, _: &Wanted<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

impl Notify for Nothing {
    fn notify(&self, _: u64) {}
}

/// A caller's memory that holds one old request, which needs none.
struct NoMemory;

impl CallerMemory for NoMemory {
    fn read(&mut self, _: u64, _: &mut [u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }

    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Errno> {
        Err(Errno::FAULT)
    }
}

/// A program with a port.
struct Station<'w> {
    netmap: &'w Netmap,
    domain: &'w Domain,
    open: Open,
    tx: u64,
    rx: u64,
}

const BATCH: u32 = 512;
const SLOTS: u32 = 1024;

impl<'w> Station<'w> {
    fn new(netmap: &'w Netmap, domain: &'w Arc<Domain>, name: &str) -> Self {
        let opener = Opener { netns: 1, netns_fd: None, gids: Vec::new() };
        let open = netmap.open(domain.clone(), opener, Arc::new(Nothing));
        let mut request = Nmreq { nr_version: 14, nr_flags: NR_REG_ALL_NIC, ..Nmreq::default() };
        request.nr_name[..name.len()].copy_from_slice(name.as_bytes());
        let mut arg = vec![0; Nmreq::SIZE];
        request.write_to(&mut arg);
        netmap.ioctl(&open, NIOCREGIF, &mut arg, &mut NoMemory).expect("a good name");
        let got = Nmreq::read_from(&arg).expect("what it was");
        let ring = |i: u64| {
            let at = u64::from(got.nr_offset) + NETMAP_IF_RING_OFS as u64 + 8 * i;
            u64::from(got.nr_offset).wrapping_add(read(domain, at))
        };
        Self { netmap, domain, open, tx: ring(0), rx: ring(2) }
    }

    fn ring(&self, at: u64) -> NetmapRing {
        let mut bytes = [0; NetmapRing::SIZE];
        rustix::io::pread(self.domain.file(), &mut bytes, at).expect("the file is there");
        NetmapRing::read_from(&bytes).expect("any bytes are a ring")
    }

    fn advance(&self, ring: u64, to: u32) {
        let both = [to.to_ne_bytes(), to.to_ne_bytes()].concat();
        let at = ring + std::mem::offset_of!(NetmapRing, head) as u64;
        rustix::io::pwrite(self.domain.file(), &both, at).expect("the file is there");
    }

    fn ioctl(&self, cmd: u32) {
        self.netmap.ioctl(&self.open, cmd, &mut [], &mut NoMemory).expect("a bound file");
    }

    /// Writes the same frame to every slot's buffer.
    fn prepare(&self, frame: &[u8]) {
        let ring = self.ring(self.tx);
        for i in 0..SLOTS {
            let slot = self.tx + 256 + u64::from(i) * 16;
            let word = read(self.domain, slot);
            let buf = (self.tx as i64 + ring.buf_ofs) as u64 + (word & 0xffff_ffff) * 2048;
            rustix::io::pwrite(self.domain.file(), frame, buf).expect("the file is there");
            let word = word & 0xffff_ffff | (frame.len() as u64) << 32;
            rustix::io::pwrite(self.domain.file(), &word.to_ne_bytes(), slot).expect("as above");
        }
    }

    fn send(&self) {
        let ring = self.ring(self.tx);
        self.advance(self.tx, (ring.head + BATCH) % SLOTS);
        self.ioctl(NIOCTXSYNC);
    }

    /// Takes what has arrived.
    fn receive(&self) -> u32 {
        let ring = self.ring(self.rx);
        self.advance(self.rx, ring.tail);
        self.ioctl(NIOCRXSYNC);
        (ring.tail + SLOTS - ring.head) % SLOTS
    }
}

fn read(domain: &Domain, at: u64) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::pread(domain.file(), &mut bytes, at).expect("the file is there");
    u64::from_ne_bytes(bytes)
}

fn frame(to: u8, from: u8, len: usize) -> Vec<u8> {
    let mac = |station| if station == 255 { [255; 6] } else { [2, 0, 0, 0, 0, station] };
    let mut bytes = [mac(to), mac(from)].concat();
    bytes.resize(len, 0x55);
    bytes
}

/// Time that this thread has had: others on the machine shall not count.
fn now() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Copies per second, the best of several measurements.
fn measure(receivers: u8, len: usize, to: u8) -> f64 {
    let netmap = Netmap::new(Box::new(Nothing));
    let domain = Domain::new(0, Params::default()).expect("memory");
    let sender = Station::new(&netmap, &domain, "vale0:sender");
    let others: Vec<_> =
        (0..receivers).map(|i| Station::new(&netmap, &domain, &format!("vale0:r{i}"))).collect();
    for (other, id) in others.iter().zip(2..) {
        other.prepare(&frame(255, id, 60));
        other.send();
    }
    sender.receive();
    sender.prepare(&frame(to, 1, len));
    (0..5).map(|_| rate(&sender, &others)).fold(0.0, f64::max)
}

fn rate(sender: &Station<'_>, others: &[Station<'_>]) -> f64 {
    let (start, mut copies) = (now(), 0u64);
    while (now() - start) < Duration::from_millis(200) {
        for _ in 0..50 {
            sender.send();
            copies += others.iter().map(|other| u64::from(other.receive())).sum::<u64>();
        }
    }
    copies as f64 / (now() - start).as_secs_f64()
}

/// Bytes per second of copies between as many buffers as a ring has.
fn memcpy(len: usize) -> f64 {
    let (from, mut to) = (vec![1u8; 2048 * SLOTS as usize], vec![0u8; 2048 * SLOTS as usize]);
    let (start, mut bytes) = (now(), 0);
    while (now() - start) < Duration::from_millis(500) {
        for i in 0..SLOTS as usize {
            let at = i * 2048;
            to[at..at + len].copy_from_slice(&black_box(&from)[at..at + len]);
            bytes += len;
        }
        black_box(&mut to);
    }
    bytes as f64 / (now() - start).as_secs_f64()
}

fn main() {
    for len in [60, 64, 512, 1500] {
        let pps = measure(1, len, 2);
        let copied = pps * len as f64;
        let plain = memcpy(len);
        println!(
            "1 -> 1, {len:4} B: {:6.2} Mpps, {:6.2} GB/s, {:4.2} of a plain copy",
            pps / 1e6,
            copied / 1e9,
            copied / plain
        );
    }
    for receivers in [1, 2, 4, 16] {
        let copies = measure(receivers, 60, 255);
        println!("flood to {receivers:2}, 60 B: {:6.2} million copies/s", copies / 1e6);
    }
}
