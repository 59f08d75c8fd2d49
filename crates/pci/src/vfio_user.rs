//! A device model that another process serves: VFIO's messages on a Unix socket.
//!
//! ```text
//!   client (this process)            server (the model)
//!     VERSION            ------>     major 0, minor 1, limits as JSON
//!     DMA_MAP, with fd   ------>     maps the memory, too
//!     REGION_READ        ------>     the register's value
//!     REGION_WRITE       ------>     no reply for a BAR: writes are posted, as on the bus
//!     SET_IRQS, with fd  ------>     writes to the eventfd later
//! ```
//! [`message`] contains the messages, for both sides; [`transport`] sends and receives them. QEMU's
//! `docs/interop/vfio-user.rst` describes the protocol. Memory is only shared by file descriptors:
//! requests of a server to read the client's memory are refused.
//!
//! Messages of the other side can at worst end the connection. After that, registers read as all
//! ones.

mod client;
pub mod message;
pub mod transport;

pub use client::VfioUserDevice;
