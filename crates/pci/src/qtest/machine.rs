//! A machine without a running processor, and its RAM.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use slipring_port::nic::dma::DeviceAddress;
use slipring_ring::{Geometry, Region, RegionError};

use super::device::{EventSource, QtestDevice};
use super::session::QtestSession;
use crate::error::PciError;
use crate::memory::{DescriptorMemory, DmaMapper, MemoryRange, PAGE_BYTES};
use crate::sys::mapping::Mapping;

/// Size of the machine's RAM.
pub const RAM_BYTES: u64 = 256 << 20;
/// Offset of a port's region in the RAM.
pub const REGION_OFFSET: u64 = 16 << 20;
/// Offset of descriptors in the RAM.
const DESCRIPTORS_OFFSET: u64 = 192 << 20;
/// The page to which devices write their message-signalled interrupts.
pub(super) const MESSAGES_OFFSET: u64 = 15 << 20;
/// How far the clock advances in a step.
const STEP_NS: u64 = 1_000_000;
/// How long the thread that advances the clock sleeps after each step.
const STEP_INTERVAL: Duration = Duration::from_micros(200);

/// A machine of QEMU. It is killed when this value is dropped.
pub struct QtestMachine {
    shared: Arc<MachineParts>,
    clock: Option<JoinHandle<()>>,
}

/// The state that the machine and its devices share.
pub(super) struct MachineParts {
    session: Mutex<QtestSession>,
    process: Mutex<Child>,
    ram: Arc<OwnedFd>,
    /// The next free address for descriptors.
    next_descriptors: AtomicU64,
    /// The page to which devices write their message-signalled interrupts.
    pub(super) messages: Mapping,
    pub(super) events: Mutex<Vec<EventSource>>,
    has_ended: AtomicBool,
}

impl QtestMachine {
    /// Starts `program` with these additional arguments, such as devices and their netdevs.
    ///
    /// # Errors
    /// [`PciError::System`] if there is no such program, or it is not a QEMU with qtest.
    pub fn start(program: &Path, words: &[String]) -> Result<Self, PciError> {
        let start = || -> io::Result<Self> {
            let ram = ram_file()?;
            let messages = Mapping::of_file(ram.as_fd(), MESSAGES_OFFSET, PAGE_BYTES as usize)?;
            let mut process = command(program, &ram, words).spawn()?;
            let session = QtestSession::start(&mut process);
            let shared = Arc::new(MachineParts {
                session: Mutex::new(session.inspect_err(|_| end(&mut process))?),
                process: Mutex::new(process),
                ram: Arc::new(ram),
                next_descriptors: AtomicU64::new(DESCRIPTORS_OFFSET),
                messages,
                events: Mutex::default(),
                has_ended: AtomicBool::new(false),
            });
            let parts = shared.clone();
            let clock =
                std::thread::Builder::new().name("qtest-clock".into()).spawn(move || {
                    while !parts.has_ended.load(Ordering::Relaxed) && parts.step().is_ok() {
                        std::thread::sleep(STEP_INTERVAL);
                    }
                })?;
            Ok(Self { shared, clock: Some(clock) })
        };
        start().map_err(|source| PciError::system("start QEMU without a guest", source))
    }

    /// Creates the region of a port in the machine's RAM. There can be only one region at a time.
    ///
    /// # Errors
    /// [`RegionError`] if it is too large.
    pub fn region(&self, geometry: Geometry) -> Result<Arc<Region>, RegionError> {
        Region::within(&self.shared.ram, REGION_OFFSET, geometry, Box::new(()))
    }

    /// Returns the device in this slot of bus 0, with addresses for its registers.
    ///
    /// # Errors
    /// [`PciError::Gone`] if the slot is empty.
    pub fn device(&self, slot: u8) -> Result<QtestDevice, PciError> {
        QtestDevice::open(self.shared.clone(), slot)
    }

    /// Kills QEMU, which removes all devices.
    pub fn kill(&self) {
        end(&mut self.shared.process.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for QtestMachine {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
        self.kill();
        if let Some(clock) = self.clock.take() {
            let _ = clock.join();
        }
    }
}

impl MachineParts {
    pub(super) fn session(&self) -> MutexGuard<'_, QtestSession> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Advances the clock, and delivers interrupts.
    fn step(&self) -> io::Result<()> {
        let mut session = self.session();
        session.step(STEP_NS)?;
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.iter_mut().for_each(|source| source.deliver(&session, &self.messages));
        Ok(())
    }
}

fn ram_file() -> io::Result<OwnedFd> {
    let ram = memfd_create("qtest-ram", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&ram, RAM_BYTES)?;
    fcntl_add_seals(&ram, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(ram)
}

fn command(program: &Path, ram: &OwnedFd, words: &[String]) -> Command {
    // Makes the kernel kill QEMU when this thread ends.
    let mut command = Command::new("setpriv");
    let path = format!("/proc/{}/fd/{}", std::process::id(), ram.as_raw_fd());
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .args([
            "-accel",
            "qtest",
            "-nodefaults",
            "-display",
            "none",
            "-qtest",
            "stdio",
            "-qtest-log",
            "/dev/null",
        ])
        .args(["-M", "q35,memory-backend=ram", "-m", &(RAM_BYTES >> 20).to_string()])
        .arg("-object")
        .arg(format!("memory-backend-file,id=ram,mem-path={path},size={RAM_BYTES},share=on"))
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}

/// Maps memory of the machine: the device's address is the offset in the RAM's file.
impl DmaMapper for MachineParts {
    fn map(&self, range: &MemoryRange<'_>) -> io::Result<DeviceAddress> {
        let (file, offset) = range.file.ok_or(io::ErrorKind::InvalidInput)?;
        let [given, ram] = [rustix::fs::fstat(file)?, rustix::fs::fstat(&self.ram)?];
        if (given.st_dev, given.st_ino) != (ram.st_dev, ram.st_ino) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(offset)
    }

    fn unmap(&self, _at: DeviceAddress, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn alloc(&self, len: usize) -> io::Result<DescriptorMemory> {
        let len = len.next_multiple_of(PAGE_BYTES as usize);
        let at = self.next_descriptors.fetch_add(len as u64, Ordering::Relaxed);
        if at + len as u64 > RAM_BYTES {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(DescriptorMemory::new(Mapping::of_file(self.ram.as_fd(), at, len)?, at))
    }
}
