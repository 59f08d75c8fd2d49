//! The five exit statuses. They never change: scripts rely on them.

use std::fmt;

/// How a command ended, as its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// All that was requested was done.
    Done = 0,
    /// Done, but an expectation that the user stated (`--max-loss`, `--min-rate`) failed.
    Expectation = 1,
    /// A flag, value, file or configuration is wrong. The command did not start, or could not read
    /// or write a file while it ran.
    Usage = 2,
    /// The machine lacks something: a privilege, a kernel feature or a network card.
    Machine = 3,
    /// A port, peer or daemon was lost while in use.
    PeerLost = 4,
}

impl Exit {
    /// Every status, in ascending order.
    pub const ALL: [Self; 5] =
        [Self::Done, Self::Expectation, Self::Usage, Self::Machine, Self::PeerLost];

    /// The exit status as a number.
    #[must_use]
    pub const fn status(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Expectation => "done, but a stated expectation failed",
            Self::Usage => "wrong usage, value, file or configuration",
            Self::Machine => "the machine cannot: privilege, kernel or network card",
            Self::PeerLost => "a port, peer or daemon was lost while in use",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_the_documented_numbers() {
        assert_eq!(Exit::ALL.map(Exit::status), [0, 1, 2, 3, 4]);
    }
}
