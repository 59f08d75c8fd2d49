//! The processes that have a card open: its VFIO group or, with iommufd, the device itself.

use std::path::{Path, PathBuf};

use crate::sysfs;

/// A process that has a VFIO group, or a device of the group, open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupHolder {
    pub(crate) pid: u32,
    pub(crate) process: String,
}

/// Returns the processes that have a group, or a device of the group, open. Only root sees the
/// processes of other users.
pub(crate) fn group_holders(root: &Path, group: u32) -> Vec<GroupHolder> {
    let nodes = nodes(root, group);
    let proc = root.join("proc");
    let pids = sysfs::names(&proc).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let dir = proc.join(pid.to_string()).join("fd");
        let target = |fd: String| std::fs::read_link(dir.join(fd)).ok();
        sysfs::names(&dir).into_iter().filter_map(target).any(|path| nodes.contains(&path))
    };
    let holder = |pid: u32| GroupHolder {
        pid,
        process: sysfs::read(&proc.join(format!("{pid}/comm"))).unwrap_or_default(),
    };
    pids.filter(holds).map(holder).collect()
}

/// Returns the nodes through which a program can open devices of a group: that of the group and,
/// with iommufd, those of the devices.
fn nodes(root: &Path, group: u32) -> Vec<PathBuf> {
    let devices = sysfs::names(&root.join(format!("sys/kernel/iommu_groups/{group}/devices")));
    let of_device = |bdf: &String| sysfs::names(&sysfs::device_dir(root, bdf).join("vfio-dev"));
    let nodes = devices.iter().flat_map(of_device).map(|name| format!("devices/{name}"));
    let nodes = std::iter::once(group.to_string()).chain(nodes);
    nodes.map(|node| Path::new("/dev/vfio").join(node)).collect()
}
