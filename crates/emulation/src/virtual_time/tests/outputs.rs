//! Tests of reports and logs.

use std::collections::HashMap;

use serde_json::Value;
use slipring_pcap::{PcapDirection, PcapFileReader, TcVerdict};
use slipring_test_support::oracle;

use super::{EPOCH, Lab, MS, capture, link, up};

fn burst(count: usize, len: u32) -> Vec<(u64, u32)> {
    vec![(0, len); count]
}

#[test]
fn asked_stands_beside_measured() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..1000).map(|i| (i * MS, 1250))));
    let output = lab.run("--virtual @in.pcap @out.pcap -B 10m -D 20ms -L nth,10 --seed 3");
    assert_eq!(output.status, 0, "{}", output.stderr);
    for line in [
        "up (left to right)",
        "rate    10 Mbit/s",
        "delay   20 ms",
        "mean 21 ms",
        "loss    number 10 of 10                   10 % (100 of 1000)",
        "0 reordered (0 %)",
        "1000 in = 900 out + 100 loss",
        "seed 3",
    ] {
        assert!(output.stdout.contains(line), "{line:?} is not in\n{}", output.stdout);
    }
    assert!(!output.stdout.contains("down"), "a link without frames is not told of");
}

#[test]
fn the_report_balances_whatever_the_link_does() {
    for args in [
        "-B 1m -Q 5000",
        "-L 20% --duplicate 30%,1ms,2",
        "-D uniform,1ms,50ms --order drop",
        "-B avg,1m,3000 -R 20%,3ms",
        "-B 2m -Q codel,1ms,10ms",
    ] {
        let (out, report) = link(args, (0..2000).map(|i| (i * 300_000, 60 + i as u32 % 900)));
        let sum = |of: &Value| {
            let counts = of.as_object().unwrap().values();
            counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
        };
        let ports = report["ports"].as_array().unwrap();
        let of = |direction: &str| {
            ports.iter().map(|port| port[direction]["packets"].as_u64().unwrap()).sum()
        };
        let (received, sent): (u64, u64) = (of("rx"), of("tx"));
        let drops: u64 = ports.iter().map(|port| sum(&port["drops"])).sum();
        let (copies, inside) =
            (report["copies"].as_u64().unwrap(), report["in_flight"].as_u64().unwrap());
        assert_eq!(received + copies, sent + drops + inside, "{args}: {report}");
        assert_eq!((received, sent), (2000, out.len() as u64), "{args}");
        assert_eq!(up(&report)["input"]["packets"], 2000, "{args}");
    }
}

#[test]
fn the_log_tells_of_each_frame_where_it_came_in_and_what_became_of_it() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(burst(20, 1000)));
    lab.emulate("-B 1m -Q 10000 --log @log.pcapng");
    let log = lab.bytes("log.pcapng");
    let mut reader = PcapFileReader::new(&log);
    let packets: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let names: Vec<_> = reader.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["left in", "left out", "right in", "right out"]);
    let mut fates: HashMap<u64, Vec<_>> = HashMap::new();
    for packet in &packets {
        let fate = (packet.interface, packet.ts_ns - EPOCH, packet.verdict(), packet.comment());
        fates.entry(packet.packet_id().unwrap()).or_default().push(fate);
        let outgoing = packet.direction() == Some(PcapDirection::Outbound);
        assert_eq!(outgoing, packet.interface == 3);
    }
    for id in 0..20 {
        let fate = if id < 10 {
            (3, (id + 1) * 8 * MS, Some(TcVerdict::Passed), None)
        } else {
            (0, 0, Some(TcVerdict::Dropped), Some("queue (link up)"))
        };
        assert_eq!(fates[&id], [(0, 0, None, None), fate], "frame {id}");
    }
    assert!(packets.is_sorted_by_key(|packet| packet.ts_ns));
}

#[test]
fn the_log_is_in_the_order_of_time_over_all_ports() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..300).map(|i| (i * 700_000, 100 + i as u32))));
    let args = "-D uniform,1ms,9ms --order free -B 10m -Q codel --log @log.pcapng";
    lab.emulate(args);
    let log = lab.bytes("log.pcapng");
    let times: Vec<_> = PcapFileReader::new(&log).map(|packet| packet.unwrap().ts_ns).collect();
    assert_eq!(times.len(), 600);
    assert!(times.is_sorted());
}

#[test]
fn settings_that_changed_are_told_of_with_what_holds_now() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..100).map(|i| (i * MS, 100))));
    lab.write("link.toml", b"[ports.left]\n[ports.right]\n[link.up]\nfrom = \"left\"\n\
        to = \"right\"\ndelay = \"1ms\"\n[[at]]\nt = \"50ms\"\nset = { \"link.up.delay\" = \"7ms\" }\n");
    let report = lab.emulate("--config @link.toml");
    assert_eq!(report["changes"], serde_json::json!({ "times": 1, "since_ns": 50 * MS }));
    assert_eq!(up(&report)["asked"]["delay"], "7 ms");
    let output = lab.run("--virtual @in.pcap @out.pcap --config @link.toml");
    assert!(
        output.stdout.contains("settings changed once, the last time 50 ms"),
        "{}",
        output.stdout
    );
    assert!(lab.emulate("-D 1ms").get("changes").is_none());
}

#[test]
fn every_stage_is_asked_and_measured_in_the_summary() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture(burst(100, 1000)));
    let args = "--virtual @in.pcap @out.pcap --seed 1 --police 1m,10k -R 100%,5ms --corrupt 1e-3 \
                --duplicate 100% -O 1us -D 2ms";
    let output = lab.run(args);
    for (row, asked, seen) in [
        ("police", "1 Mbit/s, bursts of", "of 100 dropped"),
        ("hold", "100 % for 5 ms", "held"),
        ("corrupt", "bit error rate 1e-3", "hit"),
        ("copies", "100 %", "of 100"),
        ("offset", "1 us less", ""),
    ] {
        let rows: String = output
            .stdout
            .lines()
            .skip_while(|line| !line.starts_with(&format!("  {row}")))
            .take(2)
            .collect();
        assert!(rows.contains(asked) && rows.contains(seen), "{row}: {}", output.stdout);
    }
    let report = lab.emulate("--police 1m,10k -O 1us");
    assert_eq!(up(&report)["asked"]["offset"], "1 us less");
}

#[test]
fn an_end_leaves_out_what_was_captured_later() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..1000).map(|i| (i * MS, 100))));
    for args in ["-t 0.25", "-t 0.25 --log @log.pcapng"] {
        let report = lab.emulate(&format!("-D 500ms {args}"));
        assert_eq!(report["ports"][0]["rx"]["packets"], 250, "{args}");
        let out = lab.frames("out.pcap");
        assert_eq!((out.len(), out[249].at_ns), (250, 749 * MS), "{args}: what came in leaves");
    }
    assert_eq!(lab.emulate("-t 0")["ports"][0]["rx"]["packets"], 1000, "0 is no end");
}

#[test]
fn frames_that_are_none_are_told_of_in_the_summary_too() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([(0, 0), (MS, 1), (2 * MS, 100)]));
    let output = lab.run("--virtual @in.pcap @out.pcap");
    assert!(
        output.stdout.contains("\nleft: 2 frames were refused (malformed)"),
        "{}",
        output.stdout
    );
    assert!(!output.stdout.contains("STOPPED"), "{}", output.stdout);
}

#[test]
fn a_log_changes_nothing_of_what_is_logged() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..3000).map(|i| (i / 3 * 100_000, 60 + i as u32 % 900))));
    let args = "-B 20m -Q 20k -L 1% -D uniform,1ms,9ms --order free --duplicate 1%";
    lab.emulate(args);
    let plain = lab.bytes("out.pcap");
    lab.emulate(&format!("{args} --log @log.pcapng --mahimahi-log @mm"));
    assert!(lab.bytes("out.pcap") == plain);
}

#[test]
fn the_mahimahi_log_has_arrivals_opportunities_departures_and_drops() {
    let lab = Lab::new();
    lab.write("trace", b"2\n4\n");
    lab.write("in.pcap", &capture(burst(3, 1504)));
    let trace = lab.path("trace");
    lab.emulate(&format!("-B trace,{},mtu=1504 -Q 3008 --mahimahi-log @mm", trace.display()));
    let log = String::from_utf8(lab.bytes("mm.up")).unwrap();
    let (head, events): (Vec<&str>, Vec<&str>) =
        log.lines().partition(|line| line.starts_with("# "));
    assert!(head.contains(&"# base timestamp: 0"), "{head:?}");
    let mut sorted = events.clone();
    sorted.sort_unstable();
    let mut expected = [
        "0 + 1504",
        "0 + 1504",
        "0 + 1504",
        "0 d 1 1504",
        "2 # 1504",
        "2 - 1504 2",
        "4 # 1504",
        "4 - 1504 4",
    ];
    expected.sort_unstable();
    assert_eq!(sorted, expected, "{log}");
    let times = events.iter().map(|line| line.split(' ').next().unwrap().parse::<u64>().unwrap());
    assert!(times.is_sorted());
}

#[test]
fn pcapng_is_written_where_the_name_asks_for_it() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture([(0, 100), (MS, 200)]));
    let output = lab.run("--virtual @in.pcap @out.pcapng -D 1ms");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let out = lab.bytes("out.pcapng");
    let mut reader = PcapFileReader::new(&out);
    let packets: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(packets.iter().map(|one| one.ts_ns - EPOCH).collect::<Vec<_>>(), [MS, 2 * MS]);
    assert_eq!(reader.interfaces()[0].name, "right");
}

#[test]
fn a_topology_adds_the_delays_of_its_hops() {
    let lab = Lab::new();
    let file = "
        nodes = [\"middle\"]
        [ports.left]
        [ports.right]
        [link.first]
        from = \"left\"
        to = \"middle\"
        delay = { dist = \"const\", mean = \"3ms\" }
        [link.second]
        from = \"middle\"
        to = \"right\"
        rate = { bps = \"8Mbit\" }
        delay = { dist = \"const\", mean = \"4ms\" }
    ";
    lab.write("net.toml", file.as_bytes());
    lab.write("in.pcap", &capture([(0, 1000), (0, 1000)]));
    let output = lab.run("--virtual @in.pcap @out.pcap --config @net.toml --json");
    assert_eq!(output.status, 0, "{}", output.stderr);
    assert_eq!(super::times(&lab.frames("out.pcap")), [8 * MS, 9 * MS]);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(report["links"][1]["from"], "middle");
    assert_eq!(report["links"][1]["output"]["packets"], 2);
}

#[test]
fn a_full_link_with_framing_shows_the_rate_that_was_asked_for() {
    let input = || vec![(0, 60); 20_000];
    let (_, report) = link("-B ether,10m -Q none -D 300ms", input());
    let link = super::up(&report);
    let rates = ["rate_bps", "line_rate_bps"].map(|key| link[key].as_f64().unwrap());
    for (rate, asked) in rates.into_iter().zip([1e7 * 60.0 / 84.0, 1e7]) {
        assert!((rate / asked - 1.0).abs() < 1e-6, "{rates:?}");
    }
    let lab = Lab::new();
    lab.write("in.pcap", &capture(input()));
    let output = lab.run("--virtual @in.pcap @out.pcap -B ether,10m -Q none");
    let shown = "7.143 Mbit/s (10 Mbit/s with its framing), at most";
    assert!(output.stdout.contains(shown), "{}", output.stdout);
}

#[test]
fn every_link_of_a_path_is_charged_with_its_own_delay_only() {
    let lab = Lab::new();
    let mut file = "nodes = [\"n1\", \"n2\"]\n[ports.left]\n[ports.right]\n".to_owned();
    for (name, from, to, ms) in
        [("a", "left", "n1", 1), ("b", "n1", "n2", 10), ("c", "n2", "right", 100)]
    {
        file += &format!("[link.{name}]\nfrom = \"{from}\"\nto = \"{to}\"\n");
        file += &format!("delay = {{ dist = \"const\", mean = \"{ms}ms\" }}\n");
    }
    // The middle link makes copies, which are ordinary frames on the last link.
    file += "[link.b.duplicate]\np = 1.0\ncopies = 1\n";
    lab.write("net.toml", file.as_bytes());
    lab.write("in.pcap", &capture((0..100).map(|i| (i * MS, 1000))));
    let output = lab.run("--virtual @in.pcap @out.pcap --config @net.toml --json");
    assert_eq!(output.status, 0, "{}", output.stderr);
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    for (link, frames, delay_ns) in [(0, 100, MS), (1, 200, 10 * MS), (2, 200, 100 * MS)] {
        let link = &report["links"][link];
        let delay = &link["delay_ns"];
        assert_eq!(link["output"]["packets"], frames, "{link}");
        for (key, value) in [("count", frames), ("min", delay_ns), ("max", delay_ns)] {
            assert_eq!(delay[key], value, "{link}");
        }
        assert!(link["rate_bps"].as_u64().unwrap() >= 8_000_000, "{link}");
        assert_eq!(link["reordered"], 0, "{link}");
    }
}

#[test]
fn reports_match_the_schema() {
    // A run gives up the right to execute programs, but the test has to execute the validator. So
    // the run is in a separate thread.
    let reports = std::thread::spawn(|| {
        let links = [
            "-B 1m -Q 5000 -D pareto,1ms,1.5",
            "-L 20% --duplicate 30%,1ms,2",
            "-D uniform,1ms,50ms --order free --corrupt 1e-5",
        ];
        let reports = links.map(|args| {
            let (_, report) = link(args, (0..500).map(|i| (i * 300_000, 60 + i as u32 % 900)));
            let mut negative = report.clone();
            negative["links"][0]["output"]["packets"] = (-1).into();
            let mut partial = report.clone();
            partial["links"][0].as_object_mut().unwrap().remove("asked");
            (report, negative, partial)
        });
        Vec::from(reports)
    });
    let reports = reports.join().unwrap();
    let all = reports.iter().flat_map(|(report, negative, partial)| [report, negative, partial]);
    let all = all.map(|report| ("emulate-1.json", report));
    let Some(faults) = oracle::schema_faults(all) else { return };
    for faults in faults.chunks(3) {
        assert!(
            faults[0].is_empty() && faults[1..].iter().all(|fault| !fault.is_empty()),
            "{faults:?}"
        );
    }
}

#[test]
fn metrics_are_openmetrics() {
    use crate::report::{EmulationReport, measurement::LinkMeasurement};
    use slipring_link::{LinkSpec, NetworkSpec, PacketCounts};
    let network = NetworkSpec::between("a", "b", LinkSpec::wire("u\"p\\"), LinkSpec::wire("down"));
    let mut measured = [LinkMeasurement::new(0), LinkMeasurement::new(0)];
    for delay in [50, 1_000, 3_000_000, 100_000_000_000] {
        measured[0].delay.record(delay);
    }
    let counters = [Default::default(), Default::default()];
    let text =
        EmulationReport::of(&network, &counters, &measured, PacketCounts::default()).openmetrics();
    if let Some(families) = oracle::openmetrics_families(&text) {
        for family in
            ["slipring_link_dropped_packets counter", "slipring_link_delay_seconds histogram"]
        {
            assert!(families.contains(family), "{families}");
        }
    }
    let bucket = |le: &str| {
        let name =
            format!("slipring_link_delay_seconds_bucket{{le=\"{le}\",link=\"u\\\"p\\\\\"}} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.unwrap_or_else(|| panic!("no {name} in {text}")).parse::<u64>().unwrap()
    };
    assert_eq!(["1e-07", "1e-06", "0.005", "10.0", "+Inf"].map(bucket), [1, 2, 3, 3, 4]);
}
