//! Why a module cannot be a model.

/// See the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The bytes are no module.
    #[error("it is no WebAssembly module: {0}")]
    NotAModule(String),
    /// It wants something that there is not.
    #[error("it imports `{module}.{name}`, which there is not")]
    Import {
        /// From where.
        module: String,
        /// What.
        name: String,
    },
    /// It wants something in another form than it is.
    #[error("it imports `slipring.{name}` with a wrong type")]
    ImportType {
        /// What.
        name: String,
    },
    /// It lacks an export.
    #[error("it exports no function `{0}`")]
    Missing(String),
    /// An export has another type.
    #[error("its `{name}` is {found}, and must be {wanted}")]
    Type {
        /// Which.
        name: String,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// It is written for another interface.
    #[error("its slipring_abi says {found}; this program knows version {known}", known = crate::ABI_VERSION)]
    Abi {
        /// The version that it says.
        found: i32,
    },
    /// It wants more memory than it may have.
    #[error("it wants {wanted} bytes of memory, and may have {allowed}")]
    Memory {
        /// What it wants at the start.
        wanted: u64,
        /// What it may have.
        allowed: u64,
    },
    /// The room for headers lies outside of its memory.
    #[error("its room for headers, {len} bytes at {at}, lies outside of its memory")]
    Header {
        /// Where it begins.
        at: i32,
        /// How long it is.
        len: i32,
    },
    /// It cannot be started.
    #[error("it cannot be started: {0}")]
    Start(String),
}

impl ModuleError {
    /// What to try, for the person.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::NotAModule(_) => {
                "give a compiled module: wat2wasm, or rustc --target wasm32-unknown-unknown"
            }
            Self::Import { .. } | Self::ImportType { .. } => {
                "there are slipring.random () -> i64, slipring.uniform () -> f64, slipring.param (i32) -> f64"
            }
            Self::Missing(_) => "export it, or name another: function=NAME",
            Self::Type { .. } => "change its type; it is a part of the interface",
            Self::Abi { .. } => "export slipring_abi () -> i32 that returns 1",
            Self::Memory { .. } => "ask for less at its start, or allow more: memory=64MiB",
            Self::Header { .. } => {
                "let slipring_header and slipring_header_len name a part of `memory`"
            }
            Self::Start(_) => {
                "its start function must return in time, and its memory and tables must fit"
            }
        }
    }
}
