//! Tests of bad input and missed expectations, and of the exit statuses for them.

use super::{number, slipring};

#[test]
fn wrong_usage_is_2_with_code_cause_and_help() {
    for (words, parts) in [
        ("gen", "error[SR0006]"),
        ("gen -i null: --no-such", "error[SR0001]"),
        ("gen -i null: -f tx -l 10", "error[SR0002]"),
        ("gen -i null: -f tx -R 10Gbot", "error[SR0007]"),
        ("gen -i netmap:eth0-x -f tx", "error[SR0101]"),
        ("gen -i null: -f tx -P /no/such/file", "error[SR0201]"),
        ("gen -i pcap:/no/such/file -f rx", "error[SR0201]"),
        ("gen -i null: -f tx -p 2", "error[SR0002]: 2 threads, but null: has 1 queue"),
        ("gen -i null: -f txseq -l 44", "no room for a number"),
        ("gen -i null: -f tx --latency -l 55", "no room for a number and a time"),
    ] {
        let run = slipring(words).ended(2);
        assert!(run.stderr().contains(parts), "{words}: {}", run.stderr());
        assert!(run.stderr().contains("see `slipring explain SR0"), "{words}");
        assert_eq!(run.stdout(), "", "{words}");
    }
}

#[test]
fn a_broken_capture_is_refused_before_anything_starts() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("x.pcap").to_str().unwrap().to_owned();
    slipring(&format!("gen -i pcap:{path} -f tx -n 10")).ended(0);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    for words in [format!("gen -i null: -f tx -P {path}"), format!("gen -i pcap:{path} -f rx")] {
        let run = slipring(&words).ended(2);
        assert!(run.stderr().contains("error[SR0203]"), "{}", run.stderr());
    }
}

#[test]
fn a_missing_interface_is_3() {
    let run = slipring("gen -i netmap:nosuchif0 -f tx -n 1").ended(3);
    assert!(run.stderr().contains("error[SR0102]"), "{}", run.stderr());
}

#[test]
fn missed_expectations_are_1_after_the_report() {
    let run = slipring("gen -i null: -f tx -n 10 --min-rate 1000Gpps --json").ended(1);
    assert_eq!(number(&run.document(), "packets"), 10);
    assert!(run.stderr().contains("SR0404"), "{}", run.stderr());
    slipring("gen -i null: -f tx -n 10 --min-rate 1 --max-loss 0").ended(0);
    // None of the frames carries our stamp, so the receiver cannot know how many were lost.
    slipring("gen -i null: -f rx -n 10 --max-loss 1%").ended(1);
}

#[test]
fn a_number_alone_is_refused_as_a_loss_and_is_packets_as_a_rate() {
    let refused = slipring("gen -i null: -f tx -n 1 --max-loss 1").ended(2).stderr();
    assert!(refused.contains("SR0007") && refused.contains("1% or 1 of the whole"), "{refused}");
    for words in ["--max-loss 0", "--max-loss 0.1%", "-R 1"] {
        slipring(&format!("gen -i null: -f tx -n 1 {words}")).ended(0);
        slipring(&format!("pkt-gen -i null: -f tx -n 1 {words}")).ended(0);
    }
}

#[test]
fn check_touches_nothing() {
    slipring("gen -i netmap:nosuchif0 -f tx --check").ended(0);
    slipring("gen -i netmap:nosuchif0 -f tx -l 0 --check").ended(2);
}

#[test]
fn a_set_rate_is_never_exceeded() {
    // 100 packets at 1 kpps take at least 99 ms, however busy the machine is.
    let report = slipring("gen -i null: -f tx -n 100 -R 1k --json").ended(0).document();
    assert!(number(&report, "elapsed_ns") >= 99_000_000, "{report}");
    let report = slipring("gen -i null: -f tx -n 101 -l 125 -R 1Mbit --json").ended(0).document();
    assert!(number(&report, "elapsed_ns") >= 100_000_000, "{report}");
}

#[test]
fn lines_are_objects_one_per_event() {
    let run = slipring("gen -i null: -f tx -R 1k --duration 1 -T 20 --json=lines").ended(0);
    let events: Vec<serde_json::Value> =
        run.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&events[0]["event"], &events[0]["seed"]), (&"start".into(), &1.into()));
    assert_eq!(events[events.len() - 1]["event"], "end");
    assert!(events.len() >= 3);
    let counted: Vec<_> = events[1..].iter().map(|event| number(event, "packets")).collect();
    assert!(counted.is_sorted(), "counters are totals: {counted:?}");
    for event in &events[1..] {
        assert!(event["rate_pps"].is_u64() && event["function"] == "tx", "{event}");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    let run = slipring("gen -i null: -f tx -n 1 -a 1000").ended(2);
    assert!(run.stderr().contains("there is no CPU 1000"), "{}", run.stderr());
    slipring("gen -i null: -f tx -n 1 -a 0 -c 0").ended(0);
}
