//! Tests an HTTP download by a command behind a link.

use serde_json::Value;
use slipring_test_support::installed;

use crate::support::web::Web;
use crate::users::both;
use crate::{run, world};

/// Bytes to download.
const FILE: usize = 2_000_000;
const FLAGS: &str = "--rate 12Mbit --delay 10ms --queue time=200ms --seed 7 --json --report";

/// Compares the report on both links with their settings; the link to the command must have carried
/// the whole file.
fn check(report: &str) {
    let report: Value = serde_json::from_str(report).unwrap();
    let (up, down) = (&report["links"][0], &report["links"][1]);
    let figure = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{report}"));
    assert!(figure(&down["output"]["bytes"]) > FILE as f64, "{down}");
    // How close the download comes to the configured rate depends on the load of this machine, so
    // the bounds are wide.
    let second = figure(&down["peak_rate_1s_bps"]);
    assert!((1e5..15e6).contains(&second), "{down}");
    for link in [up, down] {
        let least = figure(&link["delay_ns"]["min"]);
        assert!((10e6..25e6).contains(&least), "{link}");
    }
}

#[test]
fn a_download_is_whole_and_meets_the_rate_and_the_delay() {
    let Some(world) = world() else { return };
    let Some(web) = Web::serve(&world, "10.9.0.1", FILE) else { return };
    let (got, report) = (web.target(), tempfile::NamedTempFile::new().unwrap());
    let flags = format!("{FLAGS} {}", report.path().display());
    let script = format!("curl -sS --fail --max-time 60 -o {} {}", got.display(), web.url());
    run(&world, &flags, &script).well();
    web.assert_whole(&got);
    check(&std::fs::read_to_string(report.path()).unwrap());
}

#[test]
fn a_download_of_an_ordinary_user_is_whole_and_meets_the_rate_and_the_delay() {
    let Some((world, person)) = both() else { return };
    if !installed("slirp4netns") {
        return;
    }
    let Some(web) = Web::serve(&world, "10.9.0.1", FILE) else { return };
    // The report on stderr is one document, in the last line.
    let flags = FLAGS.strip_suffix(" --report").unwrap();
    let (got, person) = (web.target(), person.with_only("slirp4netns"));
    let script = format!("curl -sS --fail --max-time 60 -o {} {}", got.display(), web.url());
    let ended = person.run(&world, flags, &script).well();
    web.assert_whole(&got);
    check(ended.stderr.lines().last().unwrap());
}
