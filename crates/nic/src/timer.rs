//! A process that gives a card back to its kernel driver after some time, unless a user confirms.
//!
//! ```text
//!   slipring nic bind --confirm-within 60     state: confirm_by
//!        '-- starts --> slipring nic expire BDF          own session, no terminal
//!                            | sleeps until confirm_by, or until that is no longer set,
//!                            | whether or not `bind` and its session still exist
//!                            '-- is confirm_by still set? then restores; after an error, again
//!   slipring nic confirm                      state: confirm_by removed
//! ```
//!
//! The process starts before the card is bound. If it cannot be started, the card is not bound.

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use crate::host::NicHost;
use crate::restore::{self, Presence};
use crate::routes::Unrestored;
use crate::state::StateDir;

/// The hidden command of the process.
pub(crate) const COMMAND_NAME: &str = "expire";
/// The line that the process writes once it no longer depends on the process that started it.
pub(crate) const READY: &str = "ready";
/// Longest single sleep, and the time between two attempts after an error. The sleep's clock does
/// not advance while the machine is suspended, so sleeps are short.
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
/// After an error, such as a state that cannot be read or another command that has the lock, it
/// tries again until it succeeds or the user confirms: it may be the only way back. The log has
/// each error once.
pub(crate) fn expire(host: &dyn NicHost, state: &StateDir, bdf: &str) -> bool {
    let mut watched = None;
    let mut told = String::new();
    loop {
        let pause = match step(host, state, bdf, &mut watched) {
            Ok(TimerStep::Wait(time)) => time,
            Ok(TimerStep::End) => return false,
            Ok(TimerStep::GivenBack(unrestored)) => {
                let lost = unrestored.iter().map(|lost| format!("; not restored: {lost}"));
                let lost: String = lost.collect();
                state.log(&format!("{bdf}: not confirmed in time, so it was given back{lost}"));
                return true;
            }
            Ok(TimerStep::Replaced(id)) => {
                state.log(&format!(
                    "{bdf}: another card ({id}) is in its place, so what was saved is discarded"
                ));
                return false;
            }
            Err(error) => {
                let text = format!("{bdf}: cannot be given back yet, will try again: {error}");
                if text != told {
                    state.log(&text);
                    told = text;
                }
                MAX_PAUSE
            }
        };
        host.pause(pause);
    }
}

/// What the process does next.
enum TimerStep {
    Wait(Duration),
    End,
    GivenBack(Vec<Unrestored>),
    /// Another card, with these IDs, is in the place of the card, whose state was discarded.
    Replaced(String),
}

/// Examines a card, and gives it back if its time is over. `watched` is the time limit for which
/// the process was started; the first call sets it.
fn step(
    host: &dyn NicHost,
    state: &StateDir,
    bdf: &str,
    watched: &mut Option<u64>,
) -> io::Result<TimerStep> {
    let Some(limit) = state.of(host, bdf)?.and_then(|saved| saved.confirm_by_ms) else {
        return Ok(TimerStep::End);
    };
    if limit != *watched.get_or_insert(limit) {
        return Ok(TimerStep::End);
    }
    let rest = Duration::from_millis(limit).saturating_sub(host.uptime());
    if !rest.is_zero() {
        return Ok(TimerStep::Wait(rest.min(MAX_PAUSE)));
    }
    let _lock = state.lock(host)?;
    // The card may have been confirmed, or given back and bound again with another time limit. Then
    // it stays bound.
    let saved = state.of(host, bdf)?.filter(|saved| saved.confirm_by_ms == Some(limit));
    let Some(saved) = saved else { return Ok(TimerStep::End) };
    match restore::presence(host, &saved) {
        Presence::Replaced(id) => {
            restore::forget(host, state, &saved)?;
            return Ok(TimerStep::Replaced(id));
        }
        // By now, the number of the card's group may be that of another card's group. Its programs
        // must not be ended.
        Presence::Gone => return Err(restore::no_longer_there()),
        Presence::There => {}
    }
    restore::end_holders(host, saved.group)?;
    restore::put_back(host, state, &saved).map(TimerStep::GivenBack)
}
