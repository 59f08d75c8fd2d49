use super::*;
use crate::aqm::Ecn;

fn queued(handle: u32) -> SlabPacket<u32> {
    let entry = QueuedPacket { handle, len: 10, arrival_ns: 0, flow: 0, ecn: Ecn::NotEct };
    SlabPacket { entry, mark: false }
}

#[test]
fn slots_are_used_again() {
    let mut store = PacketSlab::new();
    let mut chains = [SlabQueue::default(), SlabQueue::default()];
    for n in 0..1000 {
        store.push(&mut chains[n % 2], queued(n as u32));
        if n >= 6 {
            let popped = store.pop(&mut chains[n % 2]).unwrap();
            assert_eq!(popped.entry.handle, n as u32 - 6);
        }
    }
    assert_eq!(store.slots.len(), 7);
}

#[test]
fn chains_count_what_is_in_them() {
    let (mut store, mut chain) = (PacketSlab::new(), SlabQueue::default());
    assert!(chain.is_empty() && store.first(&chain).is_none() && store.pop(&mut chain).is_none());
    (0..3).for_each(|n| store.push(&mut chain, queued(n)));
    assert_eq!((chain.packets(), chain.bytes()), (3, 30));
    assert_eq!(store.first(&chain).unwrap().handle, 0);
    assert!((0..3).all(|_| store.pop(&mut chain).is_some()));
    assert_eq!((chain.packets(), chain.bytes(), chain.is_empty()), (0, 0, true));
    store.push(&mut chain, queued(9));
    assert_eq!(store.first(&chain).unwrap().handle, 9);
}
