//! Frames and reproducible bytes for tests.

/// The EtherType of test frames, which no network stack answers (IEEE 802, local experimental).
const ETHERTYPE: [u8; 2] = [0x88, 0xb5];
const MARK: &[u8; 4] = b"slip";

/// Returns `len` bytes. The byte at index `i` is `number + i`, modulo 256.
#[must_use]
pub fn pattern(number: u8, len: usize) -> Vec<u8> {
    (0..len).map(|i| number.wrapping_add(i as u8)).collect()
}

/// Returns frame number `number`. It has 60 to 1514 bytes. Every seventh frame has two VLAN tags.
/// Of every three frames, one has one tag, unless it has two.
#[must_use]
pub fn numbered(number: u32) -> Vec<u8> {
    let mut random = Xorshift::new(u64::from(number) + 1);
    let tags: &[[u8; 4]] = match number {
        n if n % 7 == 3 => &[[0x88, 0xa8, 0, 5], [0x81, 0, 0xe0, 7]],
        n if n % 3 == 1 => &[[0x81, 0, 0x60, 9]],
        _ => &[],
    };
    let len = match number % 16 {
        0 => 60,
        1 => 1514,
        _ => 60 + random.below(1455) as usize,
    };
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    tags.iter().for_each(|tag| frame.extend(tag));
    frame.extend(ETHERTYPE);
    frame.extend(MARK);
    frame.extend(number.to_be_bytes());
    frame.resize_with(len, || random.next() as u8);
    frame
}

/// Returns whether a frame has the form of [`numbered`] frames. The EtherType after any tags and
/// the four bytes after it show this.
#[must_use]
pub fn is_numbered(frame: &[u8]) -> bool {
    let mut at = 12;
    while matches!(frame.get(at..at + 2), Some([0x81, 0] | [0x88, 0xa8])) {
        at += 4;
    }
    frame.get(at..at + 2) == Some(&ETHERTYPE) && frame.get(at + 2..at + 6) == Some(MARK)
}

/// Asserts that both sequences have the same frames in the same order. Reports the first
/// difference.
///
/// # Panics
/// If the sequences differ.
#[track_caller]
pub fn assert_same(name: &str, got: &[Vec<u8>], sent: &[Vec<u8>]) {
    for (at, (got, sent)) in got.iter().zip(sent).enumerate() {
        assert!(got == sent, "{name}: frame {at} is\n{got:02x?}\n instead of\n{sent:02x?}");
    }
    assert_eq!(got.len(), sent.len(), "{name}: number of frames");
}

/// A small generator of reproducible numbers (Marsaglia's xorshift64). Tests whose failing cases
/// should be made smaller use proptest instead.
#[derive(Debug)]
pub struct Xorshift(u64);

impl Xorshift {
    /// Creates a generator. With the same seed, the numbers are the same.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // With a small seed, the first numbers would be small. With seed 0, all numbers would be 0.
        // So the bits of the seed are mixed, and one is set.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns the next number.
    #[allow(clippy::should_implement_trait, reason = "it never ends, and is not iterated over")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_frames_differ_are_known_and_fit_an_interface() {
        let frames: Vec<_> = (0..1000).map(numbered).collect();
        let all: std::collections::BTreeSet<_> = frames.iter().collect();
        assert_eq!(all.len(), 1000);
        assert!(frames.iter().all(|frame| is_numbered(frame)));
        assert!(frames.iter().all(|frame| (60..=1514).contains(&frame.len())));
        assert!(frames.iter().any(|frame| frame[12..14] == [0x88, 0xa8]));
        assert!(!is_numbered(&[0; 60]) && !is_numbered(&[0x81, 0]));
    }
}
