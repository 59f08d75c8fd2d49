//! Hashing with a secret key.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Builds hashers with two secret keys. A sender that does not know them cannot construct colliding
/// map keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyedBuildHasher(pub(crate) [u64; 2]);

impl BuildHasher for KeyedBuildHasher {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}
