//! What a person watches: the last frames, the one that is selected, and what keys do.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::attach::Running;
use crate::figures::Frame;

/// Rates remembered of each link.
const HISTORY: usize = 240;

/// Everything on the screen.
#[derive(Debug, Clone, Default)]
pub struct Model {
    /// The figures shown.
    pub frame: Frame,
    /// Of each link, the rates of the last frames in bits per second, the newest last.
    pub rates: Vec<VecDeque<u64>>,
    /// The link that is shown in full.
    pub selected: usize,
    /// Whether new frames are left out.
    pub paused: bool,
    /// Whether the keys are explained.
    pub helping: bool,
    /// Whether the program has ended.
    pub ended: bool,
}

/// What a key asks for beyond the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// To go on.
    Nothing,
    /// To end.
    Quit,
    /// To take what is selected.
    Take,
}

impl Model {
    /// Takes a new frame in, unless paused.
    pub fn update(&mut self, frame: Frame) {
        if self.paused {
            return;
        }
        self.rates.resize_with(frame.links.len(), VecDeque::new);
        for (rates, link) in self.rates.iter_mut().zip(&frame.links) {
            if rates.len() == HISTORY {
                rates.pop_front();
            }
            rates.push_back(link.rate_bps as u64);
        }
        self.selected = self.selected.min(frame.links.len().saturating_sub(1));
        self.frame = frame;
    }

    /// Obeys a key.
    pub fn key(&mut self, key: KeyEvent) -> Ask {
        if ends(key) {
            // The first one closes what lies above.
            let closes = self.helping && key.code == KeyCode::Esc;
            self.helping &= !closes;
            return if closes { Ask::Nothing } else { Ask::Quit };
        }
        match key.code {
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.helping = !self.helping,
            _ => self.selected = moved(self.selected, self.frame.links.len(), key.code),
        }
        Ask::Nothing
    }

    /// How long it has run.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.frame.elapsed_ns)
    }
}

/// A list of programs of which one is to be chosen.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Those that run.
    pub running: Vec<Running>,
    /// The one that is marked.
    pub selected: usize,
}

impl Choice {
    /// Obeys a key.
    pub fn key(&mut self, key: KeyEvent) -> Ask {
        match key.code {
            _ if ends(key) => Ask::Quit,
            KeyCode::Enter => Ask::Take,
            code => {
                self.selected = moved(self.selected, self.running.len(), code);
                Ask::Nothing
            }
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    let interrupt = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

/// Where the arrows lead in a list of `count`.
fn moved(selected: usize, count: usize, key: KeyCode) -> usize {
    const PAGE: usize = 10;
    let last = count.saturating_sub(1);
    let to = match key {
        KeyCode::Up | KeyCode::Left | KeyCode::Char('k') => selected.saturating_sub(1),
        KeyCode::Down | KeyCode::Right | KeyCode::Char('j') => selected.saturating_add(1),
        KeyCode::PageUp => selected.saturating_sub(PAGE),
        KeyCode::PageDown => selected.saturating_add(PAGE),
        KeyCode::Home => 0,
        KeyCode::End => last,
        _ => selected,
    };
    to.min(last)
}
