//! A process that gives a card back to its kernel driver after some time, unless a user confirms.
//!
//! ```text
//!   slipring nic bind --confirm-within 60     state: confirm_by
//!        '-- starts --> slipring nic expire BDF          own session, no terminal
//!                            | sleeps until confirm_by, or until that is no longer set,
//!                            | whether or not `bind` and its session still exist
//!                            '-- is confirm_by still set? then restores
//!   slipring nic confirm                      state: confirm_by removed
//! ```
//!
//! The process starts before the card is bound. If it cannot be started, the card is not bound.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use crate::host::NicHost;
use crate::restore;
use crate::state::StateDir;

/// The hidden command of the process.
pub(crate) const COMMAND_NAME: &str = "expire";
/// The line that the process writes once it no longer depends on the process that started it.
pub(crate) const READY: &str = "ready";
/// Longest single sleep. The sleep's clock does not advance while the machine is suspended, so
/// sleeps are short.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Makes this process independent of the session in which it was started, and reports that.
///
/// # Errors
/// If the starting process has ended. The card is not bound then.
pub(crate) fn detach() -> io::Result<()> {
    // An error is ignored: if the process was started by hand, it is a session leader already.
    let _ = rustix::process::setsid();
    // A login manager may end all processes of a session's control group. So this process moves to
    // the root group. An error is ignored, because the file exists only with version 2 of control
    // groups.
    let _ = fs::OpenOptions::new()
        .write(true)
        .open("/sys/fs/cgroup/cgroup.procs")
        .and_then(|mut file| file.write_all(b"0"));
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY}")?;
    stdout.flush()
}

/// Waits until a card's time is over or the user has confirmed, and gives the card back unless the
/// user has confirmed. Returns whether it was given back.
///
/// # Errors
/// If the state cannot be read or locked; the errors of [`restore::end_holders`] and
/// [`restore::put_back`].
pub(crate) fn expire(host: &dyn NicHost, state: &StateDir, bdf: &str) -> io::Result<bool> {
    let pending = |host: &dyn NicHost| -> io::Result<Option<u64>> {
        let all = state.all(host)?;
        let saved = all.iter().find(|saved| saved.bdf == bdf);
        Ok(saved.and_then(|saved| saved.confirm_by_ms))
    };
    let Some(confirm_by_ms) = pending(host)? else { return Ok(false) };
    let confirm_by = Duration::from_millis(confirm_by_ms);
    while let Some(rest) = confirm_by.checked_sub(host.uptime()).filter(|rest| !rest.is_zero()) {
        host.pause(rest.min(MAX_PAUSE));
        // A state that cannot be read now is read again at the end.
        if pending(host).is_ok_and(|pending| pending != Some(confirm_by_ms)) {
            return Ok(false);
        }
    }
    let _lock = state.lock(host)?;
    // The card may have been confirmed, or given back and bound again with another time limit. Then
    // it stays bound.
    if pending(host)? != Some(confirm_by_ms) {
        return Ok(false);
    }
    let Some(saved) = state.read(bdf)? else { return Ok(false) };
    restore::end_holders(host, saved.group)?;
    restore::put_back(host, state, &saved)?;
    Ok(true)
}

/// Logs the result for a card whose time was over, because there may be no terminal any more.
pub(crate) fn log(run_dir: &Path, bdf: &str, result: &io::Result<bool>) {
    let text = match result {
        Ok(true) => format!("{bdf}: not confirmed in time, so it was given back\n"),
        Ok(false) => return,
        Err(error) => format!("{bdf}: not confirmed in time, and cannot be given back: {error}\n"),
    };
    // If the disk cannot be written, only the log entry is lost.
    let _ = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(run_dir.join("nic").join("log"))
        .and_then(|mut file| file.write_all(text.as_bytes()));
}
