//! The registry of stable error codes, with the long text for `slipring explain CODE`.
//!
//! Once released, a code keeps its meaning for ever; a code that is no longer used is not reused.
//! Each code is a constant that is defined together with its [`CodeEntry`], so every code has a
//! text.
//!
//! | range | subject |
//! |---|---|
//! | `SR00xx` | flags, values, configuration |
//! | `SR01xx` | opening ports |
//! | `SR02xx` | files |
//! | `SR03xx` | machine and privileges |
//! | `SR04xx` | while running |

mod entry;
mod files;
mod lookup;
mod machine;
mod opening;
mod running;
mod usage;

pub use entry::{CodeEntry, ErrorCode};
pub use files::*;
pub use lookup::{UnknownCode, entries};
pub use machine::*;
pub use opening::*;
pub use running::*;
pub use usage::*;
