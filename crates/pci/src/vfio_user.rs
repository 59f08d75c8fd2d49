//! A device model that another process serves: VFIO's messages on a Unix socket.
//!
//! ```text
//!   client (this process)            server (the model)
//!     VERSION            ------>     major 0, minor 1, limits as JSON
//!     DMA_MAP, with fd   ------>     maps the memory, too
//!     REGION_READ        ------>     the register's value
//!     REGION_WRITE       ------>     no reply: writes are posted, as on the bus
//!     SET_IRQS, with fd  ------>     writes to the eventfd later
//! ```
//! [`message`] has the messages, for both sides; [`transport`] sends and receives them. The
//! protocol is that of QEMU's `docs/interop/vfio-user.rst`. Memory is shared by descriptors only:
//! a server that asks the client to read memory for it is refused.
//!
//! Nothing that the other side sends can do more than end the connection. After that, registers
//! read as all ones.

mod client;
pub mod message;
pub mod transport;

pub use client::VfioUserDevice;
