//! Tests of refused values and of the messages about them.

use super::super::RunClock;
use super::{message, plan, plan_of, refusal};

const TIME: &str = "write it as 250us, 2ms, 1.5s, 10min or 1h";
const SHARE: &str = "write it as 0.1%, 250ppm or 1e-15; from 0 to 100%";

#[test]
fn a_bad_value_is_named_with_its_column_in_the_flag() {
    for (args, why) in [
        ("-D 20q", format!("`20q` does not fit up.delay.mean | unknown unit `q` at column 3 of -D | {TIME}")),
        ("-D 20msx", format!("`20msx` does not fit up.delay.mean | unknown unit `msx` at column 3 of -D | {TIME}")),
        ("-D normal,20ms,3q", format!("`3q` does not fit up.delay.sd | unknown unit `q` at column 14 of -D | {TIME}")),
        ("-D const,-5ms", format!("`-5ms` does not fit up.delay.mean | it is negative at column 7 of -D | {TIME}")),
        ("-D 0.3n", format!("`0.3n` does not fit up.delay.mean | not a whole number of nanoseconds at column 1 of -D | {TIME}")),
        ("-D 1e30", format!("`1e30` does not fit up.delay.mean | too large at column 1 of -D | {TIME}")),
        ("-L 1.5", format!("`1.5` does not fit up.loss.p | more than 1 at column 1 of -L | {SHARE}")),
        ("-L plr,-0.1", format!("`-0.1` does not fit up.loss.p | it is negative at column 5 of -L | {SHARE}")),
        ("-L 1%%", format!("`1%%` does not fit up.loss.p | unknown unit `%%` at column 2 of -L | {SHARE}")),
        ("-B 10pps", "`10pps` does not fit up.rate.bps | it counts packets at column 1 of -B | write it as 10Mbit, 9.5Gbit/s or 125MB/s".into()),
        ("-Q 5x", "`5x` does not fit up.queue.bytes | unknown unit `x` at column 2 of -Q | write it as 1500B, 64KiB (65536) or 64kB (64000)".into()),
        ("-P 2", "`2` does not fit -P | it is neither 0 nor 1 at column 1 of -P | 1 drops frames that would overtake; see --order for more".into()),
    ] {
        assert_eq!(refusal(args), why.replace("up.", "link.up."), "{args}");
    }
}

#[test]
fn a_probability_that_rounds_to_nothing_is_refused_with_the_smallest_that_works() {
    for (args, path, column) in [
        ("-L 1e-30", "loss.p", 1),
        ("-L 1e-400", "loss.p", 1),
        ("-L 1e-18%", "loss.p", 1),
        ("-L ber,1e-20", "loss.ber", 5),
        ("--duplicate 1e-20", "duplicate.p", 1),
    ] {
        let (flag, value) = args.split_once(' ').unwrap();
        let value = value.trim_start_matches("ber,");
        let why = format!(
            "`{value}` does not fit link.up.{path} | too small: it would never happen at column \
             {column} of {flag} | write 0, or 1.1e-19 (2^-63) or more"
        );
        assert_eq!(refusal(args), why);
    }
    for args in ["-L 0", "-L 0e9", "-L 0%", "-L 1.1e-19", "-L 1.1e-17%"] {
        super::up(args);
    }
}

#[test]
fn rates_that_change_more_often_than_bits_pass_are_refused_with_what_works() {
    for (args, why) in [
        (
            "-B markov,1bit:1ns",
            "`1ns` does not fit link.up.rate.states | the link cannot have it at column 8 of -B | allowed: 1s or more, the time of a bit at the mean rate",
        ),
        (
            "-B sine,1k,500,1s,step=1us",
            "`1us` does not fit link.up.rate.step | the link cannot have it at column 21 of -B | allowed: 1ms or more, the time of a bit at the mean rate",
        ),
        (
            "-B ramp,1m,2m,5s,step=1ns",
            "`1ns` does not fit link.up.rate.step | the link cannot have it at column 20 of -B | allowed: 5us or more, so that the duration has 1000000 steps at most",
        ),
    ] {
        assert_eq!(refusal(args), why);
    }
    for args in
        ["tdm,1,1ns,1ns", "markov,1bit:1s", "ramp,1m,2m,1h", "sine,2k,1k,24h", "ou,2m,1m,24h"]
    {
        super::up(&format!("-B {args}"));
    }
}

#[test]
fn nan_negative_and_trailing_garbage_are_no_numbers_anywhere() {
    for flag in ["-B", "-D", "-Q", "-O", "-L", "-R", "--half-life", "--duplicate"] {
        for value in ["NaN", "nan", "-1", "inf", "", "1,2,3,4,5,6,7,8", "1x", "0x10", "1 2"] {
            let args = ["--virtual", "a", "b", flag, value];
            assert!(super::plan_of(&args).is_err(), "{flag} {value}");
        }
    }
}

#[test]
fn an_unknown_model_names_the_nearest_and_all() {
    assert_eq!(
        refusal("-D norml,1ms,2ms"),
        "`norml` does not fit link.up.delay | unknown name at column 1 of -D | did you mean \
         `normal`? allowed: const, uniform, exp, normal, pareto, lognormal, gamma, weibull, table, \
         cdf, samples, trace, inter-packet, wasm"
    );
    assert_eq!(
        refusal("-B 10m --order last"),
        "`last` does not fit link.up.order | unknown name at column 1 of --order | allowed: \
         strict, correlated, free, drop, path"
    );
}

#[test]
fn a_delay_that_would_miss_its_mean_is_refused_with_the_mean_that_it_would_have() {
    assert_eq!(
        refusal("-D normal,5ms,50ms"),
        "`5ms` does not fit link.up.delay.mean | the mean would be 41.77 ms, not 5 ms: what is \
         below 0 is never drawn at column 8 of -D | give a deviation below half of the mean; a law \
         without negative values, as gamma or lognormal; or min=0 to have it as it is"
    );
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("wide.dist");
    std::fs::write(&table, "-32768 -8192 8192 32767\n").unwrap();
    let table = |sd: &str| format!("-D table,{},20ms,{sd}", table.display());
    assert!(refusal(&table("20ms")).contains("the mean would be 35 ms, not 20 ms"));
    let warnings = |args: &str| {
        let plan = plan(&format!("--virtual a b {args} -D 1ms")).unwrap();
        plan.warnings.join(";")
    };
    assert_eq!(warnings(&table("2ms")), "");
    assert_eq!(warnings("-D normal,20ms,3ms"), "");
    // The normal distribution is truncated 2 standard deviations below its mean of 20 ms. So the
    // mean rises to 20 ms + 10 ms * density(2) / below(2).
    let message = "the delay of up is cut: its mean is 20.55 ms, not 20 ms";
    assert_eq!(warnings("-D normal,20ms,10ms"), message);
    // If the user requests a truncation by `min` or `max`, even a large one causes only a warning
    // and not an error.
    assert!(warnings("-D normal,5ms,50ms,min=0").contains("is 41.77 ms, not 5 ms"));
    let cut = warnings("-D exp,0,20ms,max=20ms");
    assert!(cut.contains("is 8.36"), "{cut}");
    assert!(warnings("-D gamma,20ms,10ms,max=25ms").contains("not 20 ms"));
    assert_eq!(warnings("-D pareto,5ms,1.5,max=1s"), "", "no mean was asked for");
}

#[test]
fn flags_that_say_the_same_thing_twice_are_refused() {
    for (args, why) in [
        ("-P 1 --order free", "-P and --order do not go together"),
        ("-B avg,1m --police 1m", "-B avg and --police do not go together"),
        ("-D uniform,1ms,2ms,order=free --order drop", "order of delay is given twice"),
        ("-D uniform,1ms,2ms,order=free -P 1", "order of delay is given twice"),
        ("-D normal,20ms,3ms,corr=50ms --half-life 20ms", "half_life of delay is given twice"),
        ("-B 1m -Q droptail,1k,admit=tlem --admit strict", "admit of queue is given twice"),
        ("-B 1m -B 2m --up rate=3m", "--up replaces what -B says of that direction"),
        ("-D 1ms -D 2ms --down delay=3ms", "--down replaces what -D says of that direction"),
    ] {
        assert!(refusal(args).starts_with(why), "{args}: {}", refusal(args));
    }
    for args in ["-B 1m --up rate=3m", "-P 1 -P 0", "-B avg,1m", "-B 1m --police 1m"] {
        super::up(args);
    }
}

#[test]
fn missing_and_surplus_values_are_named() {
    assert_eq!(
        refusal("-D normal,20ms"),
        "link.up.delay.sd is missing | at column 1 of -D | normal takes: mean, sd"
    );
    assert_eq!(
        refusal("-R 0.1"),
        "link.up.hold.time is missing | at column 1 of -R | const takes: p, time"
    );
    assert_eq!(
        refusal("-D uniform,1ms,2ms,3ms"),
        "`3ms` does not fit link.up.delay | uniform takes no more values at column 17 of -D | \
         uniform takes: min, max"
    );
    assert_eq!(
        refusal("-D normal,20ms,3ms,mean=5ms"),
        "link.up.delay.mean is given twice | at column 17 of -D | give it once"
    );
    assert_eq!(
        refusal("-D normal,20ms,3ms,hlaf_life=5ms"),
        "link.up.delay has no `hlaf_life` | at column 17 of -D | did you mean `half_life`? \
         allowed: dist, half_life, order, mean, sd, min, max"
    );
}

#[test]
fn values_that_the_engine_cannot_have_are_named_with_their_place() {
    assert_eq!(
        refusal("-D uniform,9ms,1ms"),
        "link.up.delay cannot be built | max must be no less than min, 9ms, and is 1ms at column \
         13 of -D | give values that fit each other"
    );
    assert_eq!(
        refusal("-D 5ms --order correlated"),
        "`correlated` does not fit link.up.order | the link cannot have it at column 1 of --order \
         | allowed: `strict`, `free`, `drop` or `path` without a half-life of the delay"
    );
}

#[test]
fn a_third_direction_a_second_file_and_other_contradictions_are_refused() {
    assert_eq!(
        refusal("-B 1m -B 2m -B 3m"),
        "-B is given 3 times | there are two directions | give it once for both, or once for each"
    );
    let error = message(&plan("--config x.toml -D 5ms").unwrap_err());
    assert_eq!(
        error,
        "-D does not go together with --config | change the file's settings by --set PATH=VALUE"
    );
    let error = message(&plan("--virtual a b c").unwrap_err());
    assert_eq!(
        error,
        "--virtual takes pairs of captures, one per direction | --virtual IN OUT, or --virtual IN \
         OUT IN2 OUT2"
    );
    let error = message(&plan("-i tap:a -D 5ms").unwrap_err());
    assert!(
        error.starts_with("two ports are needed | nothing stands for right | name them"),
        "{error}"
    );
    let error = message(&plan("-i tap:a -i tap:a").unwrap_err());
    assert_eq!(
        error,
        "port tap:a is given twice | at column 1 of -i | a link joins two ports that differ"
    );
    let error = message(&plan("-i tap:a -i tap:b -i tap:c").unwrap_err());
    assert_eq!(error, "3 ports are given | the links have 2: left, right");
}

#[test]
fn letters_of_tlem_that_are_done_otherwise_name_the_modern_command() {
    for (args, help) in [
        ("-s /tmp/x", "slipring emulate ctl set --name lab up.delay=40ms"),
        ("-a", "slipring emulate ctl quit --name lab"),
        ("-r", "a router has the addresses of its interfaces"),
    ] {
        let error = refusal(args);
        assert!(error.contains(help), "{args}: {error}");
    }
}

#[test]
fn what_is_done_at_ports_is_refused_in_virtual_time() {
    for flag in [
        "--fault-loss 50%",
        "--fault-corrupt 1%",
        "--fault-delay 10ms",
        "--capture /tmp/x.pcap",
        "--late-drop 1ms",
        "--spin",
        "--slots 64",
    ] {
        let name = flag.split(' ').next().unwrap();
        let error = refusal(flag);
        let why = format!("{name} does not go together with --virtual | it is done at ports");
        assert!(error.starts_with(&why), "{error}");
    }
}

#[test]
fn what_a_file_wants_done_at_ports_is_refused_in_virtual_time() {
    let dir = tempfile::tempdir().unwrap();
    let text = super::file("") + "[output]\nlate_drop = \"1ms\"\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let args = "--virtual @in @out --config @x.toml --check";
    let output =
        slipring_datapath::captured_run::run_captured(&[crate::VERB], "emulate", args, dir.path());
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("output.late_drop does not go together"), "{}", output.stderr);
}

#[test]
fn a_setting_that_tlem_did_not_have_needs_its_unit_in_flags_too() {
    let error = refusal("-B 10m -Q codel,mark_above=20000");
    assert!(error.contains("it could be 20000s or 20000ms"), "{error}");
    assert!(plan("--virtual a b -B 10m -Q codel,mark_above=20ms").is_ok());
}

#[test]
fn tables_of_toml_are_refused_in_flags_with_what_to_write() {
    let error = plan_of(&["--virtual", "a", "b", "--up", "police={bps=1m}"]).unwrap_err();
    let error = message(&error);
    assert!(error.contains("tables of TOML are for files"), "{error}");
    assert!(error.contains("rfc2698(cir, cbs, pir, pbs)"), "{error}");
}

#[test]
fn a_processor_that_is_not_there_is_refused_before_a_port_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let output = slipring_datapath::captured_run::run_captured(
        &[crate::VERB],
        "emulate",
        "-i null: -i pcap:@out.pcap -C 4000",
        dir.path(),
    );
    assert_eq!(output.status, 2, "{}", output.stderr);
    assert!(output.stderr.contains("there is no processor 4000 to run on"), "{}", output.stderr);
    assert!(output.stderr.contains("there are: 0"), "{}", output.stderr);
    assert!(!dir.path().join("out.pcap").exists());
}

#[test]
fn values_that_no_frame_can_meet_are_refused() {
    for (args, why) in [
        ("--mangle 99999999,ff", "allowed: 65534 or less, as no frame is longer"),
        ("--mangle 65535,ff", "allowed: 65534 or less, as no frame is longer"),
        ("--mangle random,65530,10", "allowed: 65525 or less, as no frame is longer"),
        ("--corrupt ber,1e-6,from_byte=65535", "allowed: 65534 or less, as no frame is longer"),
        ("--corrupt ber,1e-6,until_byte=99999", "allowed: 65535 or less, as no frame is longer"),
        ("--corrupt burst,1%,524281", "allowed: 524280 or less, all bits of the longest frame"),
        ("--police 1m,1B", "allowed: 60 bytes, the shortest frame, or more"),
        ("--police rfc2698,1m,59,2m,3000", "allowed: 60 bytes, the shortest frame, or more"),
        ("-R 1%,0", "`0` does not fit link.up.hold.time"),
        ("-B const,10m,min_frame=99999", "allowed: 65535 or less, as no frame is longer"),
        ("-B const,10m,cells=docsis,minislot=99999", "as no frame is longer"),
        ("-Q 50", "no frame fits into so few bytes"),
        ("-B 10m -Q drophead,59", "for packets: droptail(packets=59)"),
    ] {
        let message = refusal(args);
        assert!(message.contains(why), "{args}: {message}");
    }
    for args in [
        "--mangle 65534,ff",
        "--corrupt burst,1%,524280",
        "--police 1m,60B",
        "-R 0,0",
        "-B 10m -Q 60",
        "-B 10m -Q 0",
        "-B 10m -Q 50 --admit tlem",
    ] {
        super::up(args);
    }
}

#[test]
fn flags_that_ask_for_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let check = |verb: &str, args: &str| {
        let args = format!("-i null: -i null: {args} --check");
        slipring_datapath::captured_run::run_captured(&[crate::VERB], verb, &args, dir.path())
    };
    for (args, why) in [
        ("--burst 0", "no frame would ever be taken"),
        ("--burst 1B", "no frame is so short"),
        ("--burst 64k", "write frames, as 64, or bytes with their unit"),
        ("-C 0,0", "processor 0 is given twice"),
        ("-d 0", "every frame would be dropped"),
    ] {
        let output = check("emulate", args);
        assert_eq!(output.status, 2, "{args}: {}", output.stderr);
        assert!(output.stderr.contains(why), "{args}: {}", output.stderr);
    }
    let output = check("tlem", "--burst 0");
    assert_eq!(output.status, 0, "TLEM's default: {}", output.stderr);
}

#[test]
fn copies_without_bound_are_refused() {
    let error = refusal("--duplicate 1.0,0,1000000000");
    assert!(error.contains("copies"), "{error}");
    assert!(error.contains("a number from 1 to 1000"), "{error}");
}

#[test]
fn a_router_needs_two_interfaces() {
    for (args, why) in [
        (
            "-r -i packet:a -i tap:b",
            "-r cannot route at b | it takes its addresses from interfaces",
        ),
        ("-r -i netmap:a^ -i packet:b", "-r cannot route at a"),
        ("-r -i netmap:a{1 -i packet:b", "-r cannot route at a"),
        (
            "-r -G none -G none -G none -i packet:a -i packet:b",
            "route.gateways has 3 entries | a router has two ports at column 1 of -G",
        ),
    ] {
        let error = message(&plan(args).unwrap_err());
        assert!(error.starts_with(why), "{args}: {error}");
    }
    let plan = plan("-r -G 10.1.0.9 -i packet:a -i netmap:b").unwrap();
    let RunClock::RealTime(how) = plan.clock else { panic!("between ports") };
    assert!(how.route.is_some());
}

#[test]
fn bounds_hold_for_flags_too() {
    assert!(refusal("-M 10ms -D 20ms").starts_with("the delay of up is beyond its bound"));
    assert!(refusal("-M 10ms,1m -B 2m").starts_with("the rate of up is beyond its bound"));
    assert!(refusal("-M 10q").contains("unknown unit `q` at column 3 of -M"));
}

#[test]
fn directions_that_share_a_link_are_refused_by_a_check_too() {
    let dir = tempfile::tempdir().unwrap();
    let text = "nodes = ['n']\n[ports.a]\ndev = 'null:'\n[ports.b]\ndev = 'packet:lo'\n\
        [link.up]\nfrom = 'a'\nto = 'n'\n[link.down]\nfrom = 'b'\nto = 'n'\n\
        [link.x]\nfrom = 'n'\nto = 'b'\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let check = |args: &str| {
        let args = format!("--config @x.toml --check {args}");
        slipring_datapath::captured_run::run_captured(&[crate::VERB], "emulate", &args, dir.path())
    };
    assert_eq!(check("").status, 0, "{}", check("").stderr);
    let refused = check("--pipeline");
    assert_eq!(refused.status, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("both directions pass link.x"), "{}", refused.stderr);
}

#[test]
fn a_pipe_that_a_setting_names_is_refused_and_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).unwrap();
    let pipe = pipe.display();
    for value in [format!("trace({pipe})"), format!("table({pipe},1ms,1ms)")] {
        let why = refusal(&format!("-D {value}"));
        assert!(why.contains("it is no regular file"), "{why}");
    }
    let why = refusal("-D trace(/dev/zero)");
    assert!(why.contains("it is no regular file"), "{why}");
}
