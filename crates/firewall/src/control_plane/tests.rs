//! Tests of changes to several engines.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};

use rustix::event::{PollFd, PollFlags, poll};
use slipring_dummynet::Dummynet;

use super::*;
use crate::dataplane::{PortMap, RuleCheckPasses};
use slipring_rules::LogEvents;

/// Threads that each execute the tasks of one engine, until this value is dropped.
struct EngineThreads {
    queues: Vec<Arc<TaskQueue>>,
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl EngineThreads {
    fn start(count: usize) -> Self {
        let queues: Vec<_> = (0..count).map(|_| Arc::new(TaskQueue::new().unwrap())).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let serve = |queue: &Arc<TaskQueue>| {
            let (queue, is_over) = (queue.clone(), is_over.clone());
            spawn(move || {
                let map = PortMap::read([], 2).unwrap();
                let shaper = Dummynet::new(1, [1, 2]);
                let mut dataplane =
                    Dataplane::new(Firewall::new(1, [1, 2]), shaper, map, RuleCheckPasses::In);
                let mut deferred = DeferredOutput::new(Arc::new(LogEvents::default()));
                while !is_over.load(Ordering::Acquire) {
                    let fd = PollFd::from_borrowed_fd(queue.wake_fd(), PollFlags::IN);
                    poll(&mut [fd], None).unwrap();
                    let tasks = queue.drain();
                    tasks.into_iter().for_each(|task| task(&mut dataplane, &mut deferred, 0));
                }
            })
        };
        let threads = queues.iter().map(serve).collect();
        Self { queues, is_over, threads }
    }
}

impl Drop for EngineThreads {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.queues.iter().for_each(|queue| queue.wake());
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

fn commands(text: &str) -> Vec<(usize, ShaperCommand)> {
    vec![(0, ShaperCommand::parse(text).unwrap())]
}

fn change(text: &str) -> DataplaneChange {
    DataplaneChange { shaper: commands(text), ..DataplaneChange::default() }
}

#[test]
fn what_any_engine_refuses_is_reported_and_changes_no_other_engine() {
    let engines = EngineThreads::start(2);
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines.queues.clone());
    assert!(plane.apply_to_engines(change("pipe 1 config bw 1Mbit/s")).is_ok());
    // Only the second engine's copy of the pipe is deleted.
    let deleted = engines.queues[1].submit(|dataplane, _, now| {
        shape(dataplane.shaper_mut(), &commands("pipe 1 delete"), RowOrder::default(), now)
            .0
            .is_ok()
    });
    assert!(deleted.recv().unwrap());
    let Err(faults) = plane.apply_to_engines(change("pipe 1 delete")) else {
        panic!("the second engine's refusal is lost")
    };
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].1, Some(0), "{:?}", faults[0].0);
    let shown = plane.run_on_engines(|| {
        |dataplane: &mut Dataplane, _: &mut _, now| {
            let shown = commands("pipe show");
            let (replies, _) = shape(dataplane.shaper_mut(), &shown, RowOrder::default(), now);
            replies.map(|replies| replies[0].text.clone()).unwrap_or_default()
        }
    });
    let shown = shown.unwrap();
    assert!(shown[0].contains("00001"), "{shown:?}");
    assert!(!shown[1].contains("00001"), "{shown:?}");
}
