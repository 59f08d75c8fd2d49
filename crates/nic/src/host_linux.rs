//! The machine on which this process runs.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};
use rustix::thread::{CapabilitySet, capabilities};
use rustix::time::{ClockId, clock_gettime};
use slipring_drivers::{CardStatus, SettingRefusal, SettingsRequest};
use slipring_port::iface::Iface;
use slipring_port::netlink::{LinkSnapshot, Netlink, NetlinkLink, SavedSetting, xdp_features};
use slipring_port::tap;

use crate::host::{LinkChange, NicHost};
use crate::timer;

/// This machine.
#[derive(Debug)]
pub(crate) struct LinuxHost {
    /// The directory in which the timer's process finds the saved state.
    run_dir: PathBuf,
}

impl LinuxHost {
    pub(crate) fn new(run_dir: &Path) -> Self {
        Self { run_dir: run_dir.to_owned() }
    }
}

impl NicHost for LinuxHost {
    fn root(&self) -> &Path {
        Path::new("/")
    }

    fn is_privileged(&self) -> bool {
        // Writing to the files of sysfs takes root or the capability to override access rights. The
        // network needs CAP_NET_ADMIN.
        let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        effective.contains(CapabilitySet::NET_ADMIN)
            && (rustix::process::geteuid().is_root()
                || effective.contains(CapabilitySet::DAC_OVERRIDE))
    }

    fn memory_lock(&self) -> Option<u64> {
        getrlimit(Resource::Memlock).current
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        // Never creates a file: a missing file is an error.
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        io::Write::write_all(&mut file, text.as_bytes())
    }

    fn chown(&self, path: &Path, uid: u32) -> io::Result<()> {
        chown(path, Some(uid), None)
    }

    fn links(&self) -> io::Result<Vec<NetlinkLink>> {
        Netlink::open()?.links()
    }

    fn snapshot(&self, index: u32) -> io::Result<LinkSnapshot> {
        Netlink::open()?.snapshot(index)
    }

    fn has_zero_copy(&self, index: u32) -> Option<bool> {
        Some(xdp_features().ok()?.get(&index)?.zero_copy())
    }

    fn change_link(&self, index: u32, change: &LinkChange<'_>) -> io::Result<()> {
        let netlink = Netlink::open()?;
        match *change {
            LinkChange::Up => netlink.set_up(index),
            LinkChange::Down => netlink.set_down(index),
            LinkChange::Delete => netlink.delete(index),
            LinkChange::Name(name) => netlink.set_name(index, name),
            LinkChange::Mac(mac) => netlink.set_mac(index, mac),
            LinkChange::Mtu(mtu) => netlink.set_mtu(index, mtu),
            LinkChange::Alias(alias) => netlink.set_alias(index, alias),
            LinkChange::Master(master) => netlink.set_master(index, master),
            LinkChange::Address(address) => netlink.restore_address(index, address),
            LinkChange::Route(route) => netlink.restore_route(index, route),
        }
    }

    fn check_route(&self, index: u32, route: &SavedSetting) -> io::Result<()> {
        // The kernel examines the next hops before it finds that it has the route already, which
        // is no error here.
        Netlink::open()?.restore_route(index, route)
    }

    fn create_tap(&self, name: &str) -> io::Result<u32> {
        tap::create_persistent(name).map_err(io::Error::other)
    }

    fn registers(&self, interface: &str) -> io::Result<Vec<u8>> {
        Iface::find(interface).map_err(io::Error::other)?.registers()
    }

    fn start_timer(&self, bdf: &str) -> io::Result<()> {
        let mut child = Command::new(env::current_exe()?)
            .args(["nic", timer::COMMAND_NAME, bdf, "--run-dir"])
            .arg(&self.run_dir)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        // The timer's process writes a line when it no longer depends on this process.
        let stdout = child.stdout.take().expect("it is piped");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.trim() {
            timer::READY => Ok(()),
            _ => Err(io::Error::other("its process ended at once")),
        }
    }

    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(kill_process(pid, if kill { Signal::KILL } else { Signal::TERM })?)
    }

    fn ask_card(
        &self,
        pid: u32,
        bdf: &str,
        request: &SettingsRequest,
    ) -> io::Result<Result<CardStatus, SettingRefusal>> {
        slipring_drivers::ask(pid, bdf, request)
    }

    fn uptime(&self) -> Duration {
        let time = clock_gettime(ClockId::Boottime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}
