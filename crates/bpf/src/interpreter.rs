//! Runs programs without the kernel: as the oracle of tests, and on frames that a test cannot send
//! over a wire.
//!
//! ```text
//!   address = region << 32 | offset
//!   region  1 context   2 stack   3 frame   4 maps themselves   16 + n values of map n
//! ```
//!
//! Addresses are numbers as in the kernel, so arithmetic on pointers needs no special rules. Every
//! access must be within a region, and an access to the frame within `data..data_end`. The verifier
//! proves this for all frames; the interpreter checks it for the frame of the run. A context field
//! that the kernel translates, such as `data` of `struct xdp_md`, reads as an address.
//!
//! # Not for
//! Deciding whether the kernel would load a program: the kernel may refuse a program that runs well
//! here. Speed.

mod alu;
mod execute;
mod helpers;
mod maps;
mod memory;

use std::collections::BTreeMap;

pub use maps::SimulatedMap;
pub use memory::MemoryView;

use crate::assembler::BpfCode;
use memory::{Context, Memory, Packet};

/// Why a run stopped early. Positions are counted in instruction slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An access outside all regions, or across the end of a region.
    #[error("slot {at}: {width} bytes at {address:#x} are outside of memory")]
    OutOfBounds {
        /// Position of the instruction.
        at: usize,
        /// Address of the first byte of the access.
        address: u64,
        /// Number of bytes accessed.
        width: usize,
    },
    /// An instruction that [`crate::insn`] and [`crate::Assembler`] do not create.
    #[error("slot {at}: unknown instruction {code:#x}")]
    UnknownInsn {
        /// Position of the instruction.
        at: usize,
        /// The instruction's operation code.
        code: u8,
    },
    /// A function that the interpreter does not have.
    #[error("slot {at}: there is no function {number}")]
    UnknownFunction {
        /// Position of the call.
        at: usize,
        /// The helper's number, or the BTF id.
        number: i32,
    },
    /// A map that was not added, or of another kind than the helper requires.
    #[error("slot {at}: no map for this here")]
    WrongMap {
        /// Position of the instruction.
        at: usize,
    },
    /// The program continued at a position where it has no instruction.
    #[error("slot {at}: after the end of the program")]
    PastTheEnd {
        /// The position without an instruction.
        at: usize,
    },
    /// The run executed a million instructions without an exit.
    #[error("the program does not end")]
    Endless,
}

/// Data that accompany a frame (`struct xdp_md`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct XdpMeta {
    /// Index of the interface on which the frame arrived.
    pub ifindex: u32,
    /// Number of the interface's receive queue.
    pub rx_queue: u32,
}

/// The destination to which a program redirects a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BpfRedirect {
    /// An interface, through which the frame leaves.
    Interface(u32),
    /// The value of an entry of a map of interfaces or sockets.
    MapEntry(u32),
}

/// The result of a program for a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpOutcome {
    /// The result: an `XDP_*` action.
    pub action: u32,
    /// The frame after the program's changes.
    pub frame: Vec<u8>,
    /// The last redirect that the program requested; it takes effect if `action` is `XDP_REDIRECT`.
    pub redirect: Option<BpfRedirect>,
}

/// A replacement of a kernel function. Its arguments are `R1` to `R5`; it returns `R0`, or `None`
/// if an address is invalid.
pub type KernelFunction = fn(&mut MemoryView<'_, '_>, [u64; 5]) -> Option<u64>;

/// The environment of a program: maps, the clock, kernel functions.
#[derive(Debug, Default)]
pub struct Interpreter {
    /// The result of `bpf_ktime_get_ns` and `bpf_ktime_get_coarse_ns`.
    pub now_ns: u64,
    names: Vec<String>,
    maps: Vec<SimulatedMap>,
    programs: Vec<BpfCode>,
    functions: BTreeMap<i32, KernelFunction>,
}

impl Interpreter {
    /// Creates an interpreter without maps, at time 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a map, by the name that programs use.
    pub fn add_map(&mut self, name: &str, map: SimulatedMap) -> &mut Self {
        self.names.push(name.to_owned());
        self.maps.push(map);
        self
    }

    /// Returns the map that was added as `name`.
    pub fn map(&mut self, name: &str) -> Option<&mut SimulatedMap> {
        let at = self.position(name)?;
        self.maps.get_mut(at)
    }

    /// Puts the map `inner` into an array of maps. Returns false if either map does not exist, or
    /// the array refuses the entry.
    pub fn set_inner(&mut self, outer: &str, index: u32, inner: &str) -> bool {
        let inner = self.position(inner);
        inner.is_some_and(|inner| self.set_reference(outer, index, inner as u32))
    }

    /// Puts a program into a map of programs. Returns false if the map does not exist or refuses
    /// the entry.
    pub fn set_program(&mut self, map: &str, index: u32, program: BpfCode) -> bool {
        self.programs.push(program);
        self.set_reference(map, index, self.programs.len() as u32 - 1)
    }

    /// Sets entry `index` of a map of interfaces or sockets to `to`. Returns false if the map does
    /// not exist or refuses the entry.
    pub fn set_reference(&mut self, map: &str, index: u32, to: u32) -> bool {
        let key = index.to_ne_bytes();
        self.map(map).is_some_and(|map| map.set(&key, &to.to_ne_bytes(), 0).is_ok())
    }

    /// Defines the kernel function with this BTF id.
    pub fn set_function(&mut self, btf_id: i32, function: KernelFunction) -> &mut Self {
        self.functions.insert(btf_id, function);
        self
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known == name)
    }

    /// Runs an XDP program on a frame.
    ///
    /// # Errors
    /// A [`Fault`]: the program performed an invalid operation.
    pub fn run_xdp(
        &mut self,
        code: &BpfCode,
        frame: &[u8],
        meta: XdpMeta,
    ) -> Result<XdpOutcome, Fault> {
        let (result, memory, redirect) = self.run(code, Context::Xdp(meta), Packet::new(frame))?;
        let frame = memory.packet.bytes().to_vec();
        Ok(XdpOutcome { action: result as u32, frame, redirect })
    }

    /// Runs a program on a plain context, such as the first fields of `struct __sk_buff`, which the
    /// program reads and writes directly. Returns the program's result, and the redirect that it
    /// requested, if any.
    ///
    /// # Errors
    /// A [`Fault`]. Then `context` is empty.
    pub fn run_on_context(
        &mut self,
        code: &BpfCode,
        context: &mut Vec<u8>,
    ) -> Result<(u32, Option<BpfRedirect>), Fault> {
        let plain = Context::Plain(std::mem::take(context));
        let (result, memory, redirect) = self.run(code, plain, Packet::new(&[]))?;
        if let Context::Plain(bytes) = memory.context {
            *context = bytes;
        }
        Ok((result as u32, redirect))
    }

    fn run(
        &mut self,
        code: &BpfCode,
        context: Context,
        packet: Packet,
    ) -> Result<(u64, Memory<'_>, Option<BpfRedirect>), Fault> {
        let world = execute::World {
            now_ns: self.now_ns,
            names: &self.names,
            programs: &self.programs,
            functions: &self.functions,
        };
        let memory = Memory::new(context, packet, &mut self.maps);
        execute::Run::new(world, memory).run(code)
    }
}

#[cfg(test)]
mod tests;
