//! Answers the commands of one client.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::message::{FrameError, MAX_FDS, MAX_TRANSFER, Message};
use crate::device::{Device, DeviceRegion};
use crate::dma::DmaPermissions;
use crate::interrupts::InterruptIndex;

const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const DEVICE_INFO: u16 = 4;
const REGION_INFO: u16 = 5;
const IRQ_INFO: u16 = 7;
const SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const RESET: u16 = 13;

const DEVICE_RESETTABLE: u32 = 1;
const DEVICE_PCI: u32 = 2;
const REGION_READABLE: u32 = 1;
const REGION_WRITABLE: u32 = 2;
const IRQ_EVENTFD: u32 = 1;
const IRQ_MASKABLE: u32 = 2;
const IRQ_AUTOMASKED: u32 = 4;
const IRQ_NO_RESIZE: u32 = 8;
const IRQ_COUNT: u32 = 5;
const DATA_NONE: u32 = 1;
const DATA_EVENTFD: u32 = 4;
const ACTION_MASK: u32 = 8;
const ACTION_UNMASK: u32 = 16;
const ACTION_TRIGGER: u32 = 32;
const UNMAP_ALL: u32 = 2;

/// Why a connection ended before the client closed it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The messages are invalid.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The client's first message is not a version that the server supports.
    #[error("the client did not begin with version 0 of the protocol")]
    Version,
}

/// A connection.
#[derive(Debug)]
pub struct Server {
    socket: UnixStream,
    device: Arc<Mutex<Device>>,
    has_reset: bool,
}

/// Reads a request's fields.
struct RequestFields<'b>(&'b [u8]);

impl RequestFields<'_> {
    fn u32(&self, at: usize) -> Result<u32, Errno> {
        let bytes = self.0.get(at..at + 4).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno::INVAL)
    }

    fn u64(&self, at: usize) -> Result<u64, Errno> {
        let bytes = self.0.get(at..at + 8).and_then(<[u8]>::first_chunk);
        bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or(Errno::INVAL)
    }
}

impl Server {
    /// Serves a device on a connected socket.
    #[must_use]
    pub fn new(socket: UnixStream, device: Arc<Mutex<Device>>) -> Self {
        Self { socket, device, has_reset: true }
    }

    /// Serves a device that the bus cannot reset, like most boards with these chips.
    #[must_use]
    pub fn without_reset(self) -> Self {
        Self { has_reset: false, ..self }
    }

    /// Answers commands until the client closes the socket, and then detaches the client's memory
    /// and events from the device.
    ///
    /// # Errors
    /// The client broke the protocol, or the socket failed.
    pub fn run(mut self) -> Result<(), ServerError> {
        let result = self.serve();
        self.device().detach();
        result
    }

    fn device(&self) -> MutexGuard<'_, Device> {
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&mut self) -> Result<(), ServerError> {
        let Some(hello) = Message::receive(&self.socket)? else { return Ok(()) };
        let version = (hello.command == VERSION).then(|| version_reply(&hello.body)).flatten();
        let is_known = version.is_some();
        hello.reply(&self.socket, version.ok_or(Errno::INVAL))?;
        if !is_known {
            return Err(ServerError::Version);
        }
        loop {
            self.wait()?;
            let Some(mut message) = Message::receive(&self.socket)? else { return Ok(()) };
            let result = self.answer(&mut message);
            message.reply(&self.socket, result)?;
        }
    }

    /// Waits for the next command. Meanwhile, receives frames from the wire.
    fn wait(&self) -> Result<(), FrameError> {
        loop {
            let wire = {
                let mut device = self.device();
                device.poll();
                device.wire().readable().and_then(|fd| fd.try_clone_to_owned().ok())
            };
            let mut fds = vec![PollFd::new(&self.socket, PollFlags::IN)];
            fds.extend(
                wire.as_ref().map(|wire| PollFd::from_borrowed_fd(wire.as_fd(), PollFlags::IN)),
            );
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if !fds[0].revents().is_empty() {
                return Ok(());
            }
        }
    }

    fn answer(&self, message: &mut Message) -> Result<Vec<u8>, Errno> {
        let body = std::mem::take(&mut message.body);
        let fields = RequestFields(&body);
        match message.command {
            DMA_MAP => self.dma_map(&fields, message),
            DMA_UNMAP => self.dma_unmap(&fields, &body),
            DEVICE_INFO => Ok(self.device_info()),
            REGION_INFO => self.region_info(&fields),
            IRQ_INFO => irq_info(&fields),
            SET_IRQS => self.set_irqs(&fields, message),
            REGION_READ => self.region_read(&fields),
            REGION_WRITE => self.region_write(&fields, &body),
            RESET if self.has_reset => {
                self.device().reset();
                Ok(Vec::new())
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn dma_map(&self, fields: &RequestFields<'_>, message: &mut Message) -> Result<Vec<u8>, Errno> {
        let (flags, offset) = (fields.u32(4)?, fields.u64(8)?);
        let (address, size) = (fields.u64(16)?, fields.u64(24)?);
        // Memory without a descriptor could only be accessed by messages to the client, which the
        // server does not support.
        let file = message.fds.pop_front().ok_or(Errno::OPNOTSUPP)?;
        let permissions = DmaPermissions { read: flags & 1 != 0, write: flags & 2 != 0 };
        let mapped = self.device().dma().map(address, size, file, offset, permissions);
        mapped.map(|()| Vec::new()).map_err(|_| Errno::INVAL)
    }

    fn dma_unmap(&self, fields: &RequestFields<'_>, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (flags, address, size) = (fields.u32(4)?, fields.u64(8)?, fields.u64(16)?);
        if flags & UNMAP_ALL != 0 {
            self.device().dma().clear();
        } else {
            self.device().dma().unmap(address, size).map_err(|_| Errno::INVAL)?;
        }
        body.get(..24).map(<[u8]>::to_vec).ok_or(Errno::INVAL)
    }

    fn device_info(&self) -> Vec<u8> {
        let flags = DEVICE_PCI | if self.has_reset { DEVICE_RESETTABLE } else { 0 };
        words(&[16, flags, DeviceRegion::COUNT, IRQ_COUNT])
    }

    fn region_info(&self, fields: &RequestFields<'_>) -> Result<Vec<u8>, Errno> {
        let index = fields.u32(8)?;
        if index >= DeviceRegion::COUNT {
            return Err(Errno::INVAL);
        }
        let region = DeviceRegion::new(index);
        let size = region.map_or(0, |region| self.device().size_of(region));
        let flags = region.map_or(0, |_| REGION_READABLE | REGION_WRITABLE);
        let mut reply = words(&[32, flags, index, 0]);
        reply.extend(size.to_le_bytes());
        reply.extend((u64::from(index) << 40).to_le_bytes());
        Ok(reply)
    }

    fn set_irqs(
        &self,
        fields: &RequestFields<'_>,
        message: &mut Message,
    ) -> Result<Vec<u8>, Errno> {
        let (flags, index) = (fields.u32(4)?, fields.u32(8)?);
        let (start, count) = (fields.u32(12)?, fields.u32(16)?);
        // The model raises no interrupts for errors and requests of the bus, but clients set events
        // for them.
        let Some(index) = InterruptIndex::new(index) else {
            return if index < IRQ_COUNT { Ok(Vec::new()) } else { Err(Errno::INVAL) };
        };
        let end = start.checked_add(count).ok_or(Errno::INVAL)?;
        if end > index.vectors() {
            return Err(Errno::INVAL);
        }
        let mut device = self.device();
        let interrupts = device.interrupts();
        match (flags & (ACTION_MASK | ACTION_UNMASK | ACTION_TRIGGER), flags & 7) {
            (ACTION_TRIGGER, DATA_EVENTFD) if start == 0 => {
                interrupts.set_event(index, message.fds.pop_front());
            }
            // The chip uses only the first vector.
            (ACTION_TRIGGER, DATA_EVENTFD) => {}
            (ACTION_TRIGGER, DATA_NONE) if count == 0 => interrupts.set_event(index, None),
            (ACTION_TRIGGER, DATA_NONE) => interrupts.trigger(index),
            (ACTION_MASK, DATA_NONE) if index == InterruptIndex::Intx => interrupts.mask_intx(true),
            (ACTION_UNMASK, DATA_NONE) if index == InterruptIndex::Intx => {
                interrupts.mask_intx(false);
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(Vec::new())
    }

    fn region_read(&self, fields: &RequestFields<'_>) -> Result<Vec<u8>, Errno> {
        let (offset, index, count) = (fields.u64(0)?, fields.u32(8)?, fields.u32(12)?);
        let region = DeviceRegion::new(index).ok_or(Errno::INVAL)?;
        let count = Some(count as usize).filter(|count| *count <= MAX_TRANSFER);
        let mut reply = fields.0.get(..16).ok_or(Errno::INVAL)?.to_vec();
        reply.resize(16 + count.ok_or(Errno::INVAL)?, 0);
        self.device().read(region, offset, &mut reply[16..]);
        Ok(reply)
    }

    fn region_write(&self, fields: &RequestFields<'_>, body: &[u8]) -> Result<Vec<u8>, Errno> {
        let (offset, index, count) = (fields.u64(0)?, fields.u32(8)?, fields.u32(12)?);
        let region = DeviceRegion::new(index).ok_or(Errno::INVAL)?;
        let data = body.get(16..).filter(|data| data.len() == count as usize);
        self.device().write(region, offset, data.ok_or(Errno::INVAL)?);
        Ok(body[..16].to_vec())
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn irq_info(fields: &RequestFields<'_>) -> Result<Vec<u8>, Errno> {
    let index = fields.u32(8)?;
    if index >= IRQ_COUNT {
        return Err(Errno::INVAL);
    }
    let (flags, count) = match InterruptIndex::new(index) {
        Some(InterruptIndex::Intx) => (IRQ_EVENTFD | IRQ_MASKABLE | IRQ_AUTOMASKED, 1),
        Some(way) => (IRQ_EVENTFD | IRQ_NO_RESIZE, way.vectors()),
        None => (IRQ_EVENTFD | IRQ_NO_RESIZE, 1),
    };
    Ok(words(&[16, flags, index, count]))
}

/// The reply to a version with its capabilities; `None` if the version is not supported.
fn version_reply(body: &[u8]) -> Option<Vec<u8>> {
    let (major, rest) = body.split_first_chunk::<2>()?;
    let (minor, text) = rest.split_first_chunk::<2>()?;
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_json = text.is_empty() || serde_json::from_slice::<Value>(text).is_ok();
    if *major != [0, 0] || !is_json {
        return None;
    }
    let capabilities = json!({"capabilities": {
        "max_msg_fds": MAX_FDS,
        "max_data_xfer_size": MAX_TRANSFER,
        "pgsizes": 4096,
        "max_dma_maps": 65_535,
    }});
    // The version must not be newer than the client's. All minor versions have the same messages.
    let minor = u16::from_le_bytes(*minor).min(1).to_le_bytes();
    let mut reply = [[0, 0], minor].concat();
    reply.extend(capabilities.to_string().bytes());
    reply.push(0);
    Some(reply)
}
