//! What is written beside the frames: reports, logs.

use std::collections::HashMap;

use serde_json::Value;
use slipring_pcap::{Direction, Reader, Verdict};

use super::{EPOCH, Lab, MS, capture, link, up};

fn burst(count: usize, len: u32) -> Vec<(u64, u32)> {
    vec![(0, len); count]
}

#[test]
fn asked_stands_beside_measured() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..1000).map(|i| (i * MS, 1250))));
    let said = lab.run("--virtual @in.pcap @out.pcap -B 10m -D 20ms -L nth,10 --seed 3");
    assert_eq!(said.status, 0, "{}", said.talk);
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
        assert!(said.data.contains(line), "{line:?} is not in\n{}", said.data);
    }
    assert!(!said.data.contains("down"), "a link without frames is not told of");
}

#[test]
fn the_report_balances_whatever_the_link_does() {
    for args in [
        "-B 1m -Q 5000",
        "-L 0.2 --duplicate 0.3,1ms,2",
        "-D uniform,1ms,50ms --order drop",
        "-B avg,1m,3000 -R 0.2,3ms",
        "-B 2m -Q codel,1ms,10ms",
    ] {
        let (out, report) = link(args, (0..2000).map(|i| (i * 300_000, 60 + i as u32 % 900)));
        let sum = |of: &Value| {
            let counts = of.as_object().unwrap().values();
            counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
        };
        let ports = report["ports"].as_array().unwrap();
        let of = |way: &str| ports.iter().map(|port| port[way]["packets"].as_u64().unwrap()).sum();
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
    let mut reader = Reader::new(&log);
    let packets: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    let names: Vec<_> = reader.interfaces().iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["left in", "left out", "right in", "right out"]);
    let mut fates: HashMap<u64, Vec<_>> = HashMap::new();
    for packet in &packets {
        let fate = (packet.interface, packet.ts_ns - EPOCH, packet.verdict(), packet.comment());
        fates.entry(packet.packet_id().unwrap()).or_default().push(fate);
        let outgoing = packet.direction() == Some(Direction::Outbound);
        assert_eq!(outgoing, packet.interface == 3);
    }
    for id in 0..20 {
        let fate = if id < 10 {
            (3, (id + 1) * 8 * MS, Some(Verdict::Passed), None)
        } else {
            (0, 0, Some(Verdict::Dropped), Some("queue (link up)"))
        };
        assert_eq!(fates[&id], [(0, 0, None, None), fate], "frame {id}");
    }
    assert!(packets.is_sorted_by_key(|packet| packet.ts_ns));
}

#[test]
fn a_log_changes_nothing_of_what_is_logged() {
    let lab = Lab::new();
    lab.write("in.pcap", &capture((0..3000).map(|i| (i / 3 * 100_000, 60 + i as u32 % 900))));
    let args = "-B 20m -Q 20k -L 1% -D uniform,1ms,9ms --order free --duplicate 0.01";
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
    let said = lab.run("--virtual @in.pcap @out.pcapng -D 1ms");
    assert_eq!(said.status, 0, "{}", said.talk);
    let out = lab.bytes("out.pcapng");
    let mut reader = Reader::new(&out);
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
    let said = lab.run("--virtual @in.pcap @out.pcap --config @net.toml --json");
    assert_eq!(said.status, 0, "{}", said.talk);
    assert_eq!(super::times(&lab.frames("out.pcap")), [8 * MS, 9 * MS]);
    let report: Value = serde_json::from_str(&said.data).unwrap();
    assert_eq!(report["links"][1]["from"], "middle");
    assert_eq!(report["links"][1]["output"]["packets"], 2);
}
