//! Tests of a daemon and a program that take turns with the sending side of one queue.

use std::cell::RefCell;
use std::rc::Rc;

use slipring_ring::{DeviceMapping, KernRing, TxRing};

use super::*;
use crate::nic::ownership::{CorruptWords, SyncOwnership};
use crate::nic::{ResumableTxRings, TxDescriptorRings};

const FEW_SLOTS: u32 = 8;

/// The kernel's rings: all that was ever queued and completed, and the published position of each
/// ring.
#[derive(Default)]
struct KernelTx {
    queued: Vec<BufIdx>,
    completed: Vec<BufIdx>,
    /// Number of completions that were read.
    consumer: u32,
}

impl KernelTx {
    /// Makes the kernel complete those of its frames that have these indices.
    fn complete(&mut self, at: impl IntoIterator<Item = usize>) {
        let times = |list: &[BufIdx], buf| list.iter().filter(|&&one| one == buf).count();
        let mut open: Vec<BufIdx> = Vec::new();
        for &buf in &self.queued {
            let is_open = times(&self.queued, buf) > times(&self.completed, buf);
            if is_open && !open.contains(&buf) {
                open.push(buf);
            }
        }
        self.completed.extend(at.into_iter().map(|i| open[i]));
    }
}

/// The ends of both rings that one party holds.
struct QueuePairEnds {
    kernel: Rc<RefCell<KernelTx>>,
    pending: Vec<BufIdx>,
    positions: [u32; 2],
}

impl QueuePairEnds {
    fn new(kernel: &Rc<RefCell<KernelTx>>) -> Self {
        let positions = [kernel.borrow().queued.len() as u32, kernel.borrow().consumer];
        Self { kernel: kernel.clone(), pending: Vec::new(), positions }
    }
}

impl TxDescriptorRings for QueuePairEnds {
    fn max_part(&self) -> u32 {
        BUF_SIZE - 256
    }
    fn has_tail(&self, _buf: BufIdx) -> bool {
        false
    }
    fn has_room(&mut self, _count: u32) -> bool {
        true
    }
    fn push(&mut self, buf: BufIdx, _at: u32, _len: u32, _more: bool) {
        self.pending.push(buf);
    }
    fn push_tail(&mut self, _buf: BufIdx, _len: u32, _more: bool) {
        unreachable!("there is none")
    }
    fn publish(&mut self) {
        self.positions[0] += self.pending.len() as u32;
        self.kernel.borrow_mut().queued.append(&mut self.pending);
    }
    fn refresh_completed(&mut self) -> u32 {
        self.kernel.borrow().completed.len() as u32 - self.positions[1]
    }
    fn peek_completed(&self, i: u32) -> BufIdx {
        self.kernel.borrow().completed[(self.positions[1] + i) as usize]
    }
    fn release_completed(&mut self, count: u32) {
        self.positions[1] += count;
        self.kernel.borrow_mut().consumer = self.positions[1];
    }
}

impl ResumableTxRings for QueuePairEnds {
    fn resume_queued(&mut self) -> Result<u32, CorruptWords> {
        let now = self.kernel.borrow().queued.len() as u32;
        Ok(now - std::mem::replace(&mut self.positions[0], now))
    }
    fn resume_completed(&mut self) -> Result<u32, CorruptWords> {
        let now = self.kernel.borrow().consumer;
        Ok(now - std::mem::replace(&mut self.positions[1], now))
    }
    fn positions(&self) -> [u32; 2] {
        self.positions
    }
}

/// The program's side: it accesses the daemon's memory by a mapping of its own.
fn programs(region: &Arc<Region>, ring: u64, counters: &Arc<QueueCounters>) -> TxSide {
    let file = region.fd().try_clone_to_owned().unwrap();
    let mapping = DeviceMapping::new(file, region.size()).unwrap();
    let foreign = mapping.into_region(region.data_start(), BUF_SIZE).unwrap();
    let limits = TxLimits { packet: 1514, chains: false, enabled: true };
    let ring = KernRing::attach(&foreign, ring, FEW_SLOTS).unwrap();
    TxSide::attach(ring, limits, counters.clone())
}

fn queue(app: &mut TxRing, frames: u32) {
    assert!(app.avail() >= frames, "as many slots are free");
    (0..frames).for_each(|i| app.set(i, 60, SlotFlags::default()));
    app.advance(frames);
}

fn sync(side: &mut TxSide, ends: &mut QueuePairEnds) {
    side.sync(ends, |_, _| Ok(())).unwrap();
}

#[test]
fn a_program_takes_back_what_the_daemon_has_sent_and_the_daemon_what_the_program_has() {
    let geometry = Geometry { ring_bytes: 1 << 16, bufs: 4 * FEW_SLOTS, buf_size: BUF_SIZE };
    let region = Region::create_shared(geometry, HugePages::Never).unwrap();
    let before = region.free_bufs();
    let mut halves = RingHalves::<Tx>::create(&region, 0, FEW_SLOTS).unwrap();
    let app = &mut halves.app;
    let (kernel, counters) = (Rc::<RefCell<KernelTx>>::default(), Arc::<QueueCounters>::default());
    let limits = TxLimits { packet: 1514, chains: false, enabled: true };
    let mut host = TxSide::new(halves.kern, limits, counters.clone());
    let mut host_ends = QueuePairEnds::new(&kernel);
    let mut turns = SyncOwnership::new(&region).unwrap();

    // After these steps the ring is full, and its `hwcur` and tail are both 0, as in a new rx ring.
    queue(app, 1);
    sync(&mut host, &mut host_ends);
    kernel.borrow_mut().complete([0]);
    sync(&mut host, &mut host_ends);
    queue(app, FEW_SLOTS - 1);
    sync(&mut host, &mut host_ends);
    let anchors = host.ring_anchors(&host_ends);

    let mut program = programs(&region, app.offset(), &counters);
    let mut ends = QueuePairEnds::new(&kernel);
    kernel.borrow_mut().complete([3, 1, 6, 0]);
    assert_eq!(program.resume_delegated(&mut ends, anchors, true), Ok(true));
    sync(&mut program, &mut ends);
    assert_eq!(app.avail(), 4, "what the daemon has sent");
    queue(app, 2);
    assert_eq!(program.resume_delegated(&mut ends, anchors, false), Ok(true));
    sync(&mut program, &mut ends);

    kernel.borrow_mut().complete([4, 2, 0, 1, 3]);
    host.resync(&mut host_ends, &mut turns).unwrap();
    sync(&mut host, &mut host_ends);
    assert_eq!((app.avail(), host.packets_out()), (FEW_SLOTS - 1, 0));
    assert_eq!(counters.snapshot().strays, 0, "each completion was expected");

    // Both of the kernel's rings have moved when the program resumes.
    queue(app, 1);
    sync(&mut host, &mut host_ends);
    kernel.borrow_mut().complete([0]);
    sync(&mut host, &mut host_ends);
    let anchors = host.ring_anchors(&host_ends);
    assert_eq!(program.resume_delegated(&mut ends, anchors, false), Ok(true));
    sync(&mut program, &mut ends);
    assert_eq!((app.avail(), counters.snapshot().strays), (FEW_SLOTS - 1, 0));

    // A program does not touch slots that only the daemon may handle.
    queue(app, 1);
    app.set(0, 0, SlotFlags::default());
    app.advance(1);
    assert_eq!(program.resume_delegated(&mut ends, anchors, false), Ok(false));
    assert_eq!(kernel.borrow().queued.len(), 11, "nothing was sent");

    drop((program, host, halves.app));
    assert_eq!(region.free_bufs(), before, "the buffers are the daemon's to free, once");
}
