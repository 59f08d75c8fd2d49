//! QEMU's device models without a guest, for tests and for learning. This process takes the role of
//! the processor.
//!
//! ```text
//!   driver --- inl, readl, writel ---> QEMU -accel qtest         stdin and stdout
//!     |                                  | device model --- netdev (datagrams of frames)
//!     '------- RAM: one file ------------'
//!              |  region of the port  |  descriptors  |
//! ```
//! The guest's RAM is a file that both processes map, so a device's address is an offset in it.
//! QEMU's clock does not run by itself: a thread advances it, and converts the device's interrupts
//! to events.

mod device;
mod machine;
mod session;

pub use device::QtestDevice;
pub use machine::{QtestMachine, RAM_BYTES, REGION_OFFSET};
