//! User models in a specification: their errors, and which models survive a change.

use alloc::string::String;
use alloc::vec::Vec;

use super::{DelayModel, LinkSpec, LossModel, RateSpec};

impl LinkSpec {
    /// Returns the first error of each user model, with the name of its stage.
    #[must_use]
    pub fn user_model_errors(&self) -> Vec<(&'static str, String)> {
        let losses = self.loss.iter().map(|loss| match &loss.model {
            LossModel::User(maker) => ("loss", maker.first_error()),
            _ => ("loss", None),
        });
        let rate = match &self.rate {
            RateSpec::User(maker) => maker.first_error(),
            _ => None,
        };
        let delay = match &self.delay.model {
            DelayModel::User(maker) => maker.first_error(),
            _ => None,
        };
        let all = losses.chain([("rate", rate), ("delay", delay)]);
        all.filter_map(|(stage, trouble)| Some((stage, trouble?))).collect()
    }

    /// Replaces factories of this specification by equal factories of `old`. A running link keeps
    /// the models that these factories of `old` made, and only they can report the models' errors.
    pub fn reuse_factories(&mut self, old: &Self) {
        if self.rate == old.rate {
            self.rate = old.rate.clone();
        }
        if self.delay.model == old.delay.model {
            self.delay.model = old.delay.model.clone();
        }
        for (new, old) in self.loss.iter_mut().zip(&old.loss) {
            if new.model == old.model {
                new.model = old.model.clone();
            }
        }
    }
}
