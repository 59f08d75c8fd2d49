//! What a program gives up once its ports are open.
//!
//! | kept | by whom | what for |
//! |---|---|---|
//! | nothing | every program | |
//! | CAP_NET_ADMIN | with a port of an interface | to put the interface's settings back at the end |
//! | CAP_DAC_OVERRIDE | with files or sockets that it opens later | those of other users, as root may |
//! | CAP_NET_BIND_SERVICE | with a server on a port below 1024 | to listen there |
//!
//! A capability that the process did not have is not gained. Threads with a priority get it by
//! resource limits that are raised before, or, where those may not be raised, keep CAP_SYS_NICE.
//!
//! Not for `slipring run` and `demo`, which execute programs; the daemon has a list of its own.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use slipring_cli::metrics::{self, FIRST_FREE_PORT};
use slipring_cli::{Failure, Session};
use slipring_confine::{CapabilitySet, FORBIDDEN_CALLS, SETUP_ONLY_CALLS, confine, effective};
use slipring_core::kinds;
use slipring_port::Port;

/// What RLIMIT_NICE says where a thread may have every nice value down to -20.
const RLIMIT_NICE_ALL: u64 = 40;
/// The same of RLIMIT_RTPRIO, for real-time priorities.
const MAX_RT_PRIORITY: u64 = 99;

/// What is left to a program, in the making.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Confinement {
    kept: CapabilitySet,
}

impl Confinement {
    /// Nothing is left.
    pub fn drop_all() -> Self {
        Self { kept: CapabilitySet::empty() }
    }

    /// What these ports need until they are closed.
    pub fn for_ports(ports: &[Port]) -> Self {
        let kept = ports.iter().map(|port| kinds::capabilities_to_keep(&port.info));
        Self { kept: kept.fold(CapabilitySet::empty(), CapabilitySet::union) }
    }

    /// The program opens files, or sockets in the file system, that it does not know of yet.
    pub fn opening_files(self) -> Self {
        Self { kept: self.kept | CapabilitySet::DAC_OVERRIDE }
    }

    /// The program is going to serve metrics at `place`, if any: an address with a port, or the path
    /// of a socket. What `--metrics` names, [`Self::begin`] knows.
    pub fn serving_metrics(self, place: Option<&str>) -> Self {
        let Some(place) = place else { return self };
        if place.contains('/') {
            return self.opening_files();
        }
        self.with_reserved_port(metrics::is_reserved(place))
    }

    /// The program is going to listen on this TCP port.
    pub fn listening_on(self, port: u16) -> Self {
        self.with_reserved_port((1..FIRST_FREE_PORT).contains(&port))
    }

    fn with_reserved_port(self, is_reserved: bool) -> Self {
        let kept =
            if is_reserved { CapabilitySet::NET_BIND_SERVICE } else { CapabilitySet::empty() };
        Self { kept: self.kept | kept }
    }

    /// Threads of the program are going to ask for a priority.
    pub fn with_priorities(self) -> Self {
        if !effective().contains(CapabilitySet::SYS_NICE) || raise_priority_limits() {
            return self;
        }
        Self { kept: self.kept | CapabilitySet::SYS_NICE }
    }

    /// Gives up everything else, for this thread and those that it starts from now on.
    ///
    /// # Errors
    /// If stderr cannot be written, where it says what could not be given up.
    pub fn begin(self, session: &mut Session<'_>) -> Result<(), Failure> {
        let Self { kept } = self.serving_metrics(session.metrics.as_deref());
        // What the run publishes there is to be removed at the end.
        let publishing = match is_foreign_dir(&session.run_dir) {
            true => CapabilitySet::DAC_OVERRIDE,
            false => CapabilitySet::empty(),
        };
        let stays = confine(kept | publishing, &[FORBIDDEN_CALLS, SETUP_ONLY_CALLS]);
        stays.iter().try_for_each(|stays| session.reporter.say_at(1, format_args!("# {stays}")))
    }
}

/// Whether the limits of nice values and real-time priorities are raised to all there are.
fn raise_priority_limits() -> bool {
    let raise = |resource, value| {
        let enough = getrlimit(resource).current.is_none_or(|current| current >= value);
        enough || setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) }).is_ok()
    };
    raise(Resource::Nice, RLIMIT_NICE_ALL) && raise(Resource::Rtprio, MAX_RT_PRIORITY)
}

/// Whether a directory, or where it is to be made, belongs to another user.
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
        let kept = |place| Confinement::drop_all().serving_metrics(Some(place)).kept;
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
            return println!("skipped: only root gives directories away");
        }
        std::os::unix::fs::chown(dir.path(), Some(65534), None).unwrap();
        assert!(is_foreign_dir(&dir.path().join("not/there")));
    }
}
