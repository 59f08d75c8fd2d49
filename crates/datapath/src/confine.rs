//! The privileges that a program drops once its ports are open.
//!
//! | kept | by | used for |
//! |---|---|---|
//! | no capability | every program | |
//! | CAP_NET_ADMIN | with interfaces, without a [helper](PrivilegedHelper) | to restore settings |
//! | CAP_DAC_OVERRIDE | with files or sockets opened later | to open other users' files |
//! | CAP_NET_BIND_SERVICE | with a server on a port below 1024 | to listen there |
//!
//! A process never gains capabilities. For threads that need a real-time priority, resource limits
//! are raised before capabilities are dropped. If the limits cannot be raised, CAP_SYS_NICE is
//! kept.
//!
//! Not for `slipring run` and `demo`, which execute programs. The daemon has its own list.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use slipring_abi::name::PortName;
use slipring_cli::codes::SR0104;
use slipring_cli::metrics::{self, FIRST_FREE_PORT};
use slipring_cli::{Diagnostic, Failure, Session};
use slipring_confine::{
    BPF_CALL, CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, UserIds, confine, confine_as,
    effective,
};
use slipring_core::kinds;
use slipring_port::Port;
use slipring_port::iface::{Iface, set_settings_keeper};
use slipring_privileged::{HelperOperation, HelperPolicy, PrivilegedHelper};

/// The value of RLIMIT_NICE that allows every nice value down to -20.
const RLIMIT_NICE_ALL: u64 = 40;
/// The value of RLIMIT_RTPRIO that allows every real-time priority.
const MAX_RT_PRIORITY: u64 = 99;

/// Collects the capabilities that a program keeps, and then drops all others.
#[derive(Debug)]
#[must_use]
pub struct Confinement {
    kept: CapabilitySet,
    /// Indices of the interfaces whose settings the helper restores at the end.
    interfaces: Vec<u32>,
    updates_maps: bool,
    /// The user to change to, if any.
    user: Option<UserIds>,
}

impl Confinement {
    /// Starts without any capability to keep.
    pub fn drop_all() -> Self {
        let (kept, interfaces) = (CapabilitySet::empty(), Vec::new());
        Self { kept, interfaces, updates_maps: false, user: None }
    }

    /// Keeps the capabilities that these ports need until they are closed. [`Self::begin`] drops
    /// CAP_NET_ADMIN nevertheless if it can start a helper process that has it.
    pub fn for_ports(ports: &[Port]) -> Self {
        let kept = ports.iter().map(|port| kinds::capabilities_to_keep(&port.info));
        let kept = kept.fold(CapabilitySet::empty(), CapabilitySet::union);
        let interfaces = ports.iter().filter_map(interface_of).collect();
        Self { kept, interfaces, updates_maps: false, user: None }
    }

    /// Keeps the system call permitted that changes BPF maps. It is for a program that updates the
    /// maps of an attached BPF program.
    pub fn updating_maps(self) -> Self {
        Self { updates_maps: true, ..self }
    }

    /// Changes to this user. The program then opens files with the rights of this user alone: no
    /// capability is kept for files. So it needs a helper process to remove the files of its run.
    pub fn as_user(self, user: Option<UserIds>) -> Self {
        Self { user, ..self }
    }

    fn keeping(self, more: CapabilitySet) -> Self {
        Self { kept: self.kept | more, ..self }
    }

    /// Keeps the capabilities that the program needs to open files, or sockets in the file system,
    /// later.
    pub fn opening_files(self) -> Self {
        self.keeping(CapabilitySet::DAC_OVERRIDE)
    }

    /// Keeps the capabilities that the program needs to serve metrics at `address`, which is an
    /// address with a port or the path of a socket. [`Self::begin`] itself does this for the
    /// address of `--metrics`.
    pub fn serving_metrics(self, address: Option<&str>) -> Self {
        let Some(address) = address else { return self };
        if address.contains('/') {
            return self.opening_files();
        }
        self.with_reserved_port(metrics::is_reserved(address))
    }

    /// Keeps the capability that the program needs to listen on this TCP port; none is needed for
    /// most ports.
    pub fn listening_on(self, port: u16) -> Self {
        self.with_reserved_port((1..FIRST_FREE_PORT).contains(&port))
    }

    fn with_reserved_port(self, is_reserved: bool) -> Self {
        let kept =
            if is_reserved { CapabilitySet::NET_BIND_SERVICE } else { CapabilitySet::empty() };
        self.keeping(kept)
    }

    /// Keeps the capability that the program's threads need to request a priority, unless resource
    /// limits allow it.
    pub fn with_priorities(self) -> Self {
        if !effective().contains(CapabilitySet::SYS_NICE) || raise_priority_limits() {
            return self;
        }
        self.keeping(CapabilitySet::SYS_NICE)
    }

    /// Changes to the user, if there is one, drops all capabilities that need not be kept, and
    /// forbids system calls, for this thread and for threads that it starts from now on. A helper
    /// process restores the settings of interfaces, so that this process does not need
    /// CAP_NET_ADMIN. If the helper cannot be started, the capability is kept.
    ///
    /// # Errors
    /// [`Failure`] if stderr cannot be written, if the user cannot be changed, or if no thread can
    /// be started that watches the helper. Capabilities that could not be dropped are only reported
    /// on stderr.
    pub fn begin(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let mut confinement = self.serving_metrics(session.metrics.as_deref());
        let helper = confinement.start_helper().transpose();
        if matches!(helper, Ok(Some(_))) {
            confinement.kept -= CapabilitySet::NET_ADMIN;
        }
        // At the end, the files of the run must be removed. If the directory belongs to another
        // user, this requires a capability.
        let confinement = match is_foreign_dir(&session.run_dir) {
            true => confinement.opening_files(),
            false => confinement,
        };
        let is_left = |call: &i64| confinement.updates_maps && *call == BPF_CALL;
        let setup: Vec<i64> =
            SETUP_ONLY_CALLS.iter().copied().filter(|call| !is_left(call)).collect();
        let calls = [FORBIDDEN_CALLS, &setup];
        let mut stays = match confinement.user {
            None => confine(confinement.kept, &calls),
            Some(user) => {
                let kept = confinement.kept - CapabilitySet::DAC_OVERRIDE;
                confine_as(user, kept, &calls).map_err(|error| refused_user(user, &error))?
            }
        };
        match helper {
            Ok(Some(helper)) => {
                helper.end_with_it()?;
                set_settings_keeper(Box::new(helper));
            }
            Ok(None) => {}
            Err(why) => stays.push(format!("CAP_NET_ADMIN stays: no helper: {why}")),
        }
        stays.iter().try_for_each(|stays| session.reporter.say_at(1, format_args!("# {stays}")))
    }

    /// Starts the process that restores the settings of interfaces. `None` if no settings must be
    /// restored, or this process does not have CAP_NET_ADMIN.
    fn start_helper(&self) -> Option<io::Result<PrivilegedHelper>> {
        if !(self.kept & effective()).contains(CapabilitySet::NET_ADMIN) {
            return None;
        }
        Some(PrivilegedHelper::start(&HelperPolicy {
            program: std::process::id(),
            operations: vec![HelperOperation::SetFeature, HelperOperation::RemoveHiddenLink],
            interfaces: self.interfaces.clone(),
            run_files: None,
        }))
    }
}

fn refused_user(user: UserIds, error: &io::Error) -> Failure {
    let UserIds { uid, gid } = user;
    Diagnostic::new(SR0104, format!("the program cannot become user {uid} of group {gid}"))
        .with_cause(error.to_string())
        .with_help("run as root, or keep the user: leave out --user, and user in [sandbox]")
        .into()
}

/// Returns the interface on which a port was opened, if its settings must be restored at the end.
fn interface_of(port: &Port) -> Option<u32> {
    let keeps = kinds::capabilities_to_keep(&port.info).contains(CapabilitySet::NET_ADMIN);
    let name = PortName::parse(&port.info.name).ok().filter(|_| keeps)?;
    Some(Iface::find(&name.name).ok()?.index)
}

/// Raises the limits of nice values and real-time priorities to the maximum. Returns whether this
/// has succeeded.
fn raise_priority_limits() -> bool {
    let raise = |resource, value| {
        let enough = getrlimit(resource).current.is_none_or(|current| current >= value);
        enough || setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).is_ok()
    };
    raise(Resource::Nice, RLIMIT_NICE_ALL) && raise(Resource::Rtprio, MAX_RT_PRIORITY)
}

/// Returns whether a directory belongs to another user. If it does not exist, the directory in
/// which it will be created counts.
fn is_foreign_dir(dir: &Path) -> bool {
    let mut owners = dir.ancestors().filter_map(|dir| fs::metadata(dir).ok());
    owners.next().is_some_and(|found| found.uid() != geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_port_to_listen_on_keeps_the_right_to_it() {
        let kept = |port| Confinement::drop_all().listening_on(port).kept;
        assert_eq!(kept(80), CapabilitySet::NET_BIND_SERVICE);
        for free in [1024, 9100, 0] {
            assert_eq!(kept(free), CapabilitySet::empty(), "{free}");
        }
    }

    #[test]
    fn metrics_keep_the_right_to_the_place_where_they_are_served() {
        let kept = |address| Confinement::drop_all().serving_metrics(Some(address)).kept;
        assert_eq!(kept("127.0.0.1:443"), CapabilitySet::NET_BIND_SERVICE);
        assert_eq!(kept("[::1]:443"), CapabilitySet::NET_BIND_SERVICE);
        assert_eq!(kept("/run/x/metrics:1.sock"), CapabilitySet::DAC_OVERRIDE);
        assert_eq!(kept("127.0.0.1:9100"), CapabilitySet::empty());
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_whose_its_parent_is() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_foreign_dir(&dir.path().join("not/there")));
        if !geteuid().is_root() {
            return slipring_test_support::skip!("only root gives directories away");
        }
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert!(is_foreign_dir(&dir.path().join("not/there")));
    }
}
