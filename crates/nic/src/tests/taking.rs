//! Tests of `slipring nic bind` beside other commands and after one that was killed.

use std::time::Duration;

use slipring_cli::Failure;
use slipring_drivers::SettingsRequest;

use super::binding::{busy_host, saved};
use super::machine::{MadeUpHost, MadeUpLink};
use crate::commands::bind::{Taking, take};
use crate::commands::restore::give_back;
use crate::flags::BindFlags;
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

fn bind(host: &MadeUpHost) -> Result<Taking, Failure> {
    take(host, &host.state(), &flags())
}

/// Taking its card needs no time limit.
fn host_without_default_route() -> MadeUpHost {
    let host = busy_host();
    host.edit("eth1", |link| link.routes.truncate(1));
    host
}

fn restore(host: &MadeUpHost) {
    restore::put_back(host, &host.state(), &saved(host).unwrap()).unwrap();
}

/// Makes another command have the lock until the next sleep, at whose end it does `act`.
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
        // The name of the interface may be gone.
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
    // The kernel finds a card without an override, and the TAP device has its name.
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
    let given = give_back(&host, &host.state(), (&["0000:0A:00.0".into()], false), false).unwrap();
    assert_eq!(given.restored[0].0.bdf, "0000:0a:00.0");
}

#[test]
fn a_card_that_is_named_twice_is_given_back_once() {
    let host = busy_host();
    bind(&host).unwrap();
    let names = [BDF.to_owned(), "eth1".to_owned(), BDF.to_owned()];
    let given = give_back(&host, &host.state(), (&names, false), false).unwrap();
    assert_eq!((given.restored.len(), given.failures.len()), (1, 0));
}

#[test]
fn states_that_cannot_be_read_are_named_and_all_others_given_back() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host).unwrap();
    let text = std::fs::read_to_string(host.state().path(BDF)).unwrap();
    let newer = text.replace("\"version\": 2", "\"version\": 99");
    let other = text.replace(BDF, "0000:07:00.0");
    for (bdf, text) in [("0000:04:00.0", "{"), ("0000:05:00.0", &newer), ("0000:06:00.0", &other)] {
        std::fs::write(host.state().path(bdf), text).unwrap();
    }
    std::fs::create_dir(host.state().path("0000:08:00.0")).unwrap();
    let given = give_back(&host, &host.state(), (&[], true), false).unwrap();
    assert_is_as(&host, &before);
    let told: Vec<_> = given.failures.iter().map(|failure| format!("{failure:?}")).collect();
    assert_eq!(told.len(), 4, "{told:#?}");
    for (told, words) in told.iter().zip([
        "0000:04:00.0.json: EOF",
        "has version 99, not 1 to 2",
        "is the state of 0000:07:00.0",
        "is a directory",
    ]) {
        assert!(told.contains(words), "{words}: {told}");
        assert!(told.contains("/sys/bus/pci/drivers_probe"), "{told}");
    }
}

#[test]
fn a_card_whose_state_cannot_be_read_is_not_taken_anew() {
    let host = busy_host();
    bind(&host).unwrap();
    std::fs::write(host.state().path(BDF), "{").unwrap();
    let nics = vec![BDF.to_owned()];
    let told = format!("{:?}", take(&host, &host.state(), &BindFlags { nics, ..flags() }));
    assert!(told.contains("cannot read what was saved of 0000:03:00.0"), "{told}");
    let told = format!("{:?}", give_back(&host, &host.state(), (&[BDF.into()], false), false));
    assert!(told.contains("cannot read what was saved of 0000:03:00.0"), "{told}");
    assert_eq!(std::fs::read_to_string(host.state().path(BDF)).unwrap(), "{");
}
