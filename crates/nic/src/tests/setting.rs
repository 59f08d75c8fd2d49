//! Tests of `slipring nic set`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use slipring_drivers::{SettingRefusal, SettingsRequest};

use super::machine::MadeUpHost;
use crate::bind::BindPlan;
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::request::BindRequest;
use crate::restore;
use crate::set::{SetOutcome, apply};
use crate::state::StateDir;
use crate::sysfs::PciNic;

const BDF: &str = "0000:03:00.0";

/// A machine whose card is bound to vfio-pci, with a TAP device.
fn taken() -> MadeUpHost {
    let host = MadeUpHost::new();
    let state = host.state();
    let _lock = state.lock(&host).unwrap();
    let request = BindRequest { bdfs: vec![BDF.into()], tap: true, ..BindRequest::default() };
    let nic = PciNic::read(host.root(), BDF).unwrap();
    BindPlan::new(&host, nic, &request).unwrap().execute(&host, &state).unwrap();
    host
}

/// Adds a process that has the card open, through the device node `node`, to the host.
fn hold(host: &MadeUpHost, node: &str) {
    host.put("proc/41/comm", "suricata\n");
    fs::create_dir_all(host.path("proc/41/fd")).unwrap();
    std::os::unix::fs::symlink(node, host.path("proc/41/fd/9")).unwrap();
}

fn set(host: &MadeUpHost, change: &str) -> Result<SetOutcome, String> {
    set_or_reset(host, change, false)
}

fn set_or_reset(host: &MadeUpHost, change: &str, reset: bool) -> Result<SetOutcome, String> {
    let request = SettingsRequest { change: change.parse().unwrap(), reset };
    let nic = PciNic::read(host.root(), BDF).unwrap();
    apply(host, &host.state(), &nic, &request).map_err(|failure| format!("{failure:?}"))
}

fn kept(host: &MadeUpHost) -> String {
    let state = host.state();
    let period = TakenCards::new(host, &state).period(BDF);
    state.settings(BDF, &period).unwrap().to_string()
}

#[test]
fn settings_of_a_card_that_no_program_has_are_kept_for_the_next_one() {
    let host = taken();
    assert!(set(&host, "speed=100 autoneg=off").unwrap().status.is_none());
    assert_eq!(kept(&host), "speed=100 autoneg=off");
    set(&host, "mtu=4000").unwrap();
    assert_eq!(kept(&host), "speed=100 autoneg=off mtu=4000");
    assert_eq!(host.link("eth1").unwrap().link.mtu, 4000, "the TAP device has it, too");
    assert_eq!(set(&host, "").unwrap().settings.to_string(), kept(&host));
    set_or_reset(&host, "pause=on", true).unwrap();
    assert_eq!(kept(&host), "pause=on");
    assert_eq!(host.link("eth1").unwrap().link.mtu, 1500, "as before the card was taken");
    set_or_reset(&host, "", true).unwrap();
    assert!(!host.path("run/nic").join(format!("{BDF}.link")).exists());
}

#[test]
fn a_program_that_has_the_card_takes_the_change_before_it_is_kept() {
    for node in ["/dev/vfio/7", "/dev/vfio/devices/vfio3"] {
        let host = taken();
        fs::create_dir_all(host.path(&format!("sys/bus/pci/devices/{BDF}/vfio-dev/vfio3")))
            .unwrap();
        hold(&host, node);
        let outcome = set(&host, "speed=100 autoneg=off").unwrap();
        assert_eq!(outcome.status.unwrap().0.pid, 41);
        let asked = host.asked.borrow();
        assert_eq!(*asked, [(41, BDF.to_owned(), "speed=100 autoneg=off".to_owned())]);
        assert_eq!(kept(&host), "speed=100 autoneg=off");
    }
}

#[test]
fn what_the_chip_or_the_program_refuses_is_not_kept() {
    let host = taken();
    let refusal = set(&host, "speed=2500").unwrap_err();
    assert!(refusal.contains("82574L has no speed of 2500 Mbit/s"), "{refusal}");
    hold(&host, "/dev/vfio/7");
    let refused = SettingRefusal { reason: "not now".into(), help: "later".into() };
    *host.answer.borrow_mut() = Some(Ok(Err(refused)));
    let refusal = set(&host, "speed=100").unwrap_err();
    assert!(refusal.contains("not now") && refusal.contains("later"), "{refusal}");
    *host.answer.borrow_mut() = Some(Err(io::ErrorKind::ConnectionRefused.into()));
    let refusal = set(&host, "speed=100").unwrap_err();
    assert!(refusal.contains("suricata (process 41)") && refusal.contains("nsenter -n -t 41"));
    *host.answer.borrow_mut() = Some(Err(io::ErrorKind::PermissionDenied.into()));
    let refusal = set(&host, "speed=100").unwrap_err();
    assert!(refusal.contains("another program has taken the name of its socket"), "{refusal}");
    assert!(refusal.contains("ss -xlp | grep slipring/41/nic/0000:03:00.0"), "{refusal}");
    *host.answer.borrow_mut() = Some(Err(io::ErrorKind::WouldBlock.into()));
    let refusal = set(&host, "speed=100").unwrap_err();
    assert!(refusal.contains("it does not answer") && refusal.contains("kill -CONT 41"));
    assert_eq!(kept(&host), "");
    assert!(host.asked.borrow().len() == 4, "the chip's refusal comes first");
}

#[test]
fn a_program_that_has_the_card_is_told_of_a_reset() {
    let host = taken();
    hold(&host, "/dev/vfio/7");
    set_or_reset(&host, "", true).unwrap();
    set_or_reset(&host, "pause=on", true).unwrap();
    let asked = host.asked.borrow();
    assert_eq!([&*asked[0].2, &*asked[1].2], ["reset", "reset pause=on"]);
}

#[test]
fn saved_settings_can_be_read_by_all_users_and_count_until_the_machine_restarts() {
    let host = taken();
    let file = host.path(&format!("run/nic/{BDF}.link"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    // A file that a killed process has left, and the directories, have modes as with a strict
    // umask.
    let partial = file.with_extension("link-partial");
    fs::write(&partial, "").unwrap();
    set_mode(&partial, 0o600);
    let [run, nic] = [host.path("run"), host.path("run/nic")];
    set_mode(&run, 0o700);
    set_mode(&nic, 0o700);
    set(&host, "speed=100").unwrap();
    assert_eq!((mode(&nic), mode(&file)), (0o755, 0o644));
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(mode(&run), if is_root { 0o711 } else { 0o700 });
    host.put("proc/sys/kernel/random/boot_id", "boot-2\n");
    assert_eq!(kept(&host), "");
    set(&host, "mtu=1500").unwrap();
    assert_eq!(kept(&host), "mtu=1500");
}

#[test]
fn a_link_in_place_of_the_directory_is_refused_and_its_target_left_as_it_is() {
    let host = MadeUpHost::new();
    drop(host.state().lock(&host).unwrap());
    let [nic, target] = [host.path("run/nic"), host.path("private")];
    fs::remove_dir_all(&nic).unwrap();
    fs::create_dir(&target).unwrap();
    fs::set_permissions(&target, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(&target, &nic).unwrap();
    let refusal = host.state().lock(&host).unwrap_err().to_string();
    assert!(refusal.contains(&format!("rm {}", nic.display())), "{refusal}");
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_read_is_not_replaced_except_by_a_reset() {
    let host = taken();
    let file = host.path(&format!("run/nic/{BDF}.link"));
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "boot=boot-1 taken=100000\ncolour=red\n").unwrap();
    let refusal = set(&host, "mtu=1500").unwrap_err();
    assert!(refusal.contains("colour=red") && refusal.contains("--reset"), "{refusal}");
    set_or_reset(&host, "mtu=1500", true).unwrap();
    assert_eq!(kept(&host), "mtu=1500");
}

#[test]
fn a_change_waits_for_other_commands_before_it_reads_or_asks() {
    let host = taken();
    set(&host, "speed=100").unwrap();
    let _other = host.state().lock(&host).unwrap();
    let refusal = set(&host, "mtu=1500").unwrap_err();
    assert!(refusal.contains("another slipring nic is at work"), "{refusal}");
    assert!(host.asked.borrow().is_empty());
    set(&host, "").unwrap();
}

#[test]
fn a_card_of_the_kernel_is_left_to_ethtool() {
    let refusal = set(&MadeUpHost::new(), "speed=100").unwrap_err();
    assert!(refusal.contains("its driver is e1000e") && refusal.contains("ethtool -s eth1"));
}

#[test]
fn a_card_without_a_driver_is_not_sent_to_ethtool() {
    let host = MadeUpHost::new();
    fs::remove_file(host.path(&format!("sys/bus/pci/devices/{BDF}/driver"))).unwrap();
    fs::remove_dir_all(host.path(&format!("sys/bus/pci/devices/{BDF}/net"))).unwrap();
    let refusal = set(&host, "speed=100").unwrap_err();
    assert!(refusal.contains("it has no driver") && !refusal.contains("ethtool"), "{refusal}");
    assert!(refusal.contains("slipring nic bind 0000:03:00.0"), "{refusal}");
}

/// Takes the card as root does; `speed=100` and `mtu=4000` are root's settings. Returns the state
/// directory of a user.
fn taken_and_set_by_root() -> (MadeUpHost, StateDir) {
    let mut host = MadeUpHost::new();
    let roots = StateDir::below(&host.path("run/slipring"));
    take(&host, &roots);
    let change = "speed=100 autoneg=off mtu=4000".parse().unwrap();
    let nic = PciNic::read(host.root(), BDF).unwrap();
    apply(&host, &roots, &nic, &SettingsRequest { change, reset: false }).unwrap();
    host.privileged = false;
    let user = host.state();
    (host, user)
}

fn take(host: &MadeUpHost, state: &StateDir) {
    let _lock = state.lock(host).unwrap();
    let request = BindRequest { bdfs: vec![BDF.into()], tap: true, ..BindRequest::default() };
    let nic = PciNic::read(host.root(), BDF).unwrap();
    BindPlan::new(host, nic, &request).unwrap().execute(host, state).unwrap();
}

#[test]
fn a_user_sees_the_settings_of_root_and_adds_to_them() {
    let (host, _) = taken_and_set_by_root();
    let shown = set(&host, "").unwrap();
    assert_eq!(shown.settings.to_string(), "speed=100 autoneg=off mtu=4000");
    assert!(shown.text(BDF).contains("set by root: speed=100"), "{}", shown.text(BDF));
    let added = set(&host, "mtu=9000").unwrap();
    assert_eq!(added.settings.to_string(), "speed=100 autoneg=off mtu=9000");
    assert_eq!(kept(&host), "mtu=9000", "only this is the user's");
    let text = added.text(BDF);
    assert!(text.contains("sudo ip link set eth1 mtu 9000"), "{text}");
    // The user's reset does not discard root's settings.
    hold(&host, "/dev/vfio/7");
    let reset = set_or_reset(&host, "", true).unwrap();
    assert_eq!(reset.settings.to_string(), "speed=100 autoneg=off mtu=4000");
    assert_eq!(host.asked.borrow()[0].2, "reset speed=100 autoneg=off mtu=4000");
}

#[test]
fn settings_of_a_user_do_not_outlive_the_period_in_which_root_had_taken_the_card() {
    let (mut host, _) = taken_and_set_by_root();
    set(&host, "mtu=9000").unwrap();
    host.privileged = true;
    let roots = StateDir::below(&host.path("run/slipring"));
    restore::put_back(&host, &roots, &roots.read(BDF).unwrap().unwrap()).unwrap();
    host.pause(std::time::Duration::from_secs(1));
    take(&host, &roots);
    assert_eq!(kept(&host), "");
    assert!(set(&host, "").unwrap().settings.is_empty());
}

#[test]
fn settings_are_forgotten_when_the_card_is_given_back() {
    let host = taken();
    set(&host, "speed=100").unwrap();
    let saved = host.state().read(BDF).unwrap().unwrap();
    restore::put_back(&host, &host.state(), &saved).unwrap();
    assert_eq!(kept(&host), "");
}

#[test]
fn a_card_whose_state_cannot_be_read_is_not_set_and_nothing_is_kept_or_asked() {
    let host = taken();
    hold(&host, "/dev/vfio/7");
    fs::write(host.state().path(BDF), "{").unwrap();
    for reset in [false, true] {
        let refusal = set_or_reset(&host, "mtu=1200", reset).unwrap_err();
        assert!(refusal.contains("cannot read what was saved of 0000:03:00.0"), "{refusal}");
        assert!(refusal.contains("sudo slipring nic restore 0000:03:00.0"), "{refusal}");
        assert!(!refusal.contains("--reset"), "{refusal}");
    }
    assert!(host.asked.borrow().is_empty());
    assert_eq!(kept(&host), "");
    set(&host, "").unwrap();
}

#[test]
fn settings_that_are_kept_are_said_to_be_if_the_tap_device_does_not_follow() {
    let host = taken();
    host.changes_left.set(Some(0));
    let refusal = set(&host, "mtu=4000").unwrap_err();
    assert!(refusal.contains("are kept, but its TAP device keeps its MTU"), "{refusal}");
    assert_eq!(kept(&host), "mtu=4000");
}
