//! Gives the run a high priority, so that other load affects its figures as little as possible.

use std::path::Path;

use rustix::process::{Signal, getpid, getsid, set_parent_process_death_signal, setsid};

const AUTOGROUP_PATH: &str = "/proc/self/autogroup";

/// Gives priority to this process and the children that it will start. Returns a text that says how
/// far this has succeeded.
///
/// With autogroups, the kernel groups processes by their sessions. The weight of the group counts
/// before that of its processes. A process group leader, such as a process that a shell has
/// started, cannot leave its session. `make bench` starts a process that can.
pub(crate) fn raise() -> &'static str {
    if rustix::process::nice(-20).is_err() {
        return "ordinary priority";
    }
    if !Path::new(AUTOGROUP_PATH).exists() {
        return "nice -20";
    }
    // The weight of a session that another process leads is left as it is.
    if !is_session_leader() {
        return "nice -20 within the session's scheduling group";
    }
    if std::fs::write(AUTOGROUP_PATH, "-20").is_ok() {
        "nice -20 in a scheduling group of its own"
    } else {
        "nice -20"
    }
}

fn is_session_leader() -> bool {
    if setsid().is_ok() {
        // From now on, INT from the terminal does not reach this process, but only its parent. So
        // this process ends when its parent does.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    getsid(None).is_ok_and(|leader| leader == getpid())
}
