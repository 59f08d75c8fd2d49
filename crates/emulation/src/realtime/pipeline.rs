//! Emulates with two threads instead of one, each with one port. A thread stores frames from its
//! port and hands them to the other thread. Frames that it gets from the other thread pass its
//! network and leave by its port.
//!
//! ```text
//!   thread 0, port 0: rx ring, entry 0  --peer-->  network, exit 1, tx ring :thread 1, port 1
//!                     tx ring, exit 0, network  <--peer--  entry 1, rx ring
//! ```
//!
//! Each thread has the whole network, with the same plan and seed, but only the frames of one
//! direction. A direction depends only on its own links and their random streams, so it behaves as
//! in an emulation by one thread. For this, the directions must not share links or nodes
//! ([`super::directions`]).
//!
//! Not for: the connection between the threads ([`super::peer_thread`]), and more than two ports.

use slipring_cli::Failure;
use slipring_link::NetworkSpec;
use slipring_port::{Nanos, Port};

use super::emulator::{Emulator, EmulatorPort, wrong_plan};
use super::frame_tap::FrameTap;
use super::inlet::PortInlet;
use super::options::RealtimeOptions;
use super::peer_thread::PeerThread;

impl<T: FrameTap> Emulator<T> {
    /// Creates the two halves of an emulation that starts at `now`, one for each thread. Entry and
    /// exit `i` of the plan are `ports[i]`.
    ///
    /// # Errors
    /// [`Failure`] if the plan cannot be built, or this process has no descriptors left.
    pub fn pair(
        ports: [Port; 2],
        plan: &NetworkSpec,
        options: &RealtimeOptions,
        mut tap: T,
        now: Nanos,
    ) -> Result<[Self; 2], Failure> {
        let mut index = 0..;
        let mut ends = ports.map(|mut port| {
            let i = index.next().unwrap_or_default();
            let inlet = PortInlet::of(&port, i, options, now);
            let bytes = inlet.batch_bytes(&mut port.queues);
            (
                bytes,
                EmulatorPort {
                    inlet: Some(inlet),
                    outlet: Some(i),
                    queues: port.queues,
                    peer: None,
                },
            )
        });
        let peers = PeerThread::pair([ends[0].0, ends[1].0])?;
        ends.iter_mut().zip(peers).for_each(|((_, side), peer)| side.peer = Some(Box::new(peer)));
        // The storage limit applies to both threads together, so each thread gets half.
        let options =
            RealtimeOptions { storage_bytes: options.storage_bytes / 2, ..options.clone() };
        let second = tap.split();
        let [(_, left), (_, right)] = ends;
        Ok([
            Self::of(vec![left], plan, &options, tap, now).map_err(wrong_plan)?,
            Self::of(vec![right], plan, &options, second, now).map_err(wrong_plan)?,
        ])
    }
}

#[cfg(test)]
mod tests;
