//! The client: a device model as a [`PciDevice`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::SealFlags;
use slipring_port::nic::dma::DeviceAddress;

use super::message::{
    self, CONFIG_REGION, Command, DeviceInfo, DmaMap, DmaUnmap, Header, IrqInfo, MmapArea,
    RegionAccess, RegionInfo, SetIrqs, VERSION, Version, device_flags, dma_flags, header_flags,
    irq_flags, region_flags,
};
use super::transport::{self, VfioUserMessage};
use crate::bar::{Bar, MappedRegisters, RegisterAccess, Width};
use crate::device::{PciDevice, ResetResult};
use crate::error::PciError;
use crate::interrupt::InterruptKind;
use crate::iova::IovaSpace;
use crate::memory::{DmaMapper, MemoryRange, PAGE_BYTES};
use crate::sys::mapping::Mapping;

/// Maximum time to wait for a reply. A model answers immediately; this only ends the wait for a
/// model that hangs.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of BARs.
const NUM_BARS: u8 = 6;

/// A device that another process serves on a Unix socket.
pub struct VfioUserDevice {
    connection: Arc<Connection>,
    can_reset: bool,
    /// Number of interrupts by the index of their kind.
    interrupts: [u32; 3],
    iova: Arc<Mutex<IovaSpace>>,
}

impl VfioUserDevice {
    /// Connects to the server at `path`, and agrees on the version of the protocol.
    ///
    /// # Errors
    /// [`PciError::System`] if no process serves the socket; [`PciError::Protocol`] if the server
    /// uses another protocol, or does not serve a PCI device.
    pub fn connect(path: &Path) -> Result<Self, PciError> {
        let socket = UnixStream::connect(path)
            .map_err(|source| PciError::system("connect to a device model", source))?;
        Self::over(socket, &path.display().to_string())
    }

    /// Like [`Self::connect`], over a connected socket; `path` is its name in messages.
    ///
    /// # Errors
    /// Same as for [`Self::connect`].
    pub fn over(socket: UnixStream, path: &str) -> Result<Self, PciError> {
        let limited = socket
            .set_read_timeout(Some(REPLY_TIMEOUT))
            .and_then(|()| socket.set_write_timeout(Some(REPLY_TIMEOUT)));
        limited.map_err(|source| PciError::system("limit the time of replies", source))?;
        let state = Mutex::new(VfioUserSession { socket, next_id: 0, is_broken: false });
        let connection = Arc::new(Connection { path: path.to_owned(), state });
        connection.negotiate()?;
        let info = connection.device_info()?;
        let mut interrupts = [0; 3];
        for (index, count) in (0..info.num_irqs.min(3)).zip(&mut interrupts) {
            *count = connection.irq_count(index)?;
        }
        Ok(Self {
            connection,
            can_reset: info.flags & device_flags::RESET != 0,
            interrupts,
            iova: Arc::new(Mutex::new(IovaSpace::unlimited())),
        })
    }

    /// Maps the areas of a region that the server offers, each from its own descriptor, or all from
    /// the same one. An area that cannot be mapped safely is accessed by messages.
    fn map_areas(
        &self,
        index: u8,
        reply: &VfioUserMessage,
    ) -> Result<Vec<MappedRegisters>, PciError> {
        let connection = &self.connection;
        let (info, _) = RegionInfo::read(&reply.payload).map_err(|e| connection.malformed(e))?;
        let areas = message::mappable_areas(&reply.payload).map_err(|e| connection.malformed(e))?;
        let fd_of = |i: usize| reply.fds.get(i).or(reply.fds.last());
        let mapped = areas.iter().enumerate().filter_map(|(i, area)| {
            let at = info.offset.checked_add(area.offset)?;
            let memory = map_area(fd_of(i)?, at, area, info.size)?;
            Some(MappedRegisters::new(area.offset, memory))
        });
        debug_assert!(index < NUM_BARS, "asked for a BAR");
        Ok(mapped.collect())
    }
}

/// Maps an area, if it starts at a page of the file, is within its region and within the file, and
/// the file cannot shrink. An access beyond the end of a file would kill this process.
fn map_area(fd: &OwnedFd, at: u64, area: &MmapArea, region_size: u64) -> Option<Mapping> {
    let len = usize::try_from(area.size).ok().filter(|&len| len > 0)?;
    let stat = rustix::fs::fstat(fd).ok()?;
    let seals = rustix::fs::fcntl_get_seals(fd).ok()?;
    let is_safe = area.offset.checked_add(area.size)? <= region_size
        && at.checked_add(area.size)? <= u64::try_from(stat.st_size).ok()?
        && at.is_multiple_of(PAGE_BYTES)
        && seals.contains(SealFlags::SHRINK);
    if is_safe { Mapping::of_file(fd.as_fd(), at, len).ok() } else { None }
}

impl PciDevice for VfioUserDevice {
    fn address(&self) -> &str {
        &self.connection.path
    }

    fn config_read(&self, at: u16, width: Width) -> Result<u32, PciError> {
        self.connection
            .read_region(CONFIG_REGION, at.into(), width)
            .map_err(|source| PciError::system("read the configuration space", source))
    }

    fn config_write(&self, at: u16, width: Width, value: u32) -> Result<(), PciError> {
        self.connection
            .write_region(CONFIG_REGION, at.into(), width, value)
            .map_err(|source| PciError::system("write to the configuration space", source))
    }

    fn bar(&self, bar: u8) -> Result<Bar, PciError> {
        let absent = || PciError::NoBar { address: self.address().to_owned(), bar };
        if bar >= NUM_BARS {
            return Err(absent());
        }
        let reply = self.connection.region_info(bar.into())?;
        let (info, _) =
            RegionInfo::read(&reply.payload).map_err(|e| self.connection.malformed(e))?;
        if info.size == 0 || info.flags & (region_flags::READ | region_flags::WRITE) == 0 {
            return Err(absent());
        }
        let mapped = self.map_areas(bar, &reply)?;
        let rest = RegionCalls { connection: self.connection.clone(), region: bar.into() };
        Ok(Bar::new(info.size, mapped, Box::new(rest)))
    }

    fn dma(&self) -> Arc<dyn DmaMapper> {
        Arc::new(ServerMemory { connection: self.connection.clone(), iova: self.iova.clone() })
    }

    fn interrupts(&self, kind: InterruptKind) -> u32 {
        self.interrupts[kind.index() as usize]
    }

    fn set_interrupts(
        &self,
        kind: InterruptKind,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let action = irq_flags::TRIGGER;
        let data = if events.is_empty() { irq_flags::DATA_NONE } else { irq_flags::DATA_EVENTFD };
        self.connection.set_irqs(kind, data | action, events.len() as u32, events)
    }

    fn unmask_intx(&self) -> Result<(), PciError> {
        let flags = irq_flags::DATA_NONE | irq_flags::UNMASK;
        self.connection.set_irqs(InterruptKind::IntX, flags, 1, &[])
    }

    fn reset(&self) -> Result<ResetResult, PciError> {
        if !self.can_reset {
            return Ok(ResetResult::Unsupported);
        }
        let reset = self.connection.request(Command::DeviceReset, &[], &[]);
        reset.map_err(|source| PciError::system("reset the device", source))?;
        Ok(ResetResult::Reset)
    }
}

/// Registers that are read and written by messages.
struct RegionCalls {
    connection: Arc<Connection>,
    region: u32,
}

impl RegisterAccess for RegionCalls {
    fn read(&self, at: u64, width: Width) -> u32 {
        self.connection.read_region(self.region, at, width).unwrap_or(width.all_ones())
    }

    /// Posts the write: does not wait for a reply. An error shows at the next read.
    fn write(&self, at: u64, width: Width, value: u32) {
        let access = RegionAccess { offset: at, region: self.region, count: width.bytes() as u32 };
        let mut payload = Vec::with_capacity(RegionAccess::BYTES + 4);
        access.write(&mut payload);
        payload.extend_from_slice(&value.to_le_bytes()[..width.bytes() as usize]);
        let _ = self.connection.post(Command::RegionWrite, &payload);
    }
}

/// Maps memory into the server's process.
struct ServerMemory {
    connection: Arc<Connection>,
    iova: Arc<Mutex<IovaSpace>>,
}

impl DmaMapper for ServerMemory {
    fn map(&self, range: &MemoryRange<'_>) -> io::Result<DeviceAddress> {
        let (fd, offset) = range.file.ok_or(io::ErrorKind::InvalidInput)?;
        let mut iova = self.iova.lock().unwrap_or_else(PoisonError::into_inner);
        let address = iova.alloc(range.len).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = dma_flags::READ | dma_flags::WRITE;
        let map = DmaMap { argsz: DmaMap::BYTES as u32, flags, offset, address, size: range.len };
        let mut payload = Vec::new();
        map.write(&mut payload);
        match self.connection.request(Command::DmaMap, &payload, &[fd]) {
            Ok(_) => Ok(address),
            Err(error) => {
                iova.release(address);
                Err(error)
            }
        }
    }

    fn unmap(&self, address: DeviceAddress, size: u64) -> io::Result<()> {
        let unmap = DmaUnmap { argsz: DmaUnmap::BYTES as u32, flags: 0, address, size };
        let mut payload = Vec::new();
        unmap.write(&mut payload);
        self.connection.request(Command::DmaUnmap, &payload, &[])?;
        self.iova.lock().unwrap_or_else(PoisonError::into_inner).release(address);
        Ok(())
    }
}

/// A connection. At most one request is outstanding at a time.
struct Connection {
    path: String,
    state: Mutex<VfioUserSession>,
}

struct VfioUserSession {
    socket: UnixStream,
    next_id: u16,
    /// Whether a message could not be sent, or its reply not received. The start of the next
    /// message may be unknown then, so the connection is not used any more.
    is_broken: bool,
}

impl Connection {
    fn protocol(&self, reason: impl ToString) -> PciError {
        PciError::Protocol { path: self.path.clone(), reason: reason.to_string() }
    }

    fn malformed(&self, error: message::MalformedMessage) -> PciError {
        self.protocol(error)
    }

    /// Sends a command and returns the reply. After an error that the server reports, the
    /// connection can still be used; any other error ends it.
    fn request(
        &self,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<VfioUserMessage> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let reply = state.exchange(command, payload, fds);
        state.is_broken |= reply.is_err();
        let reply = reply?;
        if reply.header.flags & header_flags::ERROR == 0 {
            return Ok(reply);
        }
        Err(io::Error::from_raw_os_error(i32::try_from(reply.header.error).unwrap_or(libc::EIO)))
    }

    /// Sends a command that has no reply.
    fn post(&self, command: Command, payload: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = state.send(command, header_flags::NO_REPLY, payload, &[]);
        state.is_broken |= sent.is_err();
        sent.map(drop)
    }

    fn negotiate(&self) -> Result<(), PciError> {
        let [major, minor] = VERSION;
        let mut payload = Vec::new();
        Version { major, minor }.write(&mut payload);
        payload.extend(message::capabilities_text());
        let reply = self.ask(Command::Version, &payload, "agree on a version")?;
        let (version, _) = Version::read(&reply.payload).map_err(|e| self.malformed(e))?;
        if version.major != major {
            return Err(self.protocol(format!("it speaks version {}", version.major)));
        }
        Ok(())
    }

    fn ask(
        &self,
        command: Command,
        payload: &[u8],
        what: &'static str,
    ) -> Result<VfioUserMessage, PciError> {
        self.request(command, payload, &[]).map_err(|source| PciError::system(what, source))
    }

    fn device_info(&self) -> Result<DeviceInfo, PciError> {
        let mut payload = Vec::new();
        let wanted = DeviceInfo { argsz: DeviceInfo::BYTES as u32, ..DeviceInfo::default() };
        wanted.write(&mut payload);
        let reply = self.ask(Command::DeviceGetInfo, &payload, "ask for the device")?;
        let (info, _) = DeviceInfo::read(&reply.payload).map_err(|e| self.malformed(e))?;
        if info.flags & device_flags::PCI == 0 || info.num_regions <= CONFIG_REGION {
            return Err(self.protocol("it serves no PCI device"));
        }
        Ok(info)
    }

    fn irq_count(&self, index: u32) -> Result<u32, PciError> {
        let mut payload = Vec::new();
        IrqInfo { argsz: IrqInfo::BYTES as u32, index, ..IrqInfo::default() }.write(&mut payload);
        let reply = self.ask(Command::DeviceGetIrqInfo, &payload, "ask for interrupts")?;
        let (info, _) = IrqInfo::read(&reply.payload).map_err(|e| self.malformed(e))?;
        Ok(info.count)
    }

    fn region_info(&self, index: u32) -> Result<VfioUserMessage, PciError> {
        let mut payload = Vec::new();
        // The size leaves room for capabilities after the record.
        let argsz = 4096;
        RegionInfo { argsz, index, ..RegionInfo::default() }.write(&mut payload);
        self.ask(Command::DeviceGetRegionInfo, &payload, "ask for a BAR")
    }

    fn set_irqs(
        &self,
        kind: InterruptKind,
        flags: u32,
        count: u32,
        events: &[BorrowedFd<'_>],
    ) -> Result<(), PciError> {
        let argsz = SetIrqs::BYTES as u32;
        let set = SetIrqs { argsz, flags, index: kind.index(), start: 0, count };
        let mut payload = Vec::new();
        set.write(&mut payload);
        let done = self.request(Command::DeviceSetIrqs, &payload, events);
        done.map(drop).map_err(|source| PciError::system("set the interrupts", source))
    }

    fn read_region(&self, region: u32, offset: u64, width: Width) -> io::Result<u32> {
        let count = width.bytes() as u32;
        let mut payload = Vec::new();
        RegionAccess { offset, region, count }.write(&mut payload);
        let reply = self.request(Command::RegionRead, &payload, &[])?;
        let data = RegionAccess::read(&reply.payload).map_err(|_| io::ErrorKind::InvalidData)?.1;
        let mut value = [0; 4];
        let data = data.get(..count as usize).ok_or(io::ErrorKind::InvalidData)?;
        value[..data.len()].copy_from_slice(data);
        Ok(u32::from_le_bytes(value))
    }

    fn write_region(&self, region: u32, offset: u64, width: Width, value: u32) -> io::Result<()> {
        let count = width.bytes() as u32;
        let mut payload = Vec::new();
        RegionAccess { offset, region, count }.write(&mut payload);
        payload.extend_from_slice(&value.to_le_bytes()[..count as usize]);
        self.request(Command::RegionWrite, &payload, &[]).map(drop)
    }
}

impl VfioUserSession {
    fn send(
        &mut self,
        command: Command,
        flags: u32,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<u16> {
        if self.is_broken {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let header = Header { id, command: command as u16, flags, ..Header::default() };
        transport::send(self.socket.as_fd(), header, payload, fds)?;
        Ok(id)
    }

    fn exchange(
        &mut self,
        command: Command,
        payload: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<VfioUserMessage> {
        let id = self.send(command, 0, payload, fds)?;
        let reply = transport::receive(self.socket.as_fd())?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let Header { flags, .. } = reply.header;
        let is_reply = flags & header_flags::TYPE_MASK == header_flags::REPLY;
        if is_reply && reply.header.id == id && reply.header.command == command as u16 {
            return Ok(reply);
        }
        // This is a command of the server, such as a request to read memory, or an unexpected
        // reply.
        Err(io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests;
