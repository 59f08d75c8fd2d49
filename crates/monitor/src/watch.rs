//! Looks at a program again and again: on a terminal until the person has seen enough, or once.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use slipring_cli::{Diagnostic, Failure, Signals};
use slipring_core::counters::Snapshot;

use crate::attach::{AttachError, Attached, Running};
use crate::figures::Frame;
use crate::model::{Ask, Choice, Model};
use crate::screen::{Did, Screen};
use crate::view;

/// How often the loop looks for signals.
const STEP: Duration = Duration::from_millis(100);

/// A program, and how it was at the last look.
#[derive(Debug)]
pub struct Watch {
    attached: Attached,
    last: Snapshot,
}

impl Watch {
    /// Begins to watch a program.
    ///
    /// # Errors
    /// If its words cannot be read.
    pub fn begin(mut attached: Attached) -> Result<Self, AttachError> {
        let last = attached.look_anew()?;
        Ok(Self { attached, last })
    }

    /// The figures since the program began.
    #[must_use]
    pub fn so_far(&self) -> Frame {
        Frame::of(&self.attached, None, &self.last)
    }

    /// The figures since the last call that had any; `None` where nothing new was published.
    ///
    /// # Errors
    /// If its words cannot be read any more.
    pub fn fresh(&mut self) -> Result<Option<Frame>, AttachError> {
        let now = self.attached.look()?;
        if now.edition == self.last.edition {
            return Ok(None);
        }
        let frame = Frame::of(&self.attached, Some(&self.last), &now);
        self.last = now;
        Ok(Some(frame))
    }

    /// The figures over a `period` that begins now; over all of its life, if it publishes nothing
    /// meanwhile.
    ///
    /// # Errors
    /// If its words cannot be read any more.
    pub fn over(&mut self, period: Duration, signals: &Signals) -> Result<Frame, AttachError> {
        let until = Instant::now() + period;
        while !signals.stopping() && Instant::now() < until {
            std::thread::sleep(until.saturating_duration_since(Instant::now()).min(STEP));
        }
        Ok(self.fresh()?.unwrap_or_else(|| self.so_far()))
    }

    /// Whether the program lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.attached.is_alive()
    }
}

/// Shows a program of `dir` on the terminal, or lets the person choose one, until a key or a
/// signal ends it.
///
/// # Errors
/// If there is nothing to watch, or the terminal is gone.
pub fn on_terminal(
    dir: &Path,
    target: Option<&str>,
    period: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let (attached, mut screen) = match Attached::find(dir, target) {
        Ok(attached) => (attached, Screen::take()?),
        Err(AttachError::Several { running }) => {
            let mut screen = Screen::take()?;
            let Some(chosen) = choose(&mut screen, running, signals)? else { return Ok(()) };
            let attached = Attached::find(dir, Some(&chosen.pid.to_string()));
            (attached.map_err(failure)?, screen)
        }
        Err(error) => return Err(failure(error)),
    };
    show(&mut screen, Watch::begin(attached).map_err(failure)?, period, signals)
}

fn show(
    screen: &mut Screen,
    mut watch: Watch,
    period: Duration,
    signals: &Signals,
) -> Result<(), Failure> {
    let mut model = Model::default();
    model.update(watch.so_far());
    let mut due = Instant::now() + period;
    let mut changed = true;
    while !signals.stopping() {
        if changed {
            screen.draw(|screen| view::draw(screen, &model))?;
        }
        let did = screen.wait(due, STEP)?;
        if let Did::Key(key) = did
            && model.key(key) == Ask::Quit
        {
            break;
        }
        let is_due = Instant::now() >= due;
        changed = is_due || did != Did::Nothing;
        if is_due {
            due = Instant::now() + period;
            model.ended = !watch.is_alive();
            match watch.fresh() {
                Ok(frame) => frame.into_iter().for_each(|frame| model.update(frame)),
                // What was seen last stays on the screen.
                Err(_) if model.ended => {}
                Err(error) => return Err(failure(error)),
            }
        }
    }
    Ok(())
}

fn choose(
    screen: &mut Screen,
    running: Vec<Running>,
    signals: &Signals,
) -> io::Result<Option<Running>> {
    let mut choice = Choice { running, selected: 0 };
    while !signals.stopping() {
        screen.draw(|screen| view::choose(screen, &choice))?;
        let did = screen.wait(Instant::now() + STEP, STEP)?;
        let Did::Key(key) = did else { continue };
        match choice.key(key) {
            Ask::Nothing => {}
            Ask::Quit => break,
            Ask::Take => return Ok(Some(choice.running.swap_remove(choice.selected))),
        }
    }
    Ok(None)
}

/// Words an error for the person.
#[must_use]
pub fn failure(error: AttachError) -> Failure {
    Diagnostic::of(&error).into()
}
