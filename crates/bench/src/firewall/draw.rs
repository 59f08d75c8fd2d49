//! Random numbers that are the same in every run.

/// Marsaglia's xorshift generator, with its output multiplied by a constant.
pub(super) struct SeededRng(pub(super) u64);

impl SeededRng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 33) % end
    }

    /// Picks one of the values.
    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}
