//! A scheduling group of the run's own, so that figures do not depend on what else runs more than
//! they must.

use std::path::Path;

use rustix::process::{Signal, getpid, getsid, set_parent_process_death_signal, setsid};

const AUTOGROUP_PATH: &str = "/proc/self/autogroup";

/// Puts this process and those that it will start first; says how far that went.
///
/// The kernel groups processes by session, and the group's weight counts before that of its
/// processes. A process that leads a group of its own, as one that a shell starts does, cannot
/// leave its session; `make bench` starts one that can.
pub(crate) fn raise() -> &'static str {
    if rustix::process::nice(-20).is_err() {
        return "ordinary priority";
    }
    if !Path::new(AUTOGROUP_PATH).exists() {
        return "nice -20";
    }
    // Only the weight of a session of our own is ours to change.
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
        // INT from the terminal now reaches only whoever started us.
        let _ = set_parent_process_death_signal(Some(Signal::TERM));
    }
    getsid(None).is_ok_and(|leader| leader == getpid())
}
