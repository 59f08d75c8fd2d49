//! wasmtime, which compiles modules to machine code. It is faster than wasmi, but the executable
//! becomes some megabytes larger. A build with the feature `wasmtime` uses it instead of wasmi.
//!
//! It is configured so that its results are those of wasmi. The bits of NaNs are canonical, and
//! extensions that wasmi does not have are rejected. Bounds are checked explicitly, so that a
//! module needs neither a signal handler nor reserved address space.

pub(super) use wasmtime::{
    Caller, Engine, Error, ExternType, FuncType, Instance, Linker, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TypedFunc, ValType, WasmParams, WasmResults,
};
use wasmtime::{Config, Trap};

/// Creates an engine that consumes fuel.
pub(super) fn engine() -> Result<Engine, Error> {
    let mut config = Config::new();
    config.consume_fuel(true).cranelift_nan_canonicalization(true);
    config.wasm_simd(false).wasm_relaxed_simd(false);
    config.signals_based_traps(false);
    config.memory_reservation(0).memory_guard_size(0).memory_reservation_for_growth(0);
    Engine::new(&config)
}

pub(super) fn instantiate<T: 'static>(
    linker: &Linker<T>,
    store: &mut Store<T>,
    module: &Module,
) -> Result<Instance, Error> {
    linker.instantiate(store, module)
}

pub(super) fn is_function(found: &FuncType, params: &[ValType], result: &ValType) -> bool {
    let same = |found: ValType, known: &ValType| ValType::eq(&found, known);
    found.params().len() == params.len()
        && found.params().zip(params).all(|(found, known)| same(found, known))
        && found.results().len() == 1
        && found.results().all(|found| same(found, result))
}

/// Returns the parameter and the result types of a function, as WebAssembly's text format spells
/// them.
pub(super) fn types(found: &FuncType) -> [Vec<String>; 2] {
    let word = |ty: ValType| ty.to_string();
    [found.params().map(word).collect(), found.results().map(word).collect()]
}

/// Creates the error with which an imported function fails.
pub(super) fn refused(why: &'static str) -> Error {
    Error::msg(why)
}

pub(super) fn is_out_of_fuel(error: &Error) -> bool {
    error.downcast_ref::<Trap>() == Some(&Trap::OutOfFuel)
}

/// Returns a short description of the error that ended a call. The text of the error itself starts
/// with a backtrace.
pub(super) fn cause(error: &Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => error.root_cause().to_string(),
    }
}
