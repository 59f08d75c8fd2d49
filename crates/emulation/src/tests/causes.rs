//! Tests that errors state what is wrong with the input, with the user's names and units.

use super::{file, message, network, plan, plan_of, refusal};

/// Returns the error message for a file in which the link `up` has these settings.
fn refused(up: &str) -> String {
    network(&file(up)).unwrap_err()
}

#[test]
fn a_number_that_is_none_is_told_apart_from_an_unknown_name() {
    for (up, cause) in [
        ("delay = \"-3ms\"", "it is negative"),
        ("delay = \"NaNms\"", "it is not a number"),
        ("delay = \"inf\"", "it is not finite"),
        ("delay = \"+3ms\"", "a number has no sign"),
        ("delay = \"normal(20ms, -3ms)\"", "it is negative"),
        ("rate = \"-1Mbit\"", "it is negative"),
        ("loss = \"-1%\"", "it is negative"),
        ("delay = \"nosuch\"", "unknown name"),
    ] {
        let error = refused(up);
        assert!(error.contains(&format!("| {cause} at link.toml, line 6")), "{up}: {error}");
    }
}

#[test]
fn what_the_engine_refuses_is_told_by_the_settings_name_and_in_its_unit() {
    for (up, why) in [
        (
            "delay = \"normal(20ms, 3ms, half_life=0s)\"",
            "`0s` does not fit link.up.delay.half_life | the link cannot have it at link.toml, \
             line 6, column 38 | allowed: 1ns or more",
        ),
        (
            "delay = \"inter-packet(9ms, 1ms)\"",
            "`1ms` does not fit link.up.delay.max_gap | the link cannot have it at link.toml, \
             line 6, column 28 | allowed: 9ms, the shortest gap, or more",
        ),
        (
            "queue = \"codel(200ms, 100ms)\"",
            "`200ms` does not fit link.up.queue.target | the link cannot have it at link.toml, \
             line 6, column 16 | allowed: from 1ns to the interval",
        ),
        (
            "queue = \"dualpi2(15ms, coupling=0)\"",
            "`0` does not fit link.up.queue.coupling | the link cannot have it at link.toml, \
             line 6, column 33 | allowed: from 1 to 1000",
        ),
        (
            "queue = { kind = \"red\", min_packets = 9, max_packets = 3 }",
            "`3` does not fit link.up.queue.max_packets | the link cannot have it at link.toml, \
             line 6, column 56 | allowed: above min, and at most 10^15",
        ),
        (
            "loss = \"state4(0.6, 0.1, 0, 1, 0.6)\"",
            "`0.6` does not fit link.up.loss.p14 | the link cannot have it at link.toml, \
             line 6, column 32 | allowed: p13 and p14 of 1 at most together",
        ),
        (
            "loss = [\"1%\", \"timed-ge(0s, 1s)\"]",
            "`0s` does not fit link.up.loss.good_time | the link cannot have it at link.toml, \
             line 6, column 25 | allowed: 1ns or more",
        ),
        (
            "loss = \"time(2s, 1s)\"",
            "`1s` does not fit link.up.loss.until | the link cannot have it at link.toml, \
             line 6, column 18 | allowed: later than 2s",
        ),
        (
            "loss = \"time(1s, 2s, period=1s)\"",
            "`1s` does not fit link.up.loss.period | the link cannot have it at link.toml, \
             line 6, column 29 | allowed: 2s, the last end, or more",
        ),
        (
            "rate = \"ou(10Mbit, 1Mbit, 1s, min=20Mbit)\"",
            "`10Mbit` does not fit link.up.rate.mean | the link cannot have it at link.toml, \
             line 6, column 12 | allowed: between minimum and maximum",
        ),
        (
            "rate = \"tdm(10Mbit, 10ms, 20ms)\"",
            "`10ms` does not fit link.up.rate.period | the link cannot have it at link.toml, \
             line 6, column 21 | allowed: 20ms, the end of the last slot, or more",
        ),
        (
            "rate = \"tdm(10Mbit, 10ms, 0s)\"",
            "`0s` does not fit link.up.rate.slot | the link cannot have it at link.toml, \
             line 6, column 27 | allowed: 1ns or more",
        ),
        (
            "rate = { bps = \"1Mbit\", cells = \"docsis\", minislot = 0 }",
            "`0` does not fit link.up.rate.minislot | the link cannot have it at link.toml, \
             line 6, column 54 | allowed: 1 byte or more",
        ),
        (
            "police = \"rfc2698(20Mbit, 10kB, 10Mbit, 10kB)\"",
            "`10Mbit` does not fit link.up.police.pir | the link cannot have it at link.toml, \
             line 6, column 33 | allowed: 20Mbit/s, the committed rate, or more",
        ),
        (
            "output = \"0bit\"",
            "`0bit` does not fit link.up.output | the link cannot have it at link.toml, \
             line 6, column 11 | allowed: 1bit/s or more",
        ),
    ] {
        assert_eq!(refused(up), why, "{up}");
    }
}

#[test]
fn a_distribution_that_cannot_be_is_told_with_the_units_that_were_written() {
    for (up, cause) in [
        ("uniform(9ms, 1ms)", "max must be no less than min, 9ms, and is 1ms"),
        ("exp(9ms, 3ms)", "mean must be greater than min, 9ms, and is 3ms"),
        ("normal(5ms, 0ms)", "sd must be greater than 0, and is 0ns"),
        ("pareto(1ms, 0)", "shape must be 0.1 to 1000000, and is 0"),
        ("gamma(5ms, 0ms)", "sd must be from a thousandth of the mean to three times as much"),
        ("gamma(1ms, 10ms)", "sd must be from a thousandth of the mean to three times as much"),
    ] {
        let error = refused(&format!("delay = \"{up}\""));
        let whole = format!("link.up.delay cannot be built | {cause}");
        assert!(error.starts_with(&whole), "{error}");
    }
    assert!(network(&file("delay = \"gamma(10ms, 30ms)\"")).is_ok());
}

#[test]
fn a_pattern_with_other_digits_is_no_name_of_a_file() {
    let error = refusal("-L pattern,12");
    assert!(
        error.starts_with(
            "`12` does not fit link.up.loss.bits | there are only zeros and ones at column 10 of -L"
        ),
        "{error}"
    );
    let error = refusal("-L pattern,nosuchfile");
    assert!(error.starts_with("cannot open nosuchfile"), "{error}");
    assert!(error.ends_with("check the path: ls -l nosuchfile"), "{error}");
}

#[test]
fn a_row_of_no_frames_is_named_as_it_was_written() {
    let error = refusal("-L nth,0");
    assert!(error.starts_with("`0` does not fit link.up.loss.every"), "{error}");
    let error = refusal("-L nth,3,4");
    assert!(error.starts_with("`3` does not fit link.up.loss.every"), "{error}");
}

#[test]
fn a_rate_of_zero_in_a_file_is_refused_and_in_a_flag_printed_as_none() {
    let error = refused("rate = \"0bit\"");
    assert_eq!(
        error,
        "`0bit` does not fit link.up.rate.bps | nothing would ever pass at link.toml, line 6, \
         column 9 | for a link without a limit write rate = \"none\""
    );
    assert!(
        refused("rate = { bps = \"0Mbit\", overhead = 4 }").starts_with("`0Mbit` does not fit")
    );
    assert!(network(&file("rate = \"none\"")).is_ok());
    for flag in ["-B 0", "-B const,0k", "-B ether,0"] {
        let asked = plan(&format!("--virtual a b {flag} -D 5ms")).unwrap();
        let text = asked.config.to_toml();
        let read = network(&text).unwrap_or_else(|error| panic!("{flag}: {error}\n{text}"));
        assert_eq!(read, asked.network, "{flag}: {text}");
    }
}

#[test]
fn an_overhead_that_leaves_nothing_of_a_frame_is_refused() {
    for (bytes, why) in [
        ("-100000", Some("no frame would take any time")),
        ("-1514", Some("no frame would take any time")),
        ("-1513", None),
        ("65535", None),
        ("65536", Some("too large")),
    ] {
        let read = network(&file(&format!("rate = {{ bps = \"1Mbit\", overhead = {bytes} }}")));
        match why {
            None => assert!(read.is_ok(), "{bytes}"),
            Some(why) => {
                let error = read.unwrap_err();
                let start = format!("`{bytes}` does not fit link.up.rate.overhead | {why} at");
                assert!(error.starts_with(&start), "{error}");
                assert!(error.ends_with("write bytes from -1513 to 65535"), "{error}");
            }
        }
    }
}

#[test]
fn only_true_and_false_are_truths_of_a_file() {
    for word in ["\"yes\"", "\"no\"", "\"on\"", "\"1\"", "\"true\"", "1"] {
        let error = refused(&format!("queue = {{ bytes = \"64KiB\", ecn = {word} }}"));
        assert!(error.contains("does not fit link.up.queue.ecn | it is a "), "{word}: {error}");
        assert!(error.ends_with("write true or false, without quotes"), "{error}");
    }
    assert!(refused("queue = \"codel(5ms, 100ms, ecn=yes)\"").contains("link.up.queue.ecn"));
    for line in ["{ kind = \"codel\", ecn = true }", "\"codel(5ms, 100ms, ecn=true)\""] {
        assert!(network(&file(&format!("queue = {line}"))).unwrap().links[0].spec.queue.ecn);
    }
}

#[test]
fn truths_of_flags_are_printed_as_a_file_has_them() {
    let flags = "--virtual a b -B 1m -Q codel,5ms,100ms,ecn=yes --corrupt 1e-6,fix_checksum=on";
    let asked = plan(flags).unwrap();
    let text = asked.config.to_toml();
    assert!(text.contains("ecn = true") && text.contains("fix_checksum = true"), "{text}");
    assert_eq!(network(&text).unwrap(), asked.network);
    let set = plan_of(&["--virtual", "a", "b", "-B", "1m", "--set", "up.queue.ecn=true"]).unwrap();
    assert!(set.network.links[0].spec.queue.ecn);
}

/// Returns the error message for a file with these ports, followed by the text `more`; an empty
/// string if the file is accepted.
fn refused_ports(ports: [&str; 2], more: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("link.toml");
    let [left, right] = ports;
    let text = file("").replace("[ports.left]", &format!("[ports.left]\ndev = \"{left}\""));
    let text = text.replace("[ports.right]", &format!("[ports.right]\ndev = \"{right}\""));
    std::fs::write(&path, format!("{text}{more}")).unwrap();
    match plan(&format!("--config {}", path.display())) {
        Ok(_) => String::new(),
        Err(error) => message(&error).replace(&path.display().to_string(), "link.toml"),
    }
}

#[test]
fn a_port_given_twice_in_a_file_is_named_with_its_place_and_null_may_be() {
    assert_eq!(
        refused_ports(["tap:a", "tap:a"], ""),
        "port tap:a is given twice | at link.toml, line 4, column 8 | a link joins two ports that \
         differ"
    );
    assert_eq!(refused_ports(["null:", "null:"], ""), "");
    let error = refused_ports(["tap:a", "nosuch:b"], "");
    assert!(error.starts_with("`nosuch:b` is not a port name"), "{error}");
    assert!(error.contains("at link.toml, line 4, column 8"), "{error}");
}

#[test]
fn gateways_that_no_host_can_be_are_refused_with_their_place() {
    for (gateways, why) in [
        (
            "[\"none\", \"255.255.255.255\"]",
            "`255.255.255.255` does not fit route.gateways | it is the broadcast address at \
             link.toml, line 13, column 22",
        ),
        (
            "[\"0.0.0.0\", \"none\"]",
            "`0.0.0.0` does not fit route.gateways | it stands for no host",
        ),
        ("[\"224.0.0.5\"]", "`224.0.0.5` does not fit route.gateways | it is a multicast address"),
        ("[\"ff02::1\"]", "`ff02::1` does not fit route.gateways | it is a multicast address"),
        ("[\"127.0.0.1\"]", "`127.0.0.1` does not fit route.gateways | it is this host itself"),
        ("[\"::1\"]", "`::1` does not fit route.gateways | it is this host itself"),
        (
            "[\"10.1.0.9\", \"10.1.0.9\"]",
            "`10.1.0.9` does not fit route.gateways | it is the gateway behind the other port",
        ),
        (
            "[\"none\", \"none\", \"10.1.0.9\"]",
            "route.gateways has 3 entries | a router has two ports at link.toml, line 13",
        ),
    ] {
        let more = format!("[route]\ngateways = {gateways}\n");
        let error = refused_ports(["packet:a", "packet:b"], &more);
        assert!(error.starts_with(why), "{gateways}: {error}");
        assert!(error.ends_with("gateways = [\"none\", \"10.2.0.254\"]"), "{error}");
    }
}

#[test]
fn names_that_stand_twice_are_told_as_such() {
    for (nodes, why) in [
        ("[\"x\", \"x\"]", "`x` does not fit nodes | it is there already at link.toml, line 1"),
        ("[\"a\"]", "`a` does not fit nodes | a port is called so at link.toml, line 1"),
        ("[\"\"]", "the value of nodes is empty"),
    ] {
        let text =
            format!("nodes = {nodes}\n[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\n");
        let error = network(&text).unwrap_err();
        assert!(error.starts_with(why), "{error}");
    }
    let error = network("[ports.\"\"]\n[ports.b]\n").unwrap_err();
    assert!(error.starts_with("a port has no name | at link.toml, line 1"), "{error}");
}

#[test]
fn metrics_need_a_port_or_a_path_that_is_one() {
    for (address, why) in [
        ("1.2.3.4", "it has no port"),
        ("::1", "it has no port"),
        ("9100", "it is neither an address with a port nor a path with a slash"),
        ("metrics.sock", "it is neither an address with a port nor a path with a slash"),
        (":9100", "it has no address"),
        ("127.0.0.1:99999", "its port is no number up to 65535"),
        ("127.0.0.1:", "its port is no number up to 65535"),
    ] {
        let more = format!("[output]\nmetrics = \"{address}\"\n");
        let error = refused_ports(["tap:a", "tap:b"], &more);
        let start =
            format!("`{address}` does not fit output.metrics | {why} at link.toml, line 13");
        assert!(error.starts_with(&start), "{error}");
        assert!(error.ends_with("or a path: ./metrics.sock"), "{error}");
    }
    for address in ["127.0.0.1:9100", "[::1]:0", "localhost:9100", "./metrics.sock", "/run/x"] {
        let more = format!("[output]\nmetrics = \"{address}\"\n");
        assert_eq!(refused_ports(["tap:a", "tap:b"], &more), "", "{address}");
    }
}
