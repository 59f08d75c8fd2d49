//! Tests of settings in files: their meaning, errors with locations, and that printed settings are
//! read back unchanged.

use proptest::prelude::*;
use slipring_link::{
    DelayModel, Discipline, LinkSource, LinkTarget, LossModel, LossPosition, NetworkSpec,
    OrderPolicy, RateSpec, TraceEnd,
};

use super::super::config::EmulationConfig;
use super::super::plan::RunClock;
use super::{file, message, network, plan, refusal};

/// A file with ports, links, a class, a change at a given time, and outputs.
const EXAMPLE: &str = r#"
seed = 7
[ports.left]
dev = "veth0"
[ports.right]
dev = "veth1"
[link.up]
from = "left"
to = "right"
rate = { bps = "100Mbit", overhead = 24, min_frame = 64 }
queue = { kind = "droptail", bytes = "256KiB", admit = "strict" }
loss = { model = "ge", p = 0.01, r = 0.25, bad = 1.0, good = 0.0, where = "post" }
delay = { dist = "normal", mean = "20ms", sd = "3ms", min = "5ms", half_life = "50ms", order = "correlated" }
corrupt = { ber = 1e-7, fix_checksum = false }
duplicate = { p = 0.001, after = "1ms" }
[link.down]
from = "right"
to = "left"
like = "up"
rate = { bps = "1Gbit" }
[link.voice]
from = "left"
to = "right"
delay = "5ms"
[[class]]
match = "udp dst port 5004"
use = "link.voice"
[[at]]
t = "10s"
set = { "link.up.rate.bps" = "20Mbit" }
[output]
pcapng = "run.pcapng"
log = "mahimahi"
metrics = "127.0.0.1:9100"
late_warn = "100us"
"#;

fn example() -> NetworkSpec {
    network(EXAMPLE).unwrap()
}

#[test]
fn a_file_with_every_section_means_what_it_says() {
    let network = example();
    let up = &network.links[0];
    assert_eq!((up.from, up.to), (LinkSource::Entry(0), LinkTarget::Exit(1)));
    assert_eq!(up.spec.rate, RateSpec::Constant { bps: 100_000_000 });
    assert_eq!((up.spec.framing.overhead_bytes, up.spec.framing.min_frame), (24, 64));
    assert_eq!(up.spec.queue.bytes, Some(262_144));
    assert_eq!(up.spec.loss[0].position, LossPosition::Post);
    assert_eq!(up.spec.order, OrderPolicy::Correlated);
    assert_eq!(network.entries, ["left", "right"]);
    assert_eq!(
        (network.classes[0].link, network.classes[0].filter.as_str()),
        (2, "udp dst port 5004")
    );
    let config = EmulationConfig::parse("link.toml", EXAMPLE).unwrap();
    assert_eq!(config.seed().unwrap(), Some(7));
    let outputs = config.outputs().unwrap();
    assert_eq!(outputs.log.unwrap().to_str(), Some("run.pcapng"));
    assert_eq!(outputs.metrics.as_deref(), Some("127.0.0.1:9100"));
    assert_eq!((outputs.late_warn_ns, outputs.mahimahi.is_some()), (Some(100_000), true));
    let schedule = config.schedule().unwrap();
    assert_eq!(schedule[0].at_ns, 10_000_000_000);
    let changed = schedule[0].config.network().unwrap();
    assert_eq!(changed.links[0].spec.rate, RateSpec::Constant { bps: 20_000_000 });
    assert_eq!(changed.links[0].spec.framing.overhead_bytes, 24, "the rest stays");
}

#[test]
fn a_link_like_another_differs_only_in_what_it_says() {
    let network = example();
    let (up, down) = (&network.links[0].spec, &network.links[1].spec);
    assert_eq!(down.rate, RateSpec::Constant { bps: 1_000_000_000 });
    assert_eq!(down.framing, up.framing, "other values of the same part are taken over");
    assert_eq!((&down.delay, &down.loss, &down.queue), (&up.delay, &up.loss, &up.queue));
}

#[test]
fn another_model_takes_nothing_over_from_the_model_it_replaces() {
    let text = file("delay = \"normal(20ms, 3ms)\"").replace(
        "[link.down]\n",
        "[link.down]\nlike = \"up\"\ndelay = { dist = \"uniform\", min = \"1ms\", max = \"2ms\" }\n",
    );
    let network = network(&text).unwrap();
    let DelayModel::Random(delay) = &network.links[1].spec.delay.model else { panic!() };
    assert_eq!(delay.bounds(), 1_000_000..=2_000_000);
}

#[test]
fn links_join_nodes_to_longer_ways() {
    let text = r#"
nodes = ["core"]
[ports.a]
[ports.b]
[link.first]
from = "a"
to = "core"
delay = "1ms"
[link.second]
from = "core"
to = "b"
like = "first"
"#;
    let network = network(text).unwrap();
    assert_eq!(network.links[0].to, LinkTarget::Node(0));
    assert_eq!(network.links[1].from, LinkSource::Node(0));
    assert_eq!(network.links[1].spec.delay.model, DelayModel::Constant(1_000_000));
}

#[test]
fn files_named_in_a_file_lie_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("lte.mm", "0\n1\n2\n3\n4\n5\n");
    write("steps.csv", "time_s,rate_mbit\n0,10\n2,5\n");
    write("normal.dist", "-8192 0 8192\n");
    write("rtt.csv", "t_s,delay_ms\n0,20\n1,30\n");
    write("loss.txt", "1101");
    write("wifi.profile", "name wifi\nbw 10Mbit/s\nloss-level 0.5\nprob delay\n0 1\n1 3\n");
    let settings = file(
        "rate = { trace = \"lte.mm\", end = \"once\" }\nloss = { model = \"pattern\", file = \"loss.txt\" }\n\
         delay = { dist = \"table\", file = \"normal.dist\", mean = \"10ms\", sd = \"1ms\" }",
    ) + "rate = { trace = \"steps.csv\", format = \"steps\" }\ndelay = \"trace(rtt.csv,hold)\"\n\
         [link.other]\nfrom = \"left\"\nto = \"right\"\nprofile = \"wifi.profile\"\n\
         [[class]]\nmatch = \"arp\"\nuse = \"other\"\n";
    write("link.toml", &settings);
    let network = EmulationConfig::open(&dir.path().join("link.toml")).unwrap().network().unwrap();
    let [up, down, other] = &network.links[..] else { panic!() };
    let RateSpec::Opportunities { at_ns, mtu, end } = &up.spec.rate else { panic!() };
    assert_eq!((at_ns.len(), *mtu, *end), (6, 1504, TraceEnd::Once));
    assert_eq!(up.spec.loss[0].model, LossModel::Pattern(vec![false, false, true, false]));
    let DelayModel::Random(table) = &up.spec.delay.model else { panic!() };
    assert_eq!(table.bounds(), 9_000_000..=11_000_000);
    let RateSpec::Steps { steps, period_ns, .. } = &down.spec.rate else { panic!() };
    assert_eq!((steps[1].bps, *period_ns), (5_000_000, 4_000_000_000));
    let DelayModel::Trace { steps, end, .. } = &down.spec.delay.model else { panic!() };
    assert_eq!((steps[1].delay_ns, *end), (30_000_000, TraceEnd::Hold));
    assert_eq!(other.spec.rate, RateSpec::Constant { bps: 10_000_000 });
    assert_eq!(other.spec.queue.bytes, Some(50_000), "a profile's rate is a constant one");
    let profile = other.spec.profile.as_ref().unwrap();
    assert_eq!((profile.samples_ns.len(), profile.loss_level), (100, 0.5));
}

#[test]
fn a_bad_file_of_values_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("bad.mm");
    std::fs::write(&trace, "5\n4\n").unwrap();
    let shown = trace.display().to_string();
    let error = network(&file(&format!("rate = {{ trace = \"{shown}\" }}"))).unwrap_err();
    assert_eq!(
        error,
        format!(
            "{shown} cannot be used | `4` goes back in time at line 2, column 1 | allowed: one \
             time per line, never before the line above"
        )
    );
    let error = network(&file("rate = { trace = \"/none.mm\" }")).unwrap_err();
    assert!(
        error.starts_with(
            "cannot open /none.mm | No such file or directory (os error 2) at link.toml, line 6"
        ),
        "{error}"
    );
}

#[test]
fn bad_values_of_files_are_named_with_their_line_and_column() {
    const TIME: &str = "write it as 250us, 2ms, 1.5s, 10min or 1h";
    const BOTH: &str = "it could be 20s or 20ms";
    for (line, why) in [
        ("delay = \"20\"", format!("`20` does not fit link.up.delay.mean | {BOTH} at link.toml, line 6, column 10 | write 20s or 20ms")),
        ("delay = 20", format!("`20` does not fit link.up.delay.mean | {BOTH} at link.toml, line 6, column 9 | write 20s or 20ms")),
        ("delay = \"20q\"", format!("`20q` does not fit link.up.delay.mean | unknown unit `q` at link.toml, line 6, column 12 | {TIME}")),
        ("delay = { dist = \"normal\", mean = \"20ms\", sd = 3 }", "`3` does not fit link.up.delay.sd | it could be 3s or 3ms at link.toml, line 6, column 48 | write 3s or 3ms".into()),
        ("queue = { bytes = \"64x\" }", "`64x` does not fit link.up.queue.bytes | unknown unit `x` at link.toml, line 6, column 22 | write it as 1500B, 64KiB (65536) or 64kB (64000)".into()),
        ("delay = { mean = nan }", format!("`nan` does not fit link.up.delay.mean | it is not a number at link.toml, line 6, column 18 | {TIME}")),
        ("delay = { mean = \"-5ms\" }", format!("`-5ms` does not fit link.up.delay.mean | it is negative at link.toml, line 6, column 19 | {TIME}")),
    ] {
        assert_eq!(network(&file(line)).unwrap_err(), why, "{line}");
    }
}

#[test]
fn unknown_names_and_wrong_kinds_are_refused_with_their_place() {
    for (line, why) in [
        (
            "rate = { bsp = \"1Mbit\" }",
            "link.up.rate has no `bsp` | at link.toml, line 6, column 10 | did you mean `bps`? allowed: model, bps, cells, minislot, overhead, min_frame",
        ),
        (
            "dleay = \"5ms\"",
            "link.up has no `dleay` | at link.toml, line 6, column 1 | did you mean `delay`? allowed: from, to, like, rate, profile, hold, police, loss, queue, mangle, corrupt, duplicate, delay, order, serialise, offset, output",
        ),
        (
            "loss = { model = \"gee\", p = 0.1, r = 0.1 }",
            "`gee` does not fit link.up.loss.model | unknown name at link.toml, line 6, column 19 | did you mean `ge`? allowed: plr, ber, ge, timed-ge, state4, pattern, nth, numbers, time, trace, wasm",
        ),
        (
            "loss = { p = \"x\" }",
            "`x` does not fit link.up.loss.p | expected a number at link.toml, line 6, column 15 | write it as 0.1%, 250ppm or 1e-15; from 0 to 100%",
        ),
        (
            "delay = true",
            "link.up.delay cannot be true or false | at link.toml, line 6, column 9 | write a table: { name = value, … }",
        ),
        (
            "queue = { packets = -1 }",
            "`-1` does not fit link.up.queue.packets | it is negative at link.toml, line 6, column 21 | write a whole number, 0 or more",
        ),
        (
            "corrupt = { ber = 2 }",
            "`2` does not fit link.up.corrupt.ber | more than 1 at link.toml, line 6, column 19 | write it as 0.1%, 250ppm or 1e-15; from 0 to 100%",
        ),
        (
            "offset = 1979-05-27",
            "no setting is a date | at link.toml, line 6, column 10 | write times as 10s or 5min",
        ),
    ] {
        assert_eq!(network(&file(line)).unwrap_err(), why, "{line}");
    }
}

#[test]
fn a_network_that_cannot_be_is_refused() {
    let with = |from: &str, to: &str| network(&file("").replacen(from, to, 1)).unwrap_err();
    assert_eq!(
        with("to = \"right\"", "to = \"rihgt\""),
        "`rihgt` does not fit link.up.to | unknown name at link.toml, line 5, column 7 | did you \
         mean `right`? allowed: left, right"
    );
    assert_eq!(
        with("from = \"left\"\n", ""),
        "link.up.from is missing | at link.toml, line 3, column 1 | add from = …"
    );
    assert_eq!(
        with("[link.up]", "[link.up]\nlike = \"dwon\""),
        "`dwon` does not fit link.up.like | unknown name at link.toml, line 4, column 9 | did you \
         mean `down`? allowed: up, down"
    );
    assert_eq!(
        with("[link.up]", "[link.up]\nlike = \"up\""),
        "link.up.like goes round in a circle | at link.toml, line 4, column 9 | let one of them \
         say its settings itself"
    );
    assert_eq!(
        with("[ports.left]", "[prots.left]"),
        "the configuration has no `prots` | at link.toml, line 1, column 2 | did you mean \
         `ports`? allowed: seed, ports, nodes, link, class, at, output, name, route"
    );
    assert!(network("").unwrap_err().starts_with("there is no link"));
    let class = file("") + "[[class]]\nmatch = \"udp prt 5\"\nuse = \"up\"\n";
    assert_eq!(
        network(&class).unwrap_err(),
        "`udp prt 5` does not fit class.match | column 5: expected `and`, `or` or the end of the \
         filter, found `prt` at link.toml, line 11, column 10 | write it as for tcpdump: udp dst \
         port 5004; for DSCP and VLANs: dscp = 46, vlan = 5"
    );
}

#[test]
fn what_is_not_toml_is_refused_with_its_place() {
    let error = network("[ports.left\n").unwrap_err();
    assert!(error.starts_with("link.toml is not TOML | "), "{error}");
    assert!(error.contains("at link.toml, line 1, column 12"), "{error}");
}

#[test]
fn changes_at_given_times_are_tried_before_the_run() {
    let schedule = |lines: &str| {
        let text = file("rate = \"10Mbit\"") + lines;
        let config = EmulationConfig::parse("link.toml", &text).unwrap();
        let message_of = |error| message(&slipring_cli::Diagnostic::of(&error));
        config.schedule().map_err(message_of).map(|changes| changes.len())
    };
    assert_eq!(schedule("[[at]]\nt = \"2s\"\nset = { \"link.up.delay\" = \"5ms\" }\n"), Ok(1));
    assert_eq!(
        schedule("[[at]]\nt = \"2s\"\nset = { \"link.pu.delay\" = \"5ms\" }\n"),
        Err("there is no link.pu.delay | at link.toml, line 12, column 28 | did you mean `up`? \
             write it as link.NAME.PART or deeper"
            .into())
    );
    assert_eq!(
        schedule("[[at]]\nt = \"2s\"\nset = { \"link.up.delay\" = \"5\" }\n"),
        Err("`5` does not fit link.up.delay.mean | it could be 5s or 5ms at link.toml, line 12, \
             column 28 | write 5s or 5ms"
            .into())
    );
    assert_eq!(
        schedule("[[at]]\nset = {}\n"),
        Err("at.t is missing | at link.toml, line 10, column 1 | add t = …".into())
    );
}

/// Command lines whose printed settings are parsed again.
const LINES: [&str; 8] = [
    "-B 10m -D 20m -Q 50k",
    "-B ether,10g -D normal,20ms,3ms,corr=50ms -L ge,0.01,0.25 -L none",
    "-B avg,8m,10000 -R 0.1,5m -O 3u --serialise start",
    "-B tdm,10m,10ms,2ms -D inter-packet,1m,2m,5m",
    "-B markov,10m:2s,1m:500ms -D uniform,1,2 -P 1",
    "--up rate=50m,loss=1%,loss=ber(1e-9),queue=red(30k,90k) --down delay=weibull(10m,1.5)",
    "--corrupt burst,1%,3 --duplicate 0.1%,1m,2 --police rfc2698,1m,10k,2m,20k",
    "-B ou,10m,2m,500m -Q fq_codel,5m,100m,ecn=true --admit tlem -L time,1,2,50%",
];

#[test]
fn printed_settings_read_back_as_the_same_network() {
    for line in LINES {
        let plan = plan(&format!("--virtual a b {line}")).unwrap();
        let text = plan.config.to_toml();
        let again = network(&text).unwrap_or_else(|error| panic!("{line}: {error}\n{text}"));
        assert_eq!(again, plan.network, "{line}\n{text}");
    }
    let config = EmulationConfig::parse("link.toml", EXAMPLE).unwrap();
    let again = EmulationConfig::parse("again.toml", &config.to_toml()).unwrap();
    assert_eq!(again.network().unwrap(), example());
    assert_eq!(again.schedule().unwrap().len(), 1);
    assert_eq!(again.to_toml(), config.to_toml());
}

#[test]
fn printed_settings_have_units_in_full() {
    let plan = plan("--virtual a b -B 10m -D 20m -Q 50k").unwrap();
    let text = plan.config.to_toml();
    for line in ["bps = \"10Mbit/s\"", "mean = \"20ms\"", "bytes = \"50KiB\""] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

#[test]
fn a_queue_without_a_kind_is_a_fifo() {
    let network = network(&file("queue = { packets = 10 }")).unwrap();
    assert!(matches!(network.links[0].spec.queue.discipline, Discipline::DropTail));
}

proptest! {
    /// Flag values composed of words of settings and of any other characters, in any order, must
    /// not cause a panic.
    #[test]
    fn no_flag_value_panics(
        part in prop::sample::select(vec!["-B", "-D", "-L", "-R", "-Q", "-O", "--police", "--corrupt",
            "--duplicate", "--half-life", "--order", "--up", "-M", "--set", "-d"]),
        value in "(rate|delay|normal|ge|ether|markov|queue|codel|[-0-9.eE,=():%a-z]|\\PC){0,12}",
    ) {
        let args = ["emulate", "--virtual", "a", "b", part, &value];
        if let Ok(matches) = super::super::flags::command().try_get_matches_from(args) {
            let _ = super::super::EmulationPlan::of(&matches);
        }
    }

    #[test]
    fn no_file_panics(
        lines in prop::collection::vec(
            "(\\[link\\.up\\]|rate|delay|loss|queue|like|from|to|at|\\[\\[class\\]\\]|nodes|seed) ?= ?\
             (\"(\\PC){0,12}\"|[0-9.]{1,8}|\\{ ?[a-z]{1,6} = [\"0-9a-z\\[\\]]{1,9} ?\\}|\\[[0-9,\" a-z]{0,9}\\])",
            0..6,
        )
    ) {
        let _ = network(&file(&lines.join("\n")));
        let _ = network(&lines.join("\n"));
    }
}

#[test]
fn each_part_takes_its_own_columns_of_a_theaterq_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lte.csv");
    // Columns: keep, latency, jitter, rate, loss, limit, dup_prob, dup_delay, route_id, queue_id
    let rows = "1000,5000000,0,8000000,0,100,2147483648,700,3,1\n\
                2000,9000000,0,-1,4294967295,100,2147483648,700,4,1\n";
    std::fs::write(&path, rows).unwrap();
    let file_name = path.display();
    let settings = format!(
        "rate = {{ trace = \"{file_name}\", format = \"theaterq\" }}\n\
         delay = {{ dist = \"trace\", file = \"{file_name}\", format = \"theaterq\" }}\n\
         loss = \"trace({file_name})\"\nqueue = {{ trace = \"{file_name}\" }}\n\
         duplicate = \"trace({file_name})\"\n"
    );
    let up = network(&file(&settings)).unwrap().links.remove(0).spec;
    let RateSpec::Steps { steps, period_ns, .. } = up.rate else { panic!("{:?}", up.rate) };
    assert_eq!((steps[0].bps, steps[1].at_ns, period_ns), (8_000_000, 1_000_000, 3_000_000));
    let DelayModel::Trace { steps, .. } = up.delay.model else { panic!() };
    assert_eq!((steps[0].delay_ns, steps[1].delay_ns, steps[1].route), (5_000_000, 9_000_000, 4));
    let LossModel::ByTime { windows, .. } = &up.loss[0].model else { panic!() };
    assert_eq!((windows.len(), windows[0].from_ns), (1, 1_000_000));
    assert_eq!(up.queue.packets, Some(100));
    let duplicate = up.duplicate.unwrap();
    assert_eq!((duplicate.after_ns, duplicate.copies), (700, 1));
}

#[test]
fn columns_of_a_trace_that_a_part_cannot_follow_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lte.csv");
    let shown = path.display().to_string();
    for (rows, settings, why) in [
        (
            "1,5,0,8,0,100,0,0,0,0\n1,5,300,8,0,100,0,0,0,0",
            "delay = { dist = \"trace\", file = \"@\", format = \"theaterq\" }",
            "it has a jitter of 300 ns at 1 us, and a trace holds one delay at a time",
        ),
        (
            "1,5,8,0,100\n1,5,8,0,50",
            "queue = { trace = \"@\" }",
            "its limit changes at 1 us, and a link has one at a time",
        ),
        (
            "1,5,0,8,0,100,7,0,0,0\n1,5,0,8,0,100,0,0,0,0",
            "duplicate = \"trace(@)\"",
            "its dup_prob changes at 1 us, and a link has one at a time",
        ),
        (
            "1,5,8,0,100",
            "rate = { trace = \"@\", format = \"cellreplay\" }",
            "a light file is about senders that pause, which no trace of times can tell",
        ),
    ] {
        std::fs::write(&path, rows).unwrap();
        let error = network(&file(&settings.replace('@', &shown))).unwrap_err();
        assert!(error.contains(why), "{settings}: {error}");
        assert!(error.contains("line 6"), "with its place: {error}");
    }
}

#[test]
fn errors_of_the_graph_say_where_it_is_wrong() {
    let circle = "nodes = [\"x\", \"y\"]\n[ports.a]\n[ports.b]\n\
        [link.in]\nfrom = \"a\"\nto = \"x\"\n[link.on]\nfrom = \"x\"\nto = \"y\"\n\
        [link.back]\nfrom = \"y\"\nto = \"x\"\n";
    let error = network(circle).unwrap_err();
    assert!(error.starts_with("links lead round in a circle, back to `x`"), "{error}");
    assert!(error.contains("at link.toml, line 12"), "{error}");
    let twice = "[ports.a]\n[ports.b]\n[link.one]\nfrom = \"a\"\nto = \"b\"\n\
        [link.two]\nfrom = \"a\"\nto = \"b\"\n";
    let error = network(twice).unwrap_err();
    assert!(error.starts_with("a second link without a class begins at `a`"), "{error}");
    assert!(error.contains("at link.toml, line 7"), "{error}");
    let error = network("[ports]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n").unwrap_err();
    assert!(error.contains("there are no ports at link.toml, line 3"), "{error}");
    assert!(error.ends_with("add [ports.a]"), "{error}");
}

#[test]
fn a_file_without_ports_has_those_of_flags() {
    let plain = network("[link.up]\ndelay = \"1ms\"\n[link.down]\nlike = \"up\"\n").unwrap();
    let text = file("delay = \"1ms\"").replace("[link.down]", "[link.down]\nlike = \"up\"");
    assert_eq!(plain, network(&text).unwrap());
    let ends = network("[link.x]\nfrom = \"right\"\nto = \"left\"\n").unwrap();
    assert_eq!(ends.links[0].from, LinkSource::Entry(1));
    let error = network("[link.x]\nfrom = \"lefft\"\nto = \"right\"\n").unwrap_err();
    assert!(error.contains("did you mean `left`"), "{error}");
    let error = network("[link.x]\nto = \"right\"\n").unwrap_err();
    assert!(error.starts_with("link.x.from is missing"), "{error}");
}

#[test]
fn figures_are_explained_in_words_not_in_debug() {
    let explained = |args: &str| {
        let plan = plan(&format!("--virtual a b {args}")).unwrap();
        super::super::config::explain(&plan.network, 1).text()
    };
    let docsis = explained("--up rate=const(10m,cells=docsis)");
    assert!(docsis.contains("(minislots of 16 bytes)"), "{docsis}");
    let atm = explained("--up rate=const(10m,cells=atm)");
    assert!(atm.contains("53 bytes for 48, and +8 bytes a frame"), "{atm}");
    let codel = explained("-B 10m -D 20ms -Q codel,packets=0");
    assert!(codel.contains("the queue has no bound"), "{codel}");
    let gaps = explained("-B 10m -D inter-packet,1m,2m,5m");
    assert!(gaps.contains("as much as is in flight"), "{gaps}");
    let rest = explained("-B 10m -O 5us -D normal,20ms,3ms --half-life 50ms");
    assert!(rest.contains("5 us less"), "{rest}");
    assert!(rest.contains("half-life 50 ms"), "{rest}");
}

#[test]
fn each_of_several_losses_of_a_link_is_in_the_json_that_explains_it() {
    let loss = |args: &str| {
        let plan = plan(&format!("--virtual a b {args}")).unwrap();
        super::super::config::explain(&plan.network, 1).json()["links"]["up"]["loss"].clone()
    };
    let two = loss("--up loss=25%,loss=50%");
    let shares: Vec<_> = two.as_array().unwrap().iter().map(|one| &one["probability"]).collect();
    assert_eq!(shares, [0.25, 0.5]);
    assert!(loss("--up loss=25%").is_object());
}

#[test]
fn a_router_is_printed_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("link.toml");
    let routed = |args: &str| match plan(args).unwrap_or_else(|error| panic!("{error}")).clock {
        RunClock::RealTime(how) => how.route,
        RunClock::Virtual(_) => panic!("between ports"),
    };
    for flags in ["-r", "-r --decrement-ttl", "-r -G none -G 10.1.0.9 --decrement-ttl"] {
        let flags = format!("{flags} -i packet:a -i packet:b -D 20ms");
        let printed = plan(&flags).unwrap().config.to_toml();
        assert!(printed.contains("[route]"), "{printed}");
        std::fs::write(&file, printed).unwrap();
        let read = routed(&format!("--config {}", file.display()));
        assert!(read.is_some() && read == routed(&flags), "{flags}: {read:?}");
    }
    let text = std::fs::read_to_string(&file).unwrap();
    for (from, to, why) in [
        ("10.1.0.9", "10.1.0", "`10.1.0` does not fit route.gateways | it is no address"),
        ("decrement_ttl", "ttl", "route has no `ttl`"),
    ] {
        std::fs::write(&file, text.replace(from, to)).unwrap();
        let error = message(&plan(&format!("--config {}", file.display())).unwrap_err());
        assert!(error.starts_with(why), "{error}");
    }
    std::fs::write(&file, &text).unwrap();
    let refused = refusal(&format!("--config {}", file.display()));
    assert!(refused.starts_with("-r does not go together with --virtual"), "{refused}");
}

#[test]
fn a_constant_rate_has_the_same_queue_in_a_file_as_in_flags() {
    let flags = plan("--virtual a b -B 1m").unwrap().network.links[0].spec.queue.clone();
    let queue = |up: &str| network(&file(up)).unwrap().links[0].spec.queue.clone();
    let rate = "rate = \"1Mbit\"";
    assert_eq!((queue(rate), flags.bytes), (flags, Some(50_000)));
    for (settings, bytes) in [
        ("queue = { admit = \"tlem\" }", Some(50_000)),
        ("queue = { ecn = true }", Some(50_000)),
        ("queue = \"none\"", None),
        ("queue = \"droptail\"", None),
        ("queue = { bytes = \"0B\" }", None),
        ("queue = { packets = 10 }", None),
        ("queue = \"codel(5ms, 100ms)\"", None),
        ("queue = \"1kB\"", Some(1000)),
    ] {
        assert_eq!(queue(&format!("{rate}\n{settings}")).bytes, bytes, "{settings}");
    }
    assert_eq!(queue("").bytes, None, "without a rate nothing waits");
    assert_eq!(queue("rate = \"sine(2Mbit, 1Mbit, 1s)\"").bytes, None);
}

#[test]
fn a_rate_that_is_set_later_has_that_queue_and_one_that_goes_takes_it_along() {
    let config = EmulationConfig::parse("link.toml", &file("")).unwrap();
    let set = |config: &EmulationConfig, path: &str, value: &str| {
        let value = serde_json::json!(value);
        config.changed(&crate::config::entries([(path, &value)]).unwrap()).unwrap()
    };
    let bytes = |config: &EmulationConfig| config.network().unwrap().links[0].spec.queue.bytes;
    let rated = set(&config, "up.rate", "1Mbit");
    assert_eq!(bytes(&rated), Some(50_000));
    assert_eq!(bytes(&set(&rated, "up.rate", "none")), None);
    let unbounded = set(&rated, "up.queue", "none");
    assert_eq!(bytes(&unbounded), None);
    let again = EmulationConfig::parse("again.toml", &unbounded.to_toml()).unwrap();
    assert_eq!(bytes(&again), None, "{}", unbounded.to_toml());
}

#[test]
fn a_queue_that_a_file_says_nothing_of_is_told_where_it_is_too_short() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.toml");
    let warnings = |up: &str| {
        std::fs::write(&path, file(up)).unwrap();
        plan(&format!("--virtual a b --config {}", path.display())).unwrap().warnings
    };
    let short = "rate = \"100Mbit\"\ndelay = \"100ms\"\n";
    let [warning] = &warnings(short)[..] else { panic!("one warning") };
    assert!(warning.starts_with("the queue of up holds 50000 bytes"), "{warning}");
    assert!(warnings(&format!("{short}queue = \"50kB\"")).is_empty(), "it was asked for");
}

#[test]
fn what_comes_behind_a_trace_is_told_in_words() {
    let explained = |flags: &str| {
        let plan = plan(&format!("--virtual a b {flags}")).unwrap();
        crate::config::explain(&plan.network, 1).text()
    };
    let text = explained("-B ramp,1m,2m,1s -L 0");
    assert!(text.contains("in 1 s, then as it is at its end"), "{text}");
    assert!(text.contains("probability 0 ("), "{text}");
}

#[test]
fn a_trace_that_begins_late_is_explained_with_its_first_value_from_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let explained = |flag: &str, name: &str, rows: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, rows).unwrap();
        let flag = flag.replace('@', &path.display().to_string());
        let plan = plan(&format!("--virtual a b {flag}")).unwrap();
        crate::config::explain(&plan.network, 1).text()
    };
    // The rate is 10 Mbit/s for 6 s and 20 Mbit/s for 2 s: the last row lasts as long as the time
    // between the last two rows.
    let rate = explained("-B steps,@", "late.csv", "time_s,rate_mbit\n4,10\n6,20\n");
    assert!(rate.contains("2 steps in 8 s, mean 12.5 Mbit/s"), "{rate}");
    // The delay is 10 ms for 9 s, then 90 ms for 1 s.
    let rows = "time_s,delay_ms\n8,10\n9,90\n";
    let delay = explained("-D trace,@", "delay.csv", rows);
    assert!(delay.contains("trace of 2 steps in 10 s, mean 18 ms"), "{delay}");
    // The delay is 10 ms for 8 s, then rises to 90 ms within a second, and stays at 90 ms for a
    // second.
    let smooth = explained("-D trace,@,smooth=true", "smooth.csv", rows);
    assert!(smooth.contains("mean 22 ms"), "{smooth}");
}

#[test]
fn what_is_no_module_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("d.txt");
    std::fs::write(&path, "20ms\n").unwrap();
    let error = refusal(&format!("-L wasm,{}", path.display()));
    let cause = "it is no WebAssembly module: it does not begin as one at column 6 of -L";
    assert!(error.contains(cause) && !error.contains('\n'), "{error}");
}

#[test]
fn a_seed_that_is_none_is_refused_though_a_flag_gives_another() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.toml");
    std::fs::write(&path, "seed = \"x\"\n".to_owned() + &file("")).unwrap();
    let error = refusal(&format!("--config {} --seed 3", path.display()));
    assert!(error.starts_with("`x` does not fit seed | it is no whole number at "), "{error}");
}
