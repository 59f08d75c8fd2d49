//! The functions of the generator, by pkt-gen's names.

use slipring_port::Interest;
use slipring_traffic::StampCheck;

/// The function of the run: how it uses the port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GenFunction {
    Tx,
    Rx,
    Ping,
    Pong,
    TxSeq,
    RxSeq,
}

impl GenFunction {
    /// Returns the function with this name on the command line.
    pub(super) fn from_name(name: &str) -> Self {
        match name {
            "tx" => Self::Tx,
            "ping" => Self::Ping,
            "pong" => Self::Pong,
            "txseq" => Self::TxSeq,
            "rxseq" => Self::RxSeq,
            _ => Self::Rx,
        }
    }

    /// Returns the name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::TxSeq => "txseq",
            Self::RxSeq => "rxseq",
        }
    }

    /// Returns whether the function generates frames.
    pub(super) fn sends(self) -> bool {
        matches!(self, Self::Tx | Self::TxSeq | Self::Ping)
    }

    /// Returns whether the function only receives.
    pub(super) fn only_receives(self) -> bool {
        matches!(self, Self::Rx | Self::RxSeq)
    }

    /// Returns the directions that the port must support.
    pub(super) fn direction(self) -> Interest {
        match self {
            Self::Tx | Self::TxSeq => Interest::TX,
            Self::Rx | Self::RxSeq => Interest::RX,
            Self::Ping | Self::Pong => Interest::BOTH,
        }
    }

    /// Returns how thoroughly received frames are checked. Function `rx` only checks their mark,
    /// for full speed.
    pub(super) fn verify(self) -> StampCheck {
        if self == Self::Rx { StampCheck::Mark } else { StampCheck::Checksum }
    }
}
