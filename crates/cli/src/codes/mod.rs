//! The registry of stable error codes, with the long text behind `slipring explain CODE`.
//!
//! A code, once released, keeps its meaning for ever; a code that falls out of use is not given
//! away again. Each is a constant made together with its [`Entry`], so none can lack a text.
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
