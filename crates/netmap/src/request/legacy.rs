//! Legacy requests, older than `NIOCCTRL`, translated to current requests.

use rustix::io::Errno;
use slipring_abi::*;

use crate::memory::caller::{NoCallerMemory, bytes_of};
use crate::open::handle::{Netmap, OpenHandle};
use crate::request::message::NetmapRequest;
use crate::request::message::{fixed, text};
use crate::request::options::RequestOptions;

impl Netmap {
    /// Handles `NIOCREGIF` and `NIOCGINFO`.
    pub(crate) fn legacy(
        &self,
        open: &OpenHandle,
        cmd: u32,
        arg: &mut [u8],
        call: Option<u64>,
    ) -> Result<i32, Errno> {
        let mut old = Nmreq::read_from(arg).ok_or(Errno::INVAL)?;
        if old.nr_version < NETMAP_MIN_API.into() {
            return Err(Errno::INVAL);
        }
        let mut request =
            if cmd == NIOCGINFO { to_request(&old)? } else { to_register_request(&old)? };
        request.call = call;
        self.dispatch(open, &mut request, &mut NoCallerMemory)?;
        write_back(&request, &mut old)?;
        old.write_to(arg);
        Ok(0)
    }
}

fn request<T: PlainData>(kind: u16, name: String, body: &T) -> NetmapRequest {
    // Offsets and sizes have 32 bits in these requests, so memory beyond 4 GiB cannot be used.
    let map_limit = u32::MAX.into();
    let (body, options) = (bytes_of(body), RequestOptions::default());
    NetmapRequest { kind, name, body, options, map_limit, call: None }
}

/// Translates `NIOCGINFO` to `PORT_INFO_GET`, or to `VALE_LIST` if its `nr_cmd` is
/// `NETMAP_BDG_LIST`.
fn to_request(old: &Nmreq) -> Result<NetmapRequest, Errno> {
    let name = text(&old.nr_name)?;
    if old.nr_cmd == NETMAP_BDG_LIST {
        let list = NmreqValeList {
            nr_bridge_idx: old.nr_arg1,
            nr_port_idx: old.nr_arg2.into(),
            ..NmreqValeList::default()
        };
        return Ok(request(NETMAP_REQ_VALE_LIST, name, &list));
    }
    let figures = NmreqPortInfoGet {
        nr_tx_slots: old.nr_tx_slots,
        nr_rx_slots: old.nr_rx_slots,
        nr_tx_rings: old.nr_tx_rings,
        nr_rx_rings: old.nr_rx_rings,
        nr_mem_id: old.nr_arg2,
        ..NmreqPortInfoGet::default()
    };
    Ok(request(NETMAP_REQ_PORT_INFO_GET, name, &figures))
}

/// Translates `NIOCREGIF` to the request that its `nr_cmd` stands for.
fn to_register_request(old: &Nmreq) -> Result<NetmapRequest, Errno> {
    let name = text(&old.nr_name)?;
    Ok(match old.nr_cmd {
        0 => {
            let (name, register) = register(old, name)?;
            request(NETMAP_REQ_REGISTER, name, &register)
        }
        NETMAP_BDG_ATTACH => {
            let (name, reg) = register(old, name)?;
            let host = old.nr_arg1 & NETMAP_BDG_HOST != 0;
            let nr_mode = if host { NR_REG_NIC_SW } else { NR_REG_ALL_NIC };
            let reg = NmreqRegister { nr_mode, ..reg };
            let attach = NmreqValeAttach { reg, ..NmreqValeAttach::default() };
            request(NETMAP_REQ_VALE_ATTACH, name, &attach)
        }
        NETMAP_BDG_DETACH => request(NETMAP_REQ_VALE_DETACH, name, &NmreqValeDetach::default()),
        cmd @ (NETMAP_BDG_VNET_HDR | NETMAP_VNET_HDR_GET) => {
            let get = cmd == NETMAP_VNET_HDR_GET;
            let kind = if get { NETMAP_REQ_PORT_HDR_GET } else { NETMAP_REQ_PORT_HDR_SET };
            let body = NmreqPortHdr { nr_hdr_len: old.nr_arg1.into(), ..NmreqPortHdr::default() };
            request(kind, name, &body)
        }
        NETMAP_BDG_NEWIF => {
            let body = NmreqValeNewif {
                nr_tx_slots: old.nr_tx_slots,
                nr_rx_slots: old.nr_rx_slots,
                nr_tx_rings: old.nr_tx_rings,
                nr_rx_rings: old.nr_rx_rings,
                nr_mem_id: old.nr_arg2,
                ..NmreqValeNewif::default()
            };
            request(NETMAP_REQ_VALE_NEWIF, name, &body)
        }
        NETMAP_BDG_DELIF => request(NETMAP_REQ_VALE_DELIF, name, &[0u8; 0]),
        cmd @ (NETMAP_BDG_POLLING_ON | NETMAP_BDG_POLLING_OFF) => {
            let on = cmd == NETMAP_BDG_POLLING_ON;
            let kind =
                if on { NETMAP_REQ_VALE_POLLING_ENABLE } else { NETMAP_REQ_VALE_POLLING_DISABLE };
            request(kind, name, &NmreqValePolling::default())
        }
        _ => return Err(Errno::INVAL),
    })
}

/// Translates a bind. Old programs may select the mode by bits of `nr_ringid`. They select a pipe
/// by a mode, and then `nr_ringid` is the number of the pipe.
fn register(old: &Nmreq, mut name: String) -> Result<(String, NmreqRegister), Errno> {
    let mut nr_ringid = old.nr_ringid & NETMAP_RING_MASK;
    let mut nr_mode = match old.nr_flags & NR_REG_MASK {
        NR_REG_DEFAULT if old.nr_ringid & NETMAP_SW_RING != 0 => NR_REG_SW,
        NR_REG_DEFAULT if old.nr_ringid & NETMAP_HW_RING != 0 => NR_REG_ONE_NIC,
        NR_REG_DEFAULT => NR_REG_ALL_NIC,
        mode => mode,
    };
    if let NR_REG_PIPE_MASTER | NR_REG_PIPE_SLAVE = nr_mode {
        let sign = if nr_mode == NR_REG_PIPE_MASTER { '{' } else { '}' };
        name = format!("{name}{sign}{nr_ringid}");
        if name.len() >= NETMAP_REQ_IFNAMSIZ {
            return Err(Errno::NOBUFS);
        }
        (nr_mode, nr_ringid) = (NR_REG_ALL_NIC, 0);
    }
    let bit = |set: u16, flag: u64| if old.nr_ringid & set != 0 { flag } else { 0 };
    let register = NmreqRegister {
        nr_tx_slots: old.nr_tx_slots,
        nr_rx_slots: old.nr_rx_slots,
        nr_tx_rings: old.nr_tx_rings,
        nr_rx_rings: old.nr_rx_rings,
        nr_mem_id: old.nr_arg2,
        nr_ringid,
        nr_mode,
        nr_extra_bufs: old.nr_arg3,
        nr_flags: u64::from(old.nr_flags & !NR_REG_MASK)
            | bit(NETMAP_NO_TX_POLL, NR_NO_TX_POLL)
            | bit(NETMAP_DO_RX_POLL, NR_DO_RX_POLL),
        ..NmreqRegister::default()
    };
    Ok((name, register))
}

/// Writes the answer to the fields in which old programs expect it.
fn write_back(request: &NetmapRequest, old: &mut Nmreq) -> Result<(), Errno> {
    match request.kind {
        NETMAP_REQ_REGISTER => {
            let new: NmreqRegister = request.read()?;
            old.nr_offset = new.nr_offset as u32;
            old.nr_memsize = new.nr_memsize as u32;
            (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
            (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
            (old.nr_arg2, old.nr_arg3) = (new.nr_mem_id, new.nr_extra_bufs);
        }
        NETMAP_REQ_PORT_INFO_GET => {
            let new: NmreqPortInfoGet = request.read()?;
            old.nr_memsize = u32::try_from(new.nr_memsize).map_err(|_| Errno::NOMEM)?;
            (old.nr_tx_slots, old.nr_rx_slots) = (new.nr_tx_slots, new.nr_rx_slots);
            (old.nr_tx_rings, old.nr_rx_rings) = (new.nr_tx_rings, new.nr_rx_rings);
            old.nr_arg2 = new.nr_mem_id;
        }
        NETMAP_REQ_PORT_HDR_GET => {
            old.nr_arg1 = request.read::<NmreqPortHdr>()?.nr_hdr_len as u16;
        }
        NETMAP_REQ_VALE_LIST => {
            let new: NmreqValeList = request.read()?;
            old.nr_name = fixed(&request.name);
            (old.nr_arg1, old.nr_arg2) = (new.nr_bridge_idx, new.nr_port_idx as u16);
        }
        NETMAP_REQ_VALE_NEWIF => {
            old.nr_arg2 = request.read::<NmreqValeNewif>()?.nr_mem_id;
        }
        _ => {}
    }
    Ok(())
}
