//! A module that was read and found fit, and the makers of its models.

use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip128::{Hasher128, SipHasher13};
use slipring_link::user::{Delay, Loss, Maker, Rate, UserDelay, UserLoss, UserRate};

use crate::ModuleError;
use crate::machine::Compiled;
use crate::models::{Asked, DelayModel, LossModel, RateModel, Trouble};

/// What a module may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Fuel of one call; an instruction costs about 1.
    pub fuel: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
}

impl Default for Limits {
    /// A million, and 16 MiB.
    fn default() -> Self {
        Self { fuel: 1_000_000, memory_bytes: 16 << 20 }
    }
}

/// A module.
#[derive(Clone)]
pub struct Module {
    compiled: Arc<Compiled>,
    /// Of its bytes and limits.
    fingerprint: u128,
}

impl Module {
    /// Reads and compiles a module, and refuses one that is not written for slipring.
    ///
    /// # Errors
    /// [`ModuleError`] says what is wrong with it.
    pub fn read(bytes: &[u8], limits: Limits) -> Result<Self, ModuleError> {
        let compiled = Arc::new(Compiled::new(bytes, limits)?);
        let mut hasher = SipHasher13::new();
        hasher.write(bytes);
        hasher.write_u64(limits.fuel);
        hasher.write_u64(limits.memory_bytes);
        Ok(Self { compiled, fingerprint: hasher.finish128().as_u128() })
    }

    /// Makes delays of its function of this name.
    ///
    /// # Errors
    /// If the module cannot be started, or its function is none.
    pub fn delay(&self, function: &str, params: &[f64]) -> Result<UserDelay, ModuleError> {
        self.maker(function, params, |asked| Box::new(DelayModel(asked)) as Box<dyn Delay>)
    }

    /// Makes losses of its function of this name.
    ///
    /// # Errors
    /// If the module cannot be started, or its function is none.
    pub fn loss(&self, function: &str, params: &[f64]) -> Result<UserLoss, ModuleError> {
        self.maker(function, params, |asked| Box::new(LossModel(asked)) as Box<dyn Loss>)
    }

    /// Makes rates of its function of this name.
    ///
    /// # Errors
    /// If the module cannot be started, or its function is none.
    pub fn rate(&self, function: &str, params: &[f64]) -> Result<UserRate, ModuleError> {
        let model = |asked| Box::new(RateModel(asked)) as Box<dyn Rate>;
        self.maker(function, params, model)
    }

    /// Tries the module once, so that what is wrong with it is said before anything runs.
    fn maker<M: ?Sized + Model + 'static>(
        &self,
        function: &str,
        params: &[f64],
        model: fn(Asked) -> Box<M>,
    ) -> Result<Maker<M>, ModuleError> {
        let params: Arc<[f64]> = params.into();
        self.compiled.start(function, M::ANSWER, params.clone())?;
        // Params by their bits: numbers that print alike may differ.
        let bits: Vec<_> = params.iter().map(|param| param.to_bits()).collect();
        let identity = format!("wasm {:032x} {function} {bits:x?}", self.fingerprint);
        let (compiled, function) = (self.compiled.clone(), function.to_owned());
        let trouble = Trouble::default();
        let told = trouble.clone();
        // What could be started can be started again, but for lack of memory: then the model has
        // no answers, which is counted.
        let make = move || {
            let machine = compiled.start(&function, M::ANSWER, params.clone());
            model(Asked::new(machine, trouble.clone()))
        };
        let maker = Maker::new(make).identified(&identity);
        Ok(maker.telling(move || told.get().cloned()))
    }
}

/// The type of a model's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Short,
    Long,
}

/// What its answers are.
trait Model {
    const ANSWER: Answer;
}

impl Model for dyn Delay {
    const ANSWER: Answer = Answer::Long;
}

impl Model for dyn Rate {
    const ANSWER: Answer = Answer::Long;
}

impl Model for dyn Loss {
    const ANSWER: Answer = Answer::Short;
}
