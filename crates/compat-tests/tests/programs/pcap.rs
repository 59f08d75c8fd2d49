//! Tests of unmodified tcpdump, and of sending, with Debian's libpcap built with slipring's
//! headers.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::OnceLock;

use slipring_test_support::tree::stdout;

use super::builds::{c_source, third_party};
use super::stage::Stage;

/// Returns the directory of the rebuilt libpcap, or the reason why there is none.
fn libpcap() -> Result<PathBuf, String> {
    third_party("libpcap")
}

/// Returns a program that sends frames with the libpcap that the loader finds.
fn injector() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| c_source("inject", &[]))
}

/// Shell commands for a cable with the ends `left` and `right`. The hosts send nothing on it by
/// themselves.
pub(crate) const CABLE: &str = "
    sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
    ip link add left type veth peer name right
    ip link set left up
    ip link set right up";

/// A running tcpdump.
pub(crate) struct Dump {
    child: Child,
    output: BufReader<ChildStderr>,
}

impl Dump {
    /// Starts tcpdump on `port`. It ends after `count` frames that match `filter`. If `lib` is
    /// given, the libpcap in it is used.
    pub(crate) fn start(
        stage: &Stage,
        lib: Option<&Path>,
        port: &str,
        count: usize,
        filter: &str,
    ) -> Self {
        let mut command = stage.command("tcpdump");
        command.args(["-n", "-xx", "-t", "-i", port, "-c", &count.to_string(), filter]);
        if let Some(lib) = lib {
            command.env("LD_LIBRARY_PATH", lib);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stderr.take().unwrap());
        let mut all = String::new();
        while !all.contains("listening on") {
            assert_ne!(output.read_line(&mut all).unwrap(), 0, "tcpdump did not listen: {all}");
        }
        Self { child, output }
    }

    /// Waits until tcpdump has ended, which it does after its last frame, and returns its output.
    pub(crate) fn finish(mut self) -> String {
        let mut errors = String::new();
        self.output.read_to_string(&mut errors).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Returns, from tcpdump's output, the numbers that `inject` has written to the frames.
pub(crate) fn numbers(dump: &str) -> Vec<u8> {
    let first = dump.lines().filter(|line| line.contains("0x0000:"));
    first
        .map(|line| u8::from_str_radix(&line.split_whitespace().nth(8).unwrap()[..2], 16).unwrap())
        .collect()
}

pub(crate) fn inject(stage: &Stage, lib: Option<&Path>, port: &str, count: usize) {
    let mut command = stage.command(injector());
    if let Some(lib) = lib {
        command.env("LD_LIBRARY_PATH", lib);
    }
    assert_eq!(stdout(command.args([port, &count.to_string()]).output().unwrap()), "sent\n");
}

/// Returns the rebuilt libpcap. If there is none, prints why, and the test returns.
macro_rules! libpcap_or_skip {
    () => {
        match libpcap() {
            Ok(lib) => lib,
            Err(why) => return slipring_test_support::skip!("{why}"),
        }
    };
}

#[test]
fn stock_tcpdump_sees_what_arrives_at_an_interface() {
    let lib = libpcap_or_skip!();
    let stage = Stage::new();
    stage.shell(CABLE);
    stage.shell(
        "
        ip addr add 10.9.9.1/24 dev right
        ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:02 dev right",
    );
    let dump = Dump::start(&stage, Some(&lib), "netmap:left", 3, "icmp and dst host 10.9.9.2");
    // The ping is not answered, because tcpdump has taken the interface.
    stage.shell("ping -q -c 3 -i 0.01 -W 0.01 10.9.9.2 || true");
    let output = dump.finish();
    assert_eq!(output.matches("IP 10.9.9.1 > 10.9.9.2: ICMP echo request").count(), 3, "{output}");
}

#[test]
fn frames_that_libpcap_injects_leave_by_the_interface() {
    let lib = libpcap_or_skip!();
    let stage = Stage::new();
    stage.shell(CABLE);
    let dump = Dump::start(&stage, None, "right", 20, "ether proto 0x88b5");
    inject(&stage, Some(&lib), "netmap:left", 20);
    assert_eq!(numbers(&dump.finish()), (0..20).collect::<Vec<u8>>());
}

#[test]
fn libpcap_injects_into_a_pipe_and_tcpdump_sees_it_at_the_other_end() {
    let lib = libpcap_or_skip!();
    let stage = Stage::new();
    let dump = Dump::start(&stage, Some(&lib), "netmap:x}1", 20, "ether proto 0x88b5");
    inject(&stage, Some(&lib), "netmap:x{1", 20);
    assert_eq!(numbers(&dump.finish()), (0..20).collect::<Vec<u8>>());
}

#[test]
fn libpcap_injects_into_a_switch_and_tcpdump_sees_it_at_every_other_port() {
    let lib = libpcap_or_skip!();
    let stage = Stage::new();
    let others = ["vale0:a", "vale0:c"]
        .map(|port| Dump::start(&stage, Some(&lib), port, 20, "ether proto 0x88b5"));
    inject(&stage, Some(&lib), "vale0:b", 20);
    for dump in others {
        assert_eq!(numbers(&dump.finish()), (0..20).collect::<Vec<u8>>());
    }
}

#[test]
fn an_interface_that_tcpdump_had_works_as_before() {
    let lib = libpcap_or_skip!();
    let stage = Stage::new();
    stage.shell(CABLE);
    let dump = Dump::start(&stage, Some(&lib), "netmap:left", 1, "ether proto 0x88b5");
    inject(&stage, None, "right", 1);
    dump.finish();
    let dump = Dump::start(&stage, None, "left", 1, "ether proto 0x88b5");
    inject(&stage, None, "right", 1);
    assert_eq!(numbers(&dump.finish()), [0]);
}
