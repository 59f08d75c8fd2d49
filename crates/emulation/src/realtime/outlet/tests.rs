//! Tests of the output of a port that is one end of a pipe.

use slipring_port::{OpenOptions, Port};

use super::*;
use crate::store::{CHUNK_BYTES, LifetimeClass};

const LINK: LinkId = LinkId(0);

fn pipe() -> [Port; 2] {
    let names = ["netmap:p{0", "netmap:p}0"].map(|name| slipring_core::parse(name).unwrap());
    let ports = slipring_core::Host::new().open_all(&names, &OpenOptions::default()).unwrap();
    <[Port; 2]>::try_from(ports).unwrap()
}

fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let queue = &mut port.queues[0];
    queue.rx_sync().unwrap();
    let mut scratch = Vec::new();
    std::iter::from_fn(|| queue.rings().rx.packet(&mut scratch, |bytes| bytes.to_vec())).collect()
}

/// Stores a frame of `len` bytes, all `value`.
fn put(store: &mut EmulationStore, value: u8, len: u32) -> InFlightFrame {
    let stored = store.put(LifetimeClass::default(), 0, &vec![value; len as usize]);
    InFlightFrame { release_ns: 0, handle: stored.unwrap().handle, len }
}

#[test]
fn frames_at_the_end_of_one_chunk_and_at_the_start_of_the_next_leave_once_each() {
    // With these lengths, the frames and their headers fill a chunk completely or almost.
    for last_len in [1016, 1008] {
        let mut store = EmulationStore::new(2 * CHUNK_BYTES as u64);
        let earlier: Vec<_> =
            (1..CHUNK_BYTES / 1024).map(|_| put(&mut store, 0, 1016).handle).collect();
        let (last, first) = (put(&mut store, 1, last_len), put(&mut store, 2, 60));
        put(&mut store, 3, 60);
        let apart = put(&mut store, 4, 60);

        let [mut near, mut far] = pipe();
        let mut outlet = PortOutlet::new(ExitId(0), None);
        [last, first, apart].into_iter().for_each(|frame| outlet.push(LINK, frame));
        let mut measured = [LinkMeasurement::new(Nanos::MAX)];
        let queue = &mut *near.queues[0];
        let sent = outlet.flush(queue, &mut store, &mut (), &mut measured, 0, || 0).unwrap();
        let expected = [(1, last_len), (2, 60), (4, 60)];
        assert_eq!(received(&mut far), expected.map(|(value, len)| vec![value; len as usize]));
        assert_eq!((sent, outlet.is_waiting()), (3, false));
        // Once the earlier frames are freed as well, the first chunk has no frames any more and can
        // be filled again.
        earlier.into_iter().for_each(|handle| store.free(handle));
        let more = (0..2 * CHUNK_BYTES / 1024)
            .filter(|_| store.put(LifetimeClass::default(), 0, &[5; 1016]).is_some());
        assert!(more.count() > CHUNK_BYTES / 1024, "the chunk is filled again");
    }
}
