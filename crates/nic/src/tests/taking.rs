//! Tests of `slipring nic bind` while another command runs, and after a bind that was killed.

use std::time::Duration;

use slipring_cli::Failure;
use slipring_drivers::SettingsRequest;

use super::binding::{busy_host, saved};
use super::machine::{MadeUpHost, MadeUpLink};
use crate::commands::bind::{Taking, take};
use crate::commands::restore::give_back;
use crate::flags::{BindFlags, RestoreFlags};
use crate::host::{LinkChange, NicHost};
use crate::restore;
use crate::set;
use crate::sysfs::{PciNic, VFIO_DRIVER, device_dir, driver_of};
use crate::timer;

const BDF: &str = "0000:03:00.0";

fn flags() -> BindFlags {
    BindFlags {
        nics: vec!["eth1".into()],
        dry_run: false,
        force: true,
        confirm_within: Some(Duration::from_secs(60)),
        user: None,
        tap: true,
    }
}

fn named(names: &[&str]) -> RestoreFlags {
    let nics = names.iter().map(|name| (*name).to_owned()).collect();
    RestoreFlags { nics, ..RestoreFlags::default() }
}

fn bind(host: &MadeUpHost) -> Result<Taking, Failure> {
    take(host, &host.state(), &flags())
}

/// A machine whose card has no default route, so that taking the card needs no `--confirm-within`.
fn host_without_default_route() -> MadeUpHost {
    let host = busy_host();
    host.edit("eth1", |link| link.routes.truncate(1));
    host
}

fn restore(host: &MadeUpHost) {
    restore::put_back(host, &host.state(), &saved(host).unwrap()).unwrap();
}

/// Simulates another command that holds the lock until the next sleep. At the end of the sleep, it
/// does `act` and releases the lock.
fn beside(host: &MadeUpHost, act: impl FnOnce(&MadeUpHost) + 'static) {
    let lock = host.state().lock(host).unwrap();
    *host.meanwhile.borrow_mut() = Some(Box::new(|host| {
        act(host);
        drop(lock);
    }));
}

fn assert_is_as(host: &MadeUpHost, before: &MadeUpLink) {
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
    assert_eq!(host.link("eth1").as_ref(), Some(before));
    assert_eq!(host.links().unwrap().len(), 1);
    assert_eq!(saved(host), None);
}

#[test]
fn of_two_binds_at_once_one_takes_the_card_and_the_other_finds_it_taken() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    // The other command saves the state, and takes the card, while this one waits for the lock.
    beside(&host, |host| {
        let nic = PciNic::read(host.root(), BDF).unwrap();
        let request = crate::request::BindRequest { tap: true, ..Default::default() };
        let plan = crate::bind::BindPlan::new(host, nic, &request).unwrap();
        plan.execute(host, &host.state()).unwrap();
    });
    let taking = bind(&host).unwrap();
    assert!(taking.plans[0].is_taken());
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
    restore(&host);
    assert_is_as(&host, &before);
}

#[test]
fn a_bind_beside_a_restore_takes_the_card_anew() {
    let host = busy_host();
    bind(&host).unwrap();
    beside(&host, restore);
    let taking = bind(&host).unwrap();
    assert!(!taking.plans[0].is_taken());
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
    assert!(saved(&host).is_some());
}

#[test]
fn settings_beside_a_restore_are_not_kept_for_a_card_that_is_given_back() {
    let host = busy_host();
    bind(&host).unwrap();
    let nic = PciNic::read(host.root(), BDF).unwrap();
    beside(&host, restore);
    let request = SettingsRequest { change: "speed=100".parse().unwrap(), reset: false };
    set::apply(&host, &host.state(), &nic, &request).unwrap_err();
    assert!(!host.path(&format!("run/nic/{BDF}.link")).exists());
}

#[test]
fn a_bind_after_one_that_was_killed_at_any_step_loses_nothing() {
    for step in 0.. {
        let host = busy_host();
        let before = host.link("eth1").unwrap();
        let nic = PciNic::read(host.root(), BDF).unwrap();
        let request = crate::request::BindRequest { tap: true, ..Default::default() };
        let plan = crate::bind::BindPlan::new(&host, nic, &request).unwrap();
        drop(host.state().lock(&host).unwrap());
        if !plan.killed_after(step, &host, &host.state()) {
            assert!(step > 5, "{step} steps are too few");
            return;
        }
        // The interface may be gone, so the request names the card by its address.
        let flags = BindFlags { nics: vec![BDF.into()], ..flags() };
        take(&host, &host.state(), &flags).unwrap();
        assert_eq!(host.link("eth1").unwrap().addresses, before.addresses, "step {step}");
        assert_eq!(saved(&host).unwrap().driver.as_deref(), Some("e1000e"), "step {step}");
        restore(&host);
        assert_is_as(&host, &before);
    }
}

#[test]
fn a_card_that_was_removed_and_found_again_while_it_was_taken_loses_nothing() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    // When the kernel finds the card again, the card has no driver override, and its interface gets
    // another name, because the TAP device has the former one.
    host.put(&format!("sys/bus/pci/devices/{BDF}/driver_override"), "(null)\n");
    std::fs::remove_file(device_dir(host.root(), BDF).join("driver")).unwrap();
    *host.new_name.borrow_mut() = "eth7".into();
    host.write(&host.path("sys/bus/pci/drivers_probe"), BDF).unwrap();
    bind(&host).unwrap();
    restore(&host);
    assert_is_as(&host, &before);
}

#[test]
fn a_dry_run_after_a_bind_that_was_killed_changes_nothing() {
    let host = busy_host();
    let nic = PciNic::read(host.root(), BDF).unwrap();
    let plan = crate::bind::BindPlan::new(&host, nic, &Default::default()).unwrap();
    drop(host.state().lock(&host).unwrap());
    assert!(plan.killed_after(4, &host, &host.state()));
    let before = saved(&host);
    let flags = BindFlags { nics: vec![BDF.into()], dry_run: true, ..flags() };
    let taking = take(&host, &host.state(), &flags).unwrap();
    let first = taking.plans[0].describe(&taking.plans[0].steps[0], &host.state());
    assert!(first.starts_with("slipring nic restore 0000:03:00.0, because"), "{first}");
    assert_eq!(saved(&host), before);
    assert_eq!(driver_of(host.root(), BDF), None);
}

#[test]
fn a_taken_card_gets_the_time_limit_and_the_user_of_a_later_bind() {
    let host = host_without_default_route();
    let without = BindFlags { confirm_within: None, ..flags() };
    take(&host, &host.state(), &without).unwrap();
    assert_eq!(saved(&host).unwrap().confirm_by_ms, None);
    let with = BindFlags { user: Some("alice".into()), ..flags() };
    take(&host, &host.state(), &with).unwrap();
    assert!(saved(&host).unwrap().confirm_by_ms.is_some());
    assert_eq!(*host.timers.borrow(), [BDF]);
    assert_eq!(*host.owners.borrow(), [("7".to_owned(), 1000)]);
    assert!(timer::expire(&host, &host.state(), BDF));
}

#[test]
fn a_taken_card_whose_tap_device_is_gone_gets_another() {
    let host = busy_host();
    bind(&host).unwrap();
    let tap = host.link("eth1");
    host.change_link(host.links().unwrap()[0].index, &LinkChange::Delete).unwrap();
    let flags = BindFlags { nics: vec![BDF.into()], confirm_within: None, ..flags() };
    take(&host, &host.state(), &flags).unwrap();
    assert_eq!(host.link("eth1"), tap);
}

#[test]
fn a_taken_card_stays_as_it_was_if_its_timer_cannot_be_started() {
    let host = host_without_default_route();
    take(&host, &host.state(), &BindFlags { confirm_within: None, ..flags() }).unwrap();
    let before = saved(&host);
    host.changes_left.set(Some(0));
    bind(&host).unwrap_err();
    assert_eq!(saved(&host), before);
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
}

#[test]
fn a_card_that_another_program_has_bound_to_vfio_gets_no_time_limit_in_silence() {
    let host = busy_host();
    bind(&host).unwrap();
    host.state().remove(BDF).unwrap();
    let flags = BindFlags { nics: vec![BDF.into()], ..flags() };
    let told = format!("{:?}", take(&host, &host.state(), &flags).unwrap_err());
    assert!(told.contains("was not taken by slipring"), "{told}");
    take(&host, &host.state(), &BindFlags { confirm_within: None, ..flags }).unwrap();
}

#[test]
fn an_address_in_capital_letters_is_given_back_as_it_was_taken() {
    let host = MadeUpHost::new();
    host.add_card("0000:0a:00.0", [0x8086, 0x10d3], "e1000e", 8);
    host.make_interface("0000:0a:00.0", "eth2");
    let nics = vec!["0A:00.0".to_owned()];
    take(&host, &host.state(), &BindFlags { nics, force: false, ..flags() }).unwrap();
    *host.new_name.borrow_mut() = "eth2".into();
    let given = give_back(&host, &host.state(), &named(&["0000:0A:00.0"])).unwrap();
    assert_eq!(given.restored[0].0.bdf, "0000:0a:00.0");
}

#[test]
fn a_card_that_is_named_twice_is_given_back_once() {
    let host = busy_host();
    bind(&host).unwrap();
    let given = give_back(&host, &host.state(), &named(&[BDF, "eth1", BDF])).unwrap();
    assert_eq!((given.restored.len(), given.failures.len()), (1, 0));
}

#[test]
fn a_taken_card_that_is_bound_again_without_a_tap_device_has_none() {
    let host = host_without_default_route();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    let confirm_by = saved(&host).unwrap().confirm_by_ms;
    let without = BindFlags { tap: false, confirm_within: None, ..flags() };
    let taking = take(&host, &host.state(), &without).unwrap();
    let plan = &taking.plans[0];
    assert_eq!(plan.describe(&plan.steps[0], &host.state()), "delete the TAP device eth1");
    assert_eq!(host.link("eth1"), None);
    assert_eq!(saved(&host).unwrap().confirm_by_ms, confirm_by, "the time limit stays");
    restore(&host);
    assert_is_as(&host, &before);
}

#[test]
fn a_tap_device_is_made_again_if_the_next_card_cannot_be_bound() {
    let host = host_without_default_route();
    bind(&host).unwrap();
    let saved_before = saved(&host);
    host.add_card("0000:0a:00.0", [0x8086, 0x10d3], "e1000e", 8);
    host.make_interface("0000:0a:00.0", "eth2");
    let nics = vec!["eth1".to_owned(), "eth2".to_owned()];
    let without = BindFlags { nics, tap: false, confirm_within: None, ..flags() };
    // The first change deletes the TAP device; a later one fails.
    host.changes_left.set(Some(3));
    let told = format!("{:?}", take(&host, &host.state(), &without).unwrap_err());
    assert!(told.contains("what was done before was undone"), "{told}");
    assert_eq!(host.link("eth1").unwrap().link.kind, "tun");
    assert_eq!(saved(&host), saved_before);
}

#[test]
fn a_card_whose_tap_device_was_left_by_an_earlier_bind_is_refused() {
    let host = host_without_default_route();
    bind(&host).unwrap();
    // What the state says is lost, and the kernel has the card again.
    std::fs::remove_file(host.state().path(BDF)).unwrap();
    *host.new_name.borrow_mut() = "eth8".into();
    host.put(&format!("sys/bus/pci/devices/{BDF}/driver_override"), "(null)\n");
    host.write(&device_dir(host.root(), BDF).join("driver/unbind"), BDF).unwrap();
    host.write(&host.path("sys/bus/pci/drivers_probe"), BDF).unwrap();
    let told = format!("{:?}", bind(&host).unwrap_err());
    assert!(told.contains("eth1 is the TAP device of this card"), "{told}");
    assert!(told.contains("ip link delete eth1"), "{told}");
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
    let tap = host.links().unwrap().iter().find(|link| link.kind == "tun").unwrap().index;
    host.change_link(tap, &LinkChange::Delete).unwrap();
    take(&host, &host.state(), &BindFlags { nics: vec![BDF.into()], ..flags() }).unwrap();
}

#[test]
fn a_taken_card_whose_state_cannot_be_changed_keeps_its_tap_device() {
    let host = host_without_default_route();
    take(&host, &host.state(), &BindFlags { confirm_within: None, ..flags() }).unwrap();
    let (tap, state) = (host.link("eth1"), saved(&host));
    // A file cannot be written where a directory is.
    std::fs::create_dir(host.state().path(BDF).with_extension("partial")).unwrap();
    let without = BindFlags { tap: false, confirm_within: None, ..flags() };
    let told = format!("{:?}", take(&host, &host.state(), &without).unwrap_err());
    assert!(told.contains("what was done before was undone"), "{told}");
    assert_eq!((host.link("eth1"), saved(&host)), (tap, state));
}
