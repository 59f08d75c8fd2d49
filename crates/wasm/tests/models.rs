//! Tests of modules as models of links, in virtual time.
#![allow(clippy::unwrap_used)]

mod network;

use slipring_link::LinkDropCause;
use slipring_wasm::{ModuleError, ModuleLimits, WasmModule};

use network::{Sim, delay, loss, rate};

/// Builds a module with slipring's module interface from its parts.
fn module(parts: &str) -> WasmModule {
    read(parts, ModuleLimits::default()).unwrap()
}

fn read(parts: &str, limits: ModuleLimits) -> Result<WasmModule, ModuleError> {
    let abi = r#"(func (export "slipring_abi") (result i32) (i32.const 1))"#;
    WasmModule::read(&wat::parse_str(format!("(module {parts} {abi})")).unwrap(), limits)
}

/// Builds a function that has the parameters of models, and this result and body.
fn function(name: &str, result: &str, body: &str) -> String {
    format!(
        r#"(func (export "{name}") (param $now i64) (param $len i32) (param $number i64)
             (result {result}) {body})"#
    )
}

const RANDOM: &str = r#"(import "slipring" "random" (func $random (result i64)))"#;

/// The text for a window with 20 bytes of each frame. They are copied back to the frame.
const REWRITES: &str = r#"(memory (export "memory") 1)
    (func (export "slipring_header") (result i32) (i32.const 100))
    (func (export "slipring_header_len") (result i32) (i32.const 20))
    (func (export "slipring_rewrites") (result i32) (i32.const 1))"#;

#[test]
fn a_module_that_says_so_rewrites_the_bytes_of_frames() {
    // The module sets the second byte of the frame to the frame's number. It also writes to the
    // window after the end of the frame, which must have no effect.
    let body = "(i32.store8 (i32.const 101) (i32.wrap_i64 (local.get $number)))
                (i32.store8 (i32.const 119) (i32.const 99)) (i32.const 0)";
    let module = module(&(REWRITES.to_owned() + &function("lose", "i32", body)));
    let mut sim = Sim::new(loss("up", module.loss("lose", &[]).unwrap()), 1);
    (0..3).for_each(|at| sim.push(at, &[7; 18]));
    let bytes = sim.bytes();
    assert_eq!(bytes.len(), 3);
    for (number, bytes) in (0u8..).zip(bytes) {
        let mut expected = [7; 18];
        expected[1] = number;
        assert_eq!(bytes, expected, "{number}");
    }
}

#[test]
fn a_call_that_fails_rewrites_nothing() {
    let body = "(i32.store8 (i32.const 100) (i32.const 1)) unreachable";
    let module = module(&(REWRITES.to_owned() + &function("lose", "i32", body)));
    let mut sim = Sim::new(loss("up", module.loss("lose", &[]).unwrap()), 1);
    sim.push(0, &[7; 60]);
    assert_eq!(sim.lost(LinkDropCause::Model), 1);
    assert_eq!(sim.bytes(), [vec![7; 60]]);
}

/// Returns a module with a delay that counts its calls: 1 us, 2 us, ...
fn counting() -> WasmModule {
    let body = "(global.set $calls (i64.add (global.get $calls) (i64.const 1000)))
                (global.get $calls)";
    module(&format!(
        "(global $calls (mut i64) (i64.const 0)) {}",
        function("delay_ns", "i64", body)
    ))
}

#[test]
fn a_delay_sees_time_length_and_number() {
    let body = "(i64.add (i64.mul (local.get $number) (i64.const 1000000))
                         (i64.add (local.get $now) (i64.extend_i32_u (local.get $len))))";
    let module = module(&function("d", "i64", body));
    let mut sim = Sim::new(delay("up", module.delay("d", &[]).unwrap()), 1);
    for (at_ns, len) in [(100, 60), (200, 1000), (300, 60)] {
        sim.push(at_ns, &vec![0; len]);
    }
    // Each frame leaves `number * 1 ms + arrival + length` after its arrival.
    assert_eq!(sim.releases(), [260, 1_001_400, 2_000_660]);
}

#[test]
fn a_loss_keeps_loses_and_marks() {
    let body = "(i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 3)))";
    let module = module(&function("lose", "i32", body));
    let mut sim = Sim::new(loss("up", module.loss("lose", &[]).unwrap()), 1);
    (0..9).for_each(|at| sim.push(at, &[0; 60]));
    assert_eq!(sim.releases().len(), 3);
    // A frame that cannot carry a mark is lost instead.
    assert_eq!(sim.lost(LinkDropCause::Loss), 6);
}

#[test]
fn a_rate_holds_the_line_for_as_long_as_it_says() {
    // Each byte takes 8 ns, which is 1 Gbit/s.
    let body = "(i64.add (local.get $now)
                         (i64.mul (i64.const 8) (i64.extend_i32_u (local.get $len))))";
    let module = module(&function("finish_ns", "i64", body));
    let mut sim = Sim::new(rate("up", module.rate("finish_ns", &[]).unwrap()), 1);
    (0..3).for_each(|_| sim.push(0, &[0; 125]));
    assert_eq!(sim.releases(), [1000, 2000, 3000]);
}

#[test]
fn a_rate_is_told_the_number_of_the_frame_whatever_was_lost_before_the_line() {
    // A frame takes 1 us of the line for each earlier frame, including lost ones.
    let body = "(i64.add (local.get $now) (i64.mul (local.get $number) (i64.const 1000)))";
    let module = module(&function("finish_ns", "i64", body));
    let finish = module.rate("finish_ns", &[]).unwrap();
    let numbers = slipring_link::LossModel::Numbers(vec![1, 3]);
    let loss = vec![slipring_link::LossSpec { model: numbers, position: Default::default() }];
    let mut sim = Sim::new(slipring_link::LinkSpec { loss, ..rate("up", finish) }, 1);
    (0..5).for_each(|number| sim.push(number * 1_000_000, &[0; 60]));
    assert_eq!(sim.releases(), [1_001_000, 3_003_000, 4_004_000]);
}

#[test]
fn the_first_bytes_of_a_frame_are_put_where_the_module_wants_them() {
    let header = r#"(memory (export "memory") 1)
        (func (export "slipring_header") (result i32) (i32.const 100))
        (func (export "slipring_header_len") (result i32) (i32.const 4))"#;
    // The module adds two bytes: the fourth byte of the window, and the byte after the window.
    // Nothing is ever copied to the byte after the window.
    let body = "(i32.add (i32.load8_u (i32.const 103)) (i32.load8_u (i32.const 104)))";
    let module = module(&(header.to_owned() + &function("lose", "i32", body)));
    let mut sim = Sim::new(loss("up", module.loss("lose", &[]).unwrap()), 1);
    for frame in [&[9, 9, 9, 1, 9][..], &[9, 9, 9, 0, 9], &[9, 9], &[9, 9, 9, 1]] {
        sim.push(0, frame);
    }
    assert_eq!(
        sim.lost(LinkDropCause::Loss),
        2,
        "what is short ends in zeros, not in the frame before"
    );
}

#[test]
fn random_numbers_are_those_of_link_stage_and_frame() {
    let body = "(i64.and (call $random) (i64.const 0xfffff))";
    let parts = RANDOM.to_owned() + &function("delay_ns", "i64", body);
    let run = |seed, name| {
        let module = module(&parts);
        let mut sim = Sim::new(delay(name, module.delay("delay_ns", &[]).unwrap()), seed);
        (0..200).for_each(|at| sim.push(at * 10_000_000, &[0; 60]));
        sim.releases()
    };
    assert_eq!(run(7, "up"), run(7, "up"));
    assert_ne!(run(7, "up"), run(8, "up"));
    assert_ne!(run(7, "up"), run(7, "down"));
    // Draws values directly from the link's random stream, for the first and the last frame. The
    // module must have got the same values.
    let draws = slipring_model::Draws::new(7, "link/up/delay");
    let drawn = |number| draws.stream(number).next_u64() & 0xf_ffff;
    assert_eq!(run(7, "up")[0], drawn(0));
    assert_eq!(run(7, "up")[199], 1_990_000_000 + drawn(199));
}

#[test]
fn parameters_are_numbers_of_the_settings() {
    let parts = r#"(import "slipring" "param" (func $param (param i32) (result f64)))"#.to_owned()
        + &function(
            "delay_ns",
            "i64",
            "(i64.trunc_f64_s (call $param (i32.wrap_i64 (local.get $number))))",
        );
    let module = module(&parts);
    let mut sim = Sim::new(delay("up", module.delay("delay_ns", &[1000.0, 2000.5]).unwrap()), 1);
    (0..3).for_each(|_| sim.push(0, &[0; 60]));
    assert_eq!(sim.releases(), [1000, 2000]);
    assert_eq!(sim.lost(LinkDropCause::Model), 1, "there is no third");
}

#[test]
fn a_call_that_fails_costs_its_frame_and_no_other() {
    let every_second = |failure: &str| {
        let body = format!(
            "(if (i64.eq (i64.rem_u (local.get $number) (i64.const 2)) (i64.const 1))
               (then {failure})) (i64.const 5)"
        );
        function("f", "i64", &body)
    };
    for failure in [
        "unreachable",
        "(loop $ever (br $ever))",
        "(return (i64.const -1))",
        "(drop (i32.load (i32.const 65536)))",
        "(drop (i32.div_u (i32.const 1) (i32.const 0)))",
        "(call $deep)",
    ] {
        let deep = "(memory 1) (func $deep (call $deep))";
        let module = module(&(deep.to_owned() + &every_second(failure)));
        let mut sim = Sim::new(delay("up", module.delay("f", &[]).unwrap()), 1);
        (0..6).for_each(|at| sim.push(at, &[0; 60]));
        assert_eq!(sim.releases(), [5, 7, 9], "{failure}");
        assert_eq!(sim.lost(LinkDropCause::Model), 3, "{failure}");
    }
}

#[test]
fn nonsense_from_losses_and_rates_is_counted_too() {
    let lose = module(&function("lose", "i32", "(i32.const 3)"));
    let mut sim = Sim::new(loss("up", lose.loss("lose", &[]).unwrap()), 1);
    sim.push(0, &[0; 60]);
    assert_eq!(sim.lost(LinkDropCause::Model), 1);
    let back = module(&function("finish_ns", "i64", "(i64.sub (local.get $now) (i64.const 1))"));
    let mut sim = Sim::new(rate("up", back.rate("finish_ns", &[]).unwrap()), 1);
    (1..4).for_each(|at| sim.push(at, &[0; 60]));
    assert_eq!(sim.lost(LinkDropCause::Model), 3, "no line is through before it began");
}

#[test]
fn fuel_bounds_a_call() {
    // In this function, a loop runs once for each byte of the frame.
    let body = "(local $left i32) (local.set $left (local.get $len))
        (loop $next (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                    (br_if $next (local.get $left)))
        (i64.const 1)";
    let parts = function("delay_ns", "i64", body);
    let module = read(&parts, ModuleLimits { fuel: 5_000, ..ModuleLimits::default() }).unwrap();
    let mut sim = Sim::new(delay("up", module.delay("delay_ns", &[]).unwrap()), 1);
    for len in [60, 60_000, 60] {
        sim.push(0, &vec![0; len]);
    }
    assert_eq!((sim.releases().len(), sim.lost(LinkDropCause::Model)), (2, 1));
}

#[test]
fn memory_grows_to_its_limit_and_no_further() {
    // Each call makes the memory one page larger. It returns the previous number of pages, or -1.
    let body = "(i64.extend_i32_s (memory.grow (i32.const 1)))";
    let parts = "(memory 1)".to_owned() + &function("delay_ns", "i64", body);
    let module =
        read(&parts, ModuleLimits { memory_bytes: 4 << 16, ..ModuleLimits::default() }).unwrap();
    let mut sim = Sim::new(delay("up", module.delay("delay_ns", &[]).unwrap()), 1);
    (0..6).for_each(|_| sim.push(0, &[0; 60]));
    assert_eq!((sim.releases(), sim.lost(LinkDropCause::Model)), (vec![1, 2, 3], 3));
}

#[test]
fn a_module_has_one_memory_and_one_table_at_most() {
    let body = "(i64.const 1)";
    for parts in ["(memory 1) (memory 1)", "(table 1 funcref) (table 1 funcref)"] {
        let parts = parts.to_owned() + &function("delay_ns", "i64", body);
        let made = read(&parts, ModuleLimits::default()).and_then(|it| it.delay("delay_ns", &[]));
        assert!(made.is_err(), "{parts}");
    }
}

#[test]
fn each_direction_has_an_instance_of_its_own() {
    let maker = counting().delay("delay_ns", &[]).unwrap();
    let mut sim = Sim::between(delay("up", maker.clone()), delay("down", maker), 1);
    for entry in [0, 1, 0, 1] {
        sim.push_at(entry, 0, &[0; 60]);
    }
    assert_eq!(sim.releases(), [1000, 1000, 2000, 2000]);
}

#[test]
fn a_change_keeps_the_instance_unless_the_model_is_another() {
    let link = |params: &[f64], len| {
        let mut link = delay("up", counting().delay("delay_ns", params).unwrap());
        link.output_bps = Some(len);
        link
    };
    for (params, last) in [(&[1.0][..], 3_000), (&[2.0], 1_000)] {
        let mut sim = Sim::new(link(&[1.0], 1_000_000_000_000), 1);
        sim.push(0, &[0; 60]);
        sim.push(0, &[0; 60]);
        // The module is compiled again for the new settings. The contents of both modules are
        // equal, so the state stays if the parameters are also equal.
        sim.change(10_000, link(params, 2_000_000_000_000));
        sim.push(10_000, &[0; 60]);
        assert_eq!(*sim.releases().last().unwrap(), 10_000 + last);
    }
}

#[test]
fn bad_modules_are_refused_with_a_reason() {
    let delays = |parts: &str| {
        let module = read(parts, ModuleLimits::default())?;
        module.delay("delay_ns", &[]).map(|_| ())
    };
    let good = function("delay_ns", "i64", "(i64.const 1)");
    delays(&good).unwrap();
    let memory = "(memory (export \"memory\") 300)";
    let room = r#"(memory (export "memory") 1)
        (func (export "slipring_header") (result i32) (i32.const 65533))
        (func (export "slipring_header_len") (result i32) (i32.const 4))"#;
    for (parts, why) in [
        (String::new(), "it exports no function `delay_ns`"),
        (
            function("delay_ns", "i32", "(i32.const 1)"),
            "its `delay_ns` is (i64, i32, i64) -> i32, and must be (i64, i32, i64) -> i64",
        ),
        (r#"(import "env" "time" (func))"#.to_owned() + &good, "it imports `env.time`"),
        (
            r#"(import "slipring" "random" (func (result i32)))"#.to_owned() + &good,
            "`slipring.random` with a wrong type",
        ),
        (memory.to_owned() + &good, "it wants 19660800 bytes of memory, and may have 16777216"),
        ("(memory 300)".to_owned() + &good, "it cannot be started"),
        (room.to_owned() + &good, "its room for headers, 4 bytes at 65533, lies outside"),
        ("(func $ever (loop $l (br $l))) (start $ever)".to_owned() + &good, "it cannot be started"),
        ("(func $bad unreachable) (start $bad)".to_owned() + &good, "it cannot be started"),
    ] {
        let error = delays(&parts).unwrap_err();
        assert!(error.to_string().contains(why), "{parts}: {error}");
        assert!(!error.help().is_empty());
    }
    for bytes in [&b""[..], b"(module)", b"\0asm\x01\0\0\0\xff"] {
        let error = WasmModule::read(bytes, ModuleLimits::default()).map(drop).unwrap_err();
        assert!(matches!(error, ModuleError::NotAModule(_)), "{error}");
    }
    let other = r#"(module (func (export "slipring_abi") (result i32) (i32.const 9)))"#;
    let module =
        WasmModule::read(&wat::parse_str(other).unwrap(), ModuleLimits::default()).unwrap();
    let error = module.delay("delay_ns", &[]).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "its slipring_abi says 9; this program knows version 1");
}

#[test]
fn the_example_of_the_manual_does_what_it_says() {
    let manual = include_str!("../../../docs/links.md");
    assert!(manual.contains(include_str!("../examples/spikes.wat")));
    let bytes = wat::parse_str(include_str!("../examples/spikes.wat")).unwrap();
    let module = WasmModule::read(&bytes, ModuleLimits::default()).unwrap();
    let mut sim = Sim::new(delay("up", module.delay("delay_ns", &[20.0, 150.0, 0.1]).unwrap()), 1);
    (0..1000).for_each(|at| sim.push(at * 1_000_000_000, &[0; 60]));
    let releases = sim.releases();
    let delays: Vec<_> = releases.iter().map(|ns| ns % 1_000_000_000).collect();
    let spikes = delays.iter().filter(|ns| **ns == 150_000_000).count();
    assert_eq!(spikes + delays.iter().filter(|ns| **ns == 20_000_000).count(), 1000);
    assert!((70..130).contains(&spikes), "{spikes} of 1000, for a share of 0.1");
}

#[test]
fn why_a_model_fails_is_told_for_its_first_frame_and_stays() {
    let trouble = |body: &str, fuel| {
        let limits = ModuleLimits { fuel, ..ModuleLimits::default() };
        let maker = read(&function("d", "i64", body), limits).unwrap().delay("d", &[]).unwrap();
        assert_eq!(maker.first_error(), None, "nothing was asked yet");
        let mut sim = Sim::new(delay("up", maker.clone()), 1);
        (0..3).for_each(|at| sim.push(at, &[0; 60]));
        maker.first_error()
    };
    let from_one = |failure: &str| {
        format!("(if (i64.ge_u (local.get $number) (i64.const 1)) (then {failure})) (i64.const 5)")
    };
    assert_eq!(trouble("(i64.const 5)", 100), None);
    for (body, fuel, cause) in [
        ("(i64.const -7)".to_owned(), 100, "it answered a delay of -7 ns; first for its frame 0"),
        (
            from_one("(loop $l (br $l))"),
            100,
            "it ran out of fuel (100 a call); first for its frame 1",
        ),
        (
            from_one("(drop (i32.div_u (i32.const 1) (i32.const 0)))"),
            100,
            "divide by zero; first for its frame 1, of 60 B",
        ),
        (from_one("unreachable"), 100, "`unreachable` instruction executed; first for its frame 1"),
    ] {
        let error = trouble(&body, fuel).unwrap();
        assert!(error.contains(cause), "{error}");
    }
}

#[test]
fn why_losses_and_rates_fail_is_told_too() {
    let lose = module(&function("lose", "i32", "(i32.const 3)")).loss("lose", &[]).unwrap();
    Sim::new(loss("up", lose.clone()), 1).push(0, &[0; 60]);
    let error = lose.first_error().unwrap();
    assert!(error.contains("it answered 3, which is none of 0, 1 and 2"), "{error}");
    let body = "(i64.sub (local.get $now) (i64.const 1))";
    let back = module(&function("f", "i64", body)).rate("f", &[]).unwrap();
    Sim::new(rate("up", back.clone()), 1).push(5, &[0; 60]);
    let error = back.first_error().unwrap();
    assert!(error.contains("it answered 4 ns, before its start at 5 ns"), "{error}");
}

/// Compiles `source` to WebAssembly. Returns false if no compiler for WebAssembly is installed.
fn clang(source: &str, module: &std::path::Path) -> bool {
    let flags =
        ["--target=wasm32", "-O2", "-nostdlib", "-Wl,--no-entry", "-Wall", "-Wextra", "-Werror"];
    let built =
        std::process::Command::new("clang").args(flags).arg("-o").arg(module).arg(source).output();
    match built {
        Ok(built) if built.status.success() => true,
        Ok(built) => {
            // If clang does not have this target, or wasm-ld is missing, it reports that something
            // is missing. All other errors are errors of the test.
            let error = String::from_utf8_lossy(&built.stderr).into_owned();
            let lacks = ["wasm-ld", "unable to create target", "No available targets"];
            assert!(lacks.iter().any(|lack| error.contains(lack)), "{error}");
            false
        }
        Err(_) => false,
    }
}

#[test]
fn the_example_in_c_takes_hops_and_keeps_the_checksum_right() {
    let path = std::env::temp_dir().join(format!("slipring-ttl-{}.wasm", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/ttl.c");
    if !clang(source, &path) {
        slipring_test_support::skip!("no clang with wasm-ld here");
        return;
    }
    let bytes = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let module = WasmModule::read(&bytes, ModuleLimits::default()).unwrap();
    let mut sim = Sim::new(loss("up", module.loss("lose", &[3.0]).unwrap()), 1);
    let packet = |ttl: u8| {
        let mut frame = [0; 60];
        frame[12] = 8;
        frame[14..24].copy_from_slice(&[0x45, 0, 0, 46, 0x12, 0x34, 0, 0, ttl, 17]);
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    };
    for ttl in 0..=255 {
        sim.push(u64::from(ttl), &packet(ttl));
    }
    sim.push(300, &[9; 60]);
    assert_eq!(sim.lost(LinkDropCause::Loss), 4, "of 0 to 3 hops nothing is left");
    for (ttl, bytes) in (0u8..=255).zip(sim.bytes()).skip(4) {
        assert_eq!(bytes, packet(ttl - 3), "{ttl}");
    }
    assert_eq!(sim.bytes()[256], [9; 60], "no IPv4");
}

/// Computes the Internet checksum in its simplest form.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
