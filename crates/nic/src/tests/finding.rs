//! Tests of finding cards by name, and of what `doctor` and `report` say of a taken card.

use super::binding::hold_group;
use super::machine::MadeUpHost;
use crate::bind::BindPlan;
use crate::checks::{self, Verdict};
use crate::commands::{bind, restore, user_id};
use crate::doctor;
use crate::flags::{self, BindFlags, NicRequest, RestoreFlags};
use crate::host::NicHost;
use crate::list;
use crate::lookup::TakenCards;
use crate::refusals::help_with;
use crate::report;
use crate::request::BindRequest;
use crate::state::StateDir;
use crate::sysfs::PciNic;

const BDF: &str = "0000:03:00.0";

/// Takes the card as root does, with root's run directory.
fn taken_by_root() -> MadeUpHost {
    let host = MadeUpHost::new();
    let state = StateDir::below(&host.path("run/slipring"));
    let _lock = state.lock(&host).unwrap();
    // A TAP device has no device in sysfs.
    let request = BindRequest { bdfs: vec![BDF.into()], tap: true, ..BindRequest::default() };
    let nic = PciNic::read(host.root(), BDF).unwrap();
    BindPlan::new(&host, nic, &request).unwrap().execute(&host, &state).unwrap();
    std::fs::create_dir_all(host.path("sys/class/net/eth1")).unwrap();
    host
}

fn user(host: &MadeUpHost) -> StateDir {
    StateDir::below(&host.path("run/user/1000/slipring"))
}

#[test]
fn a_user_finds_a_card_that_root_has_taken_by_the_name_that_it_had() {
    let host = taken_by_root();
    let own = user(&host);
    let cards = TakenCards::new(&host, &own);
    for name in ["eth1", BDF, "03:00.0"] {
        assert_eq!(cards.find(name).unwrap().bdf, BDF, "{name}");
    }
    let rows = list::rows(&host, &cards).unwrap();
    assert_eq!(rows[0].interface.as_deref(), Some("eth1"));
    assert!(rows[0].saved && rows[0].bound);
}

#[test]
fn a_user_who_gives_back_or_confirms_a_card_of_root_is_told_the_command_of_root() {
    let mut host = taken_by_root();
    host.privileged = false;
    let own = user(&host);
    let cards = TakenCards::new(&host, &own);
    for (names, words) in [
        (Some(vec!["eth1".to_owned()]), "sudo slipring nic restore eth1 --run-dir /run/slipring"),
        (Some(vec!["03:00.0".to_owned()]), "sudo slipring nic restore 03:00.0 --run-dir"),
        (None, "sudo slipring nic restore --all --run-dir /run/slipring"),
    ] {
        let refusal = format!("{:?}", cards.refuse_roots("restore", names.as_deref()).unwrap_err());
        assert!(refusal.contains("eth1 was taken by root"), "{refusal}");
        assert!(refusal.contains(words), "{refusal}");
    }
    assert!(cards.refuse_roots("restore", Some(&["eth7".to_owned()])).is_ok());
    // Root's own command has the state.
    let roots = StateDir::below(&host.path("run/slipring"));
    let cards = TakenCards::new(&host, &roots);
    assert!(cards.refuse_roots("restore", Some(&["eth1".to_owned()])).is_ok());
    assert!(cards.refuse_roots("restore", None).is_ok());
}

#[test]
fn a_user_who_binds_a_card_of_root_for_a_user_is_told_that_root_has_taken_it() {
    let host = taken_by_root();
    let flags = BindFlags {
        nics: vec!["eth1".into()],
        dry_run: false,
        force: false,
        confirm_within: None,
        user: Some("alice".into()),
        tap: true,
    };
    let refusal = format!("{:?}", bind::take(&host, &user(&host), &flags).unwrap_err());
    assert!(refusal.contains("eth1 was taken by root"), "{refusal}");
}

#[test]
fn a_directory_that_others_can_write_to_names_no_cards() {
    use std::os::unix::fs::PermissionsExt;
    let host = taken_by_root();
    let everyone = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(host.path("run/slipring/nic"), everyone).unwrap();
    host.edit("eth1", |tap| tap.link.alias.clear());
    let own = user(&host);
    let cards = TakenCards::new(&host, &own);
    assert!(cards.find("eth1").is_err());
    assert!(cards.refuse_roots("restore", None).is_ok());
}

#[test]
fn doctor_and_report_of_a_taken_card_find_it_by_name_and_say_that_it_is_taken() {
    let mut host = taken_by_root();
    host.privileged = false;
    hold_group(&host);
    let state = StateDir::below(&host.path("run/slipring"));
    let nic = TakenCards::new(&host, &state).find("eth1").unwrap();
    let checks = checks::examine(&host, &nic, &BindRequest::default());
    assert!(checks.iter().all(|check| !check.verdict.refuses(false)), "{checks:#?}");
    let text = doctor::text(&nic, &checks);
    assert!(text.ends_with("It is taken: open it as vfio:0000:03:00.0"), "{text}");
    assert!(text.contains("suricata (process 41) has it open"), "{text}");
    assert!(!text.contains("nic bind"), "{text}");
    assert!(report::of(&host, &nic).text().contains("| kernel driver | vfio-pci |"));
}

#[test]
fn doctor_checks_the_limit_of_locked_memory_without_a_named_user_and_only_warns() {
    let mut host = MadeUpHost::new();
    host.memory_lock = Some(64 << 10);
    let nic = PciNic::read(host.root(), BDF).unwrap();
    let checks = checks::examine(&host, &nic, &BindRequest::default());
    let told = checks.iter().find(|check| check.check == "memlock").unwrap();
    assert_eq!(told.verdict, Verdict::Warn);
    assert!(told.help.as_deref().unwrap().contains("USER - memlock 65536"), "{told:?}");
}

#[test]
fn the_name_of_a_card_s_port_stands_for_the_card() {
    for verb in ["bind", "restore", "confirm", "doctor", "set", "report"] {
        let matches = flags::command().try_get_matches_from(["nic", verb, "vfio:0000:03:00.0"]);
        let shown = format!("{:?}", NicRequest::of(&matches.unwrap()).unwrap());
        assert!(shown.contains("\"0000:03:00.0\""), "{shown}");
    }
}

#[test]
fn a_number_that_means_no_user_is_refused() {
    let host = MadeUpHost::new();
    let refusal = format!("{:?}", user_id(host.root(), "4294967295").unwrap_err());
    assert!(refusal.contains("4294967295 is not the number of a user"), "{refusal}");
    assert_eq!(user_id(host.root(), "4294967294").unwrap(), 4_294_967_294);
    assert_eq!(user_id(host.root(), "alice").unwrap(), 1000);
}

#[test]
fn only_a_user_without_rights_is_told_to_become_root() {
    use std::io::{Error, ErrorKind};
    let dir = tempfile::tempdir().unwrap();
    let help = |kind: ErrorKind, is_root| help_with(&Error::from(kind), dir.path(), is_root);
    assert!(help(ErrorKind::PermissionDenied, false).contains("sudo slipring nic list"));
    for kind in [ErrorKind::PermissionDenied, ErrorKind::IsADirectory, ErrorKind::TimedOut] {
        assert!(!help(kind, true).contains("sudo"), "{kind}");
    }
}

#[test]
fn a_run_directory_that_cannot_be_written_is_named_with_what_mends_it() {
    use std::io::{Error, ErrorKind};
    use std::os::unix::fs::PermissionsExt;
    let host = MadeUpHost::new();
    let dir = host.path("run/nic");
    let help = |error: &Error| help_with(error, &dir, true);
    let read_only = help(&ErrorKind::ReadOnlyFilesystem.into());
    let run = host.root().display().to_string();
    assert!(read_only.contains("mount -o remount,rw") && read_only.contains(&run), "{read_only}");
    assert_eq!(
        help(&ErrorKind::StorageFull.into()),
        format!("make room there: df {run}"),
        "the directory is not there yet"
    );
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let refusal = host.state().lock(&host).unwrap_err();
    assert_eq!(help(&refusal), format!("chmod go-w {}", dir.display()));
}

#[test]
fn an_empty_name_of_a_user_is_refused_with_a_command_that_works() {
    let refusal = format!("{:?}", user_id(MadeUpHost::new().root(), "").unwrap_err());
    assert!(refusal.contains("--user names no user") && refusal.contains("id -un"), "{refusal}");
}

#[test]
fn a_word_that_names_no_card_is_not_said_to_be_untaken() {
    let host = MadeUpHost::new();
    let state = host.state();
    let told = format!("{:?}", TakenCards::new(&host, &state).find("nosuch").unwrap_err());
    assert!(told.contains("`nosuch` is no network card on PCI"), "{told}");
    assert!(!told.contains("nothing was changed"), "{told}");
}

#[test]
fn a_name_of_a_taken_card_that_another_card_has_is_refused_by_every_verb() {
    let host = MadeUpHost::new();
    let state = host.state();
    let lock = state.lock(&host).unwrap();
    let request = BindRequest::default();
    let nic = PciNic::read(host.root(), BDF).unwrap();
    BindPlan::new(&host, nic, &request).unwrap().execute(&host, &state).unwrap();
    drop(lock);
    host.add_card("0000:04:00.0", [0x8086, 0x10d3], "e1000e", 8);
    host.make_interface("0000:04:00.0", "eth1");
    let cards = TakenCards::new(&host, &state);
    let nics = vec!["eth1".to_owned()];
    let bind_flags = BindFlags {
        nics: nics.clone(),
        dry_run: true,
        force: false,
        confirm_within: None,
        user: None,
        tap: true,
    };
    let restore_flags = RestoreFlags { nics: nics.clone(), ..RestoreFlags::default() };
    for told in [
        format!("{:?}", cards.find("eth1").unwrap_err()),
        format!("{:?}", cards.refuse_roots("confirm", Some(&nics)).unwrap_err()),
        format!("{:?}", bind::take(&host, &state, &bind_flags).unwrap_err()),
        format!("{:?}", restore::give_back(&host, &state, &restore_flags).unwrap_err()),
    ] {
        assert!(told.contains("`eth1` is the name of 2 cards"), "{told}");
        assert!(told.contains("0000:03:00.0 or 0000:04:00.0"), "{told}");
    }
    assert_eq!(cards.find("0000:04:00.0").unwrap().bdf, "0000:04:00.0");
    assert_eq!(cards.find(BDF).unwrap().bdf, BDF);
}

#[test]
fn a_renamed_tap_device_stands_for_its_card() {
    let host = taken_by_root();
    host.edit("eth1", |link| link.link.name = "wan0".into());
    let own = user(&host);
    assert_eq!(TakenCards::new(&host, &own).find("wan0").unwrap().bdf, BDF);
}

#[test]
fn a_report_names_the_flags_without_which_the_card_is_not_taken() {
    let host = MadeUpHost::new();
    let nic = || PciNic::read(host.root(), BDF).unwrap();
    let binds = |words: &str| {
        let text = report::of(&host, &nic()).text();
        assert!(text.contains(&format!("sudo slipring nic bind {BDF}{words}\n")), "{text}");
        text
    };
    let text = binds("");
    assert!(text.contains("grep vfio /proc/interrupts"), "{text}");
    assert!(text.contains("while each of those two runs"), "{text}");
    host.edit("eth1", |link| link.addresses = vec!["10.0.0.1/24".into()]);
    binds(" --force");
    host.edit("eth1", |link| link.routes = vec!["default via 10.0.0.254".into()]);
    binds(" --force --confirm-within 600");
}

#[test]
fn what_a_user_may_not_do_names_the_command_with_the_card() {
    let mut host = MadeUpHost::new();
    host.privileged = false;
    let nic = PciNic::read(host.root(), BDF).unwrap();
    let checks = checks::examine(&host, &nic, &BindRequest::default());
    let told = checks.iter().find(|check| check.check == "privilege").unwrap();
    assert!(told.help.as_deref().unwrap().starts_with("sudo slipring nic bind eth1; "));
}
