//! Tests of the settings that `slipring nic set` changes: speed, duplex, negotiation, pause, MTU
//! and filter. The port is opened with the settings, or is already in use.

use std::sync::Arc;

use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, confine};
use slipring_drivers::{CardControl, CardStatus, SettingRefusal};
use slipring_port::{DropCause, Interest, OpenCause};
use slipring_rtl_model::{Chip, MemoryWire, PhyLink, Speed, locked};

use crate::rig::{Rig, frame, model, open_set};

/// A port whose settings other threads change.
struct SetRig {
    rig: Rig,
    control: Arc<CardControl>,
}

impl SetRig {
    fn new(chip: Chip, settings: &str) -> Self {
        let (near, cable) = MemoryWire::pair();
        let model = model(chip, Box::new(near));
        let control = Arc::default();
        let port = open_set(&model, settings.parse().unwrap(), &control).unwrap();
        Self { rig: Rig { model, cable, port }, control }
    }

    /// Changes settings while the program syncs its port.
    fn set(&mut self, change: &str) -> Result<CardStatus, SettingRefusal> {
        let (control, change) = (self.control.clone(), change.parse().unwrap());
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || control.request(change));
            while !asked.is_finished() {
                self.rig.queue().rx_sync().unwrap();
                std::thread::yield_now();
            }
            asked.join().unwrap()
        })
    }

    fn link(&self) -> PhyLink {
        locked(&self.rig.model).whole_link().unwrap()
    }

    /// Sends a frame and receives one.
    fn check_traffic(&mut self) {
        self.rig.send(&frame(100, 7));
        assert_eq!(self.rig.sent(), Some(frame(100, 7)));
        self.rig.deliver(&frame(100, 8));
        assert_eq!(self.rig.received(), Some((frame(100, 8), 1)));
        self.rig.check();
    }
}

fn link(speed: Speed, is_full_duplex: bool, pauses: bool) -> PhyLink {
    PhyLink { speed, is_full_duplex, pauses }
}

/// A port in use accepts `speed=100 autoneg=off`, and further changes after that.
#[test]
fn a_port_in_use_goes_to_100_mbit_without_negotiation_and_back() {
    for chip in Chip::ALL {
        let mut rig = SetRig::new(chip, "");
        let before = rig.link();
        let status = rig.set("speed=100 autoneg=off").unwrap();
        assert_eq!(status.settings.to_string(), "speed=100 autoneg=off");
        assert_eq!((status.link.mbit_per_s, status.link.is_full_duplex), (100, true));
        assert_eq!(rig.link(), link(Speed::M100, true, false));
        rig.check_traffic();
        rig.set("speed=10 duplex=half").unwrap();
        assert_eq!(rig.link(), link(Speed::M10, false, false));
        rig.check_traffic();
        rig.set("autoneg=on").unwrap();
        assert_eq!(rig.link(), before);
        rig.check_traffic();
    }
}

#[test]
fn settings_of_an_earlier_time_are_those_of_the_next_port_and_not_of_the_one_after_it() {
    for chip in Chip::ALL {
        let SetRig { mut rig, control } = SetRig::new(chip, "speed=100 duplex=half autoneg=on");
        assert_eq!(locked(&rig.model).whole_link(), Some(link(Speed::M100, false, false)));
        rig.port.queues.clear();
        assert!(control.request("pause=on".parse().unwrap()).is_err(), "the port is closed");
        let control = Arc::default();
        rig.port = open_set(&rig.model, "pause=on".parse().unwrap(), &control).unwrap();
        let best =
            if matches!(chip, Chip::Rtl8168g | Chip::Rtl8168h) { Speed::G1 } else { Speed::G2_5 };
        assert_eq!(locked(&rig.model).whole_link(), Some(link(best, true, true)));
        SetRig { rig, control }.check_traffic();
    }
}

#[test]
fn what_the_chip_cannot_do_is_refused_by_name_and_changes_nothing() {
    let mut rig = SetRig::new(Chip::Rtl8168h, "speed=100");
    for (change, words) in [
        ("speed=2500", "RTL8168h/8111h has no speed of 2500"),
        ("speed=1000 autoneg=off", "by autonegotiation only"),
        ("autoneg=off pause=on", "only if both ends"),
        ("mtu=9195", "68 to 9194"),
    ] {
        let refusal = rig.set(change).unwrap_err();
        assert!(refusal.reason.contains(words), "{refusal:?}");
    }
    assert_eq!(rig.set("").unwrap().settings.to_string(), "speed=100");
    assert_eq!(rig.link().speed, Speed::M100);
    rig.rig.port.queues.clear();
    let error = open_set(&rig.rig.model, "speed=2500".parse().unwrap(), &Arc::default());
    let OpenCause::Card { reason, help } = error.unwrap_err() else { panic!("another cause") };
    assert!(reason.contains("no speed of 2500") && help.unwrap().contains("--reset"));
}

#[test]
fn an_mtu_limits_what_is_sent_and_received() {
    for chip in Chip::ALL {
        let mut rig = SetRig::new(chip, "");
        rig.rig.deliver(&frame(1518, 1));
        assert!(rig.rig.received().is_some());
        rig.set("mtu=1000").unwrap();
        assert_eq!(locked(&rig.rig.model).max_frame(), 1000 + 18 + 4);
        rig.rig.deliver(&frame(1019, 1));
        rig.rig.send(&frame(1019, 1));
        rig.rig.send(&frame(1018, 2));
        assert_eq!((rig.rig.sent(), rig.rig.received()), (Some(frame(1018, 2)), None));
        assert_eq!(rig.rig.drops(DropCause::TxTooLong), 1);
        assert_eq!(rig.rig.drops(DropCause::RxTooLong), 1);
        rig.check_traffic();
    }
}

#[test]
fn a_port_in_use_becomes_promiscuous_and_is_it_no_longer() {
    let mut foreign = frame(100, 3);
    foreign[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    for chip in Chip::ALL {
        let mut rig = SetRig::new(chip, "promisc=off");
        for (change, arrives) in [("", false), ("promisc=on", true), ("promisc=off", false)] {
            rig.set(change).unwrap();
            rig.rig.deliver(&foreign);
            assert_eq!(rig.rig.received().is_some(), arrives, "{change}");
        }
        rig.check_traffic();
    }
}

/// The saved settings do not contain promiscuous mode, so the reset restores the mode that the
/// program asked for when it opened the port.
#[test]
fn a_reset_discards_all_settings_of_a_port_in_use() {
    let mut foreign = frame(1600, 3);
    foreign[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    for chip in Chip::ALL {
        let mut fresh = SetRig::new(chip, "");
        let promiscuous = {
            fresh.rig.deliver(&foreign);
            fresh.rig.received().is_some()
        };
        let saved = "speed=100 duplex=half autoneg=off mtu=1000";
        let opposite = if promiscuous { "promisc=off" } else { "promisc=on" };
        let mut rig = SetRig::new(chip, saved);
        rig.set(opposite).unwrap();
        let status = rig.set("reset").unwrap();
        assert!(status.settings.is_empty());
        assert_eq!(rig.link(), fresh.link());
        rig.rig.deliver(&foreign);
        assert_eq!(rig.rig.received().is_some(), promiscuous);
        rig.rig.send(&frame(1600, 4));
        assert_eq!(rig.rig.sent(), Some(frame(1600, 4)));
        assert_eq!(rig.set("reset mtu=1500").unwrap().settings.to_string(), "mtu=1500");
        rig.check_traffic();
    }
}

#[test]
fn a_request_wakes_a_program_that_sleeps() {
    let mut rig = SetRig::new(Chip::Rtl8168h, "");
    let control = rig.control.clone();
    rig.rig.queue().before_sleep(Interest::RX);
    rig.rig.queue().rx_sync().unwrap();
    let asked = std::thread::spawn(move || control.request("speed=10".parse().unwrap()));
    let event = rig.rig.queue().wait_fds().rx.unwrap().try_clone_to_owned().unwrap();
    let mut fds = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut fds, None).unwrap();
    rig.rig.queue().after_sleep();
    rig.rig.queue().rx_sync().unwrap();
    assert_eq!(asked.join().unwrap().unwrap().link.mbit_per_s, 10);
    rig.rig.check();
}

/// The daemon's thread only sleeps, and wakes its clients, which sync.
#[test]
fn a_port_that_no_client_syncs_is_set_by_the_thread_that_sleeps_for_the_clients() {
    let card = "0000:cc:00.0";
    let mut rig = SetRig::new(Chip::Rtl8168h, "");
    slipring_drivers::listen(card, &rig.control, None).unwrap();
    let event = rig.rig.queue().wait_fds().rx.unwrap().try_clone_to_owned().unwrap();
    let change = "speed=100 autoneg=off".parse().unwrap();
    let asked =
        std::thread::spawn(move || slipring_drivers::ask(std::process::id(), card, &change));
    let round = rustix::event::Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    while !asked.is_finished() {
        rig.rig.queue().before_sleep(Interest::BOTH);
        let mut fds = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        if rustix::event::poll(&mut fds, Some(&round)).unwrap() > 0 {
            rig.rig.queue().after_sleep();
        }
    }
    assert_eq!(asked.join().unwrap().unwrap().unwrap().link.mbit_per_s, 100);
    assert_eq!(rig.link(), link(Speed::M100, true, false));
    rig.check_traffic();
}

/// This process takes both roles: it serves the socket, whose name contains its process ID, and
/// sends requests to it.
#[test]
fn another_process_sets_a_card_by_the_socket_of_the_program_that_has_it() {
    let mut rig = SetRig::new(Chip::Rtl8125b, "");
    let card = "0000:aa:00.0";
    slipring_drivers::listen(card, &rig.control, None).unwrap();
    let ask = |change: &'static str| {
        std::thread::spawn(move || {
            slipring_drivers::ask(std::process::id(), card, &change.parse().unwrap())
        })
    };
    for (change, expected) in
        [("speed=100 autoneg=off", Ok(100)), ("speed=40", Err("no speed of 40"))]
    {
        let asked = ask(change);
        while !asked.is_finished() {
            rig.rig.queue().rx_sync().unwrap();
            std::thread::yield_now();
        }
        match (asked.join().unwrap().unwrap(), expected) {
            (Ok(status), Ok(speed)) => assert_eq!(status.link.mbit_per_s, speed),
            (Err(refusal), Err(words)) => assert!(refusal.reason.contains(words), "{refusal:?}"),
            (other, _) => panic!("{other:?}"),
        }
    }
    let SetRig { mut rig, control } = rig;
    rig.port.queues.clear();
    assert!(control.request(Default::default()).is_err());
}

/// Returns the kernel's status of the threads with this name in this process.
fn threads(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    // A thread may end between the listing and this read, so errors are ignored.
    let texts =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    texts.filter(|status| status.starts_with(&format!("Name:\t{name}\n"))).collect()
}

/// Other tests have threads of the same name, but only this test confines a thread.
#[test]
fn the_thread_that_serves_requests_is_as_confined_as_the_thread_that_syncs() {
    let card = "0000:bb:00.0";
    let mut rig = SetRig::new(Chip::Rtl8168h, "");
    slipring_drivers::listen(card, &rig.control, None).unwrap();
    let ask = move || slipring_drivers::ask(std::process::id(), card, &Default::default());
    let asked = std::thread::spawn(ask);
    let syncs = std::thread::spawn(move || {
        let missing = confine(CapabilitySet::empty(), &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
        if !missing.is_empty() {
            return slipring_test_support::skip!("{missing:?}");
        }
        while !asked.is_finished() {
            rig.rig.queue().rx_sync().unwrap();
            std::thread::yield_now();
        }
        asked.join().unwrap().unwrap().unwrap();
        let confined = |status: &String| {
            let has = |line: &str| status.contains(&format!("\n{line}\n"));
            has("NoNewPrivs:\t1") && has("Seccomp:\t2") && has("CapEff:\t0000000000000000")
        };
        let threads = threads("card-settings");
        assert!(threads.iter().any(confined), "{threads:#?}");
    });
    syncs.join().unwrap();
}
