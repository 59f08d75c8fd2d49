//! How driver and device tell each other of chains (virtio 1.2, sections 2.7.6 to 2.7.10).
//!
//! ```text
//!   driver: descriptors, `avail` index  |full|  does the device want a doorbell?
//!   device: wants a doorbell            |full|  is the `avail` index new?
//!
//!   device: buffers, `used` index       |full|  does the driver want an interrupt?
//!   driver: wants an interrupt          |full|  is the `used` index new?
//! ```
//! Each side writes before its full barrier what the other side reads after its own. So a side that
//! sleeps has seen the chain, or is woken for it.

#[cfg(test)]
mod models;

/// Flag of the available ring: the driver needs no interrupts.
const NO_INTERRUPT: u16 = 1;
/// Flag of the used ring: the device needs no doorbells.
const NO_NOTIFY: u32 = 1;

/// The words of a queue that both sides access, with relaxed loads and stores, and the barriers
/// between them.
pub(super) trait QueueWords {
    /// Stores the flags of the available ring.
    fn set_flags(&self, flags: u16);

    /// Stores the index of the available ring.
    fn set_index(&self, index: u16);

    /// Loads the first word of the used ring: the flags, and the index in the upper half.
    fn used(&self) -> u32;

    /// Orders all earlier stores before later ones.
    fn before_publishing();

    /// Orders earlier loads before all later ones.
    fn after_reading();

    /// Orders earlier stores before later loads.
    fn full_barrier();
}

/// Makes the chains before `index` visible. Returns whether the device wants a doorbell for them.
#[inline(always)]
pub(super) fn publish<W: QueueWords>(words: &W, index: u16) -> bool {
    W::before_publishing();
    words.set_index(index);
    W::full_barrier();
    words.used() & NO_NOTIFY == 0
}

/// Returns the index of the used ring. The elements before it, and the buffers that the device has
/// written for them, may be read afterwards.
#[inline(always)]
pub(super) fn used_index<W: QueueWords>(words: &W) -> u16 {
    let used = words.used();
    W::after_reading();
    (used >> 16) as u16
}

/// Switches interrupts on or off. After switching them on, the caller must read the index of the
/// used ring once more before it sleeps.
pub(super) fn set_interrupts<W: QueueWords>(words: &W, wants: bool) {
    words.set_flags(if wants { 0 } else { NO_INTERRUPT });
    W::full_barrier();
}
