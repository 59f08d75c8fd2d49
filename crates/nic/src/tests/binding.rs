//! Tests of taking a card and giving it back.

use std::time::Duration;

use super::machine::{MAC, MadeUpHost};
use crate::bind::{BindError, BindPlan};
use crate::host::NicHost;
use crate::request::BindRequest;
use crate::restore;
use crate::state::SavedNic;
use crate::sysfs::{self, PciNic, VFIO_DRIVER, device_dir, driver_of, override_of};
use crate::timer;

const BDF: &str = "0000:03:00.0";

/// A machine whose card has addresses and routes.
pub(super) fn busy_host() -> MadeUpHost {
    let host = MadeUpHost::new();
    host.edit("eth1", |link| {
        link.link.up = true;
        link.link.mtu = 1400;
        link.addresses = vec!["10.0.0.1/24".into(), "fd00::1/64".into()];
        link.routes = vec!["10.9.0.0/16 via 10.0.0.254".into(), "default via 10.0.0.254".into()];
    });
    host
}

fn request() -> BindRequest {
    BindRequest {
        bdfs: vec![BDF.into()],
        uid: Some(1000),
        force: true,
        confirm_within: Some(Duration::from_secs(60)),
        tap: true,
    }
}

fn plan(host: &MadeUpHost) -> BindPlan {
    BindPlan::new(host, PciNic::read(host.root(), BDF).unwrap(), &request()).unwrap()
}

/// Takes the card as the command does after its checks.
fn bind(host: &MadeUpHost) -> Result<(), BindError> {
    let state = host.state();
    let _lock = state.lock(host).unwrap();
    plan(host).execute(host, &state)
}

pub(super) fn saved(host: &MadeUpHost) -> Option<SavedNic> {
    host.state().all(host).unwrap().into_iter().next()
}

#[test]
fn a_taken_card_is_vfios_and_a_tap_device_has_its_name_addresses_and_routes() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
    assert_eq!(*host.timers.borrow(), [BDF]);
    let mut tap = host.link("eth1").unwrap();
    assert_eq!(tap.link.kind, "tun");
    assert_eq!(tap.link.alias, format!("vfio:{BDF}"));
    (tap.link.kind, tap.link.alias) = (String::new(), String::new());
    assert_eq!(tap, before);
}

#[test]
fn a_restored_card_has_its_driver_name_addresses_and_routes_again() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    // The kernel gives the interface a new name, and udev does not rename it here.
    *host.new_name.borrow_mut() = "eth7".into();
    restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
    assert_eq!(override_of(host.root(), BDF), None);
    assert_eq!(host.link("eth1").unwrap(), before);
    assert_eq!(host.links().unwrap().len(), 1, "the TAP device is gone");
    assert_eq!(saved(&host), None);
}

#[test]
fn a_bind_that_fails_at_any_step_leaves_the_machine_as_it_was() {
    for step in 0.. {
        let host = busy_host();
        let before = host.link("eth1").unwrap();
        host.changes_left.set(Some(step));
        let Err(error) = bind(&host) else {
            assert!(step > 10, "{step} steps are too few");
            return;
        };
        assert!(error.not_undone.is_none(), "step {step}: {error:?}");
        assert!(error.source.to_string().ends_with("made to fail"), "step {step}: {error:?}");
        assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"), "step {step}");
        assert_eq!(override_of(host.root(), BDF), None, "step {step}");
        assert_eq!(host.link("eth1").unwrap(), before, "step {step}");
        assert_eq!(host.links().unwrap().len(), 1, "step {step}");
        assert_eq!(saved(&host), None, "step {step}");
    }
}

#[test]
fn a_restore_that_fails_at_any_step_can_be_repeated() {
    for step in 0.. {
        let host = busy_host();
        let before = host.link("eth1").unwrap();
        bind(&host).unwrap();
        host.changes_left.set(Some(step));
        let first = restore::put_back(&host, &host.state(), &saved(&host).unwrap());
        if first.is_ok() {
            assert!(step > 5, "{step} steps are too few");
            return;
        }
        restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
        assert_eq!(host.link("eth1").unwrap(), before, "step {step}");
        assert_eq!(saved(&host), None, "step {step}");
    }
}

#[test]
fn a_route_that_the_kernel_no_longer_accepts_is_named_and_keeps_nothing_else_from_coming_back() {
    let host = busy_host();
    let mut before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    let stale = before.routes.remove(0);
    host.refused_routes.borrow_mut().push(stale.clone());
    let unrestored = restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(host.link("eth1").unwrap(), before);
    let [lost] = &unrestored[..] else { panic!("{unrestored:?}") };
    assert!(lost.to_string().starts_with(&format!("the route {stale}: ")), "{lost}");
    assert_eq!(saved(&host), None);
}

#[test]
fn a_route_that_the_kernel_refuses_on_the_tap_device_undoes_the_bind_and_is_named() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    let plan = plan(&host);
    drop(host.state().lock(&host).unwrap());
    host.refused_routes.borrow_mut().push(before.routes[0].clone());
    let error = plan.execute(&host, &host.state()).unwrap_err();
    assert!(error.source.to_string().contains(&before.routes[0]), "{error:?}");
    assert!(error.not_undone.is_none(), "{error:?}");
    assert_eq!(error.unrestored.len(), 1, "{error:?}");
    assert_eq!(host.link("eth1").unwrap().routes, before.routes[1..]);
}

#[test]
fn a_member_of_a_bridge_is_one_again_and_the_tap_device_is_one_meanwhile() {
    let host = busy_host();
    let bridge = host.add_link("br0", "bridge", [4; 6]);
    host.edit("eth1", |link| link.link.master = Some(bridge));
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    assert_eq!(host.link("eth1").unwrap().link.master, Some(bridge));
    assert_eq!(host.link("eth1").unwrap().link.kind, "tun");
    assert!(timer::expire(&host, &host.state(), BDF));
    assert_eq!(host.link("eth1").unwrap(), before);
}

#[test]
fn a_bond_gets_its_card_back_but_not_the_tap_device() {
    let host = busy_host();
    let bond = host.add_link("bond0", "bond", [4; 6]);
    host.edit("eth1", |link| link.link.master = Some(bond));
    bind(&host).unwrap();
    assert_eq!(host.link("eth1").unwrap().link.master, None);
    let saved = saved(&host).unwrap();
    assert_eq!(restore::put_back(&host, &host.state(), &saved).unwrap(), []);
    assert_eq!(host.link("eth1").unwrap().link.master, Some(bond));
}

#[test]
fn a_bridge_that_is_gone_is_named() {
    let host = busy_host();
    let bridge = host.add_link("br0", "bridge", [4; 6]);
    host.edit("eth1", |link| link.link.master = Some(bridge));
    bind(&host).unwrap();
    host.change_link(bridge, &crate::host::LinkChange::Delete).unwrap();
    let saved = saved(&host).unwrap();
    let unrestored = restore::put_back(&host, &host.state(), &saved).unwrap();
    assert_eq!(unrestored[0].what, "the membership in br0");
}

#[test]
fn settings_below_proc_sys_net_go_to_the_tap_device_and_come_back() {
    let host = busy_host();
    host.put_sysctls("default", ["0", "1"]);
    host.put_sysctls("eth1", ["2", "0"]);
    bind(&host).unwrap();
    assert_eq!(host.sysctls("eth1"), ["2", "0"], "the TAP device has them");
    restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(host.sysctls("eth1"), ["2", "0"]);
    host.put_sysctls("eth1", ["0", "1"]);
    bind(&host).unwrap();
    assert_eq!(saved(&host).unwrap().interface.unwrap().sysctls, [], "all are the defaults");
}

#[test]
fn a_renamed_tap_device_is_deleted() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    host.edit("eth1", |link| link.link.name = "foo".into());
    restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(host.link("eth1").unwrap(), before);
    assert_eq!(host.links().unwrap().len(), 1);
}

#[test]
fn a_tap_device_of_another_program_stays_and_the_card_comes_back_with_another_name() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    host.edit("eth1", |link| link.link.name = "foo".into());
    host.add_link("eth1", "tun", [9; 6]);
    *host.new_name.borrow_mut() = "eth7".into();
    let unrestored = restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(host.link("eth1").unwrap().link.mac, [9; 6]);
    let card = host.link("eth7").unwrap();
    assert_eq!((card.addresses, card.routes), (before.addresses, before.routes));
    let told: Vec<_> = unrestored.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["the name eth1: another interface (tun) has it, so the card is eth7"]);
}

#[test]
fn the_tap_device_of_a_card_that_is_gone_keeps_the_addresses() {
    let host = busy_host();
    bind(&host).unwrap();
    let tap = host.link("eth1");
    std::fs::remove_dir_all(device_dir(host.root(), BDF)).unwrap();
    let saved = saved(&host).unwrap();
    let error = restore::put_back(&host, &host.state(), &saved).unwrap_err();
    assert!(error.to_string().contains("echo 1 > /sys/bus/pci/rescan"), "{error}");
    assert_eq!(host.link("eth1"), tap);
}

#[test]
fn routes_come_back_whatever_their_order() {
    let host = busy_host();
    bind(&host).unwrap();
    let saved = saved(&host).unwrap();
    // The first route is accepted only after the second one.
    host.refused_routes.borrow_mut().push("10.9.0.0/16 via 10.0.0.254".into());
    host.accepted_after_default.set(true);
    let unrestored = restore::put_back(&host, &host.state(), &saved).unwrap();
    assert_eq!(unrestored, []);
    assert_eq!(host.link("eth1").unwrap().routes.len(), 2);
}

#[test]
fn a_timer_goes_on_after_an_error_until_the_card_is_given_back() {
    let host = busy_host();
    bind(&host).unwrap();
    let good = saved(&host).unwrap();
    std::fs::write(host.state().path(BDF), "{").unwrap();
    *host.meanwhile.borrow_mut() = Some(Box::new(move |host| {
        // The state is whole again, but another command holds the lock for longer than the timer
        // waits for it.
        host.state().write(&good).unwrap();
        let lock = host.state().lock(host).unwrap();
        let until = host.uptime() + Duration::from_secs(150);
        hold_lock(host, lock, until);
    }));
    assert!(timer::expire(&host, &host.state(), BDF));
    assert!(host.uptime() > Duration::from_secs(250));
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
    let log = std::fs::read_to_string(host.path("run/nic/log")).unwrap();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "each error once, and the end: {log}");
    assert!(lines[0].contains("cannot be given back yet, will try again: "), "{log}");
    assert!(lines[1].contains("another slipring nic is at work"), "{log}");
    assert!(lines[2].contains("not confirmed in time, so it was given back"), "{log}");
}

/// Simulates another command that holds the lock until the time `until`.
fn hold_lock(host: &MadeUpHost, lock: impl Sized + 'static, until: Duration) {
    *host.meanwhile.borrow_mut() = Some(Box::new(move |host| match host.uptime() < until {
        true => hold_lock(host, lock, until),
        false => drop(lock),
    }));
}

#[test]
fn an_override_that_another_program_has_set_comes_back() {
    let host = busy_host();
    host.put(&format!("sys/bus/pci/devices/{BDF}/driver_override"), "e1000e\n");
    bind(&host).unwrap();
    restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    assert_eq!(override_of(host.root(), BDF).as_deref(), Some("e1000e"));
}

#[test]
fn a_card_that_is_not_confirmed_in_time_is_given_back_and_its_program_ended() {
    let host = busy_host();
    bind(&host).unwrap();
    hold_group(&host);
    let start = host.uptime();
    assert!(timer::expire(&host, &host.state(), BDF));
    assert!(host.uptime() - start >= Duration::from_secs(60));
    assert_eq!(*host.ended.borrow(), [41, 41], "TERM, then KILL");
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
    assert_eq!(host.link("eth1").unwrap().link.mac, MAC);
}

#[test]
fn a_confirmed_card_stays_taken() {
    let host = busy_host();
    bind(&host).unwrap();
    let confirmed = saved(&host).unwrap().with_confirm_by(None);
    host.state().write(&confirmed).unwrap();
    assert!(!timer::expire(&host, &host.state(), BDF));
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
}

#[test]
fn the_process_of_a_card_that_is_confirmed_while_it_waits_ends_long_before_the_time_is_over() {
    let host = busy_host();
    bind(&host).unwrap();
    let start = host.uptime();
    *host.meanwhile.borrow_mut() = Some(Box::new(|host| {
        host.state().write(&saved(host).unwrap().with_confirm_by(None)).unwrap();
    }));
    assert!(!timer::expire(&host, &host.state(), BDF));
    assert!(host.uptime() - start <= Duration::from_secs(1));
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
}

#[test]
fn states_of_an_earlier_start_of_the_machine_do_not_count() {
    let host = busy_host();
    bind(&host).unwrap();
    host.put("proc/sys/kernel/random/boot_id", "boot-2\n");
    assert_eq!(saved(&host), None);
    assert!(!timer::expire(&host, &host.state(), BDF));
}

#[test]
fn a_state_survives_its_file() {
    let host = busy_host();
    bind(&host).unwrap();
    let before = saved(&host).unwrap();
    host.state().write(&before).unwrap();
    assert_eq!(saved(&host).unwrap(), before);
    let names = sysfs::names(&host.path("run/nic"));
    assert_eq!(names, [format!("{BDF}.json")], "no partial file, and no lock");
}

/// Makes the host's `/proc` show a process that has the card's group open.
pub(super) fn hold_group(host: &MadeUpHost) {
    host.put("proc/41/comm", "suricata\n");
    std::fs::create_dir_all(host.path("proc/41/fd")).unwrap();
    std::os::unix::fs::symlink("/dev/vfio/7", host.path("proc/41/fd/5")).unwrap();
}

#[test]
fn a_file_that_cannot_be_read_does_not_keep_other_cards_from_being_given_back() {
    let host = busy_host();
    bind(&host).unwrap();
    std::fs::write(host.state().path("0000:04:00.0"), "{").unwrap();
    let all = host.state().all(&host).unwrap();
    assert_eq!(all.iter().map(|saved| saved.bdf.as_str()).collect::<Vec<_>>(), [BDF]);
}

#[test]
fn what_the_tap_device_got_while_the_card_was_taken_is_named_when_it_ends() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    host.edit("eth1", |tap| {
        tap.addresses.push("10.0.0.77/24".into());
        tap.routes.push("10.77.0.0/16 via 10.0.0.254".into());
        tap.link.mtu = 1000;
    });
    let unrestored = restore::put_back(&host, &host.state(), &saved(&host).unwrap()).unwrap();
    let told: Vec<_> = unrestored.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "the address 10.0.0.77/24: eth1 got it while the card was taken",
            "the route 10.77.0.0/16 via 10.0.0.254: eth1 got it while the card was taken",
        ]
    );
    assert_eq!(host.link("eth1").unwrap(), before);
}
