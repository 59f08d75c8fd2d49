//! The processes that have a group of VFIO open.

use std::path::Path;

use crate::sysfs;

/// A process that has a group of VFIO open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupHolder {
    pub(crate) pid: u32,
    pub(crate) process: String,
}

/// Returns the processes that have a group open. Only root sees those of other users.
pub(crate) fn group_holders(root: &Path, group: u32) -> Vec<GroupHolder> {
    let node = format!("/dev/vfio/{group}");
    let proc = root.join("proc");
    let pids = sysfs::names(&proc).into_iter().filter_map(|name| name.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let dir = proc.join(pid.to_string()).join("fd");
        let target = |fd: String| std::fs::read_link(dir.join(fd)).ok();
        sysfs::names(&dir).into_iter().filter_map(target).any(|path| path == Path::new(&node))
    };
    let holder = |pid: u32| GroupHolder {
        pid,
        process: sysfs::read(&proc.join(format!("{pid}/comm"))).unwrap_or_default(),
    };
    pids.filter(holds).map(holder).collect()
}
