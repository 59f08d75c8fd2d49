//! A card emulated by QEMU, a port on it, and the other end of its cable.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use slipring_drivers::{CardControl, CardStatus, NicSetup, SettingRefusal, open_port};
use slipring_pci::Bar;
use slipring_pci::qtest::QtestMachine;
use slipring_port::{Interest, OpenOptions, Port, RunError, WaitOutcome, WaitStrategy, Waiter};
use slipring_ring::{Geometry, Region, SlotFlags, TxRing};
use slipring_test_support::skip;
use tempfile::TempDir;

use crate::watched::{Accesses, Watched};

/// The slot of the card on bus 0.
pub(crate) const SLOT: u8 = 4;
/// Number of slots per ring. It is small, so that rings wrap.
pub(crate) const SLOTS: u32 = 64;
/// Maximum time to wait for an expected event. Only reached if a test fails.
const TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const MAC: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
pub(crate) const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];
pub(crate) const BROADCAST: [u8; 6] = [0xff; 6];

/// A card, its port, and the other end of its cable.
pub(crate) struct Card {
    pub(crate) port: Port,
    /// The other end of the cable: a socket on which each datagram is a frame.
    wire: UnixDatagram,
    peer: PathBuf,
    monitor: UnixStream,
    region: Arc<Region>,
    options: OpenOptions,
    control: Arc<CardControl>,
    /// The driver's accesses since the port was opened.
    accesses: Arc<Accesses>,
    machine: QtestMachine,
    _dir: TempDir,
}

impl Card {
    /// Starts QEMU with this device and opens a port on it. Returns `None` without QEMU; the test
    /// is then skipped.
    pub(crate) fn open(device: &str) -> Option<Self> {
        Self::open_with(device, OpenOptions { slots: SLOTS, ..OpenOptions::default() })
    }

    pub(crate) fn open_with(device: &str, options: OpenOptions) -> Option<Self> {
        let qemu = qemu()?;
        let dir = tempfile::tempdir().unwrap();
        let [card, wire, monitor] = ["card", "wire", "monitor"].map(|name| dir.path().join(name));
        let socket = UnixDatagram::bind(&wire).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        let mac = MAC.map(|byte| format!("{byte:02x}")).join(":");
        let netdev = format!(
            "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            card.display(),
            wire.display()
        );
        let words = [
            "-netdev",
            &netdev,
            "-device",
            &format!("{device},netdev=net,mac={mac},addr={SLOT}"),
            "-qmp",
            &format!("unix:{},server=on,wait=off", monitor.display()),
        ];
        let machine = QtestMachine::start(&qemu, &words.map(str::to_owned)).unwrap();
        let geometry = Geometry { ring_bytes: 1 << 20, bufs: 1024, buf_size: 2048 };
        let region = machine.region(geometry).unwrap();
        let control = Arc::default();
        let (port, accesses) = open_on(&machine, &region, &options, &control);
        let monitor = UnixStream::connect(&monitor).unwrap();
        let (wire, peer) = (socket, card);
        let card = Self {
            port,
            wire,
            peer,
            monitor,
            region,
            options,
            control,
            accesses,
            machine,
            _dir: dir,
        };
        card.order("qmp_capabilities", "{}");
        Some(card)
    }

    /// Closes the port, checks that all buffers of the region are free again, and opens another
    /// port.
    pub(crate) fn reopen(&mut self) {
        self.port.queues.clear();
        // Two buffers of the region are reserved and thus never free.
        assert_eq!(self.region.free_bufs(), self.region.num_bufs() - 2);
        self.control = Arc::default();
        (self.port, self.accesses) =
            open_on(&self.machine, &self.region, &self.options, &self.control);
    }

    /// Pulls the cable, or plugs it in.
    pub(crate) fn set_link(&self, up: bool) {
        self.order("set_link", &format!(r#"{{"name": "net", "up": {up}}}"#));
    }

    /// Requests a change of the port's settings, and syncs the port until the request is answered.
    pub(crate) fn set(&mut self, change: &str) -> Result<CardStatus, SettingRefusal> {
        let (control, change) = (self.control.clone(), change.parse().unwrap());
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || control.request(change));
            while !asked.is_finished() {
                self.port.rx_sync().unwrap();
                std::thread::yield_now();
            }
            asked.join().unwrap()
        })
    }

    /// Returns how often the driver has written to a register since the port was opened.
    pub(crate) fn register_writes(&self) -> u64 {
        self.accesses.writes.load(Ordering::Relaxed)
    }

    /// Returns a base address register that the driver uses.
    pub(crate) fn bar(&self, index: u8) -> Bar {
        let bars = self.accesses.bars.lock().unwrap();
        bars.iter().find(|(number, _)| *number == index).unwrap().1.clone()
    }

    /// Kills QEMU, so that the card is gone.
    pub(crate) fn remove(&self) {
        self.machine.kill();
    }

    fn order(&self, command: &str, arguments: &str) {
        let order = format!(r#"{{"execute": "{command}", "arguments": {arguments}}}"#);
        (&self.monitor).write_all(order.as_bytes()).unwrap();
        let mut lines = BufReader::new(&self.monitor).lines();
        while !lines.next().unwrap().unwrap().contains("\"return\"") {}
    }

    /// Sends frames, at most a ring at a time, and returns the frames on the wire up to the last
    /// frame sent.
    pub(crate) fn send_and_watch(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.send_and_watch_until(frames, &frames[frames.len() - 1])
    }

    /// Sends frames, and returns the frames on the wire up to the frame `last`.
    pub(crate) fn send_and_watch_until(&mut self, frames: &[Vec<u8>], last: &[u8]) -> Vec<Vec<u8>> {
        let wire = self.wire.try_clone().unwrap();
        std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut seen = Vec::new();
                while seen.last().is_none_or(|frame| frame != last) {
                    seen.push(take_from(&wire));
                }
                seen
            });
            self.send(frames);
            watch.join().unwrap()
        })
    }

    fn send(&mut self, frames: &[Vec<u8>]) {
        let mut sent = 0;
        while sent < frames.len() {
            let tx = self.port.queues[0].rings().tx;
            sent += frames[sent..].iter().take_while(|frame| tx.push(frame)).count();
            self.port.tx_sync().unwrap();
            self.wait(Interest::TX);
        }
        self.drain_tx();
    }

    /// Waits until no frame is left in the card.
    pub(crate) fn drain_tx(&mut self) {
        self.wait_until(Interest::TX, |port| port.stats().in_flight == 0);
    }

    /// Sleeps until the port has frames or slots for `interest`.
    fn wait(&mut self, interest: Interest) {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        let woken = waiter.wait_ports(&mut [&mut self.port], interest, Some(TIMEOUT)).unwrap();
        assert_eq!(woken, WaitOutcome::Ready);
    }

    /// Syncs until `is_done` returns true.
    pub(crate) fn wait_until(
        &mut self,
        interest: Interest,
        mut is_done: impl FnMut(&mut Port) -> bool,
    ) {
        let start = std::time::Instant::now();
        while !is_done(&mut self.port) {
            assert!(start.elapsed() < TIMEOUT, "{:?}", self.port.stats());
            self.sync(interest).unwrap();
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub(crate) fn sync(&mut self, interest: Interest) -> Result<(), RunError> {
        if interest.tx {
            self.port.tx_sync()?;
        }
        self.port.rx_sync()
    }

    /// Sleeps as a program that only receives, until the port ends; returns the error.
    pub(crate) fn wait_for_end(&mut self) -> RunError {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        waiter.wait_ports(&mut [&mut self.port], Interest::RX, Some(TIMEOUT)).unwrap_err()
    }

    /// Calls `fill` and syncs, without a sleep, until the port ends; returns the error.
    pub(crate) fn sync_until_it_ends(&mut self, mut fill: impl FnMut(&mut TxRing)) -> RunError {
        let start = std::time::Instant::now();
        loop {
            fill(self.port.queues[0].rings().tx);
            if let Err(error) = self.port.tx_sync() {
                return error;
            }
            assert!(start.elapsed() < TIMEOUT);
        }
    }

    /// Puts frames on the wire and returns the frames that the port receives. Sleeps while no frame
    /// arrives.
    pub(crate) fn receive(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        self.receive_some(frames, frames.len())
    }

    /// Puts frames on the wire, and returns `count` frames that the port receives.
    pub(crate) fn receive_some(&mut self, frames: &[Vec<u8>], count: usize) -> Vec<Vec<u8>> {
        self.wait_for_link(true);
        let wire = self.wire.try_clone().unwrap();
        let (peer, mut received) = (self.peer.clone(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| frames.iter().for_each(|frame| put(&wire, frame, &peer)));
            while received.len() < count {
                self.wait(Interest::RX);
                received.extend(self.take());
            }
        });
        received
    }

    /// Sleeps until the port has noticed that its link is up, or down if `up` is false.
    pub(crate) fn wait_for_link(&mut self, up: bool) {
        let mut waiter = Waiter::for_ports([&self.port], WaitStrategy::Sleep).unwrap();
        let start = std::time::Instant::now();
        while self.port.queues[0].is_link_down() == up {
            assert!(start.elapsed() < TIMEOUT, "the link is up: {}", !up);
            // `wait_ports` waits for frames, so a change of the link does not make it return. So it
            // gets a short time limit, after which the loop checks the link.
            let short = Some(Duration::from_millis(50));
            waiter.wait_ports(&mut [&mut self.port], Interest::RX, short).unwrap();
        }
    }

    /// Takes all frames from the rx ring.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        let mut continues = false;
        let rx = self.port.queues[0].rings().rx;
        rx.drain_by_value(u32::MAX, |shared, flags| {
            let mut bytes = vec![0; shared.len()];
            shared.copy_out(&mut bytes);
            match frames.last_mut() {
                Some(frame) if continues => frame.extend(bytes),
                _ => frames.push(bytes),
            }
            continues = flags.has(SlotFlags::MOREFRAG);
        });
        frames
    }

    /// Puts frames on the wire.
    pub(crate) fn put(&self, frames: &[Vec<u8>]) {
        frames.iter().for_each(|frame| put(&self.wire, frame, &self.peer));
    }

    /// Returns the next `count` frames on the wire.
    pub(crate) fn on_wire(&self, count: usize) -> Vec<Vec<u8>> {
        (0..count).map(|_| take_from(&self.wire)).collect()
    }
}

fn take_from(wire: &UnixDatagram) -> Vec<u8> {
    let mut bytes = vec![0; 65_536];
    let len = wire.recv(&mut bytes).unwrap();
    bytes.truncate(len);
    bytes
}

/// Opens a port on the card. Returns it, and what is known of its driver's accesses.
fn open_on(
    machine: &QtestMachine,
    region: &Arc<Region>,
    options: &OpenOptions,
    control: &Arc<CardControl>,
) -> (Port, Arc<Accesses>) {
    let setup = NicSetup::new("vfio:00:04.0", region, options);
    let setup = NicSetup { control: Some(control), ..setup };
    let device = Watched::new(machine.device(SLOT).unwrap(), |_, _, _| {});
    let accesses = device.accesses();
    (open_port(Box::new(device), &setup).unwrap(), accesses)
}

fn put(wire: &UnixDatagram, frame: &[u8], peer: &Path) {
    wire.send_to(frame, peer).unwrap();
}

/// Returns `count` frames to `destination`, of many lengths. Each contains its index.
pub(crate) fn frames(count: usize, destination: [u8; 6]) -> Vec<Vec<u8>> {
    let frame = |i: usize| {
        let mut frame = [&destination[..], &[2, 0, 0, 0, 0, 1, 0x88, 0xb5]].concat();
        frame.extend_from_slice(&(i as u32).to_be_bytes());
        frame.resize(60 + (i * 97) % 1455, i as u8);
        frame
    };
    (0..count).map(frame).collect()
}

/// Returns the path of QEMU: SLIPRING_QEMU, or the one that `make qemu` fetches. `None` if it does
/// not exist.
pub(crate) fn qemu() -> Option<PathBuf> {
    let fetched = || {
        // A relative target directory is relative to the workspace.
        let target = option_env!("CARGO_TARGET_DIR").unwrap_or("target");
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(target)
            .join("qemu/qemu-system-x86_64")
    };
    let path = std::env::var_os("SLIPRING_QEMU").map_or_else(fetched, PathBuf::from);
    if !path.exists() {
        skip!("no QEMU at {}: make qemu", path.display());
        return None;
    }
    Some(path)
}
