//! How many system calls a worker makes for a batch of frames.

use std::collections::BTreeMap;

use rustix::process::Signal;
use slipring_test_support::{Program, installed};

use crate::host::Frame;
use crate::packet::Packet;
use crate::rig::{Rig, Setup, v4};
use crate::why::left_for_lateness;

crate::instances! {
    xsk: crate::rig::Setup = crate::rig::Subject::Slipring("xsk"),
    a_bad_packet_in_a_batch_costs_no_system_call
}
crate::instances! {
    packet: crate::rig::Setup = crate::rig::Subject::Slipring("packet"),
    a_bad_packet_in_a_batch_costs_no_system_call
}

/// Number of calls, by name.
type Calls = BTreeMap<String, u32>;

/// Number of frames that a worker takes at once.
const BATCH: usize = 64;
/// A batch is measured this often. Of the numbers of calls, the smallest counts: a worker that
/// finds the frames of a trial one after the other, or sleeps in between, makes further calls.
const TRIALS: usize = 20;
/// Maximum number of trials until one costs no more than expected.
const MAX_TRIALS: usize = 100;

fn a_bad_packet_in_a_batch_costs_no_system_call(setup: Setup) {
    if !installed("strace") {
        return;
    }
    let rig = setup.by_workers().start();
    let program = rig.take_program();
    let good = rig.a.frame(&Packet::udp(v4().a, v4().b, b"good"));
    let all_good = vec![good; BATCH];
    let trials = (0..TRIALS).map(|_| calls(&rig, &program, &all_good));
    let expected = trials.reduce(smallest).unwrap();
    assert!(expected.contains_key("sendto"), "{expected:?}");
    for position in [0, BATCH / 2, BATCH - 1] {
        let mut one_bad = all_good.clone();
        // The checksum of the IPv4 header is wrong.
        one_bad[position].body[10] ^= 1;
        let is_expected = |(name, count): (&String, &u32)| expected.get(name) >= Some(count);
        let costs_more = |_| !calls(&rig, &program, &one_bad).iter().all(is_expected);
        assert!(!(0..MAX_TRIALS).all(costs_more), "a bad packet costs more than {expected:?}");
    }
}

/// Returns the smaller of the two counts of each call. Calls that have only one count are left out.
fn smallest(all: Calls, of: Calls) -> Calls {
    let smaller = |(name, count): (String, u32)| {
        let count = count.min(*of.get(&name)?);
        Some((name, count))
    };
    all.into_iter().filter_map(smaller).collect()
}

/// Sends frames that the router finds in its queue all at once. Returns the system calls, except
/// waits, that its worker makes for them and for the fences (see `rig`).
fn calls(rig: &Rig, program: &Program, frames: &[Frame]) -> Calls {
    let pid = program.pid().to_string();
    let words = ["-f", "-e", "trace=!ppoll,epoll_pwait2", "-e", "signal=none", "-p", &pid];
    rig.until(|| {
        let before = left_for_lateness(rig);
        let strace = Program::start_with(&rig.router, "strace", &words);
        strace.wait_for_text("attached");
        program.signal(Signal::STOP);
        rig.until(|| is_stopped(&pid).then_some(()));
        frames.iter().for_each(|frame| rig.a.send_frame(frame));
        program.signal(Signal::CONT);
        // One frame may be dropped. The fence shows that all others have arrived.
        assert!(rig.observe([0, BATCH - 1, 0]).b.len() >= BATCH - 1);
        let trace = strace.stop(Signal::INT).stderr;
        // If the router was stopped for too long, the kernel has forwarded, and the trial does not
        // count.
        (left_for_lateness(rig) == before).then(|| calls_of_sender(&trace))
    })
}

/// Returns whether all threads of a process are stopped.
fn is_stopped(pid: &str) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut states = tasks.map(|task| {
        let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with(['t', 'T'])
    });
    states.all(|is_stopped| is_stopped)
}

/// Returns the system calls of the thread that sends frames, by name. `trace` has lines such as
/// `[pid 77] sendto(9, NULL, 0, MSG_DONTWAIT, NULL, 0) = 0`. A call that another thread's call
/// interrupts has a second line, which begins with `<...`.
fn calls_of_sender(trace: &str) -> Calls {
    let mut of_threads = BTreeMap::<&str, Calls>::new();
    for line in trace.lines() {
        let Some((thread, call)) = line.strip_prefix("[pid").and_then(|rest| rest.split_once("] "))
        else {
            continue;
        };
        if let Some((name, _)) = call.split_once('(')
            && !call.starts_with("<...")
        {
            *of_threads.entry(thread).or_default().entry(name.to_owned()).or_default() += 1;
        }
    }
    let sent = |calls: &Calls| calls.get("sendto").copied().unwrap_or_default();
    of_threads.into_values().max_by_key(sent).unwrap_or_default()
}
