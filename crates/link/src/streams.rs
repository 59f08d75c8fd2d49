//! The random streams of a link, one for each stage.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::Stream;

use crate::loss::LossStage;
use crate::spec::{LinkSpec, LossSpec, Place};

/// Names the streams of one link.
pub(crate) struct Streams<'a> {
    pub(crate) seed: u64,
    pub(crate) link: &'a str,
}

impl Streams<'_> {
    pub(crate) fn label(&self, stage: &str) -> String {
        format!("link/{}/{stage}", self.link)
    }

    pub(crate) fn stage(&self, stage: &str) -> Stream {
        Stream::new(self.seed, &self.label(stage))
    }

    pub(crate) fn losses(&self, spec: &LinkSpec, place: Place, start_ns: u64) -> Vec<LossStage> {
        let models = losses_at(spec, place).enumerate();
        models.map(|(index, loss)| self.loss(index, loss, start_ns)).collect()
    }

    /// Goes over to other losses: each keeps its stream, and its state unless it changed.
    pub(crate) fn change_losses(
        &self,
        stages: &mut Vec<LossStage>,
        old: &LinkSpec,
        new: &LinkSpec,
        place: Place,
        at_ns: u64,
    ) {
        let mut before = losses_at(old, place);
        let mut count = 0;
        for (index, loss) in losses_at(new, place).enumerate() {
            count += 1;
            let same = before.next().is_some_and(|old| old == loss);
            match stages.get_mut(index) {
                Some(_) if same => {}
                Some(stage) => stage.change(&loss.model, at_ns),
                None => stages.push(self.loss(index, loss, at_ns)),
            }
        }
        stages.truncate(count);
    }

    fn loss(&self, index: usize, loss: &LossSpec, start_ns: u64) -> LossStage {
        let place = match loss.place {
            Place::Pre => "pre",
            Place::Post => "post",
        };
        LossStage::new(&loss.model, self.stage(&format!("loss/{place}/{index}")), start_ns)
    }
}

fn losses_at(spec: &LinkSpec, place: Place) -> impl Iterator<Item = &LossSpec> {
    spec.loss.iter().filter(move |loss| loss.place == place)
}
