//! Watches a program: on a terminal until the user quits, or once.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use slipring_cli::{Diagnostic, Failure, Signals};
use slipring_core::counters::CountersSnapshot;

use crate::attach::{AttachError, AttachedProgram, TopProgram};
use crate::figures::TopSample;
use crate::model::{KeyAction, ProgramChooser, TopModel};
use crate::screen::{TerminalEvent, TopScreen};
use crate::view;

/// Time between two checks for signals.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A watched program, and its last snapshot.
#[derive(Debug)]
pub struct ProgramWatch {
    attached: AttachedProgram,
    last: CountersSnapshot,
}

impl ProgramWatch {
    /// Starts to watch a program.
    ///
    /// # Errors
    /// [`AttachError`] if the program's counters cannot be read.
    pub fn begin(mut attached: AttachedProgram) -> Result<Self, AttachError> {
        let last = attached.fresh_snapshot()?;
        Ok(Self { attached, last })
    }

    /// Returns the figures since the program began.
    #[must_use]
    pub fn since_start(&self) -> TopSample {
        TopSample::of(&self.attached, None, &self.last)
    }

    /// Returns the figures since the last new snapshot; `None` if no new snapshot was published.
    ///
    /// # Errors
    /// [`AttachError`] if the program's counters can no longer be read.
    pub fn next_sample(&mut self) -> Result<Option<TopSample>, AttachError> {
        let now = self.attached.snapshot()?;
        if now.sequence == self.last.sequence {
            return Ok(None);
        }
        let frame = TopSample::of(&self.attached, Some(&self.last), &now);
        self.last = now;
        Ok(Some(frame))
    }

    /// Waits for `period`, or until a signal arrives. Returns the figures since the last snapshot,
    /// or over the whole run if the program has published no new one.
    ///
    /// # Errors
    /// [`AttachError`] if the program's counters can no longer be read.
    pub fn sample_over(
        &mut self,
        period: Duration,
        signals: &Signals,
    ) -> Result<TopSample, AttachError> {
        let until = Instant::now() + period;
        while !signals.stopping() && Instant::now() < until {
            std::thread::sleep(
                until.saturating_duration_since(Instant::now()).min(SIGNAL_POLL_INTERVAL),
            );
        }
        Ok(self.next_sample()?.unwrap_or_else(|| self.since_start()))
    }

    /// Returns whether the program is alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.attached.is_alive()
    }
}

/// Shows a program of `dir` on the terminal until the user quits or a signal arrives. If there are
/// several and `target` is `None`, the user first chooses one.
///
/// # Errors
/// [`Failure`] if there is no program to watch, or the terminal no longer exists.
pub fn on_terminal(
    dir: &Path,
    target: Option<&str>,
    period: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let (attached, mut screen) = match AttachedProgram::find(dir, target) {
        Ok(attached) => (attached, TopScreen::take()?),
        Err(AttachError::Several { running }) => {
            let mut screen = TopScreen::take()?;
            let Some(chosen) = choose(&mut screen, running, signals)? else { return Ok(()) };
            let attached = AttachedProgram::find(dir, Some(&chosen.pid.to_string()));
            (attached.map_err(failure)?, screen)
        }
        Err(error) => return Err(failure(error)),
    };
    show(&mut screen, ProgramWatch::begin(attached).map_err(failure)?, period, signals)
}

fn show(
    screen: &mut TopScreen,
    mut watch: ProgramWatch,
    period: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let mut model = TopModel::default();
    model.update(watch.since_start());
    let mut due = Instant::now() + period;
    let mut changed = true;
    while !signals.stopping() {
        if changed {
            screen.draw(|screen| view::draw(screen, &model))?;
        }
        let did = screen.wait(due, SIGNAL_POLL_INTERVAL)?;
        if let TerminalEvent::Key(key) = did
            && model.key(key) == KeyAction::Quit
        {
            break;
        }
        let is_due = Instant::now() >= due;
        changed = is_due || did != TerminalEvent::Nothing;
        if is_due {
            due = Instant::now() + period;
            model.ended = !watch.is_alive();
            match watch.next_sample() {
                Ok(frame) => frame.into_iter().for_each(|frame| model.update(frame)),
                // The program has ended; its last figures stay on the screen.
                Err(_) if model.ended => {}
                Err(error) => return Err(failure(error)),
            }
        }
    }
    Ok(())
}

fn choose(
    screen: &mut TopScreen,
    running: Vec<TopProgram>,
    signals: &Signals,
) -> io::Result<Option<TopProgram>> {
    let mut choice = ProgramChooser { running, selected: 0 };
    while !signals.stopping() {
        screen.draw(|screen| view::choose(screen, &choice))?;
        let did = screen.wait(Instant::now() + SIGNAL_POLL_INTERVAL, SIGNAL_POLL_INTERVAL)?;
        let TerminalEvent::Key(key) = did else { continue };
        match choice.key(key) {
            KeyAction::Nothing => {}
            KeyAction::Quit => break,
            KeyAction::Choose => return Ok(Some(choice.running.swap_remove(choice.selected))),
        }
    }
    Ok(None)
}

/// Returns the failure that reports this error to the user.
#[must_use]
pub fn failure(error: AttachError) -> Failure {
    Diagnostic::of(&error).into()
}
