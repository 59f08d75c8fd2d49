//! Models of the user's in a specification: what went wrong in them, and which ones stay.

use alloc::string::String;
use alloc::vec::Vec;

use super::{DelayModel, LinkSpec, LossModel, RateSpec};

impl LinkSpec {
    /// Why models of the user's had no answer for the first time, each with its stage.
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

    /// Takes the makers of `old` where they make the same: a running link keeps such models as
    /// they are, so what goes wrong in them is told by the makers that made them.
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
