//! Counts the frames that are dropped after programs have redirected them to interfaces.
//!
//! A program does not learn the result of a redirection, because the kernel performs it later. Only
//! tracepoints report the result:
//!
//! ```text
//!   program --redirect--> kernel --> queue of up to 16 frames --> driver's ndo_xdp_xmit
//!                           |                                        |
//!              xdp_redirect_err: the interface              xdp_devmap_xmit: how many
//!              takes no frames, or not this one             the driver has dropped
//!                           '------> counters by port <--------------'
//! ```
//!
//! An interface takes no frames at all (EOPNOTSUPP, ENXIO) if its driver has no such function, or
//! if it is a veth device whose peer has neither XDP in native mode nor GRO, which may change at
//! any time. A driver drops some frames if its ring is full, or if the MTU at the other end is
//! smaller.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use slipring_bpf::insn::{
    AccessWidth, AluOp, AtomicOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, atomic, call, exit,
    load, mov, mov_imm,
};
use slipring_bpf::{
    Assembler, BpfCode, BpfError, BpfLink, BpfMap, BpfMapSpec, BpfProgram, BpfProgramFlags,
    BpfProgramKind, KernelTypes, MappedArray,
};
use slipring_fib::FibPortIndex;

/// The map of the counters, in the programs.
const DROPS: &str = "drops";
/// Size of the counters of a port in bytes. The counters are the frames dropped and, as a part of
/// these, the frames refused; and then both for the frames of [`EgressProbe`](crate::EgressProbe).
const COUNTERS_SIZE: u32 = 32;
const REFUSED_OFFSET: i16 = 8;
const PROBE_OFFSET: i16 = 16;
/// The index of the loopback interface. To the tracepoints, frames of
/// [`EgressProbe`](crate::EgressProbe) come from this interface.
const LOOPBACK: i32 = 1;

/// Counts dropped frames until this value is dropped.
#[derive(Debug)]
pub struct DriverDrops {
    _links: [BpfLink; 2],
    counters: MappedArray,
}

impl DriverDrops {
    /// Starts counting, by port, the frames that are dropped after they were redirected to
    /// interfaces of this thread's network namespace. `egress` is the map of the redirections.
    pub(crate) fn start(ifindexes: &[u32], egress: &BpfMap) -> Result<Self, BpfError> {
        let system = |what| move |source| BpfError::System { what, source };
        let places = KernelPlaces::find().map_err(system("find the kernel's network devices"))?;
        let egress = egress.id().map_err(system("find the map of interfaces"))?;
        let size = COUNTERS_SIZE * (ifindexes.len() as u32).max(1);
        let map = BpfMap::create("slip_drops", BpfMapSpec::mappable_array(size, 1))?;
        let counters = map.map_values().map_err(system("map a BPF array"))?;
        let attach = |code: BpfCode, tracepoint, what| {
            let insns = code.bind(|_| Some(map.raw_fd())).expect("the program has one map");
            let (kind, flags) = (BpfProgramKind::RawTracepoint, BpfProgramFlags::default());
            let program = BpfProgram::load(kind, "slipring_drops", &insns, flags)?;
            program.attach_tracepoint(tracepoint).map_err(system(what))
        };
        let by_driver = by_driver(&places, ifindexes);
        let by_kernel = by_kernel(&places, egress, ifindexes.len() as i32);
        let links = [
            attach(by_driver, c"xdp_devmap_xmit", "attach to xdp_devmap_xmit")?,
            attach(by_kernel, c"xdp_redirect_err", "attach to xdp_redirect_err")?,
        ];
        Ok(Self { _links: links, counters })
    }

    /// Returns how many redirected frames for a port were dropped.
    #[must_use]
    pub fn dropped(&self, port: FibPortIndex) -> u64 {
        self.count(port, 0)
    }

    /// How many of the frames in [`Self::dropped`] were dropped because the interface takes no
    /// redirected frames.
    #[must_use]
    pub fn refused(&self, port: FibPortIndex) -> u64 {
        self.count(port, REFUSED_OFFSET)
    }

    /// How many frames of probes for a port were dropped. They are not in [`Self::dropped`].
    pub(crate) fn probes_dropped(&self, port: FibPortIndex) -> u64 {
        self.count(port, PROBE_OFFSET)
    }

    /// How many frames of probes for a port were refused. They are not in [`Self::refused`].
    pub(crate) fn probes_refused(&self, port: FibPortIndex) -> u64 {
        self.count(port, PROBE_OFFSET + REFUSED_OFFSET)
    }

    fn count(&self, port: FibPortIndex, offset: i16) -> u64 {
        let offset = COUNTERS_SIZE as usize * usize::from(port.0) + offset as usize;
        let count = self.counters.atomic::<AtomicU64>(0, offset);
        // Relaxed: a counter guards no other data.
        count.map_or(0, |count| count.load(Ordering::Relaxed))
    }
}

/// The offsets of the kernel's fields that the programs read, and the namespace whose devices they
/// count.
struct KernelPlaces {
    /// Offset in a network device of its index.
    ifindex: i32,
    /// Offset in a network device of the pointer to its network namespace.
    net: i32,
    /// Offset in a network namespace of its number.
    inum: i32,
    /// The number of this thread's network namespace.
    namespace: u32,
}

impl KernelPlaces {
    fn find() -> std::io::Result<Self> {
        let types = KernelTypes::read()?;
        let offset = |structure, member| types.member_offset(structure, member).map(|at| at as i32);
        let namespace = std::fs::metadata("/proc/thread-self/ns/net")?.ino();
        Ok(Self {
            ifindex: offset("net_device", "ifindex")?,
            net: offset("net_device", "nd_net")?,
            inum: offset("net", "ns")? + offset("ns_common", "inum")?,
            // Numbers of namespaces have 32 bits.
            namespace: namespace as u32,
        })
    }
}

/// The program at `xdp_devmap_xmit(from, to, sent, dropped, error)`.
fn by_driver(places: &KernelPlaces, ifindexes: &[u32]) -> BpfCode {
    let (to, dropped, error) = (8, 24, 32);
    let mut program = Assembler::new();
    program
        .put(mov(BpfReg::R6, BpfReg::R1))
        .put(load(AccessWidth::Word, BpfReg::R7, BpfReg::R6, dropped))
        .jump_if(BpfReg::R7, JumpIf::Eq, 0, "end")
        .put(load(AccessWidth::Double, BpfReg::R8, BpfReg::R6, to));
    read(&mut program, BpfReg::R8, places.net, AccessWidth::Double);
    program.put(mov(BpfReg::R9, BpfReg::R0));
    read(&mut program, BpfReg::R9, places.inum, AccessWidth::Word);
    program.jump_if32(BpfReg::R0, JumpIf::Ne, places.namespace as i32, "end");
    read(&mut program, BpfReg::R8, places.ifindex, AccessWidth::Word);
    for (port, ifindex) in (0..).zip(ifindexes) {
        let next = format!("not port {port}");
        program
            .jump_if32(BpfReg::R0, JumpIf::Ne, *ifindex as i32, &next)
            .load_map_value(BpfReg::R9, DROPS, COUNTERS_SIZE * port)
            .jump("count")
            .label(&next);
    }
    program.jump("end");
    count(&mut program, places, error);
    program.assemble().expect("all labels exist")
}

/// The program at `xdp_redirect_err(from, program, target, error, kind of map, map, index)`. The
/// index is a port if the map is `egress`.
fn by_kernel(places: &KernelPlaces, egress: u32, ports: i32) -> BpfCode {
    let (error, map, index) = (24, 40, 48);
    let mut program = Assembler::new();
    program
        .put(mov(BpfReg::R6, BpfReg::R1))
        .put(load(AccessWidth::Word, BpfReg::R7, BpfReg::R6, map))
        .jump_if32(BpfReg::R7, JumpIf::Ne, egress as i32, "end")
        .put(load(AccessWidth::Word, BpfReg::R8, BpfReg::R6, index))
        .jump_if(BpfReg::R8, JumpIf::Ge, ports, "end")
        .put(alu(AluOp::Mul, BpfReg::R8, COUNTERS_SIZE as i32))
        .load_map_value(BpfReg::R9, DROPS, 0)
        .put(alu(AluOp::Add, BpfReg::R9, BpfReg::R8))
        .put(mov_imm(BpfReg::R7, 1));
    count(&mut program, places, error);
    program.assemble().expect("all labels exist")
}

/// Adds `R7` to the count of dropped frames at `R9`, and to that of refused frames if the error
/// says that the interface takes none; ends the program. `error` is the offset of the error in the
/// tracepoint's arguments, which `R6` points to. The first argument is the device that the frames
/// come from.
fn count(program: &mut Assembler, places: &KernelPlaces, error: i16) {
    let add = |offset| atomic(AtomicOp::Add, AccessWidth::Double, BpfReg::R9, offset, BpfReg::R7);
    program.label("count").put(load(AccessWidth::Double, BpfReg::R8, BpfReg::R6, 0));
    read(program, BpfReg::R8, places.ifindex, AccessWidth::Word);
    program
        .jump_if32(BpfReg::R0, JumpIf::Ne, LOOPBACK, "no probe")
        .put(add_imm(BpfReg::R9, PROBE_OFFSET.into()))
        .label("no probe")
        .put(add(0))
        .put(load(AccessWidth::Word, BpfReg::R1, BpfReg::R6, error))
        .jump_if32(BpfReg::R1, JumpIf::Eq, -Errno::OPNOTSUPP.raw_os_error(), "refused")
        // The veth driver returns this error if the device's peer does not have the ring that
        // receives redirected frames.
        .jump_if32(BpfReg::R1, JumpIf::Ne, -Errno::NXIO.raw_os_error(), "end")
        .label("refused")
        .put(add(REFUSED_OFFSET))
        .label("end")
        .put_all([mov_imm(BpfReg::R0, 0), exit()]);
}

/// `R0 = *(width *)(base + offset)` in kernel memory. If the memory cannot be read, the helper
/// writes zeros.
fn read(program: &mut Assembler, base: BpfReg, offset: i32, width: AccessWidth) {
    let bytes = if width == AccessWidth::Double { 8 } else { 4 };
    program.put_all([
        mov(BpfReg::R1, BpfReg::R10),
        add_imm(BpfReg::R1, -8),
        mov_imm(BpfReg::R2, bytes),
        mov(BpfReg::R3, base),
        add_imm(BpfReg::R3, offset),
        call(BpfHelper::ProbeReadKernel),
        load(width, BpfReg::R0, BpfReg::R10, -8),
    ]);
}
