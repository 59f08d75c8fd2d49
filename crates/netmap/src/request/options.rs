//! The options of a request: a linked list in the caller's memory.
//!
//! Once the list was read, the status of each option is written back, so that the caller learns
//! which option was refused and why. Option bodies are written back only if the call succeeds.

use rustix::io::Errno;
use slipring_abi::*;

use crate::memory::caller::{CallerMemory, bytes_of, read_plain};

/// A request's options, in the order of the list.
#[derive(Debug, Default)]
pub(crate) struct RequestOptions(Vec<ListedOption>);

#[derive(Debug)]
struct ListedOption {
    addr: u64,
    head: NmreqOption,
    body: Vec<u8>,
    is_used: bool,
}

/// Returns the size in bytes of an option's body, after its head.
fn body_size(head: &NmreqOption) -> u64 {
    let whole = match head.nro_reqtype {
        NETMAP_REQ_OPT_EXTMEM => NmreqOptExtmem::SIZE as u64,
        NETMAP_REQ_OPT_CSB => NmreqOptCsb::SIZE as u64,
        NETMAP_REQ_OPT_SYNC_KLOOP_MODE => NmreqOptSyncKloopMode::SIZE as u64,
        NETMAP_REQ_OPT_OFFSETS => NmreqOptOffsets::SIZE as u64,
        NETMAP_REQ_OPT_SYNC_KLOOP_EVENTFDS => head.nro_size,
        _ => 0,
    };
    whole.saturating_sub(NmreqOption::SIZE as u64)
}

/// Returns whether an option of this type exists.
fn is_known(kind: u32) -> bool {
    (NETMAP_REQ_OPT_EXTMEM..=NETMAP_REQ_OPT_OFFSETS).contains(&kind)
}

impl RequestOptions {
    /// Reads the list that begins at `addr`, for a request whose body has `size` bytes.
    ///
    /// `FAULT` for an invalid address. `MSGSIZE` if a known option states a size beyond
    /// `NETMAP_REQ_MAXSIZE`, or if the total size is beyond it, as it is for a list with a cycle.
    pub(crate) fn read(
        addr: u64,
        size: usize,
        caller: &mut dyn CallerMemory,
    ) -> Result<Self, Errno> {
        let (mut listed, mut total, mut next) = (Vec::new(), size as u64, addr);
        while next != 0 {
            let head: NmreqOption = read_plain(caller, next)?;
            let len = body_size(&head);
            total = total.saturating_add(NmreqOption::SIZE as u64).saturating_add(len);
            let says = if is_known(head.nro_reqtype) { head.nro_size } else { 0 };
            if total.max(says) > NETMAP_REQ_MAXSIZE as u64 {
                return Err(Errno::MSGSIZE);
            }
            let mut body = vec![0; len as usize];
            if len > 0 {
                let at = next.checked_add(NmreqOption::SIZE as u64).ok_or(Errno::FAULT)?;
                caller.read(at, &mut body)?;
            }
            let addr = std::mem::replace(&mut next, head.nro_next);
            listed.push(ListedOption { addr, head, body, is_used: false });
        }
        Ok(Self(listed))
    }

    /// Checks the list before any option is used. A known option must not occur twice; an unknown
    /// one is always refused.
    pub(crate) fn check_list(&mut self) -> Result<(), Errno> {
        let kinds: Vec<u32> = self.0.iter().map(|one| one.head.nro_reqtype).collect();
        let judge = |kind: u32| {
            let twice = kinds.iter().filter(|&&other| other == kind).count() > 1;
            match is_known(kind) {
                true if twice => Err(Errno::INVAL),
                true => Ok(()),
                false if kind == 0 => Err(Errno::INVAL),
                false => Err(Errno::OPNOTSUPP),
            }
        };
        let mut done = Ok(());
        for one in &mut self.0 {
            let judged = judge(one.head.nro_reqtype);
            one.head.nro_status = judged.err().map_or(0, errno);
            if done.is_ok() {
                done = judged;
            }
        }
        done
    }

    /// Refuses the request if it has options that were not used, and records that in their status.
    pub(crate) fn all_used(&mut self) -> Result<(), Errno> {
        let mut unused = self.0.iter_mut().filter(|one| !one.is_used).peekable();
        if unused.peek().is_none() {
            return Ok(());
        }
        unused.for_each(|one| one.head.nro_status = errno(Errno::OPNOTSUPP));
        Err(Errno::OPNOTSUPP)
    }

    /// Returns the option of this type and marks it as used.
    pub(crate) fn take<T: PlainData>(&mut self, kind: u32) -> Option<T> {
        let one = self.find(kind)?;
        one.is_used = true;
        T::read_from(&[&bytes_of(&one.head), one.body.as_slice()].concat())
    }

    /// Returns the option of this type, head and body, and marks it as used.
    pub(crate) fn take_bytes(&mut self, kind: u32) -> Option<(NmreqOption, Vec<u8>)> {
        let one = self.find(kind)?;
        one.is_used = true;
        Some((one.head, one.body.clone()))
    }

    /// Sets the body of an option, which is written back if the call succeeds.
    pub(crate) fn put<T: PlainData>(&mut self, kind: u32, option: &T) {
        if let Some(one) = self.find(kind) {
            one.body.copy_from_slice(&bytes_of(option)[NmreqOption::SIZE..]);
        }
    }

    /// Returns the bodies of the used options, by type.
    pub(crate) fn granted_options(&self) -> Vec<(u32, Vec<u8>)> {
        let used = self.0.iter().filter(|one| one.is_used);
        used.map(|one| (one.head.nro_reqtype, one.body.clone())).collect()
    }

    /// Restores bodies that [`Self::granted_options`] returned for the same list.
    pub(crate) fn apply_granted(&mut self, granted: &[(u32, Vec<u8>)]) {
        for (kind, body) in granted {
            if let Some(one) = self.find(*kind).filter(|one| one.body.len() == body.len()) {
                one.body.clone_from(body);
            }
        }
    }

    /// If `result` is an error, records it in the status of the option. Returns `result`.
    pub(crate) fn record_result<T>(
        &mut self,
        kind: u32,
        result: Result<T, Errno>,
    ) -> Result<T, Errno> {
        if let (Some(one), Err(why)) = (self.find(kind), &result) {
            one.head.nro_status = errno(*why);
        }
        result
    }

    fn find(&mut self, kind: u32) -> Option<&mut ListedOption> {
        self.0.iter_mut().find(|one| one.head.nro_reqtype == kind)
    }

    pub(crate) fn write_heads(&self, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        for one in &self.0 {
            // In the caller's memory, only the status in an option's head may be changed.
            let at = one.addr + std::mem::offset_of!(NmreqOption, nro_status) as u64;
            caller.write(at, &one.head.nro_status.to_ne_bytes())?;
        }
        Ok(())
    }

    pub(crate) fn write_bodies(&self, caller: &mut dyn CallerMemory) -> Result<(), Errno> {
        let with_body = self.0.iter().filter(|one| !one.body.is_empty());
        with_body
            .map(|one| (one.addr + NmreqOption::SIZE as u64, &one.body))
            .try_for_each(|(at, body)| caller.write(at, body))
    }
}

fn errno(error: Errno) -> u32 {
    error.raw_os_error().unsigned_abs()
}
