//! The kernel's helper functions.

use super::execute::{Next, Run};
use super::memory::{MAPS, Memory, MemoryView};
use super::{BpfRedirect, Fault, SimulatedMap};
use crate::insn::BpfHelper;
use crate::map::BpfMapKind;

const XDP_ABORTED: u64 = 0;
const XDP_REDIRECT: u64 = 4;
const ENOENT: u64 = 2;
const EINVAL: u64 = 22;
/// Maximum number of tail calls in a run (`MAX_TAIL_CALL_CNT`).
const MAX_TAIL_CALLS: u32 = 33;

impl Run<'_> {
    pub(super) fn call_helper(&mut self, number: i32) -> Result<Next, Fault> {
        let [_, r1, r2, _, r4, ..] = self.regs;
        let result = match number {
            n if n == BpfHelper::MapLookup as i32 => self.lookup()?,
            n if n == BpfHelper::MapUpdate as i32 => {
                let (key, map) = (self.key()?, self.map_number(r1)?);
                let size = self.memory.maps[map].spec().value_size as usize;
                let value = self.bytes(self.regs[3], size)?;
                result_of(self.memory.maps[map].set(&key, &value, r4))
            }
            n if n == BpfHelper::MapDelete as i32 => {
                let (key, map) = (self.key()?, self.map_number(r1)?);
                result_of(self.memory.maps[map].remove(&key))
            }
            n if n == BpfHelper::KtimeGetNs as i32 => self.world.now_ns,
            n if n == BpfHelper::KtimeGetCoarseNs as i32 => self.world.now_ns,
            n if n == BpfHelper::XdpGetBuffLen as i32 => self.memory.packet.bytes().len() as u64,
            n if n == BpfHelper::TailCall as i32 => return self.tail_call(),
            n if n == BpfHelper::Redirect as i32 => {
                self.redirect = Some(BpfRedirect::Interface(r1 as u32));
                self.redirect_result(r2)
            }
            n if n == BpfHelper::RedirectMap as i32 => self.redirect_map()?,
            n if n == BpfHelper::XdpAdjustHead as i32 => {
                moved(self.memory.packet.move_start(r2 as i32))
            }
            n if n == BpfHelper::XdpAdjustTail as i32 => {
                moved(self.memory.packet.move_end(r2 as i32))
            }
            _ => return Err(Fault::UnknownFunction { at: self.at, number }),
        };
        self.regs[0] = result;
        Ok(Next::Skip(0))
    }

    pub(super) fn call_function(&mut self, btf_id: i32) -> Result<Next, Fault> {
        let unknown = Fault::UnknownFunction { at: self.at, number: btf_id };
        let function = *self.world.functions.get(&btf_id).ok_or(unknown)?;
        let [_, args @ .., _, _, _, _, _] = self.regs;
        let wrong = Fault::OutOfBounds { at: self.at, address: args[0], width: 0 };
        self.regs[0] = function(&mut MemoryView(&mut self.memory), args).ok_or(wrong)?;
        Ok(Next::Skip(0))
    }

    /// Returns what `bpf_redirect` returns: for a frame, `XDP_REDIRECT`, or `XDP_ABORTED` if
    /// `flags` is not 0; for a socket buffer, `TC_ACT_REDIRECT`.
    fn redirect_result(&self, flags: u64) -> u64 {
        const TC_ACT_REDIRECT: u64 = 7;
        match &self.memory.context {
            super::memory::Context::Plain(_) => TC_ACT_REDIRECT,
            super::memory::Context::Xdp(_) if flags != 0 => XDP_ABORTED,
            super::memory::Context::Xdp(_) => XDP_REDIRECT,
        }
    }

    fn lookup(&mut self) -> Result<u64, Fault> {
        let (key, map) = (self.key()?, self.map_number(self.regs[1])?);
        let of = &self.memory.maps[map];
        Ok(match of.spec().kind {
            BpfMapKind::ArrayOfMaps => reference(of, &key).map_or(0, |inner| MAPS | inner),
            BpfMapKind::ProgramArray => return Err(Fault::WrongMap { at: self.at }),
            _ => of.offset_of(&key).map_or(0, |offset| Memory::value_address(map, offset)),
        })
    }

    fn redirect_map(&mut self) -> Result<u64, Fault> {
        /// The bits of `flags` that contain the result for a map without such an entry.
        const ACTIONS: u64 = 3;
        let [_, r1, r2, r3, ..] = self.regs;
        let map = self.map_of(r1, &[BpfMapKind::DevMap, BpfMapKind::XskMap])?;
        let Some(entry) = map.reference(r2 as u32) else { return Ok(r3 & ACTIONS) };
        self.redirect = Some(BpfRedirect::MapEntry(entry));
        Ok(XDP_REDIRECT)
    }

    /// Jumps to the program at index `R3` of map `R2`. If the map has no program there, or the run
    /// has made too many tail calls, continues with the next instruction.
    fn tail_call(&mut self) -> Result<Next, Fault> {
        let [_, _, r2, r3, ..] = self.regs;
        let map = self.map_of(r2, &[BpfMapKind::ProgramArray])?;
        let program = map.reference(r3 as u32);
        self.tail_calls += 1;
        Ok(match program.filter(|_| self.tail_calls <= MAX_TAIL_CALLS) {
            Some(program) => Next::Program(program as usize),
            None => {
                self.regs[0] = ENOENT.wrapping_neg();
                Next::Skip(0)
            }
        })
    }

    fn map_number(&self, address: u64) -> Result<usize, Fault> {
        let number = address.checked_sub(MAPS).map(|number| number as usize);
        let known = number.filter(|&number| number < self.memory.maps.len());
        known.ok_or(Fault::WrongMap { at: self.at })
    }

    fn map_of(&self, address: u64, kinds: &[BpfMapKind]) -> Result<&SimulatedMap, Fault> {
        let map = &self.memory.maps[self.map_number(address)?];
        let fits = kinds.contains(&map.spec().kind);
        fits.then_some(map).ok_or(Fault::WrongMap { at: self.at })
    }

    /// Reads the key at the address in `R2`, which has the key size of the map in `R1`.
    fn key(&mut self) -> Result<Vec<u8>, Fault> {
        let map = self.map_number(self.regs[1])?;
        let size = self.memory.maps[map].spec().key_size as usize;
        self.bytes(self.regs[2], size)
    }

    fn bytes(&mut self, address: u64, width: usize) -> Result<Vec<u8>, Fault> {
        let outside = Fault::OutOfBounds { at: self.at, address, width };
        self.memory.bytes(address, width).map(|bytes| bytes.to_vec()).ok_or(outside)
    }
}

fn reference(map: &SimulatedMap, key: &[u8]) -> Option<u64> {
    map.reference(u32::from_ne_bytes(key.try_into().ok()?)).map(u64::from)
}

/// Returns what a helper returns: 0, or the negative error number.
fn result_of(result: Result<(), i32>) -> u64 {
    result.map_or_else(|errno| i64::from(-errno) as u64, |()| 0)
}

fn moved(done: bool) -> u64 {
    if done { 0 } else { EINVAL.wrapping_neg() }
}
