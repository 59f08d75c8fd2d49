//! Tests of the reasons for which a card is not bound. Each has its own text, and says what helps.

use std::fs;
use std::os::unix::fs::symlink;

use super::binding::hold_group;
use super::machine::MadeUpHost;
use crate::bind::BindPlan;
use crate::checks::{self, Verdict};
use crate::host::NicHost;
use crate::lookup::TakenCards;
use crate::request::BindRequest;
use crate::sysfs::{self, PciNic};

const BDF: &str = "0000:03:00.0";

fn plan(host: &MadeUpHost, request: &BindRequest) -> BindPlan {
    BindPlan::new(host, PciNic::read(host.root(), BDF).unwrap(), request).unwrap()
}

/// Asserts that the card is refused for only one reason, with these words and this help.
fn refused(host: &MadeUpHost, request: &BindRequest, verdict: Verdict, words: &str, help: &str) {
    let plan = plan(host, request);
    let refusals = plan.refusals(request.force);
    let [only] = refusals[..] else { panic!("{words}: {refusals:#?}") };
    assert_eq!(only.verdict, verdict, "{only:?}");
    assert!(only.finding.contains(words), "{words}: {}", only.finding);
    let found = only.help.as_deref().unwrap_or_default();
    assert!(found.contains(help), "{help}: {found}");
}

fn machine_refuses(host: &MadeUpHost, words: &str, help: &str) {
    // `--force` does not help.
    let forced = BindRequest { force: true, ..BindRequest::default() };
    refused(host, &BindRequest::default(), Verdict::Machine, words, help);
    refused(host, &forced, Verdict::Machine, words, help);
}

#[test]
fn a_card_that_nothing_uses_is_not_refused() {
    let host = MadeUpHost::new();
    let plan = plan(&host, &BindRequest::default());
    assert_eq!(plan.refusals(false), [] as [&checks::CardCheck; 0]);
}

#[test]
fn without_an_iommu_it_is_named() {
    let host = MadeUpHost::new();
    fs::remove_file(host.path(&format!("sys/bus/pci/devices/{BDF}/iommu_group"))).unwrap();
    machine_refuses(&host, "the IOMMU does not serve this card", "iommu=on");
    fs::remove_dir_all(host.path("sys/class/iommu/dmar0")).unwrap();
    machine_refuses(&host, "this kernel uses no IOMMU", "intel_iommu=on");
}

#[test]
fn without_interrupt_remapping_it_is_named() {
    let host = MadeUpHost::new();
    host.put("proc/interrupts", "  1: 9 IO-APIC 1-edge i8042\n");
    machine_refuses(&host, "does not remap interrupts", "allow_unsafe_interrupts=1");
    host.put("sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", "Y\n");
    assert!(plan(&host, &BindRequest::default()).refusals(false).is_empty());
}

#[test]
fn missing_modules_are_named_with_the_command_that_loads_them() {
    let host = MadeUpHost::new();
    fs::remove_dir_all(host.path("sys/module/vfio_iommu_type1")).unwrap();
    machine_refuses(&host, "no vfio_iommu_type1 loaded", "modprobe -a vfio_iommu_type1");
    fs::remove_dir_all(host.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    machine_refuses(&host, "no vfio-pci", "modprobe -a vfio-pci vfio_iommu_type1");
}

#[test]
fn a_sibling_that_the_kernel_drives_is_named_and_taking_both_is_allowed() {
    let host = MadeUpHost::new();
    host.add_card("0000:03:00.1", [0x8086, 0x10d3], "e1000e", 7);
    machine_refuses(&host, "0000:03:00.1 (e1000e)", "nic bind 0000:03:00.0 0000:03:00.1");
    let both =
        BindRequest { bdfs: vec![BDF.into(), "0000:03:00.1".into()], ..BindRequest::default() };
    assert!(plan(&host, &both).refusals(false).is_empty());
}

#[test]
fn a_bridge_may_stay_in_the_group() {
    let host = MadeUpHost::new();
    host.add_card("0000:00:1c.0", [0x8086, 0xa110], "pcieport", 7);
    host.put("sys/bus/pci/devices/0000:00:1c.0/class", "0x060400\n");
    assert!(plan(&host, &BindRequest::default()).refusals(false).is_empty());
}

#[test]
fn a_route_that_the_kernel_would_not_accept_again_is_named_before_anything_is_changed() {
    let host = MadeUpHost::new();
    let stale = "10.40.0.0/16 via 10.7.0.9";
    host.edit("eth1", |link| link.routes = vec!["10.7.0.0/24".into(), stale.into()]);
    host.refused_routes.borrow_mut().push(stale.into());
    machine_refuses(&host, stale, "ip route del 10.40.0.0/16 via 10.7.0.9 dev eth1");
    let before = host.link("eth1");
    host.refused_routes.borrow_mut().clear();
    assert!(plan(&host, &BindRequest::default()).refusals(false).is_empty());
    assert_eq!(host.link("eth1"), before);
}

#[test]
fn virtual_functions_holders_and_missing_rights_are_named() {
    let host = MadeUpHost::new();
    host.put(&format!("sys/bus/pci/devices/{BDF}/sriov_numvfs"), "2\n");
    machine_refuses(&host, "2 virtual function(s)", "sriov_numvfs");
    let host = MadeUpHost::new();
    hold_group(&host);
    machine_refuses(&host, "suricata (process 41)", "kill 41");
    let mut host = MadeUpHost::new();
    host.privileged = false;
    machine_refuses(&host, "only root may bind", "sudo slipring nic bind");
}

#[test]
fn a_user_who_may_lock_too_little_memory_is_told_how_to_get_more() {
    let mut host = MadeUpHost::new();
    host.memory_lock = Some(64 << 10);
    assert!(plan(&host, &BindRequest::default()).refusals(false).is_empty(), "root may");
    let request = BindRequest { uid: Some(1000), ..BindRequest::default() };
    refused(&host, &request, Verdict::InUse, "may lock 64 KiB", "1000 - memlock 65536");
}

#[test]
fn lockdown_is_told_and_refuses_what_it_keeps_from_being_loaded() {
    let host = MadeUpHost::new();
    host.put("sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    let plan = plan(&host, &BindRequest::default());
    let told = plan.checks.iter().find(|check| check.check == "lockdown").unwrap();
    assert_eq!(told.verdict, Verdict::Ok);
    assert!(told.finding.contains("integrity"), "{}", told.finding);
    fs::remove_dir_all(host.path("sys/module/vfio_iommu_type1")).unwrap();
    machine_refuses(&host, "loads only signed modules (lockdown: integrity)", "mokutil");
    host.put("sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    machine_refuses(&host, "no vfio_iommu_type1 loaded", "modprobe -a vfio_iommu_type1");
}

#[test]
fn what_the_machine_uses_is_refused_without_force() {
    type Use = (fn(&MadeUpHost), &'static str, &'static str);
    let uses: [Use; 5] = [
        (
            |host| host.edit("eth1", |link| link.addresses = vec!["10.0.0.1/24".into()]),
            "eth1 has the address 10.0.0.1/24",
            "ip address flush dev eth1",
        ),
        (
            |host| host.edit("eth1", |link| link.link.running = true),
            "only card of this machine with a carrier",
            "--force",
        ),
        (
            |host| {
                let bridge = host.add_link("br0", "bridge", [4; 6]);
                host.edit("eth1", |link| link.link.master = Some(bridge));
            },
            "a member of br0 (bridge)",
            "ip link set eth1 nomaster",
        ),
        (
            |host| {
                host.edit("eth1", |link| link.routes = vec!["default via 10.0.0.254".into()]);
            },
            "a default route leads out of eth1",
            "--force --confirm-within 60",
        ),
        (
            |host| {
                host.put(
                    "proc/thread-self/net/tcp",
                    "head\n 0: 0100000A:0016 0200000A:C350 01 0\n",
                );
                host.edit("eth1", |link| link.addresses = vec!["10.0.0.1/24".into()]);
            },
            "an ssh session with 10.0.0.2 leads through eth1",
            "ss -tn src 10.0.0.1",
        ),
    ];
    for (make, words, help) in uses {
        let host = MadeUpHost::new();
        make(&host);
        let plan = plan(&host, &BindRequest::default());
        let refusals = plan.refusals(false);
        let told = refusals.iter().find(|one| one.finding.contains(words));
        let told = told.unwrap_or_else(|| panic!("{words}: {refusals:#?}"));
        assert_eq!(told.verdict, Verdict::InUse);
        assert!(told.help.as_deref().unwrap().contains(help), "{told:?}");
        assert!(plan.refusals(true).is_empty(), "{words}");
    }
}

#[test]
fn force_alone_does_not_take_the_card_of_a_default_route() {
    let host = MadeUpHost::new();
    host.edit("eth1", |link| link.routes = vec!["default via 10.0.0.254".into()]);
    let forced = BindRequest { force: true, ..BindRequest::default() };
    refused(&host, &forced, Verdict::NoWayBack, "needs --confirm-within", "nic confirm eth1");
    let confirmed =
        BindRequest { confirm_within: Some(std::time::Duration::from_secs(60)), ..forced };
    assert!(plan(&host, &confirmed).refusals(true).is_empty());
}

#[test]
fn a_card_with_vlans_is_refused_even_with_force_because_they_would_be_lost() {
    let host = MadeUpHost::new();
    let index = host.links().unwrap()[0].index;
    for name in ["eth1.5", "eth1.6"] {
        host.add_link(name, "vlan", [4; 6]);
        host.edit(name, |link| link.link.lower = Some(index));
    }
    let words = "eth1.5, eth1.6 (vlan) lies on eth1, and would be lost";
    machine_refuses(&host, words, "ip link delete eth1.5\nip link delete eth1.6");
}

#[test]
fn force_alone_does_not_take_a_card_below_a_bridge_or_one_with_a_connection() {
    let uses: [fn(&MadeUpHost); 2] = [
        |host| {
            let bridge = host.add_link("br0", "bridge", [4; 6]);
            host.edit("eth1", |link| link.link.master = Some(bridge));
        },
        |host| {
            host.put("proc/thread-self/net/tcp", "head\n 0: 0100000A:0016 0200000A:C350 01 0\n");
            host.edit("eth1", |link| link.addresses = vec!["10.0.0.1/24".into()]);
        },
    ];
    for make in uses {
        let host = MadeUpHost::new();
        make(&host);
        let forced = BindRequest { force: true, ..BindRequest::default() };
        refused(&host, &forced, Verdict::NoWayBack, "needs --confirm-within", "nic confirm eth1");
    }
}

#[test]
fn chips_are_refused_by_name_and_reason() {
    for (id, words) in [
        ([0x8086, 0x15b8], "I219 (8086:15b8) is refused: the PHY is shared"),
        ([0x8086, 0x15f3], "I225/I226 (8086:15f3) is refused: the kernel's driver has AF_XDP"),
        ([0x10ec, 0x8126], "RTL8126"),
        ([0x14e4, 0x1657], "no native driver knows the chip 14e4:1657, only 82540"),
    ] {
        let host = MadeUpHost::new();
        host.put(&format!("sys/bus/pci/devices/{BDF}/vendor"), &format!("0x{:04x}\n", id[0]));
        host.put(&format!("sys/bus/pci/devices/{BDF}/device"), &format!("0x{:04x}\n", id[1]));
        refused(&host, &BindRequest::default(), Verdict::NoCard, words, "netmap:IF");
    }
}

#[test]
fn realtek_chips_are_told_apart_by_their_version() {
    let mut host = MadeUpHost::new();
    host.put(&format!("sys/bus/pci/devices/{BDF}/vendor"), "0x10ec\n");
    host.put(&format!("sys/bus/pci/devices/{BDF}/device"), "0x8168\n");
    host.registers = vec![0; 256];
    host.registers[0x40..0x44].copy_from_slice(&0x5410_0800u32.to_le_bytes());
    let known = plan(&host, &BindRequest::default());
    assert!(known.refusals(false).is_empty());
    assert!(
        known.checks[0].finding.contains("RTL8168h (10ec:8168, XID 541)"),
        "{:?}",
        known.checks[0]
    );
    host.registers[0x40..0x44].copy_from_slice(&0x2c80_0800u32.to_le_bytes());
    refused(&host, &BindRequest::default(), Verdict::NoCard, "XID 2c8 is refused", "nic report");
    host.registers.clear();
    let unread = plan(&host, &BindRequest::default());
    assert!(unread.refusals(false).is_empty(), "the driver decides");
    assert_eq!(unread.checks[0].verdict, Verdict::Warn);
}

#[test]
fn a_word_that_names_no_card_is_explained() {
    let host = MadeUpHost::new();
    let told = |name: &str| {
        let device = sysfs::find(host.root(), name);
        checks::no_card(name, &device).map(|refusal| refusal.finding)
    };
    assert_eq!(told("eth1"), None);
    assert_eq!(told("03:00.0"), None);
    assert_eq!(told(BDF), None);
    assert!(told("eth9").unwrap().contains("no interface or PCI device `eth9`"));
    assert!(told("").is_some() && told("../..").is_some());
    fs::create_dir_all(host.path("sys/class/net/br0")).unwrap();
    assert!(told("br0").unwrap().contains("no hardware of its own"));
    // An adapter on USB: its interface belongs to a device of that bus, below a PCI device.
    let adapter = host.path("sys/devices/pci0/usb1/1-1");
    fs::create_dir_all(adapter.join("net/usb0")).unwrap();
    fs::create_dir_all(host.path("sys/bus/usb")).unwrap();
    symlink(host.path("sys/bus/usb"), adapter.join("subsystem")).unwrap();
    symlink(host.path("sys/bus/pci"), host.path("sys/devices/pci0/subsystem")).unwrap();
    symlink(&adapter, adapter.join("net/usb0/device")).unwrap();
    symlink(adapter.join("net/usb0"), host.path("sys/class/net/usb0")).unwrap();
    assert!(told("usb0").unwrap().contains("connected by USB"));
}

#[test]
fn a_kernel_driver_with_zero_copy_is_recommended() {
    let mut host = MadeUpHost::new();
    host.zero_copy = Some(true);
    let plan = plan(&host, &BindRequest::default());
    assert!(plan.refusals(false).is_empty());
    let told = plan.checks.iter().find(|check| check.check == "kernel driver").unwrap();
    assert_eq!(told.verdict, Verdict::Warn);
    assert_eq!(told.help.as_deref(), Some("leave eth1 to the kernel, and open netmap:eth1"));
    let rows = crate::list::rows(&host, &TakenCards::new(&host, &host.state())).unwrap();
    assert_eq!(rows[0].zero_copy, Some(true));
    assert!(rows[0].note.contains("open netmap:IF"), "{}", rows[0].note);
}

#[test]
fn a_card_whose_interface_is_in_another_namespace_is_refused() {
    let host = MadeUpHost::new();
    // This namespace has another interface with the same name.
    host.edit("eth1", |link| link.link.index = 77);
    machine_refuses(&host, "`eth1`, the interface of 0000:03:00.0, is not in this", "nsenter -t 1");
}
