//! A scheduling group for the run, so that other load affects the figures as little as possible.

use std::path::Path;

use rustix::process::{Signal, getpid, getsid, set_parent_process_death_signal, setsid};

const AUTOGROUP_PATH: &str = "/proc/self/autogroup";

/// Gives this process and its future children priority; returns how far that succeeded.
///
/// The kernel groups processes by session, and the group's weight counts before that of its
/// processes. A process group leader, such as one started by a shell, cannot leave its session;
/// `make bench` starts a process that can.
pub(crate) fn raise() -> &'static str {
    if rustix::process::nice(-20).is_err() {
        return "ordinary priority";
    }
    if !Path::new(AUTOGROUP_PATH).exists() {
        return "nice -20";
    }
    // Only the weight of our own session may be changed.
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
        // From now on, INT from the terminal only reaches the process that started us.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    getsid(None).is_ok_and(|leader| leader == getpid())
}
