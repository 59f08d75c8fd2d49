//! Prefetch hints and vector instructions, as safe functions.
//!
//! ```text
//!   Simd::detect() -- asks the processor, once --> Simd { level }
//!   Simd::scalar() -- for comparison             -> every call: level --> AVX-512 | AVX2 | scalar
//! ```
//!
//! Engines are `forbid(unsafe_code)`; the unsafe blocks that vector instructions need are here. A
//! program, or an engine's constructor, creates a [`Simd`] and keeps it. Results never depend on
//! the level: tests compare all implementations for all lengths and alignments. Where AVX-512 gains
//! nothing, its level uses AVX2.
//!
//! # Invariant
//! A [`Simd`] whose level is AVX2 or AVX-512 exists only where the processor and the system support
//! AVX2, or AVX-512F as well.
//!
//! # Not for
//! Loops that the compiler vectorizes as well without help.
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod prefetch;
mod scalar;

pub use prefetch::{prefetch, prefetch_address, prefetch_element};

#[cfg(target_arch = "x86_64")]
cpufeatures::new!(has_avx2, "avx2", "popcnt");
#[cfg(target_arch = "x86_64")]
cpufeatures::new!(has_avx512, "avx512f", "avx2", "fma", "popcnt");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The level that the processor supports, and the functions that depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Simd {
    level: Level,
}

impl Simd {
    /// The best level that this processor supports. Detected once per process; later calls read a
    /// variable.
    #[inline]
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_avx512::get() {
            return Self { level: Level::Avx512 };
        }
        Self::detect_avx2()
    }

    /// Like [`Self::detect`], but never above AVX2, for comparison.
    #[inline]
    #[must_use]
    pub fn detect_avx2() -> Self {
        #[cfg(target_arch = "x86_64")]
        if has_avx2::get() {
            return Self { level: Level::Avx2 };
        }
        Self::scalar()
    }

    /// Returns a value that uses no vector instructions, for comparison.
    #[inline]
    #[must_use]
    pub const fn scalar() -> Self {
        Self { level: Level::Scalar }
    }

    /// The name of the level, for reports: `avx512`, `avx2` or `scalar`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.level {
            Level::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "avx512",
        }
    }

    /// Returns the sum of all 32-bit words of the blocks, in the host's byte order. Modulo 0xffff,
    /// this is the sum of which the Internet checksum is the complement. The result is exact for at
    /// most 2^32 words.
    #[inline]
    #[must_use]
    pub fn sum_words(self, blocks: &[[u8; 32]]) -> u64 {
        match self.level {
            Level::Scalar => scalar::sum_words(blocks),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 | Level::Avx512 => unsafe { avx2::sum_words(blocks) },
        }
    }

    /// Returns the number of keys that are not above `key`, in a node with ascending keys. In a
    /// search tree, this selects the child to follow: child `rank` if the keys separate `N + 1`
    /// children, and child `rank - 1` if each child has its first key in the node. `N` is any
    /// multiple of 4; 4, 8, 12 and 16 are tested.
    #[inline]
    #[must_use]
    pub fn rank<const N: usize>(self, node: &[u64; N], key: u64) -> usize {
        const { assert!(N.is_multiple_of(4) && N > 0) };
        match self.level {
            Level::Scalar => scalar::rank(node, key),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2 and `popcnt`.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::rank(node, key) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX-512F and `popcnt`.
            #[allow(unsafe_code)]
            Level::Avx512 => unsafe { avx512::rank(node, key) },
        }
    }

    /// Moves searches one level down a tree: `places[i]` becomes `child(node, rank)`, with the
    /// `node` at `places[i]` and the [`Self::rank`] of `keys[i]` among its keys. One call moves
    /// many searches, so that their memory accesses overlap, and `child` can prefetch. If the
    /// slices differ in length, the surplus of the longer one is ignored.
    #[inline]
    pub fn descend<'n, T: 'n, const N: usize>(
        self,
        keys: &[u64],
        places: &mut [u32],
        node: impl Fn(u32) -> &'n T,
        keys_of: impl Fn(&'n T) -> &'n [u64; N],
        child: impl Fn(&'n T, usize) -> u32,
    ) {
        const { assert!(N.is_multiple_of(4) && N > 0) };
        match self.level {
            Level::Scalar => scalar::descend(keys, places, node, keys_of, child),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2 and `popcnt`.
            #[allow(unsafe_code)]
            Level::Avx2 => unsafe { avx2::descend(keys, places, node, keys_of, child) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX-512F and `popcnt`.
            #[allow(unsafe_code)]
            Level::Avx512 => unsafe { avx512::descend(keys, places, node, keys_of, child) },
        }
    }

    /// Returns which of a hash bucket's tags equal `tag`: bit `i` is set if `tags[i]` does.
    #[inline]
    #[must_use]
    pub fn matching_tags(self, tags: &[u8; 16], tag: u8) -> u16 {
        match self.level {
            Level::Scalar => scalar::matching_tags(tags, tag),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level says that this processor has AVX2.
            #[allow(unsafe_code)]
            Level::Avx2 | Level::Avx512 => unsafe { avx2::matching_tags(tags, tag) },
        }
    }
}

impl Default for Simd {
    fn default() -> Self {
        Self::detect()
    }
}

#[cfg(test)]
mod tests;
