//! wasmi, an interpreter in safe Rust. Default builds use it.

pub(super) use wasmi::{
    Caller, Engine, Error, ExternType, FuncType, Instance, Linker, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TypedFunc, ValType, WasmParams, WasmResults,
};
use wasmi::{CompilationMode, Config, TrapCode};

/// Creates an engine that consumes fuel.
pub(super) fn engine() -> Result<Engine, Error> {
    let mut config = Config::default();
    // Everything is compiled now. So errors appear at the start, and no call has to compile
    // anything.
    config.consume_fuel(true).compilation_mode(CompilationMode::Eager);
    Ok(Engine::new(&config))
}

pub(super) fn instantiate<T: 'static>(
    linker: &Linker<T>,
    store: &mut Store<T>,
    module: &Module,
) -> Result<Instance, Error> {
    linker.instantiate_and_start(store, module)
}

pub(super) fn is_function(found: &FuncType, params: &[ValType], result: &ValType) -> bool {
    (found.params(), found.results()) == (params, &[*result])
}

/// Returns the parameter types and the result types of a function, as WebAssembly's text format
/// spells them.
pub(super) fn types(found: &FuncType) -> [Vec<String>; 2] {
    let word = |ty: &ValType| format!("{ty:?}").to_lowercase();
    [found.params(), found.results()].map(|types| types.iter().map(word).collect())
}

/// Creates the error with which an imported function fails.
pub(super) fn refused(why: &'static str) -> Error {
    Error::new(why)
}

pub(super) fn is_out_of_fuel(error: &Error) -> bool {
    error.as_trap_code() == Some(TrapCode::OutOfFuel)
}

/// Returns a short description of the error that ended a call.
pub(super) fn cause(error: &Error) -> String {
    error.to_string()
}
