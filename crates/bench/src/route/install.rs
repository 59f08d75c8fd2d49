//! Installs routes and neighbours in the calling thread's namespace, by messages of rtnetlink that
//! are sent many at a time: a million routes take seconds. Only the last message, and messages that
//! fail, are answered.
//!
//! ```text
//!   nlmsghdr 16  len 4 | type 2 | flags 2 | sequence 4 | port 4
//!   rtmsg 12     family | dst_len | src_len | tos | table | protocol | scope | type | flags 4
//!   ndmsg 12     family | 3 pad | ifindex 4 | state 2 | flags | type
//!   attributes   len 2 | type 2 | value, padded to 4
//! ```
//! Numbers are those of linux/netlink.h, linux/rtnetlink.h and linux/neighbour.h, in the machine's
//! byte order.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};
use slipring_rtnetlink::{DumpFilter, MessageBody, Messages, RequestBuilder, RouteFamily};

use super::table::{BenchTable, address};
use crate::measure::BenchError;

const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_EXCL: u16 = 0x200;
const NLM_F_CREATE: u16 = 0x400;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_STATIC: u8 = 4;
const RTN_UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const NUD_PERMANENT: u16 = 0x80;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// Maximum number of bytes per system call, well below the socket's default send buffer of 208 KiB.
const BATCH_BYTES: usize = 1 << 16;

/// Messages that will be sent to the kernel.
struct RouteInstaller {
    socket: OwnedFd,
    batch: Vec<u8>,
    /// Start of the message that is being written.
    start: usize,
    messages: u32,
}

/// Installs permanent neighbours, with addresses and MAC addresses.
pub(super) fn neighbours(
    ifindex: u32,
    neighbours: impl Iterator<Item = (IpAddr, [u8; 6])>,
) -> Result<(), BenchError> {
    let mut kernel = RouteInstaller::open()?;
    for (address, mac) in neighbours {
        kernel.neighbour(ifindex, address, mac)?;
    }
    kernel.finish()
}

/// Installs the routes of a table, out of `ifindex` by gateways.
pub(super) fn routes(
    table: &BenchTable,
    ifindex: u32,
    gateway: impl Fn(u16) -> IpAddr,
) -> Result<(), BenchError> {
    let mut kernel = RouteInstaller::open()?;
    for route in &table.routes {
        let prefix = (address(table.family, route.bits), route.len);
        kernel.route(ifindex, prefix, gateway(route.gateway))?;
    }
    kernel.finish()
}

/// Installs one route, out of `ifindex` by a gateway.
pub(super) fn route(ifindex: u32, prefix: (IpAddr, u8), gateway: IpAddr) -> Result<(), BenchError> {
    let mut kernel = RouteInstaller::open()?;
    kernel.route(ifindex, prefix, gateway)?;
    kernel.finish()
}

/// Makes the kernel list all routes of a family, and ignores the list.
pub(super) fn list_routes(family: RouteFamily) -> Result<(), BenchError> {
    let socket = socket()?;
    let filter = DumpFilter { family: Some(family), table: None };
    send(&socket, &RequestBuilder::new(1).dump_routes(filter), SendFlags::empty())?;
    let mut answer = vec![0; 1 << 16];
    loop {
        let (len, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
        for message in Messages::new(&answer[..len]) {
            match message.map_err(|error| BenchError::Failed(error.to_string()))?.body {
                MessageBody::Done(_) => return Ok(()),
                MessageBody::Error(error) => {
                    return Err(io::Error::from_raw_os_error(error.errno as i32).into());
                }
                _ => {}
            }
        }
    }
}

/// Opens a socket of rtnetlink: NETLINK_ROUTE is 0, the default protocol of the family.
fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?)
}

impl RouteInstaller {
    fn open() -> Result<Self, BenchError> {
        let batch = Vec::with_capacity(BATCH_BYTES);
        Ok(Self { socket: socket()?, batch, start: 0, messages: 0 })
    }

    fn route(
        &mut self,
        ifindex: u32,
        (prefix, len): (IpAddr, u8),
        gateway: IpAddr,
    ) -> Result<(), BenchError> {
        let family = RouteFamily::from(prefix).number();
        self.begin(RTM_NEWROUTE)?;
        self.batch.extend([family, len, 0, 0, RT_TABLE_MAIN, RTPROT_STATIC, 0, RTN_UNICAST]);
        self.batch.extend([0; 4]);
        self.address(RTA_DST, prefix);
        self.address(RTA_GATEWAY, gateway);
        self.attribute(RTA_OIF, &ifindex.to_ne_bytes());
        self.end();
        Ok(())
    }

    fn neighbour(&mut self, ifindex: u32, address: IpAddr, mac: [u8; 6]) -> Result<(), BenchError> {
        self.begin(RTM_NEWNEIGH)?;
        self.batch.extend([RouteFamily::from(address).number(), 0, 0, 0]);
        self.batch.extend(ifindex.to_ne_bytes());
        self.batch.extend(NUD_PERMANENT.to_ne_bytes());
        self.batch.extend([0, 0]);
        self.address(NDA_DST, address);
        self.attribute(NDA_LLADDR, &mac);
        self.end();
        Ok(())
    }

    fn begin(&mut self, kind: u16) -> Result<(), BenchError> {
        if self.batch.len() > BATCH_BYTES - 128 {
            self.flush()?;
        }
        self.start = self.batch.len();
        self.messages += 1;
        self.batch.extend([0; 4]);
        self.batch.extend(kind.to_ne_bytes());
        self.batch.extend((NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL).to_ne_bytes());
        self.batch.extend(self.messages.to_ne_bytes());
        self.batch.extend([0; 4]);
        Ok(())
    }

    /// Sets the length of the message, which is always a multiple of four.
    fn end(&mut self) {
        let len = (self.batch.len() - self.start) as u32;
        self.batch[self.start..][..4].copy_from_slice(&len.to_ne_bytes());
    }

    fn address(&mut self, kind: u16, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.batch.extend((4 + value.len() as u16).to_ne_bytes());
        self.batch.extend(kind.to_ne_bytes());
        self.batch.extend(value);
        self.batch.resize(self.batch.len().next_multiple_of(4), 0);
    }

    /// Sends the messages. The kernel has processed them when the call returns.
    fn flush(&mut self) -> Result<(), BenchError> {
        send(&self.socket, &self.batch, SendFlags::empty())?;
        self.batch.clear();
        Ok(())
    }

    /// Sends the remaining messages, and requests an answer to the last one. Fails if any message
    /// failed.
    fn finish(mut self) -> Result<(), BenchError> {
        if self.messages == 0 {
            return Ok(());
        }
        let flags = NLM_F_REQUEST | NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;
        self.batch[self.start + 6..][..2].copy_from_slice(&flags.to_ne_bytes());
        self.flush()?;
        let mut answer = vec![0; 1 << 16];
        loop {
            let (len, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            for message in Messages::new(&answer[..len]) {
                let message = message.map_err(|error| BenchError::Failed(error.to_string()))?;
                match (message.body, message.header.sequence) {
                    (MessageBody::Error(error), sequence) if error.errno != 0 => {
                        let why = io::Error::from_raw_os_error(error.errno as i32);
                        let text = format!("the kernel refuses message {sequence}: {why}");
                        return Err(BenchError::Failed(text));
                    }
                    (_, sequence) if sequence == self.messages => return Ok(()),
                    _ => {}
                }
            }
        }
    }
}
