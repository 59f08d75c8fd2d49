//! Tests of `slipring firewall` between network namespaces. The tests query it with `slipring ipfw`
//! and `slipring dnctl`.
#![allow(clippy::unwrap_used)]

mod captures;
mod commands;
mod kept;
mod service;
mod sessions;
mod threads;
mod troubles;

use std::process::Command;

use rustix::process::Signal;
use slipring_test_support::{FinishedProgram, Lab, LabPort, Program};

/// The program under test. It contains only the firewall and its commands.
const SLIPRING: &str = env!("CARGO_BIN_EXE_slipring-alone-firewall");

/// A firewall between the two sides of a test network, with its own run directory.
struct FirewallLab {
    lab: Lab,
    dir: tempfile::TempDir,
}

impl FirewallLab {
    /// Creates the test network; `None` where namespaces are not permitted. In that case, prints
    /// the reason.
    fn new() -> Option<Self> {
        Some(Self { lab: Lab::new(LabPort::Packet)?, dir: tempfile::tempdir().unwrap() })
    }

    fn command(&self, verb: &str, words: &str) -> Command {
        let mut command = Command::new(SLIPRING);
        command.arg(verb).args(words.split_ascii_whitespace());
        command.env("SLIPRING_RUN", self.dir.path()).current_dir(self.dir.path());
        command
    }

    /// Starts a firewall and waits until it answers commands.
    fn firewall(&self, words: &str) -> Program {
        let words = format!("-T 0 {} {words}", self.lab.ports());
        let program = Program::launch(&self.lab.mid, self.command("firewall", &words));
        program.wait_for_text("Ready to go");
        program
    }

    /// Runs `slipring ipfw` until it ends.
    fn try_ipfw(&self, words: &str) -> FinishedProgram {
        Program::launch(&self.lab.mid, self.command("ipfw", words)).finish()
    }

    /// Returns the output of `slipring ipfw`, which must succeed.
    fn ipfw(&self, words: &str) -> String {
        self.try_ipfw(words).well().stdout
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// Returns whether the right side answers a ping of the left side. The timeout is above one
    /// second, because a lost ARP request is repeated only after a second.
    fn pings(&self) -> bool {
        self.lab.left.attempt("ping", "-n -c 1 -W 60 10.9.0.2").0
    }

    /// Returns whether a ping gets no answer within a second.
    fn is_cut_off(&self) -> bool {
        !self.lab.left.attempt("ping", "-n -c 1 -W 1 10.9.0.2").0
    }

    /// Returns how many packets a rule has counted.
    fn count(&self, number: u32) -> u64 {
        let row = self.ipfw(&format!("-a list {number}"));
        row.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn rules_come_and_go_while_it_runs_and_the_end_tells_all() {
    let Some(site) = FirewallLab::new() else { return };
    let firewall = site.firewall("");
    assert!(site.is_cut_off(), "the default rule denies");
    assert_eq!(site.ipfw("add 100 allow ip from any to any"), "00100 allow ip from any to any\n");
    assert!(site.pings());
    site.ipfw("add 50 unreach host icmp from any to any icmptypes 8");
    let (answered, output) = site.lab.left.attempt("ping", "-n -c 1 -W 60 10.9.0.2");
    assert!(!answered && output.contains("Unreachable"), "{output}");
    assert_eq!(site.count(50), 1);
    site.ipfw("delete 50");
    assert!(site.pings());
    assert_eq!(site.ipfw("-f flush"), "Flushed all rules.\n");
    assert!(site.is_cut_off());
    let ended = firewall.stop(Signal::INT).well();
    assert!(ended.stdout.contains("(denied)"), "{}", ended.stdout);
}

#[test]
fn a_pipe_delays_both_ways() {
    let Some(site) = FirewallLab::new() else { return };
    let _firewall = site.firewall("--default accept");
    assert!(site.pings());
    site.ipfw("pipe 1 config delay 50ms");
    site.ipfw("add 100 pipe 1 icmp from any to any");
    let output = site.lab.left.command("ping", "-n -c 3 -i 0.2 -W 60 10.9.0.2");
    let least: f64 =
        output.split("mdev = ").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    assert!(least >= 100.0, "{output}");
    let shown = site.ipfw("pipe show");
    assert!(shown.starts_with("00001: unlimited        50 ms burst 0 \n"), "{shown}");
}

#[test]
fn tables_and_translators_of_a_rules_file_are_made_anew_with_hup_and_others_stay() {
    let Some(site) = FirewallLab::new() else { return };
    let rules = |entry: &str| {
        format!(
            "table t create type addr\ntable t add {entry} 1\n\
             nptv6 home create int_prefix fd00:: ext_prefix 2001:db8:: prefixlen 48\n\
             add 100 deny icmp from any to table(t)\nadd 200 allow ip from any to any\n"
        )
    };
    let path = site.write("rules", &rules("10.9.0.2"));
    let firewall = site.firewall(&format!("--rules {path}"));
    site.ipfw("table other create type addr");
    assert!(site.is_cut_off());
    site.write("rules", &rules("10.9.9.9"));
    firewall.signal(Signal::HUP);
    firewall.wait_for_text("loaded");
    assert!(site.pings());
    assert!(site.ipfw("table t list").contains("10.9.9.9/32 1"));
    assert!(!site.ipfw("table t list").contains("10.9.0.2"));
    assert!(site.ipfw("table all list").contains("table(other)"));
}

#[test]
fn a_rules_file_is_loaded_at_the_start_and_again_with_hup_and_a_bad_one_changes_nothing() {
    let Some(site) = FirewallLab::new() else { return };
    let path = site.write("rules", "add 100 allow ip from any to any\n");
    let firewall = site.firewall(&format!("--rules {path}"));
    assert!(site.pings());
    site.write("rules", "add 100 deny icmp from any to any\nadd 200 allow ip from any to any\n");
    firewall.signal(Signal::HUP);
    firewall.wait_for_text("loaded");
    assert!(site.is_cut_off());
    let list = site.ipfw("list");
    site.write("rules", "add 100 allow ip from any to any\nadd 200 alow ip from any to any\n");
    firewall.signal(Signal::HUP);
    firewall.wait_for_text("line 2, column 9");
    assert_eq!(site.ipfw("list"), list);
    assert_eq!(site.ipfw("list").lines().count(), 3);
    site.write("rules", "add 100 allow ip from any to any\ndelete 999\n");
    firewall.signal(Signal::HUP);
    firewall.wait_for_text("line 2: rule 999 not found");
    assert_eq!(site.ipfw("list").lines().count(), 3);
}
