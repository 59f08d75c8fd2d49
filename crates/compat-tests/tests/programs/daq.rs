//! Tests of the netmap module of Snort's DAQ. It has two interfaces in one mapping, and copies
//! frames from one to the other.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use super::builds::{c_source, third_party};
use super::pcap::{CABLE, Dump, inject, numbers};
use super::stage::Stage;

/// Shell commands that create a second veth pair. The program uses its end `near`, and the end
/// `left` of the first pair.
const SECOND: &str = "
    ip link add near type veth peer name far
    ip link set near up
    ip link set far up";

#[test]
fn snorts_module_passes_frames_between_two_interfaces_and_drops_what_it_is_told_to() {
    let lib = match third_party("daq") {
        Ok(lib) => lib.to_str().unwrap().to_owned(),
        Err(why) => return slipring_test_support::skip!("{why}"),
    };
    let program = c_source("daq", &[&format!("-I{lib}"), &format!("-L{lib}"), "-ldaq", "-lsfbpf"]);
    let stage = Stage::new();
    stage.shell(CABLE);
    stage.shell(SECOND);
    let mut daq = stage.command(program);
    daq.args([&lib, "left:near", "20"]).env("LD_LIBRARY_PATH", &lib).stdout(Stdio::piped());
    let mut daq = daq.spawn().unwrap();
    let mut output = String::new();
    let mut stdout = BufReader::new(daq.stdout.take().unwrap());
    stdout.read_line(&mut output).unwrap();
    assert_eq!(output, "started\n");
    let dump = Dump::start(&stage, None, "far", 10, "ether proto 0x88b5");
    inject(&stage, None, "right", 20);
    assert_eq!(numbers(&dump.finish()), (0..20).step_by(2).collect::<Vec<u8>>());
    stdout.read_to_string(&mut output).unwrap();
    assert!(daq.wait().unwrap().success(), "{output}");
    assert_eq!(output, "started\npassed 10 blocked 10\n");
}
