//! The server of vfio-user for the device: VFIO's calls as messages on a UNIX socket.
//!
//! ```text
//!   client (QEMU, a driver)                     server (this module)
//!     VERSION, GET_INFO, .._REGION_INFO, ..  -->  server.rs   answers from the model
//!     DMA_MAP with a descriptor of memory    -->              maps it
//!     SET_IRQS with descriptors of events    -->              keeps them, signals them
//!     REGION_READ, REGION_WRITE              -->              registers, configuration
//! ```
//! `message.rs` contains the message format. The server requires a file descriptor for mapped
//! memory: a mapping without one, which would have to be accessed by messages, is refused.

mod message;
mod server;

pub use message::FrameError;
pub use server::{Server, ServerError};
