//! Tests with small clients: each makes calls as a program would, and has its own simulated memory.

mod attaches;
mod binds;
mod controls;
mod externals;
mod forwards;
mod hostile;
mod joints;
mod legacies;
mod loops;
mod monitors;
mod nic_restarts;
mod offsets;
mod polls;
mod restarts;
mod sleepers;
mod switches;
mod vale_requests;

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipring_abi::*;
use slipring_ring::BUF_SIZE;
use slipring_test_support::TIMEOUT;

use crate::types::lock::lock;
use crate::*;

/// A provider that has no ports.
#[derive(Debug)]
struct Nothing;

impl Provider for Nothing {
    fn find(&self, _: &AdapterRequest<'_>) -> Result<Arc<dyn Adapter>, Errno> {
        Err(Errno::NXIO)
    }
}

/// Records the handles that were notified.
#[derive(Debug, Default)]
struct RecordedWakes(Mutex<Vec<u64>>);

impl Notify for RecordedWakes {
    fn notify(&self, handle: u64) {
        lock(&self.0).push(handle);
    }
}

/// The distance between two buffers.
const BUF: u64 = BUF_SIZE as u64;

/// The memory of a program: 64 KiB from `BASE` on.
struct ProgramMemory {
    bytes: Vec<u8>,
    /// Memory from `SHARED` on, which others can map.
    pages: Option<OwnedFd>,
    /// The program's eventfds, by their descriptor numbers.
    events: Vec<OwnedFd>,
    cancel: Option<Arc<Cancel>>,
}

const BASE: u64 = 0x1_0000;
/// Where the tests place bodies and options.
const BODY: u64 = BASE + 0x100;
const OPTIONS: u64 = BASE + 0x1000;
const SHARED: u64 = 0x4000_0000;

impl ProgramMemory {
    fn new() -> Self {
        Self { bytes: vec![0; 1 << 16], pages: None, events: Vec::new(), cancel: None }
    }

    fn range(&self, addr: u64, len: usize) -> Result<std::ops::Range<usize>, Errno> {
        let start = addr.checked_sub(BASE).ok_or(Errno::FAULT)? as usize;
        let end = start.checked_add(len).filter(|&end| end <= self.bytes.len());
        end.map(|end| start..end).ok_or(Errno::FAULT)
    }

    fn put<T: PlainData>(&mut self, addr: u64, value: &T) {
        self.write(addr, &crate::memory::caller::bytes_of(value)).unwrap();
    }

    fn get<T: PlainData>(&mut self, addr: u64) -> T {
        crate::memory::caller::read_plain(self, addr).unwrap()
    }
}

impl CallerMemory for ProgramMemory {
    fn read(&mut self, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        let range = self.range(addr, out.len())?;
        out.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<(), Errno> {
        let range = self.range(addr, bytes.len())?;
        self.bytes[range].copy_from_slice(bytes);
        Ok(())
    }

    fn shared(&mut self, addr: u64, len: u64) -> Result<SharedPages, Errno> {
        let Some(at) = addr.checked_sub(SHARED) else { return Err(Errno::OPNOTSUPP) };
        let pages = self.pages.as_ref().ok_or(Errno::FAULT)?;
        let stat = rustix::fs::fstat(pages).unwrap();
        let inside = at.checked_add(len).is_some_and(|end| end <= stat.st_size as u64);
        let file = pages.try_clone().unwrap();
        let identity = (stat.st_dev, stat.st_ino);
        inside.then_some(SharedPages { file, identity, offset: at, page: 4096 }).ok_or(Errno::FAULT)
    }

    fn eventfd(&mut self, number: i32) -> Result<OwnedFd, Errno> {
        let own = self.events.get(number as usize).ok_or(Errno::BADF)?;
        Ok(own.try_clone().unwrap())
    }

    fn cancel(&self) -> Option<Arc<Cancel>> {
        self.cancel.clone()
    }
}

/// State that programs share: a host, a user's domain, a record of wake-ups.
struct World {
    netmap: Netmap,
    domain: Arc<Domain>,
    notified: Arc<RecordedWakes>,
}

impl World {
    fn new() -> Self {
        Self::with(MemoryParams::default())
    }

    fn with(params: MemoryParams) -> Self {
        let domain = Domain::new(0, params).unwrap();
        Self { netmap: Netmap::new(Box::new(Nothing)), domain, notified: Arc::default() }
    }

    fn open(&self) -> Client<'_> {
        let opener = Opener { netns: 1, netns_fd: None, gids: Vec::new() };
        let open = self.netmap.open(self.domain.clone(), opener, self.notified.clone());
        Client { world: self, open, memory: ProgramMemory::new() }
    }

    /// Returns a client that has bound all rings of the port `name`, except host rings.
    fn bound(&self, name: &str) -> Client<'_> {
        let mut client = self.open();
        client.register(name, &all()).unwrap();
        client
    }
}

/// A program with one open file.
struct Client<'w> {
    world: &'w World,
    open: OpenHandle,
    memory: ProgramMemory,
}

/// A bind of all NIC rings, without host rings.
fn all() -> NmreqRegister {
    NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..NmreqRegister::default() }
}

fn header(name: &str, kind: u16) -> NmreqHeader {
    let mut nr_name = [0; NETMAP_REQ_IFNAMSIZ];
    nr_name[..name.len()].copy_from_slice(name.as_bytes());
    NmreqHeader {
        nr_version: NETMAP_API,
        nr_reqtype: kind,
        nr_name,
        nr_body: BODY,
        ..NmreqHeader::default()
    }
}

impl Client<'_> {
    fn control(&mut self, header: &NmreqHeader) -> Result<i32, Errno> {
        let mut arg = crate::memory::caller::bytes_of(header);
        self.world.netmap.ioctl(&self.open, NIOCCTRL, &mut arg, &mut self.memory)
    }

    /// Makes a request with a body; returns the answer's body.
    fn ask<T: PlainData>(&mut self, name: &str, kind: u16, body: &T) -> Result<T, Errno> {
        self.memory.put(BODY, body);
        self.control(&header(name, kind))?;
        Ok(self.memory.get(BODY))
    }

    fn register(&mut self, name: &str, wish: &NmreqRegister) -> Result<NmreqRegister, Errno> {
        self.ask(name, NETMAP_REQ_REGISTER, wish)
    }

    fn ioctl(&mut self, cmd: u32) -> Result<i32, Errno> {
        self.world.netmap.ioctl(&self.open, cmd, &mut [], &mut self.memory)
    }

    fn poll(&self, wanted: PollEvents) -> PollEvents {
        self.open.poll(wanted, None, Duration::ZERO)
    }

    /// Reads the file that the program has mapped.
    fn peek<T: PlainData>(&self, at: u64) -> T {
        let mut bytes = vec![0; T::SIZE];
        rustix::io::pread(self.world.domain.file(), &mut bytes, at).unwrap();
        T::read_from(&bytes).unwrap()
    }

    /// Writes to the file that the program has mapped.
    fn poke<T: PlainData>(&self, at: u64, value: &T) {
        rustix::io::pwrite(self.world.domain.file(), &crate::memory::caller::bytes_of(value), at)
            .unwrap();
    }

    /// Returns the offset of a ring in the user's file, or 0 if the ring is not bound. `i` counts
    /// the tx rings, then the host tx, rx and host rx rings.
    fn ring_at(&self, answer: &NmreqRegister, i: u64) -> u64 {
        let ofs: i64 = self.peek(answer.nr_offset + NETMAP_IF_RING_OFS as u64 + 8 * i);
        if ofs == 0 { 0 } else { answer.nr_offset.wrapping_add_signed(ofs) }
    }

    fn ring(&self, at: u64) -> NetmapRing {
        self.peek(at)
    }

    fn slot(&self, ring: u64, i: u32) -> NetmapSlot {
        self.peek(slot_at(ring, i))
    }

    /// Moves head and cur.
    fn advance(&self, ring: u64, to: u32) {
        self.poke(ring + std::mem::offset_of!(NetmapRing, cur) as u64, &to);
        self.move_head(ring, to);
    }

    /// Moves only `head`, as a program does if it moves `cur` later.
    fn move_head(&self, ring: u64, to: u32) {
        self.poke(ring + std::mem::offset_of!(NetmapRing, head) as u64, &to);
    }

    /// Queues a frame of `len` bytes in slot `i` and advances past it.
    fn queue(&self, ring: u64, i: u32, len: u16, flags: u16) {
        let slot = self.slot(ring, i);
        self.poke(slot_at(ring, i), &NetmapSlot { len, flags, ..slot });
        self.advance(ring, (i + 1) % self.ring(ring).num_slots);
    }
}

fn slot_at(ring: u64, i: u32) -> u64 {
    ring + (NETMAP_RING_SLOTS_OFS + i as usize * size_of::<NetmapSlot>()) as u64
}
