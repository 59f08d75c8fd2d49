//! Random numbers that an attacker cannot guess.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns 64 bits of the kernel's random source, for tokens and for the keys of hashes over
/// untrusted input. All calls are independent.
///
/// # Panics
/// If the kernel refuses to give random bytes: a guessable secret would be worse.
#[must_use]
pub fn secret_word() -> u64 {
    let mut bytes = [0; 8];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(8) => return u64::from_ne_bytes(bytes),
            // A signal interrupted the wait for the random source to be ready. Once ready, the
            // source always returns 8 bytes.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel gives no random numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_words_are_alike() {
        let words: std::collections::BTreeSet<u64> = (0..1000).map(|_| secret_word()).collect();
        assert_eq!(words.len(), 1000);
    }
}
