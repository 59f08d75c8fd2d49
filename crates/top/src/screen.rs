//! The terminal: put into raw mode for drawing, and always restored.
//!
//! A panic hook restores the terminal before the panic message is printed, so that the message is
//! visible. After a signal, the loop that draws ends, and drops the [`TopScreen`].

use std::io::{self, IsTerminal, Stdout, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

/// Whether this process has put the terminal into raw mode.
static IS_TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// Returns whether there is a terminal to draw on.
#[must_use]
pub fn is_there() -> bool {
    stdout().is_terminal()
}

/// The terminal in raw mode, which is restored on drop.
pub struct TopScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// An event of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A pressed key.
    Key(KeyEvent),
    /// Another event, such as a new size of the terminal.
    Other,
    /// No event happened within the time.
    Nothing,
}

impl TopScreen {
    /// Puts the terminal into raw mode, and returns it.
    ///
    /// # Errors
    /// The system's error, if there is no terminal, or it fails.
    pub fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        IS_TERMINAL_TAKEN.store(true, Ordering::Relaxed);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore_terminal();
            before(info);
        }));
        // From here on, dropping the guard restores the terminal if a later step fails.
        let guard = TerminalGuard;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        std::mem::forget(guard);
        Ok(Self { terminal })
    }

    /// Draws the whole screen again by calling `draw`.
    ///
    /// # Errors
    /// The system's error, if the terminal no longer exists.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Waits for a key until the time `until`, but not longer than `step`, so that the caller can
    /// check for signals. Returns what happened.
    ///
    /// # Errors
    /// The system's error, if the terminal no longer exists.
    pub fn wait(&self, until: Instant, step: Duration) -> io::Result<TerminalEvent> {
        let time = until.saturating_duration_since(Instant::now()).min(step);
        match event::poll(time) {
            Ok(false) => return Ok(TerminalEvent::Nothing),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok(TerminalEvent::Nothing);
            }
            ready => ready?,
        };
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => Ok(TerminalEvent::Key(key)),
            _ => Ok(TerminalEvent::Other),
        }
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

struct TerminalGuard;

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        restore_terminal();
    }
}

/// Restores the terminal, but only once: a second time would move the cursor back over later
/// output. Errors are ignored, because they mean that the terminal no longer exists.
fn restore_terminal() {
    if !IS_TERMINAL_TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}
