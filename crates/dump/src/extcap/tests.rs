//! Tests of the extcap protocol, request by request, as Wireshark sends the requests.

use std::fs;
use std::path::Path;

use slipring_cli::Verb;
use slipring_datapath::captured_run::{CapturedRun, run_captured};
use slipring_port::capture::FileReader;
use slipring_wire::FrameSpec;

use super::*;
use crate::listing::DumpInterface;

static VERBS: [Verb; 1] = [Verb {
    name: "extcap",
    classic: &[],
    command: super::command,
    plan: planned,
    no_metrics: None,
}];

fn planned(matches: &ArgMatches) -> Result<Job, Failure> {
    super::plan(matches, listed)
}

fn listed(_: &Path) -> Vec<DumpInterface> {
    let interface = |port: &str, up| DumpInterface {
        port: port.into(),
        taking: None,
        name: port.into(),
        about: "veth, native".into(),
        up,
        holders: vec![],
    };
    vec![interface("packet:eth0", true), interface("packet:down0", false), interface("x{1", true)]
}

fn ask(args: &str, dir: &Path) -> CapturedRun {
    let run = run_captured(&VERBS, "extcap", args, dir);
    if run.status == 0 {
        assert_eq!(run.stderr, "", "Wireshark takes words on stderr for an error");
    }
    run
}

fn answer(args: &str) -> String {
    let run = ask(args, Path::new(""));
    assert_eq!(run.status, 0, "{args}: {}", run.stderr);
    run.stdout
}

#[test]
fn interfaces_that_are_up_are_listed_and_one_for_any_port() {
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        answer("--extcap-interfaces --extcap-version=4.4"),
        format!(
            "extcap {{version={version}}}{{display=slipring}}\n\
             interface {{value=slipring:packet:eth0}}{{display=slipring: packet:eth0 (veth, native)}}\n\
             interface {{value=slipring:x%7B1}}{{display=slipring: x|1 (veth, native)}}\n\
             interface {{value=slipring-port}}{{display=slipring: a port by its name}}\n"
        )
    );
}

#[test]
fn every_interface_has_ethernet_frames_and_settings() {
    let of = "--extcap-interface=slipring:packet:eth0";
    assert_eq!(
        answer(&format!("{of} --extcap-dlts")),
        "dlt {number=1}{name=EN10MB}{display=Ethernet}\n"
    );
    let settings = answer(&format!("{of} --extcap-config"));
    assert!(settings.starts_with("arg {number=0}{call=--take}{display="), "{settings}");
    let settings = answer("--extcap-interface=slipring-port --extcap-config");
    assert!(settings.starts_with("arg {number=0}{call=--port}{display=Port}{type=string}"));
    for line in settings.lines() {
        assert!(line.ends_with('}') && line.matches('{').count() == line.matches('}').count());
    }
}

#[test]
fn silence_says_that_a_filter_is_one() {
    let of = "--extcap-interface=slipring:packet:eth0 --extcap-capture-filter";
    assert_eq!(answer(&format!("{of}=arp")), "");
    assert!(answer(&format!("{of}=arrp")).starts_with("column 1"), "{}", answer(of));
}

#[test]
fn a_capture_goes_to_the_fifo_filtered_until_its_reader_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let mut pipe = slipring_core::open("extcap{1").unwrap();
    for length in [60, 200, 100] {
        let frame = FrameSpec::default().build(length).unwrap().bytes;
        assert!(pipe.queues[0].rings().tx.push(&frame));
    }
    pipe.tx_sync().unwrap();
    let path = fifo.to_str().unwrap().to_owned();
    let reader = std::thread::spawn(move || {
        let mut reader = FileReader::open(&path).unwrap();
        let mut next = || reader.next().unwrap().map(|packet| packet.data.len());
        let lengths = [next(), next()];
        // From now on, no program reads the FIFO.
        drop(reader);
        let frame = FrameSpec::default().build(300).unwrap().bytes;
        assert!(pipe.queues[0].rings().tx.push(&frame));
        pipe.tx_sync().unwrap();
        lengths
    });
    let args = "--extcap-interface=slipring:extcap%7D1 --capture --fifo=@fifo \
                --extcap-capture-filter=greater=90";
    let args = args.replace("greater=90", "len>90");
    let run = ask(&args, dir.path());
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    assert_eq!(reader.join().unwrap(), [Some(200), Some(100)]);
}

#[test]
fn a_port_by_its_name_and_a_file_as_fifo() {
    let dir = tempfile::tempdir().unwrap();
    let of = "--extcap-interface=slipring-port --port pcap:@in.pcap";
    let mut saver = crate::save::CaptureSaver::create(
        SaveOptions {
            path: dir.path().join("in.pcap").display().to_string(),
            ..SaveOptions::default()
        },
        "x",
        Some(0),
    )
    .unwrap();
    saver.finish(&crate::save::CaptureTotals::default()).unwrap();
    let run = ask(&format!("{of} --capture --fifo=@out"), dir.path());
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(fs::read(dir.path().join("out")).unwrap().starts_with(&[0x0a, 0x0d, 0x0d, 0x0a]));
}

#[test]
fn questions_that_lack_a_part_are_refused_in_words() {
    for (args, summary) in [
        ("", "missing: --extcap-interface <NAME>"),
        ("--capture", "missing: --extcap-interface <NAME>"),
        ("--capture --extcap-interface=slipring:packet:eth0", "missing: --fifo <PATH>"),
        ("--capture --extcap-interface=eth0 --fifo=@f", "`eth0` was never listed"),
        ("--capture --extcap-interface=slipring:eth0 --fifo=@f", "`slipring:eth0` was never"),
        ("--capture --extcap-interface=slipring-port --fifo=@f", "missing: --port <PORT>"),
    ] {
        let run = ask(args, Path::new(""));
        assert_eq!(run.status, 2, "{args}: {}", run.stderr);
        assert!(run.stderr.contains(summary), "{args}: {}", run.stderr);
    }
}
