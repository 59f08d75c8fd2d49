//! Tests of user models.

use slipring_link::user::{
    DelayFactory, LossFactory, LossVerdict, ModelPacket, PreciseTime, RateFactory, UserDelayModel,
    UserLossModel, UserRateModel,
};
use slipring_link::{
    DelayModel, DelaySpec, LinkDropCause, LinkSpec, LossModel, LossPosition, LossSpec, RateSpec,
};
use slipring_model::Stream;

use crate::support::{Sim, releases};

/// Loses frames whose first byte is odd, and marks no frame.
struct DropOdd;

impl UserLossModel for DropOdd {
    fn judge(&mut self, packet: &mut ModelPacket<'_>, _: &mut Stream) -> LossVerdict {
        if packet.data[0] % 2 == 1 {
            LossVerdict::Drop(LinkDropCause::Malformed)
        } else {
            LossVerdict::Keep
        }
    }
}

#[test]
fn a_loss_model_of_the_users_sees_bytes_and_names_causes() {
    let model = LossModel::User(LossFactory::new(|| Box::new(DropOdd)));
    let loss = vec![LossSpec { model, position: LossPosition::Post }];
    let mut sim = Sim::link(LinkSpec { loss, ..LinkSpec::wire("up") });
    (0..10).for_each(|k| _ = sim.push_frame(u64::from(k), &[k; 60]));
    sim.finish();
    assert_eq!(sim.memory.handles(), [0, 2, 4, 6, 8]);
    assert_eq!(sim.memory.lost_to(LinkDropCause::Malformed), 5);
}

/// The line takes one third of a nanosecond per byte.
struct ThirdNsPerByte;

impl UserRateModel for ThirdNsPerByte {
    fn finish(
        &mut self,
        start: PreciseTime,
        wire_bytes: u64,
        _: u64,
        _: &mut Stream,
    ) -> Option<PreciseTime> {
        let whole = (u128::from(start.ns) << 32) + u128::from(start.fraction);
        let end = whole + (u128::from(wire_bytes) << 32) / 3;
        Some(PreciseTime { ns: (end >> 32) as u64, fraction: end as u32 })
    }
}

#[test]
fn a_rate_model_of_the_users_keeps_fractions() {
    let rate = RateSpec::User(RateFactory::new(|| Box::new(ThirdNsPerByte)));
    let out = releases(LinkSpec { rate, ..LinkSpec::wire("up") }, 30, 1, 0);
    assert_eq!(out[..4], [1, 1, 1, 2]);
    assert_eq!(out[29], 10);
}

/// The delay in microseconds is the number of earlier frames.
struct Growing;

impl UserDelayModel for Growing {
    fn delay_ns(&mut self, packet: &mut ModelPacket<'_>, _: &mut Stream) -> Option<u64> {
        Some(packet.number * 1_000)
    }
}

#[test]
fn a_delay_model_of_the_users_counts_frames() {
    let model = DelayModel::User(DelayFactory::new(|| Box::new(Growing)));
    let delay = DelaySpec { model, half_life_ns: None };
    assert_eq!(
        releases(LinkSpec { delay, ..LinkSpec::wire("up") }, 4, 60, 0),
        [0, 1000, 2000, 3000]
    );
}

#[test]
fn each_link_has_a_model_of_its_own() {
    let maker = DelayFactory::new(|| Box::new(Growing));
    let delay = DelaySpec { model: DelayModel::User(maker), half_life_ns: None };
    let link = |name| LinkSpec { delay: delay.clone(), ..LinkSpec::wire(name) };
    let plan = slipring_link::NetworkSpec::between("l", "r", link("up"), link("down"));
    let mut sim = Sim::new(&plan, 1);
    for entry in [0, 1, 0, 1] {
        sim.push_at(entry, 0, 60);
    }
    sim.finish();
    assert_eq!(sim.memory.releases(), [0, 0, 1000, 1000]);
}

/// Returns no result for every third call.
struct FailEveryThird(u64);

impl FailEveryThird {
    fn answers(&mut self) -> bool {
        self.0 += 1;
        !self.0.is_multiple_of(3)
    }
}

impl UserDelayModel for FailEveryThird {
    fn delay_ns(&mut self, _: &mut ModelPacket<'_>, _: &mut Stream) -> Option<u64> {
        self.answers().then_some(5)
    }
}

impl UserRateModel for FailEveryThird {
    fn finish(
        &mut self,
        start: PreciseTime,
        wire_bytes: u64,
        _: u64,
        _: &mut Stream,
    ) -> Option<PreciseTime> {
        self.answers().then(|| PreciseTime { ns: start.ns + wire_bytes, ..start })
    }
}

#[test]
fn a_frame_that_a_model_has_no_answer_for_is_lost_to_the_model() {
    let model = DelayModel::User(DelayFactory::new(|| Box::new(FailEveryThird(0))));
    let delay = DelaySpec { model, half_life_ns: None };
    let rate = RateSpec::User(RateFactory::new(|| Box::new(FailEveryThird(0))));
    for (link, times) in [
        (LinkSpec { delay, ..LinkSpec::wire("up") }, [5; 4]),
        // A lost frame takes no time on the line.
        (LinkSpec { rate, ..LinkSpec::wire("up") }, [60, 120, 180, 240]),
    ] {
        let mut sim = Sim::link(link);
        (0..6).for_each(|k| _ = sim.push_frame(0, &[k; 60]));
        sim.finish();
        assert_eq!(sim.memory.releases(), times);
        assert_eq!(sim.memory.handles(), [0, 1, 3, 4]);
        assert_eq!(sim.memory.lost_to(LinkDropCause::Model), 2);
    }
}

/// The delay in microseconds is the number of earlier calls.
struct CallCountDelay(u64);

impl UserDelayModel for CallCountDelay {
    fn delay_ns(&mut self, _: &mut ModelPacket<'_>, _: &mut Stream) -> Option<u64> {
        self.0 += 1;
        Some((self.0 - 1) * 1_000)
    }
}

#[test]
fn a_change_keeps_a_model_that_says_it_is_the_same() {
    let delay = |identity: Option<&str>| {
        let maker = DelayFactory::new(|| Box::new(CallCountDelay(0)));
        let maker = match identity {
            Some(identity) => maker.identified(identity),
            None => maker,
        };
        DelaySpec { model: DelayModel::User(maker), half_life_ns: None }
    };
    assert_eq!(delay(Some("growing")), delay(Some("growing")));
    assert_ne!(delay(Some("growing")), delay(Some("shrinking")));
    assert_ne!(delay(None), delay(None));
    let link = |identity| LinkSpec { delay: delay(identity), ..LinkSpec::wire("up") };
    // If the model is kept, the third frame is the third that the model has seen, so its delay is
    // 2 µs. A fresh model counts from 0, so the third frame only waits until the second one has
    // left.
    for (identity, last) in [("growing", 2_010), ("another", 1_000)] {
        let mut sim = Sim::link(link(Some("growing")));
        sim.push(0, 60);
        sim.push(0, 60);
        let plan = slipring_link::NetworkSpec::single(link(Some(identity)));
        sim.network.change(10, &plan).unwrap();
        sim.push(10, 60);
        sim.finish();
        assert_eq!(sim.memory.releases(), [0, 1_000, last], "{identity}");
    }
}

#[test]
fn models_report_their_first_error_through_all_copies_of_their_factory() {
    let quiet = DelayFactory::new(|| Box::new(Growing));
    assert_eq!(quiet.first_error(), None);
    let fine = DelayFactory::new(|| Box::new(Growing)).reporting(|| None);
    assert_eq!(fine.first_error(), None);
    let failing = DelayFactory::new(|| Box::new(Growing)).reporting(|| Some("no answer".into()));
    assert_eq!(failing.clone().identified("growing").first_error().as_deref(), Some("no answer"));
}

#[test]
fn a_link_reports_errors_by_stage_also_of_models_that_a_change_kept() {
    let errs = |what: &'static str| move || Some(what.to_string());
    let loss = LossFactory::new(|| Box::new(DropOdd)).identified("loss");
    let rate = RateFactory::new(|| Box::new(ThirdNsPerByte)).identified("rate");
    let delay = DelayFactory::new(|| Box::new(Growing)).identified("delay");
    let link = |loss, rate, delay| LinkSpec {
        loss: vec![LossSpec { model: LossModel::User(loss), position: LossPosition::Post }],
        rate: RateSpec::User(rate),
        delay: DelaySpec { model: DelayModel::User(delay), half_life_ns: None },
        ..LinkSpec::wire("up")
    };
    let quiet = link(loss.clone(), rate.clone(), delay.clone());
    assert_eq!(quiet.user_model_errors(), []);
    let failing = link(
        loss.reporting(errs("no verdict")),
        rate.reporting(errs("no end")),
        delay.reporting(errs("no time")),
    );
    let all = [("loss", "no verdict"), ("rate", "no end"), ("delay", "no time")]
        .map(|(stage, error)| (stage, error.to_string()));
    assert_eq!(failing.user_model_errors(), all);
    // The models of equal factories are kept. This also applies to models that report errors.
    let mut kept = quiet.clone();
    kept.reuse_factories(&failing);
    assert_eq!(kept.user_model_errors(), all);
    let another = |name: &str| LinkSpec {
        loss: vec![LossSpec {
            model: LossModel::User(LossFactory::new(|| Box::new(DropOdd)).identified(name)),
            position: LossPosition::Post,
        }],
        rate: RateSpec::User(RateFactory::new(|| Box::new(ThirdNsPerByte)).identified(name)),
        delay: DelaySpec {
            model: DelayModel::User(DelayFactory::new(|| Box::new(Growing)).identified(name)),
            half_life_ns: None,
        },
        ..LinkSpec::wire("up")
    };
    for (name, errors) in [("loss", 0..1), ("rate", 1..2), ("delay", 2..3), ("x", 0..0)] {
        let mut mixed = another(name);
        mixed.reuse_factories(&failing);
        assert_eq!(mixed.user_model_errors(), all[errors], "{name}");
    }
}
