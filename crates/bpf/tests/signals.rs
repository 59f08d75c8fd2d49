//! Tests of signals that arrive while the kernel verifies a program.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use slipring_bpf::insn::{BpfReg, exit, mov_imm};
use slipring_bpf::{BpfError, BpfProgram, BpfProgramFlags, BpfProgramKind};
use slipring_test_support::skip;

/// The name of the environment variable that makes [`loader`] load a program.
const LOAD: &str = "SLIPRING_LOAD_PROGRAM";
/// Enough instructions to keep the verifier busy for some milliseconds.
const INSNS: usize = 100_000;
/// How often the process is stopped. Even if each stop costs two of the 16 attempts that
/// [`BpfProgram::load`] makes, some are left.
const STOPS: u32 = 5;

/// Not a test of its own: the next test runs this function in a process that it stops and
/// continues.
#[test]
fn loader() {
    if std::env::var_os(LOAD).is_none() {
        return;
    }
    let mut insns = vec![mov_imm(BpfReg::R0, 0); INSNS];
    insns.push(exit());
    println!("loading");
    let (kind, flags) = (BpfProgramKind::SocketFilter, BpfProgramFlags::default());
    match BpfProgram::load(kind, "slip_test", &insns, flags) {
        Err(BpfError::System { source, .. })
            if matches!(source.raw_os_error(), Some(1 | 7 | 38)) =>
        {
            skip!("{source}");
        }
        loaded => drop(loaded.unwrap()),
    }
}

/// Stops a process, and continues it when it has stopped, or ended.
fn stop_and_continue(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    let seen = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    retry_on_intr(|| waitid(WaitId::Pid(pid), seen)).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
}

#[test]
fn a_program_is_loaded_although_signals_interrupt_the_verifier() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "loader", "--nocapture"]).env(LOAD, "1");
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("loading")));
    (0..STOPS).for_each(|_| stop_and_continue(&child));
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
}
