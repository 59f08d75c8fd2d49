//! `NIOCCTRL`: a header with a name, a body and a list of options, all in the caller's memory.
//!
//! Code common to all requests is here and in `options`; `register` binds, `info` answers queries.

use std::sync::Arc;

use rustix::io::Errno;
use slipring_abi::*;

use crate::memory::caller::CallerMemory;
use crate::memory::netmap_memory::NetmapMemory;
use crate::open::handle::{Netmap, OpenHandle};
use crate::open::provider::AdapterRequest;
use crate::port::adapter::Adapter;
use crate::request::csb::enable;
use crate::request::kloop::{start, stop};
use crate::request::message::{NetmapRequest, fixed, text};
use crate::request::options::RequestOptions;

/// Returns the size of a request's body in bytes; `None` for an unknown type.
fn body_size(kind: u16) -> Option<usize> {
    Some(match kind {
        NETMAP_REQ_REGISTER => NmreqRegister::SIZE,
        NETMAP_REQ_PORT_INFO_GET => NmreqPortInfoGet::SIZE,
        NETMAP_REQ_VALE_ATTACH => NmreqValeAttach::SIZE,
        NETMAP_REQ_VALE_DETACH => NmreqValeDetach::SIZE,
        NETMAP_REQ_VALE_LIST => NmreqValeList::SIZE,
        NETMAP_REQ_PORT_HDR_SET | NETMAP_REQ_PORT_HDR_GET => NmreqPortHdr::SIZE,
        NETMAP_REQ_VALE_NEWIF => NmreqValeNewif::SIZE,
        NETMAP_REQ_VALE_POLLING_ENABLE | NETMAP_REQ_VALE_POLLING_DISABLE => NmreqValePolling::SIZE,
        NETMAP_REQ_POOLS_INFO_GET => NmreqPoolsInfo::SIZE,
        NETMAP_REQ_SYNC_KLOOP_START => NmreqSyncKloopStart::SIZE,
        NETMAP_REQ_VALE_DELIF | NETMAP_REQ_SYNC_KLOOP_STOP | NETMAP_REQ_CSB_ENABLE => 0,
        _ => return None,
    })
}

impl Netmap {
    /// Handles `NIOCCTRL`, whose argument is the header.
    pub(crate) fn control(
        &self,
        open: &OpenHandle,
        arg: &mut [u8],
        caller: &mut dyn CallerMemory,
    ) -> Result<i32, Errno> {
        let header = NmreqHeader::read_from(arg).ok_or(Errno::INVAL)?;
        let size = checked_body_size(&header)?;
        let mut options = RequestOptions::read(header.nr_options, size, caller)?;
        let answer = self.answer(open, &header, size, &mut options, caller);
        // The status of options is written even when the call fails.
        options.write_heads(caller)?;
        let (name, body) = answer?;
        options.write_bodies(caller)?;
        if size > 0 {
            caller.write(header.nr_body, &body)?;
        }
        if header.nr_reqtype == NETMAP_REQ_VALE_LIST {
            NmreqHeader { nr_name: fixed(&name), ..header }.write_to(arg);
        }
        Ok(0)
    }

    /// Reads the request's body and executes the request. Returns the name and the body of the
    /// answer.
    fn answer(
        &self,
        open: &OpenHandle,
        header: &NmreqHeader,
        size: usize,
        options: &mut RequestOptions,
        caller: &mut dyn CallerMemory,
    ) -> Result<(String, Vec<u8>), Errno> {
        let mut body = vec![0; size];
        if size > 0 {
            caller.read(header.nr_body, &mut body)?;
        }
        options.check_list()?;
        let mut request = NetmapRequest {
            kind: header.nr_reqtype,
            name: text(&header.nr_name)?,
            body,
            options: std::mem::take(options),
            map_limit: u64::MAX,
            call: caller.call(),
        };
        let done = self.dispatch(open, &mut request, caller);
        *options = request.options;
        done.map(|()| (request.name, request.body))
    }

    /// Performs a request and replaces its body by the answer. After a restart of the daemon, the
    /// kernel sends a request again if its caller has got no answer. If the previous process had
    /// already saved the changes that the request made, the request is not performed again, but
    /// gets the recorded answer.
    pub(crate) fn dispatch(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        if open.replay_answer(request) {
            return Ok(());
        }
        // A request that runs a sync loop is not counted as a change in progress: it takes long and
        // changes no state of the domain.
        let lasts = request.kind == NETMAP_REQ_SYNC_KLOOP_START;
        let change = if lasts { None } else { open.domain.begin_change() };
        let done = self.perform(open, request, caller);
        if done.is_ok() && change.is_some() && changes_state(request.kind) {
            open.record_answer(request);
            drop(change);
            open.domain.commit();
        }
        done
    }

    fn perform(
        &self,
        open: &OpenHandle,
        request: &mut NetmapRequest,
        caller: &mut dyn CallerMemory,
    ) -> Result<(), Errno> {
        if !matches!(
            request.kind,
            NETMAP_REQ_REGISTER | NETMAP_REQ_SYNC_KLOOP_START | NETMAP_REQ_CSB_ENABLE
        ) {
            request.options.all_used()?;
        }
        match request.kind {
            NETMAP_REQ_REGISTER => self.register(open, request, caller),
            NETMAP_REQ_PORT_INFO_GET => self.port_info(open, request),
            NETMAP_REQ_POOLS_INFO_GET => self.pools_info(open, request),
            NETMAP_REQ_PORT_HDR_GET => self.port_header(open, request),
            NETMAP_REQ_PORT_HDR_SET => self.set_port_header(open, request),
            NETMAP_REQ_VALE_LIST => self.vale_list(open, request),
            NETMAP_REQ_VALE_ATTACH => self.vale_attach(open, request),
            NETMAP_REQ_VALE_DETACH => self.vale_detach(open, request),
            NETMAP_REQ_VALE_NEWIF => self.vale_new(open, request),
            NETMAP_REQ_VALE_DELIF => self.vale_remove(open, request),
            NETMAP_REQ_VALE_POLLING_ENABLE => self.polling_on(open, request),
            NETMAP_REQ_VALE_POLLING_DISABLE => self.polling_off(open, request),
            NETMAP_REQ_SYNC_KLOOP_START => start(open, request, caller),
            NETMAP_REQ_SYNC_KLOOP_STOP => stop(open),
            NETMAP_REQ_CSB_ENABLE => enable(open, request, caller),
            _ => Err(Errno::INVAL),
        }
    }

    /// Finds or creates the port that a request names, with default options.
    pub(crate) fn find(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let register = NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..NmreqRegister::default() };
        self.find_with(open, request, &register)
    }

    /// Finds or creates the port that a request names, for a bind with the options `register`.
    pub(super) fn find_with(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
        register: &NmreqRegister,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        let memory = match register.nr_mem_id {
            0 => None,
            id => Some(open.domain.memory(id)?),
        };
        self.find_in(open, request, register, memory.as_ref())
    }

    /// Like [`Self::find_with`], but the memory is `memory`, not the one that `nr_mem_id` names. A
    /// new port is created in it; an existing port must be in it.
    pub(super) fn find_in(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
        register: &NmreqRegister,
        memory: Option<&Arc<NetmapMemory>>,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        if request.name.is_empty() && register.nr_mode != NR_REG_NULL {
            return Err(Errno::NXIO);
        }
        let (domain, opener, name) = (&open.domain, &open.opener, request.name.as_str());
        AdapterRequest { domain, opener, name, register, memory }.find(&*self.provider)
    }

    /// Finds the port that a request names, without creating it.
    pub(crate) fn find_existing(
        &self,
        open: &OpenHandle,
        request: &NetmapRequest,
    ) -> Result<Arc<dyn Adapter>, Errno> {
        if request.name.is_empty() {
            return Err(Errno::NXIO);
        }
        let register = NmreqRegister { nr_mode: NR_REG_ALL_NIC, ..NmreqRegister::default() };
        let (domain, opener, name) = (&open.domain, &open.opener, request.name.as_str());
        let wanted = AdapterRequest { domain, opener, name, register: &register, memory: None };
        wanted.find_existing(&*self.provider)
    }
}

/// Returns whether a request of this type changes state that has to survive a restart.
fn changes_state(kind: u16) -> bool {
    !matches!(
        kind,
        NETMAP_REQ_PORT_INFO_GET
            | NETMAP_REQ_POOLS_INFO_GET
            | NETMAP_REQ_PORT_HDR_GET
            | NETMAP_REQ_VALE_LIST
            | NETMAP_REQ_SYNC_KLOOP_STOP
    )
}

fn checked_body_size(header: &NmreqHeader) -> Result<usize, Errno> {
    if !(NETMAP_MIN_API..=NETMAP_MAX_API).contains(&header.nr_version) || header.nr_reserved != 0 {
        return Err(Errno::INVAL);
    }
    let size = body_size(header.nr_reqtype).ok_or(Errno::INVAL)?;
    if (size > 0) == (header.nr_body != 0) { Ok(size) } else { Err(Errno::INVAL) }
}
