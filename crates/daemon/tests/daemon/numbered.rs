//! Sends numbered frames from one port to another. Each group of tests defines the contents of the
//! frames.

use slipring_port::Port;
use slipring_test_support::eventually;

/// Builds the frame with a number.
pub(crate) type Frame<const N: usize> = fn(u64) -> [u8; N];

/// Queues as many of the frames with the numbers `sent..count` as there are free slots for, and
/// syncs the port. Afterwards, `sent` is the number of the first frame that was not queued.
pub(crate) fn fill<const N: usize>(frame: Frame<N>, from: &mut Port, sent: &mut u64, count: u64) {
    while *sent < count && from.queues[0].rings().tx.push(&frame(*sent)) {
        *sent += 1;
    }
    from.tx_sync().unwrap();
}

/// Checks all received frames.
pub(crate) fn check<const N: usize>(
    frame: Frame<N>,
    to: &mut Port,
    seen: &mut u64,
    scratch: &mut Vec<u8>,
) {
    to.rx_sync().unwrap();
    let rx = to.queues[0].rings().rx;
    while let Some(bytes) = rx.packet(scratch, |bytes| bytes.to_vec()) {
        assert_eq!(bytes, frame(*seen), "frame {seen}");
        *seen += 1;
    }
}

/// Sends frames until all have arrived, and checks each.
pub(crate) fn pass<const N: usize>(frame: Frame<N>, from: &mut Port, to: &mut Port, count: u64) {
    let (mut sent, mut seen, mut scratch) = (0, 0, Vec::new());
    eventually("all frames", || {
        fill(frame, from, &mut sent, count);
        check(frame, to, &mut seen, &mut scratch);
        (seen == count).then_some(())
    });
}

/// Sends one frame on each queue of `a`. It must arrive at the same queue of `b`, and at no other.
pub(crate) fn queues_keep_apart<const N: usize>(frame: Frame<N>, a: &mut Port, b: &mut Port) {
    for (number, queue) in (0..).zip(&mut a.queues) {
        assert!(queue.rings().tx.push(&frame(number)));
        queue.tx_sync().unwrap();
    }
    for (number, queue) in (0..).zip(&mut b.queues) {
        queue.rx_sync().unwrap();
        let same = |bytes: &mut [u8]| bytes == frame(number);
        assert_eq!(queue.rings().rx.packet(&mut Vec::new(), same), Some(true));
        assert_eq!(queue.rings().rx.avail(), 0);
    }
}
