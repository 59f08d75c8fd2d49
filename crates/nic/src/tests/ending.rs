//! Tests of giving cards back whose state is damaged, or that are not there.

use std::fs;

use super::binding::{busy_host, hold_group, saved};
use super::machine::{MAC, MadeUpHost};
use crate::bind::BindPlan;
use crate::commands::bind::take;
use crate::commands::restore::{Ending, GivenBack, give_back};
use crate::flags::{BindFlags, RestoreFlags};
use crate::host::{LinkChange, NicHost};
use crate::list::{self, CardRow};
use crate::lookup::TakenCards;
use crate::request::BindRequest;
use crate::sysfs::{PciNic, VFIO_DRIVER, device_dir, driver_of, override_of};
use crate::timer;

const BDF: &str = "0000:03:00.0";

/// Takes the card of a machine that has addresses and routes.
fn taken() -> MadeUpHost {
    let host = busy_host();
    bind(&host, true);
    host
}

fn bind(host: &MadeUpHost, tap: bool) {
    let _lock = host.state().lock(host).unwrap();
    let request = BindRequest { tap, ..BindRequest::default() };
    let nic = PciNic::read(host.root(), BDF).unwrap();
    BindPlan::new(host, nic, &request).unwrap().execute(host, &host.state()).unwrap();
}

fn restore(host: &MadeUpHost, flags: &RestoreFlags) -> GivenBack {
    give_back(host, &host.state(), flags).unwrap()
}

fn named(name: &str) -> RestoreFlags {
    RestoreFlags { nics: vec![name.to_owned()], ..RestoreFlags::default() }
}

fn all() -> RestoreFlags {
    RestoreFlags { all: true, ..RestoreFlags::default() }
}

fn damage(host: &MadeUpHost) {
    fs::write(host.state().path(BDF), "{").unwrap();
}

fn remove(host: &MadeUpHost) {
    fs::remove_dir_all(device_dir(host.root(), BDF)).unwrap();
}

fn rows(host: &MadeUpHost) -> Vec<CardRow> {
    list::rows(host, &TakenCards::new(host, &host.state())).unwrap()
}

/// What one failure tells.
fn told(given: &GivenBack) -> String {
    let [failure] = &given.failures[..] else { panic!("{given:?}") };
    format!("{failure:?}")
}

#[test]
fn a_card_whose_state_cannot_be_read_comes_back_with_what_its_tap_device_has() {
    for name in [BDF, "eth1"] {
        let host = busy_host();
        let before = host.link("eth1").unwrap();
        bind(&host, true);
        damage(&host);
        *host.new_name.borrow_mut() = "eth8".into();
        let given = restore(&host, &named(name));
        let [(_, Ending::GivenBack(unrestored))] = &given.restored[..] else { panic!("{given:?}") };
        assert!(unrestored[0].to_string().contains("json: EOF"), "{unrestored:?}");
        assert!(unrestored[0].what.contains("those of the TAP device eth1"), "{unrestored:?}");
        assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
        assert_eq!(override_of(host.root(), BDF), None);
        assert_eq!(host.link("eth1").unwrap(), before);
        assert_eq!(host.links().unwrap().len(), 1, "the TAP device is gone");
        assert!(!host.state().path(BDF).exists());
        bind(&host, true);
    }
}

#[test]
fn a_restore_of_a_damaged_state_that_fails_at_any_step_can_be_repeated() {
    for step in 0.. {
        let host = busy_host();
        let before = host.link("eth1").unwrap();
        bind(&host, true);
        damage(&host);
        host.changes_left.set(Some(step));
        if restore(&host, &named(BDF)).failures.is_empty() {
            assert!(step > 5, "{step} steps are too few");
            return;
        }
        assert!(restore(&host, &named(BDF)).failures.is_empty());
        assert_eq!(host.link("eth1").unwrap(), before, "step {step}");
        assert!(!host.state().path(BDF).exists());
    }
}

#[test]
fn a_restore_of_a_damaged_state_without_a_driver_keeps_what_the_tap_device_had() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host, true);
    damage(&host);
    host.lacks_module.set(true);
    let given = restore(&host, &named(BDF));
    assert!(told(&given).contains("no driver of the kernel takes the card"), "{given:?}");
    host.lacks_module.set(false);
    assert!(restore(&host, &named(BDF)).failures.is_empty());
    assert_eq!(host.link("eth1").unwrap(), before);
}

#[test]
fn a_tap_device_of_a_card_that_is_not_there_and_not_saved_is_named_with_what_deletes_it() {
    let host = taken();
    fs::remove_file(host.state().path(BDF)).unwrap();
    remove(&host);
    let state = host.state();
    let told = format!("{:?}", TakenCards::new(&host, &state).find("eth1").unwrap_err());
    assert!(told.contains("ip link delete eth1") && !told.contains("--forget"), "{told}");
}

#[test]
fn a_timer_whose_card_was_removed_ends_no_program() {
    let host = taken();
    hold_group(&host);
    let limit = Some(host.uptime());
    host.state().write(&saved(&host).unwrap().with_confirm_by(limit)).unwrap();
    remove(&host);
    *host.meanwhile.borrow_mut() = Some(Box::new(|host| {
        // The user confirms, so that the timer ends.
        let state = host.state();
        state.write(&saved(host).unwrap().with_confirm_by(None)).unwrap();
    }));
    assert!(!timer::expire(&host, &host.state(), BDF));
    assert_eq!(*host.ended.borrow(), [] as [u32; 0]);
}

#[test]
fn a_card_whose_state_cannot_be_read_and_that_has_no_tap_device_gets_its_driver_back() {
    let host = busy_host();
    bind(&host, false);
    damage(&host);
    let given = restore(&host, &all());
    let [(_, Ending::GivenBack(unrestored))] = &given.restored[..] else { panic!("{given:?}") };
    assert!(unrestored[0].what.contains("such as the name and the addresses"), "{unrestored:?}");
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some("e1000e"));
}

#[test]
fn a_damaged_state_stays_while_a_program_has_the_card() {
    let host = taken();
    damage(&host);
    hold_group(&host);
    let given = restore(&host, &named(BDF));
    assert!(told(&given).contains("suricata (process 41) has it open"), "{given:?}");
    assert_eq!(fs::read_to_string(host.state().path(BDF)).unwrap(), "{");
    assert_eq!(driver_of(host.root(), BDF).as_deref(), Some(VFIO_DRIVER));
    assert!(restore(&host, &RestoreFlags { force: true, ..named(BDF) }).failures.is_empty());
}

#[test]
fn every_way_in_which_a_state_is_damaged_is_named_and_mended() {
    let host = taken();
    let text = fs::read_to_string(host.state().path(BDF)).unwrap();
    let message = text.split("\"message\": \"").nth(1).unwrap().split('"').next().unwrap();
    for (text, words) in [
        ("{".to_owned(), "0000:03:00.0.json: EOF"),
        (text.replace("\"version\": 3", "\"version\": 99"), "has version 99, not 1 to 3"),
        (text.replace(BDF, "0000:07:00.0"), "is the state of 0000:07:00.0"),
        (text.replace(message, "zz"), "0000:03:00.0.json: the message of `10.0.0.1/24` is not"),
    ] {
        fs::write(host.state().path(BDF), text).unwrap();
        assert!(rows(&host)[0].note.contains(words), "{words}: {}", rows(&host)[0].note);
        let given = restore(&host, &all());
        let [(_, Ending::GivenBack(lost))] = &given.restored[..] else { panic!("{given:?}") };
        assert!(lost[0].why.contains(words), "{words}: {lost:?}");
        assert_eq!(host.links().unwrap().len(), 1);
        bind(&host, true);
    }
    fs::remove_file(host.state().path(BDF)).unwrap();
    fs::create_dir(host.state().path(BDF)).unwrap();
    assert!(restore(&host, &all()).failures.is_empty());
    assert!(!host.state().path(BDF).exists());
}

#[test]
fn states_of_version_2_are_read() {
    let host = taken();
    let text = fs::read_to_string(host.state().path(BDF)).unwrap();
    let lines =
        text.lines().filter(|line| !["\"id\"", "\"rebuilt\""].iter().any(|key| line.contains(key)));
    let old = lines.collect::<Vec<_>>().join("\n").replace("\"version\": 3", "\"version\": 2");
    let last = old.rfind(',').unwrap();
    let old = format!("{}{}", &old[..last], &old[last + 1..]);
    fs::write(host.state().path(BDF), old).unwrap();
    assert!(matches!(restore(&host, &all()).restored[..], [(_, Ending::GivenBack(_))]));
}

#[test]
fn of_two_tap_devices_of_a_card_that_with_its_name_is_its_own_and_both_end_with_it() {
    let host = taken();
    let twin = host.add_link("eth0", "tun", MAC);
    host.change_link(twin, &LinkChange::Alias("vfio:0000:03:00.0")).unwrap();
    host.links.borrow_mut().reverse();
    let links = host.links().unwrap();
    assert_eq!(crate::stand_in::find(&links, &saved(&host).unwrap()).unwrap().name, "eth1");
    assert!(restore(&host, &named("eth1")).failures.is_empty());
    assert!(host.links().unwrap().iter().all(|link| link.kind.is_empty()));
}

#[test]
fn a_card_that_is_not_there_is_listed_and_kept_until_it_is_discarded() {
    let host = taken();
    remove(&host);
    let rows = rows(&host);
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&*row.pci_address, row.interface.as_deref()), (BDF, Some("eth1")));
    assert!(!row.present && row.note.starts_with("not there; "), "{row:?}");
    for flags in [named("eth1"), named(BDF), all()] {
        let told = told(&restore(&host, &flags));
        assert!(told.contains("eth1 (0000:03:00.0) is not there"), "{told}");
        assert!(told.contains("slipring nic restore 0000:03:00.0 --forget"), "{told}");
        assert!(told.contains("echo 1 > /sys/bus/pci/rescan"), "{told}");
    }
    let state = host.state();
    let told = format!("{:?}", TakenCards::new(&host, &state).find("eth1").unwrap_err());
    assert!(told.contains("is not there") && told.contains("--forget"), "{told}");
    assert_eq!(host.link("eth1").unwrap().link.kind, "tun");
    let given = restore(&host, &RestoreFlags { forget: true, ..named("eth1") });
    assert!(matches!(given.restored[..], [(_, Ending::Forgotten)]), "{given:?}");
    assert_eq!(host.link("eth1"), None);
    assert_eq!(saved(&host), None);
}

#[test]
fn a_card_that_is_not_there_and_whose_state_is_damaged_is_listed_and_discarded() {
    let host = taken();
    remove(&host);
    damage(&host);
    assert!(!rows(&host)[0].present);
    assert!(told(&restore(&host, &named("eth1"))).contains("--forget"));
    let given = restore(&host, &RestoreFlags { forget: true, ..all() });
    assert!(matches!(given.restored[..], [(_, Ending::Forgotten)]), "{given:?}");
    assert_eq!((host.link("eth1"), host.state().path(BDF).exists()), (None, false));
}

#[test]
fn a_card_that_is_there_is_given_back_and_not_forgotten() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host, true);
    let given = restore(&host, &RestoreFlags { forget: true, ..named("eth1") });
    assert!(matches!(given.restored[..], [(_, Ending::GivenBack(_))]), "{given:?}");
    assert_eq!(host.link("eth1").unwrap(), before);
}

/// Puts another card in the place of the taken one. The kernel drives it.
fn replace(host: &MadeUpHost) {
    remove(host);
    host.add_card(BDF, [0x8086, 0x10c9], "igb", 8);
    *host.new_name.borrow_mut() = "eth5".into();
    host.make_interface(BDF, "eth5");
    host.edit("eth5", |link| link.link.mac = vec![8; 6]);
}

#[test]
fn another_card_in_the_place_of_a_taken_one_keeps_its_own_name_and_addresses() {
    let host = taken();
    replace(&host);
    assert!(
        rows(&host)[0].note.contains("not the card that was taken as eth1"),
        "{:?}",
        rows(&host)
    );
    let given = restore(&host, &named(BDF));
    let [(_, Ending::Replaced(id))] = &given.restored[..] else { panic!("{given:?}") };
    assert_eq!(id, "8086:10c9");
    assert_eq!((host.link("eth1"), saved(&host)), (None, None));
    let card = host.link("eth5").unwrap();
    assert_eq!((&card.link.mac[..], card.addresses), (&[8; 6][..], Vec::new()));
}

#[test]
fn another_card_in_the_place_of_a_taken_one_is_taken_with_its_own_state() {
    let host = taken();
    replace(&host);
    let flags = BindFlags {
        nics: vec![BDF.into()],
        dry_run: false,
        force: false,
        confirm_within: None,
        user: None,
        tap: true,
    };
    take(&host, &host.state(), &BindFlags { dry_run: true, ..flags.clone() }).unwrap();
    take(&host, &host.state(), &flags).unwrap();
    assert_eq!(saved(&host).unwrap().display_name(), "eth5");
    assert_eq!(host.link("eth1"), None);
}

#[test]
fn a_timer_whose_card_was_replaced_discards_the_state_and_ends() {
    let host = taken();
    let limit = Some(host.uptime());
    host.state().write(&saved(&host).unwrap().with_confirm_by(limit)).unwrap();
    replace(&host);
    assert!(!timer::expire(&host, &host.state(), BDF));
    assert_eq!((host.link("eth1"), saved(&host)), (None, None));
}

#[test]
fn a_card_that_was_not_confirmed_in_time_and_has_no_timer_is_listed_with_the_command() {
    let host = taken();
    let limit = Some(host.uptime());
    host.state().write(&saved(&host).unwrap().with_confirm_by(limit)).unwrap();
    host.pause(std::time::Duration::from_secs(5));
    let table = list::table(&rows(&host));
    assert!(
        table.contains("not confirmed in time: sudo slipring nic restore 0000:03:00.0"),
        "{table}"
    );
}

#[test]
fn a_partial_file_ends_with_an_error_and_one_that_was_left_with_the_state() {
    let host = taken();
    let partial = host.state().path(BDF).with_extension("partial");
    // The file cannot be put in place of a directory.
    fs::remove_file(host.state().path(BDF)).unwrap();
    fs::create_dir(host.state().path(BDF)).unwrap();
    let state = crate::state::SavedNic::unknown(BDF);
    host.state().write(&state).unwrap_err();
    assert!(!partial.exists());
    fs::write(&partial, "half").unwrap();
    assert!(restore(&host, &all()).failures.is_empty());
    assert!(!partial.exists());
}

#[test]
fn a_card_whose_state_cannot_be_read_is_not_taken_again_and_bind_names_restore() {
    let host = taken();
    damage(&host);
    let flags = BindFlags {
        nics: vec![BDF.into()],
        dry_run: false,
        force: true,
        confirm_within: Some(std::time::Duration::from_secs(60)),
        user: None,
        tap: true,
    };
    let told = format!("{:?}", take(&host, &host.state(), &flags).unwrap_err());
    assert!(told.contains("cannot read what was saved of 0000:03:00.0"), "{told}");
    assert!(told.contains("sudo slipring nic restore 0000:03:00.0"), "{told}");
    assert_eq!(fs::read_to_string(host.state().path(BDF)).unwrap(), "{");
    assert_eq!(host.link("eth1").unwrap().link.kind, "tun");
}

#[test]
fn cards_that_are_not_there_do_not_keep_others_from_being_given_back() {
    let host = busy_host();
    let before = host.link("eth1").unwrap();
    bind(&host, true);
    fs::write(host.state().path("0000:04:00.0"), "{").unwrap();
    let given = restore(&host, &all());
    assert!(told(&given).contains("0000:04:00.0 is not there"), "{given:?}");
    assert_eq!(given.restored.len(), 1);
    assert_eq!(host.link("eth1").unwrap(), before);
}
