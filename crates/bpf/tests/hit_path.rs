//! A router's hit path in XDP: a program that forwards packets for which there is a route. The
//! routes are in arrays that the router maps and writes; without a recent heartbeat of the router,
//! every frame goes to the kernel. Runs in the interpreter, and in the kernel where allowed.
//!
//! ```text
//!   beat[0]: time of the last beat      too old --> XDP_PASS
//!   tables[0] --> a table: last byte of the destination --> number of a next hop, 0: none
//!   hops[number]: both MAC addresses, port             ports[port]: interface
//! ```
//!
//! A new table is filled first and then put into `tables`, so each frame sees either the old or the
//! new table.
#![allow(clippy::unwrap_used)]

mod lab;

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};

use rustix::time::{ClockId, clock_gettime};
use slipring_bpf::insn::{
    AccessWidth, AluOp, AtomicOp, BpfHelper, BpfReg, JumpIf, add_imm, alu, atomic, call, exit,
    load, mov, mov_imm, store, store_imm,
};
use slipring_bpf::{
    Assembler, BpfCode, BpfMap, BpfMapKind, BpfMapSpec, BpfProgram, Interpreter, MappedArray,
    SimulatedMap, XdpMeta,
};

const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;

/// Maximum age of a heartbeat. It is so long that no heartbeat becomes too old within a test, even
/// on a busy machine.
const MAX_BEAT_AGE_NS: i32 = 2_000_000_000;

const BEAT: BpfMapSpec = BpfMapSpec::mappable_array(8, 1);
const TABLE: BpfMapSpec = BpfMapSpec::mappable_array(2, 256);
const HOPS: BpfMapSpec = BpfMapSpec::mappable_array(16, 8);
const HITS: BpfMapSpec = BpfMapSpec::new(BpfMapKind::PerCpuArray, 4, 8, 1);
const PORTS: BpfMapSpec = BpfMapSpec::of_descriptors(BpfMapKind::DevMap, 4);

const KEY: i16 = -4;

/// `R0 = lookup(map, key)`, with the key in `register`; jumps to "pass" if the map has no such key.
fn look_up(program: &mut Assembler, map: &str, register: BpfReg) {
    program.load_map(BpfReg::R1, map);
    look_up_in_r1(program, register);
}

fn look_up_in_r1(program: &mut Assembler, register: BpfReg) {
    program
        .put(store(AccessWidth::Word, BpfReg::R10, KEY, register))
        .put_all([mov(BpfReg::R2, BpfReg::R10), add_imm(BpfReg::R2, KEY.into())])
        .put(call(BpfHelper::MapLookup))
        .jump_if(BpfReg::R0, JumpIf::Eq, 0, "pass");
}

/// `R2 = data`. Jumps to "pass" if the frame is too short for an Ethernet and an IPv4 header. The
/// context is in `R6`.
fn bounds(program: &mut Assembler) {
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R6, 0))
        .put(load(AccessWidth::Word, BpfReg::R3, BpfReg::R6, 4))
        .put_all([mov(BpfReg::R4, BpfReg::R2), add_imm(BpfReg::R4, 34)])
        .jump_if(BpfReg::R4, JumpIf::Gt, BpfReg::R3, "pass");
}

fn pass_without_heartbeat(program: &mut Assembler) {
    program
        .load_map_value(BpfReg::R1, "beat", 0)
        .put(load(AccessWidth::Double, BpfReg::R7, BpfReg::R1, 0))
        .put_all([call(BpfHelper::KtimeGetNs), alu(AluOp::Sub, BpfReg::R0, BpfReg::R7)])
        .jump_if(BpfReg::R0, JumpIf::Gt, MAX_BEAT_AGE_NS, "pass");
}

/// Jumps to "pass" unless the packet is IPv4 without options and has a TTL above 1. Puts the last
/// byte of the destination into `R8`.
fn parse(program: &mut Assembler) {
    bounds(program);
    program
        .put(load(AccessWidth::Half, BpfReg::R5, BpfReg::R2, 12))
        .jump_if(BpfReg::R5, JumpIf::Ne, i32::from(0x0800_u16.to_be()), "pass")
        .put(load(AccessWidth::Byte, BpfReg::R5, BpfReg::R2, 14))
        .jump_if(BpfReg::R5, JumpIf::Ne, 0x45, "pass")
        .put(load(AccessWidth::Byte, BpfReg::R5, BpfReg::R2, 22))
        .jump_if(BpfReg::R5, JumpIf::Le, 1, "pass")
        .put(load(AccessWidth::Byte, BpfReg::R8, BpfReg::R2, 33));
}

/// Puts the address of the next hop's entry into `R7`, and counts a hit. Jumps to "pass" if there
/// is no route.
fn route(program: &mut Assembler) {
    program.put(mov_imm(BpfReg::R9, 0));
    look_up(program, "tables", BpfReg::R9);
    program.put(mov(BpfReg::R1, BpfReg::R0));
    look_up_in_r1(program, BpfReg::R8);
    program.put(load(AccessWidth::Half, BpfReg::R8, BpfReg::R0, 0)).jump_if(
        BpfReg::R8,
        JumpIf::Eq,
        0,
        "pass",
    );
    look_up(program, "hops", BpfReg::R8);
    program.put(mov(BpfReg::R7, BpfReg::R0));
    look_up(program, "hits", BpfReg::R9);
    program.put(mov_imm(BpfReg::R1, 1)).put(atomic(
        AtomicOp::Add,
        AccessWidth::Double,
        BpfReg::R0,
        0,
        BpfReg::R1,
    ));
}

/// Rewrites addresses, time to live and checksum (RFC 1624).
fn rewrite(program: &mut Assembler) {
    bounds(program);
    for offset in [0, 4, 8] {
        program.put(load(AccessWidth::Word, BpfReg::R5, BpfReg::R7, offset));
        program.put(store(AccessWidth::Word, BpfReg::R2, offset, BpfReg::R5));
    }
    program
        .put(load(AccessWidth::Byte, BpfReg::R5, BpfReg::R2, 22))
        .put_all([add_imm(BpfReg::R5, -1), store(AccessWidth::Byte, BpfReg::R2, 22, BpfReg::R5)])
        .put(load(AccessWidth::Half, BpfReg::R5, BpfReg::R2, 24))
        .put(add_imm(BpfReg::R5, 0x0100_u16.to_be().into()))
        .jump_if(BpfReg::R5, JumpIf::Lt, 0xffff, "folded")
        .put(add_imm(BpfReg::R5, 1))
        .label("folded")
        .put(store(AccessWidth::Half, BpfReg::R2, 24, BpfReg::R5));
}

fn hit_path() -> BpfCode {
    let mut program = Assembler::new();
    program.put(mov(BpfReg::R6, BpfReg::R1));
    pass_without_heartbeat(&mut program);
    parse(&mut program);
    route(&mut program);
    rewrite(&mut program);
    program
        .load_map(BpfReg::R1, "ports")
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R7, 12))
        .put_all([mov_imm(BpfReg::R3, XDP_PASS as i32), call(BpfHelper::RedirectMap), exit()])
        .label("pass")
        .put_all([mov_imm(BpfReg::R0, XDP_PASS as i32), exit()]);
    program.assemble().unwrap()
}

const PORT: u32 = 3;
/// The loopback interface, which every machine has.
const IFINDEX: u32 = 1;

fn hop(mac: u8) -> [u8; 16] {
    let mut hop = [mac; 16];
    hop[12..].copy_from_slice(&PORT.to_ne_bytes());
    hop
}

/// A frame from 10.0.0.1 to 10.0.1.`to`.
fn frame(to: u8, ttl: u8) -> Vec<u8> {
    let mut frame = vec![0xaa; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34].copy_from_slice(&[
        0x45, 0, 0, 46, 1, 2, 0x40, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 1, to,
    ]);
    let sum = !sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The ones' complement sum of a header: 0xffff if its checksum is correct.
fn sum(header: &[u8]) -> u16 {
    let words = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// A simulated or a real environment in which the hit path runs.
trait Router {
    fn now_ns(&self) -> u64;
    fn beat(&mut self, time_ns: u64);
    /// Sets the entry of hop `number`.
    fn set_hop(&mut self, number: u32, hop: [u8; 16]);
    /// Publishes these routes, from the last byte of an address to a hop, in place of all previous
    /// routes.
    fn publish(&mut self, routes: &[(u32, u16)]);
    fn hits(&mut self) -> u64;
    fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>);
}

struct Simulated {
    code: BpfCode,
    interpreter: Interpreter,
    tables: u32,
}

impl Simulated {
    fn new() -> Self {
        let mut interpreter = Interpreter::new();
        interpreter.now_ns = 1 << 40;
        let specs = [("beat", BEAT), ("hops", HOPS), ("hits", HITS), ("ports", PORTS)];
        for (name, spec) in specs {
            interpreter.add_map(name, SimulatedMap::new(spec));
        }
        let tables = BpfMapSpec::of_descriptors(BpfMapKind::ArrayOfMaps, 1);
        interpreter.add_map("tables", SimulatedMap::new(tables));
        assert!(interpreter.set_reference("ports", PORT, IFINDEX));
        Self { code: hit_path(), interpreter, tables: 0 }
    }

    fn set(&mut self, map: &str, index: u32, value: &[u8]) {
        let map = self.interpreter.map(map).unwrap();
        map.set(&index.to_ne_bytes(), value, 0).unwrap();
    }
}

impl Router for Simulated {
    fn now_ns(&self) -> u64 {
        self.interpreter.now_ns
    }

    fn beat(&mut self, time_ns: u64) {
        self.set("beat", 0, &time_ns.to_ne_bytes());
    }

    fn set_hop(&mut self, number: u32, hop: [u8; 16]) {
        self.set("hops", number, &hop);
    }

    fn publish(&mut self, routes: &[(u32, u16)]) {
        self.tables += 1;
        let name = format!("table{}", self.tables);
        self.interpreter.add_map(&name, SimulatedMap::new(TABLE));
        for (to, hop) in routes {
            self.set(&name, *to, &hop.to_ne_bytes());
        }
        assert!(self.interpreter.set_inner("tables", 0, &name));
    }

    fn hits(&mut self) -> u64 {
        let hits = self.interpreter.map("hits").unwrap();
        u64::from_ne_bytes(hits.get(&[0; 4]).unwrap().try_into().unwrap())
    }

    fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        let outcome = self.interpreter.run_xdp(&self.code, frame, XdpMeta::default()).unwrap();
        (outcome.action, outcome.frame)
    }
}

struct InKernel {
    program: BpfProgram,
    beat: MappedArray,
    hops: MappedArray,
    tables: BpfMap,
    hits: BpfMap,
}

impl InKernel {
    fn new() -> Option<Self> {
        if !lab::has_bpf() {
            return None;
        }
        let map = |name, spec| BpfMap::create(name, spec).unwrap();
        let tables = BpfMap::create_of_maps("tables", 1, &map("table", TABLE)).unwrap();
        let (beat, hops, hits) = (map("beat", BEAT), map("hops", HOPS), map("hits", HITS));
        let ports = map("ports", PORTS);
        ports.set_number(PORT, IFINDEX).unwrap();
        let maps = [
            ("tables", &tables),
            ("beat", &beat),
            ("hops", &hops),
            ("hits", &hits),
            ("ports", &ports),
        ];
        let program = lab::load(&hit_path(), &maps).unwrap();
        let (beat, hops) = (beat.map_values().unwrap(), hops.map_values().unwrap());
        Some(Self { program, beat, hops, tables, hits })
    }
}

impl Router for InKernel {
    fn now_ns(&self) -> u64 {
        let now = clock_gettime(ClockId::Monotonic);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }

    fn beat(&mut self, time_ns: u64) {
        self.beat.atomic::<AtomicU64>(0, 0).unwrap().store(time_ns, Ordering::Relaxed);
    }

    fn set_hop(&mut self, number: u32, hop: [u8; 16]) {
        self.hops.write(number, &hop);
    }

    fn publish(&mut self, routes: &[(u32, u16)]) {
        let table = BpfMap::create("table", TABLE).unwrap();
        let values = table.map_values().unwrap();
        for (to, hop) in routes {
            values.atomic::<AtomicU16>(*to, 0).unwrap().store(*hop, Ordering::Relaxed);
        }
        self.tables.set_descriptor(0, std::os::fd::AsFd::as_fd(&table)).unwrap();
    }

    fn hits(&mut self) -> u64 {
        let per_cpu = self.hits.lookup(&[0; 4]).unwrap().unwrap();
        per_cpu.chunks(8).map(|one| u64::from_ne_bytes(one.try_into().unwrap())).sum()
    }

    fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        let run = self.program.test_run(frame, 1).unwrap();
        (run.result, run.frame)
    }
}

/// Runs `check` in the interpreter, and in the kernel if this process may use bpf(2).
fn everywhere(check: impl Fn(&mut dyn Router)) {
    check(&mut Simulated::new());
    if let Some(mut router) = InKernel::new() {
        check(&mut router);
    }
}

/// Sets up the router with a heartbeat at the present time, and one route: to 10.0.1.7 through hop
/// 2.
fn start(router: &mut dyn Router) {
    router.set_hop(2, hop(0x22));
    router.set_hop(5, hop(0x55));
    router.publish(&[(7, 2)]);
    router.beat(router.now_ns());
}

/// Returns the frame that the program makes of [`frame`] for the hop with this address.
fn forwarded(to: u8, ttl: u8, mac: u8) -> Vec<u8> {
    let mut expected = frame(to, ttl - 1);
    expected[..12].fill(mac);
    expected
}

#[test]
fn a_routed_frame_is_rewritten_counted_and_redirected() {
    everywhere(|router| {
        start(router);
        for ttl in 2..=255 {
            router.beat(router.now_ns());
            let (action, out) = router.run(&frame(7, ttl));
            assert_eq!((action, &out), (XDP_REDIRECT, &forwarded(7, ttl, 0x22)), "ttl {ttl}");
            assert_eq!(sum(&out[14..34]), 0xffff);
        }
        assert_eq!(router.hits(), 254);
    });
}

#[test]
fn without_a_recent_heartbeat_every_frame_goes_to_the_kernel() {
    everywhere(|router| {
        start(router);
        let age = u64::from(MAX_BEAT_AGE_NS.unsigned_abs()) + 1;
        for beat in [0, router.now_ns() - age, router.now_ns() + age] {
            router.beat(beat);
            assert_eq!(router.run(&frame(7, 9)), (XDP_PASS, frame(7, 9)), "beat {beat}");
        }
        assert_eq!(router.hits(), 0);
        router.beat(router.now_ns());
        assert_eq!(router.run(&frame(7, 9)).0, XDP_REDIRECT, "a new beat brings it back");
    });
}

#[test]
fn frames_that_need_more_than_a_hit_reach_the_kernel_unchanged() {
    let with = |at: usize, byte: u8| {
        let mut frame = frame(7, 9);
        frame[at] = byte;
        frame
    };
    let cases = [
        ("no route", frame(8, 9)),
        ("time to live", frame(7, 1)),
        ("time to live", frame(7, 0)),
        ("IPv6", with(13, 0xdd)),
        ("options", with(14, 0x46)),
        ("short", frame(7, 9)[..33].to_vec()),
    ];
    everywhere(|router| {
        start(router);
        for (why, frame) in &cases {
            assert_eq!(router.run(frame), (XDP_PASS, frame.clone()), "{why}");
        }
        assert_eq!(router.hits(), 0);
    });
}

#[test]
fn a_new_table_replaces_the_old_one_while_the_program_runs() {
    everywhere(|router| {
        start(router);
        router.publish(&[(8, 5)]);
        assert_eq!(router.run(&frame(7, 9)), (XDP_PASS, frame(7, 9)));
        assert_eq!(router.run(&frame(8, 9)), (XDP_REDIRECT, forwarded(8, 9, 0x55)));
    });
}

#[test]
fn a_hop_without_an_interface_leaves_the_frame_to_the_kernel() {
    everywhere(|router| {
        start(router);
        let mut lost = hop(0x22);
        lost[12..].copy_from_slice(&(PORT - 1).to_ne_bytes());
        router.set_hop(2, lost);
        assert_eq!(router.run(&frame(7, 9)).0, XDP_PASS);
    });
}

#[test]
fn the_verifier_s_words_are_in_the_error() {
    if !lab::has_bpf() {
        return;
    }
    let mut program = Assembler::new();
    program
        .put(load(AccessWidth::Word, BpfReg::R2, BpfReg::R1, 0))
        .put(load(AccessWidth::Byte, BpfReg::R0, BpfReg::R2, 0))
        .put(store_imm(AccessWidth::Word, BpfReg::R10, KEY, 0))
        .put(exit());
    let error = lab::load(&program.assemble().unwrap(), &[]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EACCES));
    assert!(error.to_string().contains("invalid access to packet"), "{error}");
}
