//! Tests that a busy port makes no system calls: a thread that may make none moves a hundred
//! thousand frames.

use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::process::{Command, Stdio};

use rustix::pipe::PipeFlags;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use slipring_ring::SlotFlags;
use slipring_rtl_model::{Chip, Loop, locked};

use crate::rig::{frame, model, open};

const FRAMES: u32 = 100_000;
const BATCH: u32 = 32;
/// Set in the environment of the process in which a thread may make no system calls.
const CONFINED: &str = "SLIPRING_TEST_CONFINED";

/// Sends and receives frames over a loop, in batches; returns the number received.
fn turns(queue: &mut dyn slipring_port::Queue, frames: u32) -> u32 {
    let mut received = 0;
    for _ in 0..frames / BATCH {
        let tx = queue.rings().tx;
        assert!(tx.avail() >= BATCH);
        for i in 0..BATCH {
            tx.set(i, 60, SlotFlags::default());
        }
        tx.advance(BATCH);
        queue.tx_sync().unwrap();
        queue.rx_sync().unwrap();
        let rx = queue.rings().rx;
        let count = rx.avail();
        received += count;
        rx.advance(count);
    }
    received
}

/// Makes the kernel end the calling thread if it makes a system call, other than a write to `done`.
fn forbid_calls(done: &OwnedFd) {
    let fd = done.as_raw_fd() as u64;
    let is_done = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, fd).unwrap();
    let write = (libc::SYS_write, vec![SeccompRule::new(vec![is_done]).unwrap()]);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let (other, listed) = (SeccompAction::KillThread, SeccompAction::Allow);
    let filter = SeccompFilter::new([write].into(), other, listed, arch).unwrap();
    apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Moves frames in a thread that may make no system calls. Writes a byte to `done` if all frames
/// arrive.
fn confined(done: &OwnedFd) {
    let model = model(Chip::Rtl8168h, Box::<Loop>::default());
    let mut port = open(&model, 256).unwrap();
    let queue = port.queues[0].as_mut();
    let tx = queue.rings().tx;
    for i in 0..tx.avail() {
        tx.set(i, 60, SlotFlags::default());
        tx.bytes(i).unwrap().copy_in(&frame(60, 0));
    }
    // The first turns allocate memory, which later turns use again.
    assert_eq!(turns(queue, 1024), 1024);
    forbid_calls(done);
    let received = turns(queue, FRAMES);
    if received == FRAMES && locked(&model).violations().count() == 0 {
        let _ = rustix::io::write(done, &[1]);
    }
}

/// Not a test of its own: the next test runs this function in a separate process, since a thread
/// that the kernel ends may leave locks behind.
#[test]
fn confined_turns() {
    if std::env::var_os(CONFINED).is_none() {
        return;
    }
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::NONBLOCK).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(rustix::thread::gettid()).unwrap();
        confined(&write);
    });
    let thread = receiver.recv().unwrap().as_raw_nonzero();
    let task = std::path::PathBuf::from(format!("/proc/self/task/{thread}"));
    loop {
        // The thread's existence is checked before its output is read: in the opposite order, the
        // thread could write and end in between, and its output would be missed.
        let is_there = task.exists();
        let is_done = rustix::io::read(&read, &mut [0; 1]) == Ok(1);
        if is_done || !is_there {
            println!("\nresult: {}", if is_done { "all arrived" } else { "a call or a loss" });
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_busy_port_makes_no_system_call() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "rates::confined_turns", "--nocapture"])
        .env(CONFINED, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let result = lines.find(|line| line.starts_with("result: "));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(result.as_deref(), Some("result: all arrived"));
}
