//! The interface of netmap-fwd: its flags, configuration file, command socket and outputs.
//!
//! ```text
//!   -f FILE --> CompatSettings          main thread: pidfile, socket, start-up listing
//!                                             |
//!   client --line--> session --CompatCommand--> CompatAnswers --RoutingTask--> Routing
//!          <--text-- (a thread each)                  '-HelperRequest-> kernel: routes, neighbours
//! ```
//!
//! netmap-fwd kept tables of its own. Here the kernel's tables are the only ones, so `route add`,
//! `route delete` and `arp -d` change these, through the helper process, and only for routes
//! through interfaces of the router.
//!
//! Not for: IPv6, and features that netmap-fwd did not have; `slipring route ctl` has these.

mod answers;
mod columns;
mod command;
mod files;
mod kernel_counters;
mod server;
mod session;
mod settings;

pub(crate) use answers::{CompatAnswers, interfaces};
pub(crate) use files::CompatFiles;
pub(crate) use server::{CompatServer, CompatSocket};
pub(crate) use settings::CompatSettings;
