//! Tests of accepted values and their meaning.

use slipring_link::{
    AdmitPolicy, BitErrorSpec, DelayModel, Discipline, Framing, LineCells, LossModel, LossPosition,
    MangleEdit, MeterSpec, OrderPolicy, RateSpec, SerialisePoint,
};
use slipring_model::{Chance, Dist};

use super::super::RunClock;
use super::{links, plan, up};

const MS: u64 = 1_000_000;

fn rate(args: &str) -> RateSpec {
    up(&format!("-B {args}")).rate
}

fn delay(args: &str) -> DelayModel {
    up(&format!("-D {args}")).delay.model
}

fn loss(args: &str) -> LossModel {
    up(&format!("-L {args}")).loss.remove(0).model
}

#[test]
fn rates_count_bits_in_thousands() {
    for (text, bps) in [
        ("10m", 10_000_000),
        ("const,10m", 10_000_000),
        ("1.5k", 1_500),
        ("64000", 64_000),
        ("1e9", 1_000_000_000),
        ("10Gbit", 10_000_000_000),
        ("9.5Gbit/s", 9_500_000_000),
        ("125MB/s", 1_000_000_000),
        ("const(400g)", 400_000_000_000),
    ] {
        assert_eq!(rate(text), RateSpec::Constant { bps }, "{text}");
    }
    assert_eq!(rate("none"), RateSpec::Unlimited);
    assert_eq!(rate("0"), RateSpec::Unlimited);
}

#[test]
fn ether_adds_what_ethernet_adds() {
    let link = up("-B ether,10g");
    assert_eq!(link.framing, Framing::ETHER);
    assert_eq!(up("-B 10g").framing, Framing::NONE);
    let framing = up("-B 10g,overhead=-14,min_frame=64").framing;
    assert_eq!((framing.overhead_bytes, framing.min_frame), (-14, 64));
    let atm = up("-B 2m,cells=atm").framing;
    assert_eq!((atm.cells, atm.overhead_bytes), (LineCells::Atm, 8));
    let docsis = up("-B 2m,cells=docsis,minislot=8").framing;
    assert_eq!(docsis.cells, LineCells::Docsis { minislot: 8 });
}

#[test]
fn avg_is_a_policer() {
    let link = up("-B avg,8m,10000");
    let meter = MeterSpec::Bucket { bps: 8_000_000, burst: 10_000 };
    assert_eq!(link.police.unwrap().meter, meter);
    assert_eq!(link.rate, RateSpec::Unlimited);
    assert_eq!(up("--police 8m,burst=10kB").police.unwrap().meter, meter);
    let two = up("--police rfc2698,1m,10k,2m,20k,exceed=mark").police.unwrap();
    assert_eq!(
        two.meter,
        MeterSpec::Rfc2698 {
            committed_bps: 1_000_000,
            committed_burst: 10_240,
            peak_bps: 2_000_000,
            peak_burst: 20_480
        }
    );
}

#[test]
fn rates_that_vary_are_reached_from_the_command_line() {
    assert!(matches!(rate("tdm,10m,10ms,2ms,1ms"), RateSpec::Slots { period_ns: 10_000_000, .. }));
    assert!(matches!(rate("ramp,1m,10m,5s"), RateSpec::Ramp { duration_ns: 5_000_000_000, .. }));
    assert!(matches!(rate("sine,10m,5m,1s"), RateSpec::Sine { amplitude_bps: 5_000_000, .. }));
    assert!(matches!(
        rate("ou,10m,2m,500ms"),
        RateSpec::OrnsteinUhlenbeck { sd_bps: 2_000_000, .. }
    ));
    let RateSpec::Markov { states } = rate("markov,10m:2s,1m:500ms") else { panic!() };
    assert_eq!((states[0].bps, states[0].mean_ns), (10_000_000, 2_000_000_000));
    assert_eq!((states[1].bps, states[1].mean_ns), (1_000_000, 500_000_000));
}

#[test]
fn times_have_one_letter_or_full_units() {
    for (text, ns) in [
        ("20ms", 20 * MS),
        ("20m", 20 * MS),
        ("0.02", 20 * MS),
        ("2e-2", 20 * MS),
        (".02s", 20 * MS),
        ("const,20m", 20 * MS),
        ("5u", 5_000),
        ("5us", 5_000),
        ("7n", 7),
        ("1", 1_000 * MS),
        ("0", 0),
        ("10min", 600_000 * MS),
        ("1h", 3_600_000 * MS),
    ] {
        assert_eq!(delay(text), DelayModel::Constant(ns), "{text}");
    }
    assert_eq!(delay("none"), DelayModel::Constant(0));
}

#[test]
fn delays_are_drawn_from_every_distribution() {
    let random = |text: &str, wanted: Dist| {
        assert_eq!(delay(text), DelayModel::Random(wanted), "{text}");
    };
    random("uniform,1ms,9ms", Dist::uniform(MS, 9 * MS).unwrap());
    random("exp,1ms,5ms", Dist::exponential(MS, 5e6).unwrap());
    random("normal,20ms,3ms", Dist::normal(20e6, 3e6).unwrap());
    random("normal(20ms,sd=3ms)", Dist::normal(20e6, 3e6).unwrap());
    let cut = Dist::normal(20e6, 3e6).unwrap().within(15e6, 40e6).unwrap();
    random("normal,20ms,3ms,min=15ms,max=40ms", cut);
    random("pareto,1ms,2.5", Dist::pareto(1e6, 2.5).unwrap());
    random("lognormal,20ms,5ms", Dist::lognormal(20e6, 5e6).unwrap());
    random("gamma,20ms,10ms", Dist::gamma(4.0, 5e6).unwrap());
    random("gamma,shape=4,scale=5ms", Dist::gamma(4.0, 5e6).unwrap());
    random("weibull,10ms,1.5", Dist::weibull(1.5, 10e6).unwrap());
    assert_eq!(
        delay("inter-packet,1ms,2ms,5ms"),
        DelayModel::InterPacket { min_gap_ns: MS, max_gap_ns: 2 * MS, delay_ns: 5 * MS }
    );
}

#[test]
fn a_half_life_makes_jitter_correlated_unless_an_order_is_named() {
    let order = |args: &str| {
        let link = up(args);
        (link.order, link.delay.half_life_ns)
    };
    let half = Some(50 * MS);
    assert_eq!(order("-D normal,20ms,3ms"), (OrderPolicy::Strict, None));
    assert_eq!(order("-D normal,20ms,3ms,corr=50ms"), (OrderPolicy::Correlated, half));
    assert_eq!(order("-D normal,20ms,3ms --half-life 50ms"), (OrderPolicy::Correlated, half));
    assert_eq!(order("-D normal,20ms,3ms,corr=50ms --order free"), (OrderPolicy::Free, half));
    assert_eq!(order("-D normal,20ms,3ms --order drop"), (OrderPolicy::Drop, None));
    assert_eq!(order("-D uniform,1ms,2ms -P 1"), (OrderPolicy::Drop, None));
    assert_eq!(order("-D uniform,1ms,2ms -P 0"), (OrderPolicy::Strict, None));
}

#[test]
fn losses_of_every_model_are_reached_from_the_command_line() {
    let plr = |p: f64| LossModel::Bernoulli(Chance::from_f64(p).unwrap());
    for (text, wanted) in [
        ("0.01", plr(0.01)),
        ("plr,0.01", plr(0.01)),
        ("1%", plr(0.01)),
        ("250ppm", plr(250e-6)),
        ("plr,1e-15", plr(1e-15)),
        ("ber,1e-12", LossModel::Ber(1e-12)),
        ("ge,.01,.25", LossModel::GilbertElliott { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 }),
        ("ge,.01,.25,.5,.1", LossModel::GilbertElliott { p: 0.01, r: 0.25, bad: 0.5, good: 0.1 }),
        ("pattern,1101", LossModel::Pattern(vec![false, false, true, false])),
        ("nth,100", LossModel::Nth { every: 100, nth: 100 }),
        ("nth,100,1", LossModel::Nth { every: 100, nth: 1 }),
        ("numbers,3,5,8", LossModel::Numbers(vec![3, 5, 8])),
    ] {
        assert_eq!(loss(text), wanted, "{text}");
    }
    assert!(matches!(loss("state4,0.01,0.3,0.1,0.9,0.001"), LossModel::FourState { .. }));
    let timed = loss("timed-ge,1s,50ms");
    assert!(matches!(timed, LossModel::TimedGilbertElliott { bad_ns: 50_000_000, .. }));
    let LossModel::ByTime { windows, period_ns } = loss("time,1s,2s,50%,10s") else { panic!() };
    assert_eq!((windows[0].from_ns, windows[0].until_ns), (1_000 * MS, 2_000 * MS));
    assert_eq!(period_ns, Some(10_000 * MS));
    assert!(up("-L none").loss.is_empty());
    assert_eq!(up("-L 1%").loss[0].position, LossPosition::Pre);
    assert_eq!(up("-L plr,1%,where=post").loss[0].position, LossPosition::Post);
}

#[test]
fn queues_of_every_kind_are_reached_from_the_command_line() {
    let queue = |text: &str| up(&format!("-B 10m -Q {text}")).queue;
    assert_eq!(queue("50k").bytes, Some(51_200), "k is 1024, as for TLEM");
    assert_eq!(queue("50kB").bytes, Some(50_000));
    assert_eq!(queue("64KiB").bytes, Some(65_536));
    let all = queue("droptail,bytes=64k,packets=100,time=20ms");
    assert_eq!((all.bytes, all.packets, all.delay_ns), (Some(65_536), Some(100), Some(20 * MS)));
    let Discipline::CoDel(codel) = queue("codel(5ms,100ms)").discipline else { panic!() };
    assert_eq!((codel.target_ns, codel.interval_ns), (5 * MS, 100 * MS));
    let Discipline::Red(red) = queue("red,30k,90k,0.2").discipline else { panic!() };
    assert_eq!((red.min, red.max, red.max_p), (30_720.0, 92_160.0, 0.2));
    let Discipline::Pie(pie) = queue("pie,20ms").discipline else { panic!() };
    assert_eq!(pie.target_ns, 20 * MS);
    let fair = queue("fq_codel,5ms,100ms,flows=16,ecn=true");
    assert!(fair.ecn);
    let Discipline::FqCoDel(flows, _) = fair.discipline else { panic!() };
    assert_eq!(flows.flows, 16);
    assert!(matches!(queue("dualpi2").discipline, Discipline::DualPi2(_)));
    assert!(matches!(queue("drophead,50k").discipline, Discipline::DropHead));
    assert_eq!(queue("50k,admit=tlem").admit, AdmitPolicy::Tlem);
    assert_eq!(up("-B 10m -Q 50k --admit tlem").queue.admit, AdmitPolicy::Tlem);
}

#[test]
fn a_constant_rate_gets_tlems_queue_and_others_none() {
    for (args, bytes) in [
        ("-B 10m", Some(50_000)),
        ("-B ether,10g", Some(50_000)),
        ("-B 10m --admit tlem", Some(50_000)),
        ("-D 10ms", None),
        ("-B 10m -Q none", None),
        ("-B 10m -Q 0", None),
        ("-B 10m -Q codel", None),
        ("-B sine,10m,1m,1s", None),
    ] {
        assert_eq!(up(args).queue.bytes, bytes, "{args}");
    }
}

#[test]
fn a_queue_that_was_not_asked_for_and_starves_a_tcp_is_told() {
    let warnings = |args: &str| plan(&format!("--virtual a b {args}")).unwrap().warnings;
    let warning = warnings("-B ether,10g -D 20ms");
    assert_eq!(
        warning[0],
        "the queue of up holds 50000 bytes, as for TLEM; one TCP needs about 50000000 bytes to \
         fill the link (-Q)"
    );
    assert_eq!(warning.len(), 2);
    assert!(warnings("-B ether,10g -D 20ms -Q 50k").is_empty(), "it was asked for");
    assert!(warnings("-B 10m -D 5ms").is_empty());
}

#[test]
fn other_parts_are_reached_from_the_command_line() {
    let link = up("-R 0.1,5ms -O 3us --serialise start --corrupt 1e-7 --duplicate 0.1%,1ms,2");
    let hold = link.hold.unwrap();
    assert_eq!((hold.chance, hold.hold_ns), (Chance::from_f64(0.1).unwrap(), 5 * MS));
    assert_eq!((link.offset_ns, link.serialise), (3_000, SerialisePoint::Start));
    assert_eq!(link.corrupt.unwrap().errors, BitErrorSpec::Ber(1e-7));
    let duplicate = link.duplicate.unwrap();
    assert_eq!((duplicate.copies, duplicate.after_ns), (2, MS));
    assert_eq!(up("-R const,0.1,5ms").hold, link.hold);
    let burst = up("--corrupt burst,1%,3,from_byte=14,fix_checksum=yes").corrupt.unwrap();
    assert!(matches!(burst.errors, BitErrorSpec::Burst { bits: 3, .. }));
    assert!(burst.fix_checksum);
}

#[test]
fn a_whole_link_fits_one_flag() {
    let [up, down] = links(
        "--up rate=50m,delay=normal(20ms,3ms,corr=50ms),queue=codel(5ms,100ms),loss=1%,\
         loss=ge(.01,.25) --down rate=10m,order=free",
    );
    assert_eq!(up.rate, RateSpec::Constant { bps: 50_000_000 });
    assert_eq!(up.order, OrderPolicy::Correlated);
    assert!(matches!(up.queue.discipline, Discipline::CoDel(_)));
    assert_eq!(up.loss.len(), 2);
    assert_eq!(down.rate, RateSpec::Constant { bps: 10_000_000 });
    assert_eq!(down.order, OrderPolicy::Free);
    assert_eq!(down.queue.bytes, Some(50_000));
}

#[test]
fn classic_letters_steer_the_run() {
    let args = "-i tap:a -i tap:b -C 2,3 -b 64 -w 2 -d 300u -B 1g -M 1s,10g -H -c --pipeline";
    let plan = plan(args).unwrap();
    let RunClock::RealTime(run) = &plan.clock else { panic!() };
    assert_eq!(
        (run.cpus.as_slice(), run.burst.frames, run.link_wait.as_secs()),
        (&[2, 3][..], 64, 2)
    );
    assert!(run.pipeline);
    assert_eq!(plan.outputs.late_drop_ns, Some(300_000));
    assert_eq!((plan.bounds.delay_ns, plan.bounds.bps), (Some(1_000 * MS), Some(10_000_000_000)));
    assert_eq!(plan.warnings, ["-c changes nothing: frames are always copied into the delay line"]);
    let names: Vec<_> = run.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn bytes_to_write_over_are_given_in_hexadecimal_digits() {
    let mangle = |flag: &str| up(&format!("--mangle {flag}")).mangle.unwrap();
    let always = slipring_model::Chance::ALWAYS;
    let set = mangle("22,40:01");
    assert_eq!((set.at, set.edit, set.chance), (22, MangleEdit::Set(vec![0x40, 1]), always));
    assert_eq!(mangle("invert,0,fF,fix_checksum=true").edit, MangleEdit::Invert(vec![255]));
    let random = mangle("random(30,4,p=1%)");
    assert_eq!((random.edit, random.fix_checksum), (MangleEdit::Random(4), false));
    for (flag, why) in [
        ("22,4", "`4` does not fit link.up.mangle.bytes | these are no bytes"),
        ("22,4g", "`4g` does not fit link.up.mangle.bytes"),
        ("random,22,0", "`0` does not fit link.up.mangle.count"),
        ("22", "link.up.mangle.bytes is missing"),
    ] {
        let error = super::refusal(&format!("--mangle {flag}"));
        assert!(error.starts_with(why), "{flag}: {error}");
    }
}

#[test]
fn a_half_life_too_short_for_its_deviation_is_warned_of() {
    let warnings = |args: &str| plan(&format!("--virtual a b {args}")).unwrap().warnings;
    let short = warnings("-D uniform,1ms,9ms --half-life 1us");
    assert_eq!(short.len(), 2, "each direction its own: {short:?}");
    assert!(short[0].starts_with("the half-life of up, 1 us, is too short"), "{short:?}");
    assert!(short[0].contains("deviates by 2.309 ms"), "{short:?}");
    assert!(short[0].contains("from 15.24 ms on"), "{short:?}");
    assert!(warnings("-D uniform,1ms,9ms --half-life 16ms").is_empty());
    assert!(warnings("-D uniform,1ms,9ms").is_empty());
}

#[test]
fn disciplines_that_do_not_bound_their_queue_have_the_limits_of_linux() {
    for (queue, packets) in [
        ("codel", Some(1000)),
        ("pie", Some(1000)),
        ("fq_codel", Some(10_240)),
        ("dualpi2", Some(10_000)),
        ("codel,bytes=1m", None),
        ("codel,packets=0", None),
        ("codel,packets=5", Some(5)),
        ("droptail", None),
    ] {
        assert_eq!(up(&format!("-B 10m -Q {queue}")).queue.packets, packets, "{queue}");
    }
}

#[test]
fn tlems_burst_of_zero_is_the_default() {
    let plan = plan("-i tap:a -i tap:b -b 0").unwrap();
    let RunClock::RealTime(run) = plan.clock else { panic!() };
    assert_eq!((run.burst.frames, run.burst.bytes), (256, u64::MAX));
}

#[test]
fn a_seed_is_kept_and_without_one_every_run_has_its_own() {
    assert_eq!(plan("--virtual a b --seed 42").unwrap().seed, 42);
    let seeds: Vec<_> = (0..4).map(|_| plan("--virtual a b").unwrap().seed).collect();
    assert!(seeds.iter().any(|seed| *seed != seeds[0]), "{seeds:?}");
}

#[test]
fn virtual_time_takes_one_pair_of_captures_or_two() {
    let pairs = |args: &str| match plan(args).unwrap().clock {
        RunClock::Virtual(captures) => captures.pairs.len(),
        RunClock::RealTime(_) => 0,
    };
    assert_eq!(pairs("--virtual a b -D 1ms"), 1);
    assert_eq!(pairs("--virtual a b c d"), 2);
}

#[test]
fn the_documentation_has_every_model_and_its_arguments() {
    let text = include_str!("../../../../docs/links.md");
    let mut part_now = String::new();
    let mut values = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let line = line.replace("\\|", "/");
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim_matches([' ', '`'])).collect();
        let [_, part, _, model, arguments, ..] = cells[..] else { continue };
        if !part.is_empty() {
            part_now = part.to_owned();
        }
        values.push((part_now.clone(), model.to_owned(), arguments.to_owned()));
    }
    for part in &super::super::config::parts::LINK_PARTS {
        for model in part.models {
            let arguments = model.arguments.join(", ").replace('…', "");
            let line = (part.name.to_owned(), model.name.to_owned(), arguments);
            assert!(values.contains(&line), "{line:?}");
        }
    }
}
