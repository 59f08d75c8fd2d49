//! Why a module cannot be used as a model.

/// Why a module cannot be a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// The bytes are not a WebAssembly module.
    #[error("it is no WebAssembly module: {0}")]
    NotAModule(String),
    /// The module imports a name that the host does not provide.
    #[error("it imports `{module}.{name}`, which there is not")]
    Import {
        /// The module named in the import.
        module: String,
        /// The name of the imported item.
        name: String,
    },
    /// The module imports a function with a wrong type.
    #[error("it imports `slipring.{name}` with a wrong type")]
    ImportType {
        /// The name of the imported function.
        name: String,
    },
    /// The module does not export this name.
    #[error("it exports no function `{0}`")]
    Missing(String),
    /// An export has a wrong type.
    #[error("its `{name}` is {found}, and must be {wanted}")]
    Type {
        /// The name of the export.
        name: String,
        /// The type that the export has.
        found: String,
        /// The type that the export must have.
        wanted: &'static str,
    },
    /// The module is for another version of the interface.
    #[error("its slipring_abi says {found}; this program knows version {known}", known = crate::ABI_VERSION)]
    Abi {
        /// The version that the module requires.
        found: i32,
    },
    /// The module needs more memory than allowed.
    #[error("it wants {wanted} bytes of memory, and may have {allowed}")]
    Memory {
        /// How many bytes of memory the module needs when it starts.
        wanted: u64,
        /// How many bytes of memory a module may have.
        allowed: u64,
    },
    /// The module's header window is not within its memory, or is too long.
    #[error("its room for headers, {len} bytes at {at}, lies outside of its memory")]
    Header {
        /// The address at which the window starts.
        at: i32,
        /// Length of the window, in bytes.
        len: i32,
    },
    /// The module cannot be started.
    #[error("it cannot be started: {0}")]
    Start(String),
}

impl ModuleError {
    /// Returns a suggestion of what to try next.
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
