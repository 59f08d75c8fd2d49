//! The random streams of a link: each stage has its own, indexed by the identity of the frame or by
//! time.
//!
//! A stage is named by its kind. The name of a loss stage also contains its position, and its order
//! among the loss stages of its kind at this position. So adding a stage does not change the random
//! numbers of other stages, except those of loss stages of the same kind that follow it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use slipring_model::{Draws, Stream};

use crate::frame_id::FirstFrameNumbers;
use crate::loss::LossStage;
use crate::spec::{LinkSpec, LossModel, LossPosition, LossSpec};

/// Names the streams of one link.
pub(crate) struct LinkStreams<'a> {
    pub(crate) seed: u64,
    pub(crate) link: &'a str,
    /// For each link of entry, the number of its next frame.
    pub(crate) next: FirstFrameNumbers,
}

impl LinkStreams<'_> {
    pub(crate) fn label(&self, stage: &str) -> String {
        format!("link/{}/{stage}", self.link)
    }

    pub(crate) fn stage(&self, stage: &str) -> Stream {
        Stream::new(self.seed, &self.label(stage))
    }

    pub(crate) fn draws(&self, stage: &str) -> Draws {
        Draws::new(self.seed, &self.label(stage))
    }

    pub(crate) fn loss_stages(
        &self,
        spec: &LinkSpec,
        position: LossPosition,
        start_ns: u64,
    ) -> Vec<LossStage> {
        let stage = |(name, loss): (String, &LossSpec)| self.loss(&name, loss, start_ns);
        named_losses(spec, position).iter().cloned().map(stage).collect()
    }

    /// Switches to other loss stages; stages with the same name and specification keep their state.
    pub(crate) fn change_losses(
        &self,
        stages: &mut Vec<LossStage>,
        old: &LinkSpec,
        new: &LinkSpec,
        position: LossPosition,
        at_ns: u64,
    ) {
        let before = named_losses(old, position);
        let mut kept: Vec<_> = stages.drain(..).map(Some).collect();
        stages.extend(named_losses(new, position).iter().map(|(name, loss)| {
            let position = before.iter().position(|before| before == &(name.clone(), *loss));
            let stays = position.and_then(|position| kept.get_mut(position)?.take());
            stays.unwrap_or_else(|| self.loss(name, loss, at_ns))
        }));
    }

    fn loss(&self, name: &str, loss: &LossSpec, start_ns: u64) -> LossStage {
        let draws = self.draws(name);
        LossStage::new(
            &loss.model,
            draws,
            self.draws(&format!("{name}/state")),
            self.next.clone(),
            start_ns,
        )
    }
}

/// Returns the loss specifications at a position, each with the name of its stage.
fn named_losses(spec: &LinkSpec, position: LossPosition) -> Vec<(String, &LossSpec)> {
    let before = match position {
        LossPosition::Pre => "pre",
        LossPosition::Post => "post",
    };
    let mut named: Vec<(String, &LossSpec)> = Vec::new();
    for loss in losses_at(spec, position) {
        let kind = kind(&loss.model);
        let of_kind = named.iter().filter(|(_, other)| self::kind(&other.model) == kind).count();
        named.push((format!("loss/{before}/{kind}/{of_kind}"), loss));
    }
    named
}

/// The name of a stage's kind, independent of its parameters.
const fn kind(model: &LossModel) -> &'static str {
    match model {
        LossModel::Bernoulli(_) => "plr",
        LossModel::Ber(_) => "ber",
        LossModel::GilbertElliott { .. } => "ge",
        LossModel::TimedGilbertElliott { .. } => "timed-ge",
        LossModel::FourState { .. } => "state4",
        LossModel::Pattern(_) => "pattern",
        LossModel::Nth { .. } => "nth",
        LossModel::Numbers(_) => "numbers",
        LossModel::ByTime { .. } => "time",
        LossModel::User(_) => "user",
    }
}

fn losses_at(spec: &LinkSpec, position: LossPosition) -> impl Iterator<Item = &LossSpec> {
    spec.loss.iter().filter(move |loss| loss.position == position)
}
