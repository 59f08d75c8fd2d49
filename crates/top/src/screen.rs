//! The terminal, taken for drawing and given back on every way out.
//!
//! A panic gives it back before it says what went wrong, so that the message is seen; a signal is
//! looked for between two frames by the loop.

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

/// Whether the terminal is ours.
static IS_TERMINAL_TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether there is a terminal to draw on.
#[must_use]
pub fn is_there() -> bool {
    stdout().is_terminal()
}

/// A terminal that is ours until this is dropped.
pub struct TopScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// What the person did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TerminalEvent {
    /// Pressed a key.
    Key(KeyEvent),
    /// Something else, such as another size of the terminal.
    Other,
    /// Nothing.
    Nothing,
}

impl TopScreen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// If there is none, or it refuses.
    pub fn take() -> io::Result<Self> {
        enable_raw_mode()?;
        IS_TERMINAL_TAKEN.store(true, Ordering::Relaxed);
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore_terminal();
            before(info);
        }));
        // From here on the terminal is given back, also where the next step fails.
        let guard = TerminalGuard;
        execute!(stdout(), EnterAlternateScreen, cursor::Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(stdout()))?;
        std::mem::forget(guard);
        Ok(Self { terminal })
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// Waits for a key until `until`, in steps of at most `step` so that the caller can look for
    /// signals.
    ///
    /// # Errors
    /// If the terminal is gone.
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

/// A terminal that does not take it back is gone, and nothing is left to do. To give back what was
/// given back would put the cursor where it was, over what was said since.
fn restore_terminal() {
    if !IS_TERMINAL_TAKEN.swap(false, Ordering::Relaxed) {
        return;
    }
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}
