//! Types that all other layers use: shapes, names, parameters, results, the format of the saved
//! state.
//! No module here depends on memories, ports or requests.

pub(crate) mod cancel;
pub(crate) mod fd_quota;
pub(crate) mod lock;
pub(crate) mod opener;
pub(crate) mod outcome;
pub(crate) mod parameters;
pub(crate) mod params;
pub(crate) mod port_name;
pub(crate) mod shape;
pub(crate) mod state;
