//! Tests of the engine in virtual time.

mod changes;
mod conservation;
mod listings;
mod losses;
mod pipes;
mod policies;
mod queues;

use std::vec::Vec;

use slipring_model::aqm::Ecn;

use super::*;
use crate::flow::ShaperFlowKey;
use crate::text::DummynetCommand;

/// Creates an engine and executes the commands in `text`, one per line, at time 0.
pub(super) fn engine(text: &str) -> Bench {
    let keys = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];
    let mut bench = Bench { dummynet: Dummynet::new(1, keys), events: Vec::new() };
    bench.command(0, text);
    bench
}

/// An engine, with the events that it has reported.
pub(super) struct Bench {
    pub(super) dummynet: Dummynet<u32>,
    pub(super) events: Vec<ShaperEvent<u32>>,
}

impl Bench {
    pub(super) fn command(&mut self, now_ns: u64, text: &str) {
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let tell = &mut |event| self.events.push(event);
            match DummynetCommand::parse(line).unwrap() {
                DummynetCommand::Config(config) => {
                    self.dummynet.configure(now_ns, config, tell).unwrap()
                }
                DummynetCommand::Delete(kind, ranges) => ranges.into_iter().for_each(|range| {
                    self.dummynet.delete(now_ns, kind, range, tell).unwrap();
                }),
                DummynetCommand::Flush => self.dummynet.flush(now_ns, tell),
                other => panic!("{other:?} is no change"),
            }
        }
    }

    pub(super) fn send(
        &mut self,
        now_ns: u64,
        object: ShaperTarget,
        handle: u32,
        len: u32,
    ) -> SubmitResult {
        self.send_as(now_ns, object, &ShaperFlowKey::default(), handle, len)
    }

    pub(super) fn send_as(
        &mut self,
        now_ns: u64,
        object: ShaperTarget,
        key: &ShaperFlowKey,
        handle: u32,
        len: u32,
    ) -> SubmitResult {
        self.send_ecn(now_ns, object, key, handle, len, Ecn::NotEct)
    }

    pub(super) fn send_ecn(
        &mut self,
        now_ns: u64,
        object: ShaperTarget,
        key: &ShaperFlowKey,
        handle: u32,
        len: u32,
        ecn: Ecn,
    ) -> SubmitResult {
        let packet = ShaperPacket { handle, rule: 100, len, ecn };
        let tell = &mut |event| self.events.push(event);
        self.dummynet.submit(now_ns, object, key, packet, tell)
    }

    /// Runs until `end_ns`, but calls the engine only at the times that it requests, and at
    /// `end_ns`. Returns the handle and the release time of each released packet.
    pub(super) fn run(&mut self, end_ns: u64) -> Vec<(u32, u64)> {
        while let Some(at_ns) = self.dummynet.next_release().filter(|&at_ns| at_ns <= end_ns) {
            self.dummynet.release(at_ns, &mut |event| self.events.push(event));
        }
        self.dummynet.release(end_ns, &mut |event| self.events.push(event));
        self.check();
        released(&core::mem::take(&mut self.events))
    }

    /// Asserts that the counters of the engine, and those of the pipes and schedulers 1 and 2,
    /// account for all packets.
    pub(super) fn check(&self) {
        let balances = |counters: ShaperCounters| {
            let ShaperCounters { received, released, drops, queued, delayed, .. } = counters;
            assert_eq!(received, released + drops.total() + queued + delayed);
        };
        balances(self.dummynet.counters());
        for kind in [ObjectKind::Pipe, ObjectKind::Sched] {
            (1..3).filter_map(|n| self.dummynet.counters_of(kind, n)).for_each(balances);
        }
    }

    pub(super) fn drops(&self, cause: ShaperDropCause) -> u64 {
        self.dummynet.counters().drops.of(cause)
    }
}

pub(super) fn released(events: &[ShaperEvent<u32>]) -> Vec<(u32, u64)> {
    let one = |event: &ShaperEvent<u32>| match *event {
        ShaperEvent::Released { handle, at_ns, .. } => Some((handle, at_ns)),
        _ => None,
    };
    events.iter().filter_map(one).collect()
}

/// Returns a flow from the address 10.0.0.0 + `number`.
pub(super) fn host(number: u32) -> ShaperFlowKey {
    ShaperFlowKey {
        proto: 17,
        src: u128::from(0x0a00_0000 + number),
        dst: 1,
        ..ShaperFlowKey::default()
    }
}

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000_000_000;
