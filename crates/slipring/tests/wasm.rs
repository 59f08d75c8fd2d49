//! Tests of user models in the settings of links, through the binary: captures in virtual time, no
//! privilege needed.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

/// A directory with a capture of 500 frames and a module.
struct WasmDir(tempfile::TempDir);

impl WasmDir {
    fn new() -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        let spikes = include_str!("../../wasm/examples/spikes.wat");
        std::fs::write(site.path("spikes.wasm"), wat::parse_str(spikes).unwrap()).unwrap();
        let sent = site.run("gen -i pcap:in.pcap -f tx -n 500 --rate 1kpps -T 0 --seed 1");
        assert!(sent.status.success(), "{sent:?}");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slipring"));
        command.args(words.split_ascii_whitespace()).current_dir(self.0.path());
        command.env("SLIPRING_RUN", self.path("run")).output().unwrap()
    }

    /// Runs one link in virtual time; returns its report and the output.
    fn emulate(&self, words: &str) -> (Value, Vec<u8>) {
        let output = self.run(&format!("emulate --virtual in.pcap out.pcap --json {words}"));
        assert!(output.status.success(), "{words}: {output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        (report["links"][0].clone(), std::fs::read(self.path("out.pcap")).unwrap())
    }

    fn refused(&self, words: &str) -> String {
        let output = self.run(&format!("emulate --virtual in.pcap out.pcap {words}"));
        assert_eq!(output.status.code(), Some(2), "{words}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn a_delay_of_a_module_is_told_by_flag_or_file_and_repeats_byte_for_byte() {
    let site = WasmDir::new();
    let (link, bytes) = site.emulate("-D wasm,spikes.wasm,20,150,0.1 --order free --seed 7");
    assert_eq!(link["output"]["packets"], 500, "{link}");
    let [least, most] = ["min", "max"].map(|key| link["delay_ns"][key].as_u64().unwrap());
    assert_eq!((least, most), (20_000_000, 150_000_000));
    let file = "[ports.a]\n[ports.b]\n[link.up]\nfrom = \"a\"\nto = \"b\"\norder = \"free\"\n\
                delay = { wasm = \"spikes.wasm\", params = [20, 150, 0.1], fuel = 1000 }\n";
    std::fs::write(site.path("link.toml"), file).unwrap();
    assert_eq!(site.emulate("-D wasm,spikes.wasm,20,150,0.1 --order free --seed 7").1, bytes);
    assert_ne!(site.emulate("-D wasm,spikes.wasm,20,150,0.1 --order free --seed 8").1, bytes);
    assert_eq!(site.emulate("--config link.toml --seed 7").1, bytes, "a file means the same");
    let printed = site.run(
        "emulate --virtual a b -D wasm,spikes.wasm,20,150,0.1 --order free --seed 7 --print-config",
    );
    std::fs::write(site.path("printed.toml"), printed.stdout).unwrap();
    assert_eq!(site.emulate("--config printed.toml --seed 7").1, bytes, "printed as it was meant");
}

#[test]
fn a_frame_that_a_module_fails_for_is_lost_as_model() {
    let site = WasmDir::new();
    // The third parameter is missing: every call traps.
    let (link, _) = site.emulate("-D wasm,spikes.wasm,20,150 --seed 7");
    assert_eq!(link["lost"]["model"]["packets"], 500, "{link}");
    let message = link["model_failures"][0].as_str().unwrap();
    assert!(
        message.contains("delay: ") && message.contains("there is no such parameter"),
        "{message}"
    );
    let (link, _) = site.emulate("-D wasm,spikes.wasm,20,150,0.1,fuel=1 --seed 7");
    assert_eq!(link["lost"]["model"]["packets"], 500, "{link}");
    let message = "delay: it ran out of fuel (1 a call); first for its frame 0, of 60 B";
    assert_eq!(link["model_failures"], serde_json::json!([message]));
    let ran = site.run("emulate --virtual in.pcap out.pcap -D wasm,spikes.wasm,20,150,0.1,fuel=1");
    let summary = String::from_utf8(ran.stdout).unwrap();
    assert!(summary.contains(message), "people read it, too: {summary}");
}

#[test]
fn what_is_wrong_with_a_module_is_said_with_its_file() {
    let site = WasmDir::new();
    std::fs::write(site.path("text.wasm"), "no module").unwrap();
    for (words, file, why) in [
        ("-D wasm,nowhere.wasm", "nowhere.wasm", "No such file"),
        ("-D wasm,text.wasm", "text.wasm", "it is no WebAssembly module"),
        ("-L wasm,spikes.wasm", "spikes.wasm", "it exports no function `lose`"),
        ("-B wasm,spikes.wasm,function=delay", "spikes.wasm", "it exports no function `delay`"),
        (
            "-L wasm,spikes.wasm,function=delay_ns",
            "spikes.wasm",
            "its `delay_ns` is (i64, i32, i64) -> i64, and must be (i64, i32, i64) -> i32",
        ),
        ("-D wasm,spikes.wasm,20ms", "params", "it is no number"),
        ("-D wasm,spikes.wasm,fuel=0", "delay.fuel", "a call needs some"),
        ("-D wasm,spikes.wasm,memory=2GiB", "delay.memory", "too much"),
        ("-D wasm", "delay.wasm", "missing"),
    ] {
        let error = site.refused(words);
        assert!(error.contains(file) && error.contains(why), "{words}: {error}");
        assert!(error.contains("help:"), "{words}: {error}");
    }
}
