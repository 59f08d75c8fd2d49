//! Tests of an HTTP download between two hosts, through the emulator between them. The emulator's
//! counters are compared with the settings, so that a busy machine does not change the result.

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::lab::RIGHT;
use slipring_test_support::{Lab, LabPort, Program};

use crate::support::bridge::Report;
use crate::support::web::Web;
use crate::{balanced, emulate, last_report};

/// Bytes to download: at 20 Mbit/s, they take more than a second.
const FILE: usize = 3_000_000;

/// Downloads the file from right to left through links with the settings `words`; returns the
/// emulator's last report.
fn download(words: &str) -> Option<Report> {
    let lab = Lab::new(LabPort::Packet)?;
    let web = Web::serve(&lab.right, RIGHT, FILE)?;
    let emulator = emulate(&lab, words);
    let got = web.target();
    let words = format!("-sS --fail --max-time 60 -o {} {}", got.display(), web.url());
    Program::start(&lab.left, "curl", &words).finish().well();
    web.assert_whole(&got);
    let report = last_report(emulator.stop(Signal::INT));
    balanced(&report);
    Some(report)
}

fn figure(link: &Value, keys: &[&str]) -> f64 {
    let value = keys.iter().fold(link, |value, key| &value[*key]);
    value.as_f64().unwrap_or_else(|| panic!("{keys:?} in {link}"))
}

#[test]
fn a_download_is_whole_and_never_faster_than_the_rate_nor_sooner_than_the_delay() {
    let Some(report) = download("-B 20m -D 15ms -Q time=100ms --seed 7") else { return };
    let (up, down) = (&report.0["links"][0], &report.0["links"][1]);
    assert!(figure(down, &["output", "bytes"]) > FILE as f64, "{down}");
    // How close the download comes to the configured rate depends on the load of this machine.
    // After a stall, late frames are sent together, so the second after it may be fuller than the
    // rate allows.
    let second = figure(down, &["peak_rate_1s_bps"]);
    assert!((1e5..25e6).contains(&second), "{down}");
    // The minimum round-trip time is the sum of the minimum delays of both directions.
    let round_trip = figure(up, &["delay_ns", "min"]) + figure(down, &["delay_ns", "min"]);
    assert!((30e6..60e6).contains(&round_trip), "{report:?}");
    let queued = figure(down, &["queue_delay_ns", "max"]);
    assert!(queued <= 100e6, "the queue holds 100 ms: {down}");
}

#[test]
fn a_download_over_a_lossy_link_is_whole_and_the_losses_are_the_share_that_was_asked() {
    let Some(report) = download("-D 2ms -L 2% --seed 7") else { return };
    let down = &report.0["links"][1];
    let (input, lost) =
        (figure(down, &["input", "packets"]), figure(down, &["lost", "loss", "packets"]));
    // The limit is twice 3.3 standard deviations of a binomial distribution. A limit of 3.3
    // deviations would be exceeded about once in a thousand runs.
    let most = 6.6 * (0.02 * 0.98 * input).sqrt();
    assert!(input > FILE as f64 / 1500.0, "{down}");
    assert!((lost - 0.02 * input).abs() < most, "{lost} of {input}, asked 2 %");
    let inside = figure(down, &["inside", "packets"]);
    assert_eq!(figure(down, &["output", "packets"]) + lost + inside, input, "{down}");
}
