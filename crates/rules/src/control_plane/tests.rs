//! Tests of changes to several engines.

mod steering;

use std::sync::mpsc::{Sender, channel};
use std::thread::spawn;

use slipring_dummynet::Dummynet;

use super::*;
use crate::dataplane::RuleTask;
use crate::{LogEvents, RuleStage};

/// The queue of a thread that executes the tasks of one engine until the queue is dropped.
struct EngineThread(Sender<RuleTask>);

impl RuleThread for EngineThread {
    fn post(&self, task: RuleTask) {
        self.0.send(task).unwrap();
    }

    fn admit_frames(&self) {}
}

fn engines(count: usize) -> Vec<Arc<EngineThread>> {
    let engine = || {
        let (queue, tasks) = channel::<RuleTask>();
        spawn(move || {
            let shaper = Dummynet::new(1, [1, 2]);
            let log = Arc::new(LogEvents::default());
            let mut stage = RuleStage::new(Firewall::new(1, [1, 2]), shaper, log);
            tasks.into_iter().for_each(|task| task(&mut stage, 0));
        });
        Arc::new(EngineThread(queue))
    };
    std::iter::repeat_with(engine).take(count).collect()
}

fn commands(text: &str) -> Vec<(usize, ShaperCommand)> {
    vec![(0, ShaperCommand::parse(text).unwrap())]
}

fn change(text: &str) -> DataplaneChange {
    DataplaneChange { shaper: commands(text), ..DataplaneChange::default() }
}

#[test]
fn what_any_engine_refuses_is_reported_and_changes_no_other_engine() {
    let engines = engines(2);
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines.clone());
    assert!(plane.apply_to_engines(change("pipe 1 config bw 1Mbit/s")).is_ok());
    // Only the second engine's copy of the pipe is deleted.
    let deleted = submit(&*engines[1], |dataplane, now| {
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
        |dataplane: &mut dyn RuleDataplane, now| {
            let shown = commands("pipe show");
            let (replies, _) = shape(dataplane.shaper_mut(), &shown, RowOrder::default(), now);
            replies.map(|replies| replies[0].text.clone()).unwrap_or_default()
        }
    });
    let shown = shown.unwrap();
    assert!(shown[0].contains("00001"), "{shown:?}");
    assert!(!shown[1].contains("00001"), "{shown:?}");
}

#[test]
fn a_deletion_that_fails_at_its_last_pipe_deletes_none() {
    let mut shaper = Dummynet::new(1, [1, 2]);
    let mut run = |text: &str| shape(&mut shaper, &commands(text), RowOrder::default(), 0).0;
    assert!(run("pipe 1 config bw 1Mbit/s").is_ok() && run("pipe 2 config bw 1Mbit/s").is_ok());
    assert!(run("pipe delete 1 2 99").is_err());
    let shown = run("pipe show").unwrap()[0].text.clone();
    assert!(shown.contains("00001") && shown.contains("00002"), "{shown}");
}

#[test]
fn the_addresses_of_me_change_in_every_engine() {
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines(2));
    let me = vec![("192.0.2.1".parse().unwrap(), Some(1))];
    plane.set_me(me.clone()).unwrap();
    let known = plane.run_on_engines(|| {
        |dataplane: &mut dyn RuleDataplane, _| dataplane.firewall().config().me.clone()
    });
    assert_eq!(known.unwrap(), [me.clone(), me]);
}

#[test]
fn a_single_state_for_which_there_is_no_space_is_an_error_and_in_a_file_a_warning() {
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines(1));
    let run = |text: &str, is_file| {
        let order = CommandBatch { text: text.to_owned(), is_file, ..CommandBatch::default() };
        let outcome = plane.execute(&order, 0);
        (outcome.fault.map(|fault| (fault.message, fault.exit)), outcome.warnings)
    };
    assert_eq!(run("sysctl net.inet.ip.fw.dyn_max=1", false), (None, Vec::new()));
    assert_eq!(run("add 100 allow udp from any to any keep-state", false), (None, Vec::new()));
    let state = |port| format!("state 100 udp 10.0.0.1 {port} 10.0.0.2 53 :default left 5");
    assert_eq!(run(&state(1), false), (None, Vec::new()));
    let most = "there are as many as net.inet.ip.fw.dyn_max allows";
    let fault = Some((format!("the state is not restored: {most}"), sysexits::UNAVAILABLE));
    assert_eq!(run(&state(2), false), (fault, Vec::new()));
    assert_eq!(run(&state(3), true), (None, vec![format!("1 states are left out: {most}")]));
}

#[test]
fn rules_that_cannot_be_executed_here_are_refused_with_the_reason() {
    let plane = ControlPlane::new(Firewall::new(1, [1, 2]), engines(1));
    let plane = plane.refusing(crate::router_obstacle);
    let order = CommandBatch {
        text: "add 100 fwd 192.0.2.1 ip from any to any".to_owned(),
        ..CommandBatch::default()
    };
    assert_eq!(plane.execute(&order, 0).fault, None);
    let order = CommandBatch { text: "add 7 fwd port:x ip from any to any".to_owned(), ..order };
    plane.lock().set_ports(vec!["x".to_owned()]);
    let fault = plane.execute(&order, 0).fault.unwrap();
    assert!(fault.message.starts_with("rule 7: "), "{}", fault.message);
}
