//! The state of the screen: the current sample, recent rates, the selection, the effect of keys.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::attach::TopProgram;
use crate::figures::TopSample;

/// Number of rates kept for each link or interface.
const RATE_HISTORY_LEN: usize = 240;

/// Everything on the screen.
#[derive(Debug, Clone, Default)]
pub struct TopModel {
    /// The current sample.
    pub sample: TopSample,
    /// For each link, or interface of a router, the rates of recent samples in bits per second, the
    /// newest last.
    pub rates: Vec<VecDeque<u64>>,
    /// Index of the link or interface that is shown in detail.
    pub selected: usize,
    /// Whether the display is paused: new samples are ignored.
    pub paused: bool,
    /// Whether help on the keys is shown.
    pub shows_help: bool,
    /// Whether the watched program has ended.
    pub ended: bool,
}

/// The action that a key requests outside the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAction {
    /// The key needs nothing outside the model.
    Nothing,
    /// End `slipring top`.
    Quit,
    /// Watch the selected program.
    Choose,
}

impl TopModel {
    /// Stores a new sample, unless paused.
    pub fn update(&mut self, frame: TopSample) {
        if self.paused {
            return;
        }
        let now = frame.row_rates();
        self.rates.resize_with(now.len(), VecDeque::new);
        for (rates, rate) in self.rates.iter_mut().zip(&now) {
            if rates.len() == RATE_HISTORY_LEN {
                rates.pop_front();
            }
            rates.push_back(*rate as u64);
        }
        self.selected = self.selected.min(now.len().saturating_sub(1));
        self.sample = frame;
    }

    /// Handles a key. Returns the action that it requests outside the model.
    pub fn key(&mut self, key: KeyEvent) -> KeyAction {
        if is_quit(key) {
            // The first Esc only closes the help.
            let closes = self.shows_help && key.code == KeyCode::Esc;
            self.shows_help &= !closes;
            return if closes { KeyAction::Nothing } else { KeyAction::Quit };
        }
        match key.code {
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            _ => self.selected = move_selection(self.selected, self.rates.len(), key.code),
        }
        KeyAction::Nothing
    }

    /// Returns how long the program has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.sample.elapsed_ns)
    }
}

/// A list of programs from which the user chooses one.
#[derive(Debug, Clone, Default)]
pub struct ProgramChooser {
    /// The running programs.
    pub running: Vec<TopProgram>,
    /// Index of the selected program.
    pub selected: usize,
}

impl ProgramChooser {
    /// Handles a key. Returns the action that it requests outside the model.
    pub fn key(&mut self, key: KeyEvent) -> KeyAction {
        match key.code {
            _ if is_quit(key) => KeyAction::Quit,
            KeyCode::Enter => KeyAction::Choose,
            code => {
                self.selected = move_selection(self.selected, self.running.len(), code);
                KeyAction::Nothing
            }
        }
    }
}

fn is_quit(key: KeyEvent) -> bool {
    let interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// Returns the selection after a key, in a list of `count` rows.
fn move_selection(selected: usize, count: usize, key: KeyCode) -> usize {
    const PAGE_ROWS: usize = 10;
    let last = count.saturating_sub(1);
    let to = match key {
        KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => selected.saturating_sub(1),
        KeyCode::Down | KeyCode::Right | KeyCode::Char('j') => selected.saturating_add(1),
        KeyCode::PageUp => selected.saturating_sub(PAGE_ROWS),
        KeyCode::PageDown => selected.saturating_add(PAGE_ROWS),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => selected,
    };
    to.min(last)
}
