//! Tests of programs that publish counters, and of programs that look for them.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use slipring_core::counters::Publisher;
use slipring_top::attach::{AttachError, AttachedProgram, programs};
use slipring_top::figures::{TopLinkRate, TopQuantiles, TopSample, TopTraffic};
use slipring_top::schema::{MetricCounter, MetricObject, MetricSchema, NO_VALUE, SCHEMA_VERSION};

fn names() -> MetricSchema {
    let mut names = MetricSchema {
        schema: SCHEMA_VERSION,
        line: "slipring emulate".into(),
        name: Some("lab".into()),
        ..MetricSchema::default()
    };
    let counters = ["input.packets", "output.packets", "output.bytes", "lost.queue", "lost.loss"];
    let mut link: Vec<_> = counters.map(|name| MetricCounter::growing(name, "packets")).into();
    link.extend(
        ["asked.rate", "delay.p50", "delay.p99"].map(|name| MetricCounter::gauge(name, "ns")),
    );
    names.describe("link", link);
    names.describe("port", vec![MetricCounter::growing("rx.packets", "packets")]);
    for (kind, name) in [("port", "a"), ("link", "up"), ("link", "down")] {
        names.add(MetricObject { kind: kind.into(), name: name.into(), ..MetricObject::default() });
    }
    names
}

fn publish(dir: &Path) -> Publisher {
    let names = names();
    Publisher::open(dir, &names.text(), names.words()).unwrap()
}

#[test]
fn rates_and_losses_are_those_between_two_looks() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = publish(dir.path());
    let mut attached = AttachedProgram::find(dir.path(), None).unwrap();
    let up = |input, output, bytes, lost| [input, output, bytes, lost, 0, 8_000_000, 7, 9];
    let down = [0, 0, 0, 0, 0, 0, NO_VALUE, NO_VALUE];
    let words = |port, up: [u64; 8]| [vec![port], up.into(), down.into()].concat();
    publisher.publish(10_000_000_000, words(5, up(100, 90, 90_000, 10)));
    let before = attached.snapshot().unwrap();
    publisher.publish(10_500_000_000, words(105, up(300, 240, 240_000, 60)));
    let now = attached.snapshot().unwrap();
    let frame = TopSample::of(&attached, Some(&before), &now);
    let [up, down] = &frame.links[..] else { panic!("{frame:?}") };
    assert_eq!(frame.interval_ns, 500_000_000);
    assert_eq!((up.rate_bps, up.rate_pps), (2_400_000.0, 300.0));
    assert_eq!(up.loss_share, Some(0.25), "50 of the 200 that came to an end in between");
    assert_eq!(up.output, TopTraffic { packets: 240, bytes: 240_000 });
    assert_eq!(up.lost.iter().collect::<Vec<_>>(), [(&"queue".to_owned(), &60)]);
    assert_eq!(
        (up.asked.rate, up.delay_ns),
        (TopLinkRate::Bps(8_000_000), Some(TopQuantiles { p50: 7, p99: 9 }))
    );
    assert_eq!((down.asked.rate, down.delay_ns), (TopLinkRate::Unlimited, None));
    assert_eq!((down.rate_bps, down.loss_share), (0.0, None));
    assert_eq!(frame.ports[0].rx_rate.pps, 200.0);
}

#[test]
fn a_program_is_found_by_number_by_name_or_because_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let none = AttachedProgram::find(dir.path(), None).unwrap_err();
    assert!(matches!(none, AttachError::NothingRuns { .. }), "{none}");
    let publisher = publish(dir.path());
    let pid = std::process::id();
    for target in [None, Some("lab"), Some(&*pid.to_string())] {
        assert_eq!(AttachedProgram::find(dir.path(), target).unwrap().pid(), pid);
    }
    let unknown = AttachedProgram::find(dir.path(), Some("lap")).unwrap_err();
    let AttachError::Unknown { running, .. } = &unknown else { panic!("{unknown}") };
    assert_eq!(running[0].to_string(), format!("{pid} (lab)"));
    drop(publisher);
    assert!(AttachedProgram::find(dir.path(), None).is_err());
}

#[test]
fn one_of_several_has_to_be_named() {
    let dir = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let (_first, second) = (publish(dir.path()), publish(other.path()));
    // A second name for the open file of `second` looks like the file of another program.
    std::fs::hard_link(second.path(), dir.path().join("1.stats")).unwrap();
    let several = AttachedProgram::find(dir.path(), None).unwrap_err();
    assert!(matches!(&several, AttachError::Several { running } if running.len() == 2));
    assert_eq!(programs(dir.path())[0].pid, 1);
    assert!(AttachedProgram::find(dir.path(), Some("1")).is_ok());
}

#[test]
fn names_that_make_no_sense_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    for (text, words) in [("", 1), ("{}", 1), ("[1]", 0), (&*names().text(), 3)] {
        let publisher = Publisher::open(dir.path(), text, words).unwrap();
        let error = AttachedProgram::find(dir.path(), None).unwrap_err();
        assert!(matches!(error, AttachError::Nonsense { .. }), "{text}: {error}");
        drop(publisher);
    }
}
