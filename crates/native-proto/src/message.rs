//! Encodes and decodes messages. Numbers are in native byte order, because both sides run on the
//! same machine.

/// What a call asks the daemon to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NativeOp {
    /// Performs an ioctl; `cmd` is the ioctl's request number.
    Ioctl = 1,
    /// Polls. `cmd` is the event mask. `arm` says whether the daemon sends [`NativeMessage::Wake`]
    /// when it is useful to poll again.
    Poll = 2,
    /// Returns the user's netmap memory: its size, and a descriptor.
    Memory = 3,
    /// Lends the bound rings: the program syncs them itself.
    Lend = 4,
    /// Returns the AF_XDP sockets of the queues that a device has lent. The argument is the token
    /// that came with the queues.
    Sockets = 5,
}

impl NativeOp {
    fn from_number(number: u16) -> Option<Self> {
        [Self::Ioctl, Self::Poll, Self::Memory, Self::Lend, Self::Sockets]
            .into_iter()
            .find(|&op| op as u16 == number)
    }
}

/// A part of the caller's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryFragment {
    /// The address of the first byte in the caller's memory.
    pub addr: u64,
    /// The contents of this part of the memory.
    pub bytes: Vec<u8>,
}

/// A request to the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeCall {
    /// What the daemon must do.
    pub op: NativeOp,
    /// A parameter whose meaning depends on the operation; see [`NativeOp`].
    pub cmd: u32,
    /// For a poll, whether to send a wake-up message; see [`NativeOp::Poll`].
    pub arm: bool,
    /// For an ioctl, the bytes that its argument points to; for [`NativeOp::Sockets`], the token.
    pub argument: Vec<u8>,
    /// The fragments of memory to which the argument refers.
    pub fragments: Vec<MemoryFragment>,
}

/// The daemon's answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeAnswer {
    /// The call's result; a negative error number if the call failed.
    pub result: i32,
    /// After an ioctl, the bytes of its argument; for [`NativeOp::Memory`] and [`NativeOp::Lend`],
    /// the encoded result.
    pub argument: Vec<u8>,
    /// The fragments' bytes after the call.
    pub fragments: Vec<MemoryFragment>,
}

/// A message from the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NativeMessage {
    /// The answer to a call.
    Answer(NativeAnswer),
    /// It is now useful to repeat a poll that has found no event.
    Wake,
}

const KIND_ANSWER: u16 = 1;
const KIND_WAKE: u16 = 2;

/// Length of a message's header in bytes: operation or kind, number of fragments, `cmd` or result,
/// length of the argument, `arm`.
const HEADER_LEN: usize = 16;
/// Length of a fragment's header in bytes: address and length.
const FRAGMENT_HEADER_LEN: usize = 16;

impl NativeCall {
    /// Creates a call without an argument.
    #[must_use]
    pub fn plain(op: NativeOp, cmd: u32) -> Self {
        Self { op, cmd, arm: false, argument: Vec::new(), fragments: Vec::new() }
    }

    /// Encodes the call.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { op, cmd, arm, argument, fragments: pieces } = self;
        message([*op as u16, *cmd as u16, (*cmd >> 16) as u16], *arm, argument, pieces)
    }

    /// Decodes a call; `None` if it is malformed.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let ([op, low, high], arm, argument, pieces) = parse(bytes)?;
        let cmd = u32::from(low) | u32::from(high) << 16;
        Some(Self { op: NativeOp::from_number(op)?, cmd, arm, argument, fragments: pieces })
    }
}

impl NativeAnswer {
    /// Creates an answer that has only a result.
    #[must_use]
    pub fn plain(result: i32) -> Self {
        Self { result, argument: Vec::new(), fragments: Vec::new() }
    }
}

impl NativeMessage {
    /// Encodes the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Wake => message([KIND_WAKE, 0, 0], false, &[], &[]),
            Self::Answer(NativeAnswer { result, argument, fragments: pieces }) => {
                let result = *result as u32;
                message(
                    [KIND_ANSWER, result as u16, (result >> 16) as u16],
                    false,
                    argument,
                    pieces,
                )
            }
        }
    }

    /// Decodes a message; `None` if it is malformed.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let ([kind, low, high], _, argument, pieces) = parse(bytes)?;
        let result = (u32::from(low) | u32::from(high) << 16) as i32;
        match kind {
            KIND_WAKE => Some(Self::Wake),
            KIND_ANSWER => Some(Self::Answer(NativeAnswer { result, argument, fragments: pieces })),
            _ => None,
        }
    }
}

fn message(words: [u16; 3], arm: bool, argument: &[u8], pieces: &[MemoryFragment]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_LEN + argument.len());
    let [kind, low, high] = words;
    for word in [kind, pieces.len() as u16, low, high] {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend((argument.len() as u32).to_ne_bytes());
    bytes.extend(u32::from(arm).to_ne_bytes());
    bytes.extend(argument);
    for MemoryFragment { addr, bytes: piece } in pieces {
        bytes.extend(addr.to_ne_bytes());
        bytes.extend((piece.len() as u64).to_ne_bytes());
        bytes.extend(piece);
    }
    bytes
}

type MessageParts = ([u16; 3], bool, Vec<u8>, Vec<MemoryFragment>);

fn parse(bytes: &[u8]) -> Option<MessageParts> {
    let (head, rest) = bytes.split_at_checked(HEADER_LEN)?;
    let half = |at: usize| u16::from_ne_bytes([head[at], head[at + 1]]);
    let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
    let (argument, mut rest) = rest.split_at_checked(word(8) as usize)?;
    let mut pieces = Vec::new();
    for _ in 0..half(2) {
        let (head, behind) = rest.split_at_checked(FRAGMENT_HEADER_LEN)?;
        let number =
            |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let (piece, behind) = behind.split_at_checked(usize::try_from(number(8)).ok()?)?;
        pieces.push(MemoryFragment { addr: number(0), bytes: piece.to_vec() });
        rest = behind;
    }
    let words = [half(0), half(4), half(6)];
    rest.is_empty().then(|| (words, word(12) != 0, argument.to_vec(), pieces))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> NativeCall {
        let piece = |addr, len| MemoryFragment { addr, bytes: vec![7; len] };
        NativeCall {
            op: NativeOp::Ioctl,
            cmd: 0xc058_6997,
            arm: true,
            argument: vec![1, 2, 3],
            fragments: vec![piece(0x1000, 56), piece(u64::MAX, 0)],
        }
    }

    #[test]
    fn messages_come_out_as_they_went_in() {
        assert_eq!(NativeCall::read(&call().to_bytes()), Some(call()));
        let NativeCall { argument, fragments: pieces, .. } = call();
        for message in [
            NativeMessage::Wake,
            NativeMessage::Answer(NativeAnswer { result: -22, argument, fragments: pieces }),
        ] {
            assert_eq!(NativeMessage::read(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn a_message_that_is_cut_short_or_too_long_makes_no_sense() {
        let mut bytes = call().to_bytes();
        for len in 0..bytes.len() {
            assert_eq!(NativeCall::read(&bytes[..len]), None, "{len}");
        }
        bytes.push(0);
        assert_eq!(NativeCall::read(&bytes), None);
    }

    #[test]
    fn lengths_that_lie_make_no_sense() {
        let right = call().to_bytes();
        for at in [2, 8, 9, 10, 11, HEADER_LEN + 3 + 8, HEADER_LEN + 3 + 15] {
            let mut bytes = right.clone();
            bytes[at] = 0xff;
            assert_eq!(NativeCall::read(&bytes), None, "{at}");
        }
        let mut bytes = right;
        bytes[0] = 9;
        assert_eq!(NativeCall::read(&bytes), None);
    }
}
