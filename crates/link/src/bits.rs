//! Bit errors: where the next one is.
//!
//! Errors are independent of each other, so the number of right bits before the next wrong one is
//! geometrically distributed. Drawing that number once per error, and not something per bit or per
//! frame, is exact for every length and costs nothing while there is no error.

use slipring_model::Stream;

#[derive(Clone, Debug)]
pub(crate) struct BitErrorGaps {
    /// Natural logarithm of the chance that a bit is right; 0: none is ever wrong.
    log_right: f64,
    /// Right bits before the next wrong one.
    left: u64,
}

impl BitErrorGaps {
    pub(crate) fn new(ber: f64, stream: &mut Stream) -> Self {
        let mut gaps = Self { log_right: libm::log1p(-ber), left: 0 };
        gaps.left = gaps.draw(stream);
        gaps
    }

    /// The first wrong one of the next `bits`, all of which pass by if there is none. Otherwise
    /// those up to and with it have passed.
    #[inline]
    pub(crate) fn next_within(&mut self, bits: u64, stream: &mut Stream) -> Option<u64> {
        if self.left >= bits {
            if self.log_right != 0.0 {
                self.left -= bits;
            }
            return None;
        }
        let at = self.left;
        self.left = self.draw(stream);
        Some(at)
    }

    fn draw(&self, stream: &mut Stream) -> u64 {
        if self.log_right == 0.0 {
            return u64::MAX;
        }
        // 1 - x is in (0, 1]: its logarithm is finite. The conversion saturates.
        libm::floor(libm::log(1.0 - stream.next_f64()) / self.log_right) as u64
    }
}
