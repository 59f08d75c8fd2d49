//! One interface: whether it can be opened, in which mode, and what prevents it.

use std::collections::BTreeSet;
use std::fs;

use slipring_abi::name::PortName;
use slipring_port::GRANT_COMMANDS;
use slipring_port::iface::{Feature, Iface};

use super::machine::read;
use super::moderation;
use super::privilege::Privileges;
use crate::ports::{self, InterfaceMode, InterfaceOwner, InterfaceRow};
use slipring_core::kinds::{Finding, grant_help};

/// The usual MTU in bytes. Its frames fit into a buffer of 2048 bytes, of which XDP reserves the
/// beginning.
const MAX_SINGLE_BUFFER_MTU: u32 = 1500;

pub(super) fn examine(port: &PortName, privileges: &Privileges) -> Vec<Finding> {
    let rows = match ports::list() {
        Ok(rows) => rows,
        Err(error) => {
            return vec![Finding::fail("port", format!("interfaces cannot be listed: {error}"))];
        }
    };
    match rows.iter().find(|row| row.interface == port.name) {
        Some(row) => interface(port, row, privileges),
        None => vec![missing(port, &rows)],
    }
}

fn missing(port: &PortName, rows: &[InterfaceRow]) -> Finding {
    let existing: Vec<_> = rows.iter().map(|row| row.interface.as_str()).collect();
    let text = format!(
        "no interface `{}` in this network namespace, only {}",
        port.name,
        existing.join(", ")
    );
    Finding::fail("port", text).with_fix("slipring ports")
}

fn interface(port: &PortName, row: &InterfaceRow, privileges: &Privileges) -> Vec<Finding> {
    let mut findings = vec![driver(row), link(row), mtu(row), queues(row)];
    let missing = privileges.missing();
    if !missing.is_empty() {
        let text = format!("no {}: {port} cannot be opened", missing.join(", "));
        findings.push(Finding::fail("port privilege", text).with_fix(grant_help(GRANT_COMMANDS)));
    } else if privileges.confined {
        let text =
            format!("a user namespace has no BPF: {port} opens as packet: with --shared only");
        findings.push(Finding::fail("port privilege", text).with_fix(format!(
            "slipring dump -i {}, or packet:{} --shared",
            row.interface, row.interface
        )));
    }
    findings.extend(offloads(row));
    findings.extend(interrupts(row));
    findings.extend(moderation::examine(&row.interface));
    findings.extend(row.owners.iter().map(|owner| owned(row, owner)));
    if row.default_route {
        findings.push(
            Finding::warn(
                "default route",
                format!("leads out of {}: taking it cuts this machine off", row.interface),
            )
            .with_fix("add --take-over if you mean it; `packet:` with --shared leaves the host its traffic"),
        );
    }
    findings
}

fn driver(row: &InterfaceRow) -> Finding {
    let name = [&row.driver, &row.link_kind].into_iter().find(|name| !name.is_empty());
    let name = name.map_or("no name", String::as_str);
    match row.modes.first() {
        Some(InterfaceMode::ZeroCopy) => {
            Finding::ok("driver", format!("{name}: AF_XDP without copies"))
        }
        Some(InterfaceMode::Native) => {
            let finding = Finding::ok("driver", format!("{name}: XDP in the driver, with a copy"));
            match &row.native {
                Some(native) => finding.with_fix(native.offer(&row.interface)),
                None => finding,
            }
        }
        Some(InterfaceMode::Generic | InterfaceMode::Packet) => {
            let text = format!("{name}: no XDP of its own, the stack's is slower");
            Finding::warn("driver", text).with_fix(match &row.native {
                Some(native) => native.offer(&row.interface),
                None => "none on this interface; a NIC with XDP in its driver is faster".into(),
            })
        }
        None => Finding::fail("driver", format!("{name}: has no Ethernet frames"))
            .with_fix("slipring ports lists interfaces that have"),
    }
}

fn link(row: &InterfaceRow) -> Finding {
    let interface = &row.interface;
    if !row.up {
        return Finding::fail("link", "down").with_fix(format!("ip link set {interface} up"));
    }
    match sysfs(interface, "carrier").as_deref() {
        Some("0") => Finding::fail("link", "up, but without a carrier")
            .with_fix("plug the cable in, or set the peer up"),
        _ => Finding::ok("link", speed(interface)),
    }
}

fn speed(interface: &str) -> String {
    let speed = sysfs(interface, "speed").and_then(|speed| speed.parse::<u32>().ok());
    speed.map_or_else(|| "up".into(), |megabits| format!("up, {megabits} Mbit/s"))
}

fn mtu(row: &InterfaceRow) -> Finding {
    let InterfaceRow { mtu, interface, .. } = row;
    if *mtu <= MAX_SINGLE_BUFFER_MTU || row.multi_buffer == Some(true) || row.modes.is_empty() {
        return Finding::ok("mtu", format!("{mtu}"));
    }
    Finding::warn("mtu", format!("{mtu}: xdp: carries it at most with --buf-size 4096")).with_fix(
        format!("ip link set {interface} mtu {MAX_SINGLE_BUFFER_MTU}, or take packet:{interface}"),
    )
}

fn queues(row: &InterfaceRow) -> Finding {
    let InterfaceRow { rx_queues, tx_queues, port, .. } = row;
    match rx_queues {
        1 => Finding::ok("queues", format!("1 receives, {tx_queues} sends")),
        _ => Finding::ok(
            "queues",
            format!(
                "{rx_queues} receive, {tx_queues} send; {port} takes all, {port}-0 the first only"
            ),
        ),
    }
}

/// Checks the interface's offloads. Only LRO causes a warning: frames that the NIC has merged
/// cannot be split again.
fn offloads(row: &InterfaceRow) -> Option<Finding> {
    let iface = Iface::find(&row.interface).ok()?;
    let is_on = |feature| iface.feature(feature).unwrap_or(false);
    if is_on(Feature::Lro) {
        let text = "lro joins frames in hardware, which nothing can undo";
        return Some(
            Finding::warn("offloads", text)
                .with_fix(format!("ethtool -K {} lro off", row.interface)),
        );
    }
    let known = [
        ("tso", Feature::Tso),
        ("gso", Feature::Gso),
        ("gro", Feature::Gro),
        ("rx-vlan", Feature::RxVlan),
        ("tx checksum", Feature::TxChecksum),
    ];
    let on: Vec<_> =
        known.into_iter().filter(|(_, feature)| is_on(*feature)).map(|(name, _)| name).collect();
    let text = if on.is_empty() {
        "none on".into()
    } else {
        format!("{} on: undone in frames that pass", on.join(", "))
    };
    Some(Finding::ok("offloads", text))
}

/// Checks which CPUs handle the interface's interrupts; `None` if sysfs lists no MSI interrupts.
fn interrupts(row: &InterfaceRow) -> Option<Finding> {
    let dir = directory(&row.interface)?;
    let irqs: Vec<_> = fs::read_dir(format!("{dir}/device/msi_irqs"))
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let cpus: BTreeSet<_> = irqs
        .iter()
        .filter_map(|irq| read(&format!("/proc/irq/{irq}/effective_affinity_list")))
        .collect();
    let node = sysfs(&row.interface, "device/numa_node").filter(|node| node != "-1");
    let node = node.map_or_else(String::new, |node| format!(", NUMA node {node}"));
    let list = cpus.iter().cloned().collect::<Vec<_>>().join(",");
    let text = format!("{} on CPUs {list}{node}", irqs.len());
    Some(match cpus.len() {
        1 if row.rx_queues > 1 => {
            Finding::warn("interrupts", format!("{text}: one CPU serves all queues"))
                .with_fix("systemctl start irqbalance, or write to /proc/irq/N/smp_affinity_list")
        }
        _ => Finding::ok("interrupts", text),
    })
}

fn owned(row: &InterfaceRow, owner: &InterfaceOwner) -> Finding {
    let InterfaceOwner { queue, pid, process } = owner;
    let what = queue.map_or_else(|| "the interface".into(), |queue| format!("queue {queue}"));
    Finding::fail("in use", format!("{what} is held by {process}, process {pid}"))
        .with_fix(format!("end {process}, or take packet:{}", row.interface))
}

/// Returns the interface's directory in sysfs. sysfs shows the network namespace in which it was
/// mounted. So `None` is returned unless the interface index in the directory is that of this
/// interface.
fn directory(interface: &str) -> Option<String> {
    let dir = format!("/sys/class/net/{interface}");
    let index = Iface::find(interface).ok()?.index;
    (read(&format!("{dir}/ifindex"))? == index.to_string()).then_some(dir)
}

pub(super) fn sysfs(interface: &str, file: &str) -> Option<String> {
    read(&format!("{}/{file}", directory(interface)?))
}
