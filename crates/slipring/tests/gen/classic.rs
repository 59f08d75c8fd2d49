//! Tests of pkt-gen's texts and statuses, under pkt-gen's name.

use std::os::unix::process::CommandExt;
use std::process::Command;

use slipring_test_support::program::output;

use super::{Run, slipring};
use crate::support::SLIPRING;

/// Returns the text with every number, and the prefix of its unit, replaced by `N`.
fn normalised(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if !c.is_ascii_digit() {
            out.push(c);
            continue;
        }
        while chars.peek().is_some_and(|c| c.is_ascii_digit() || *c == '.') {
            chars.next();
        }
        out.push('N');
    }
    for prefix in ["K", "M", "G", "T"] {
        for unit in ["pps", "bps", "pkts"] {
            out = out.replace(&format!("N {prefix}{unit}"), &format!("N {unit}"));
        }
    }
    out
}

#[test]
fn a_run_reads_as_pkt_gens() {
    let run = slipring("pkt-gen -i null: -f tx -R 10000 -n 10000 -T 20").ended(0);
    assert_eq!(
        normalised(&run.stdout()),
        "Sent N packets N bytes N events N bytes each in N seconds.\n\
         Speed: N pps Bandwidth: N bps (raw N bps). Average batch: N pkts\n"
    );
    assert!(run.stdout().starts_with("Sent 10000 packets 600000 bytes "));
    let talk = normalised(&run.stderr());
    let mut lines = talk.lines();
    assert_eq!(lines.next(), Some("N main [N] interface is null: kind=null queues=N slots=N"));
    assert_eq!(lines.next(), Some("Sending on null: N queues, N threads and N cpus."));
    assert_eq!(lines.next(), Some("N main [N] Ready..."));
    let line = "N main_thread [N] N pps (N pkts N bps in N usec) N avg_batch N min_space";
    assert!(lines.clone().count() >= 2 && lines.all(|seen| seen == line), "{talk}");
}

#[test]
fn receiving_reads_as_pkt_gens() {
    let run = slipring("pkt-gen -i null: -f rx -n 5000 -N").ended(0);
    assert!(run.stdout().starts_with("Received 5000 packets 300000 bytes "), "{}", run.stdout());
    assert!(normalised(&run.stdout()).contains("Speed: N pps"));
}

#[test]
fn json_is_the_same_under_every_name() {
    let run = slipring("pkt-gen -i null: -f tx -n 10 --json").ended(0);
    assert_eq!(run.document()["packets"], 10);
}

#[test]
fn statuses_are_pkt_gens_and_no_failure_is_0() {
    slipring("pkt-gen --no-such-flag").ended(255);
    slipring("pkt-gen").ended(255);
    slipring("pkt-gen -i null: -l 0 -f tx").ended(255);
    slipring("pkt-gen -i nosuchif0 -f tx").ended(1);
    slipring("pkt-gen -i null: -f tx -n 10 --min-rate 1000Gpps").ended(1);
}

#[test]
fn the_name_of_the_program_decides() {
    for name in ["pkt-gen", "slipring-pkt-gen", "/opt/bin/pkt-gen"] {
        let mut command = Command::new(SLIPRING);
        command.arg0(name).args(["-i", "null:", "-f", "tx", "-n", "5"]);
        let run = Run(output(&mut command)).ended(0);
        assert!(
            run.stdout().starts_with("Sent 5 packets 300 bytes 1 events 60 bytes each in "),
            "{run:?}"
        );
    }
}
