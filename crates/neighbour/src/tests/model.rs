//! Compares the cache with a plain model of RFC 4861 in random sequences of calls. The model is an
//! array of four neighbours.

use super::*;
use crate::{HoldDropCause, NeighbourClaim, NeighbourState};
use NeighbourState::{Delay, Failed, Incomplete, Installed, Probe, Reachable, Stale};
use proptest::prelude::*;
use std::vec;

#[derive(Debug, Clone, Copy)]
enum Step {
    Use(u8),
    Advertise { host: u8, mac: u8, solicited: bool, overrides: bool },
    Ask(u8, u8),
    Confirm(u8),
    Install(u8, u8),
    Fail(u8),
    Remove(u8),
    LinkDown,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (host, mac) = (0u8..4, 1u8..3);
    prop_oneof![
        6 => host.clone().prop_map(Step::Use),
        4 => (host.clone(), mac.clone(), any::<bool>(), any::<bool>()).prop_map(
            |(host, mac, solicited, overrides)| Step::Advertise { host, mac, solicited, overrides }
        ),
        2 => (host.clone(), mac.clone()).prop_map(|(host, mac)| Step::Ask(host, mac)),
        1 => host.clone().prop_map(Step::Confirm),
        1 => (host.clone(), mac).prop_map(|(host, mac)| Step::Install(host, mac)),
        1 => host.clone().prop_map(Step::Fail),
        1 => host.prop_map(Step::Remove),
        1 => Just(Step::LinkDown),
        4 => (0..2 * SECOND).prop_map(Step::Wait),
        2 => (0..60 * SECOND).prop_map(Step::Wait),
    ]
}

/// The effect of a call for one neighbour.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Effect {
    Ask(Option<MacAddr>),
    Send(u32, MacAddr),
    Lose(u32, HoldDropCause),
    Change(Option<MacAddr>),
}

/// A neighbour as the RFC describes it. In [`Models::hosts`], `None` means that the neighbour is
/// unknown.
#[derive(Debug, Clone)]
struct Model {
    state: NeighbourState,
    mac: Option<MacAddr>,
    confirmed: u64,
    due: Option<u64>,
    asked: u8,
    held: Vec<u32>,
}

#[derive(Default)]
struct Models {
    hosts: [Option<Model>; 4],
    effects: [Vec<Effect>; 4],
}

impl Model {
    fn absent() -> Self {
        Self { state: Failed, mac: None, confirmed: 0, due: None, asked: 0, held: vec![] }
    }

    fn set_mac(&mut self, mac: MacAddr, state: NeighbourState, effects: &mut Vec<Effect>) {
        if self.mac != Some(mac) {
            effects.push(Effect::Change(Some(mac)));
        }
        (self.mac, self.state, self.due) = (Some(mac), state, None);
        effects.extend(self.held.drain(..).map(|frame| Effect::Send(frame, mac)));
    }

    fn lose(&mut self, cause: HoldDropCause, effects: &mut Vec<Effect>) {
        effects.extend(self.held.drain(..).map(|frame| Effect::Lose(frame, cause)));
        if self.mac.take().is_some() {
            effects.push(Effect::Change(None));
        }
        (self.state, self.due) = (Failed, None);
    }

    fn confirm(&mut self, now: u64) {
        (self.state, self.confirmed, self.due) = (Reachable, now, None);
    }
}

impl Models {
    fn use_it(&mut self, host: usize, frame: u32, now: u64) {
        let effects = &mut self.effects[host];
        let it = self.hosts[host].get_or_insert_with(Model::absent);
        match it.state {
            Failed => {
                *it = Model { state: Incomplete, due: Some(now + SECOND), asked: 1, ..it.clone() };
                effects.push(Effect::Ask(None));
                it.held.push(frame);
            }
            Incomplete => it.held.push(frame),
            state => {
                if state == Stale {
                    (it.state, it.due) = (Delay, Some(now + 5 * SECOND));
                }
                effects.push(Effect::Send(frame, it.mac.unwrap()));
            }
        }
    }

    fn advertise(&mut self, host: usize, mac: MacAddr, solicited: bool, overrides: bool, now: u64) {
        let Some(it) = &mut self.hosts[host] else { return };
        let effects = &mut self.effects[host];
        match it.state {
            Failed | Installed => return,
            Incomplete => it.set_mac(mac, Stale, effects),
            _ if it.mac == Some(mac) => {}
            Reachable if !overrides => return it.state = Stale,
            _ if !overrides => return,
            _ => it.set_mac(mac, Stale, effects),
        }
        if solicited {
            it.confirm(now);
        }
    }

    fn ask(&mut self, host: usize, mac: MacAddr) {
        let it = self.hosts[host].get_or_insert_with(Model::absent);
        if it.state != Installed && it.mac != Some(mac) {
            it.set_mac(mac, Stale, &mut self.effects[host]);
        }
    }

    /// Handles the timer of a host, if it is due by `now`.
    fn wait(&mut self, host: usize, now: u64) {
        let effects = &mut self.effects[host];
        let Some(it) = &mut self.hosts[host] else { return };
        if it.due.is_none_or(|due| due > now) {
            return;
        }
        if it.state == Delay {
            (it.state, it.asked) = (Probe, 0);
        }
        if it.asked == 3 {
            return it.lose(HoldDropCause::Unanswered, effects);
        }
        it.asked += 1;
        effects.push(Effect::Ask(it.mac));
        it.due = Some(now + SECOND);
    }

    /// Adopts the cache's state where the RFC leaves it to chance, because the reachable time is
    /// random.
    fn agree(&mut self, host: usize, state: NeighbourState, now: u64) {
        let Some(it) = &mut self.hosts[host] else { return };
        let age = now.saturating_sub(it.confirmed);
        if it.state == Reachable && state == Stale && age >= 15 * SECOND {
            it.state = Stale;
        }
        assert!(it.state != Reachable || age <= 45 * SECOND);
    }
}

fn effects(cache: &mut NeighbourCache<u32>, into: &mut [Vec<Effect>; 4]) {
    for event in events(cache) {
        let (host, effect) = match event {
            NeighbourEvent::Solicit { target, mac } => (target, Effect::Ask(mac)),
            NeighbourEvent::Released { next_hop, mac, frame } => {
                (next_hop, Effect::Send(frame, mac))
            }
            NeighbourEvent::Dropped { next_hop, frame, cause } => {
                (next_hop, Effect::Lose(frame, cause))
            }
            NeighbourEvent::Changed { neighbour, mac } => (neighbour, Effect::Change(mac)),
        };
        into[number(host)].push(effect);
    }
}

fn address(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

fn number(address: IpAddr) -> usize {
    let IpAddr::V4(v4) = address else { panic!("an IPv4 address") };
    v4.octets()[3].into()
}

fn run(steps: Vec<Step>) {
    let mut cache = cache(NeighbourLimits::default());
    let (mut models, mut seen) = (Models::default(), <[Vec<Effect>; 4]>::default());
    let mut now = SECOND;
    for (frame, step) in (0..).zip(steps) {
        for host in 0..4u8 {
            if let Some(view) = cache.get(address(host), now) {
                models.agree(host.into(), view.state, now);
            }
        }
        match step {
            Step::Use(host) => {
                cache.hold(address(host), frame, 60, now).unwrap();
                models.use_it(host.into(), frame, now);
            }
            Step::Advertise { host, mac: last, solicited, overrides } => {
                let mut claim = NeighbourClaim::update(address(host), mac(last));
                (claim.is_solicited, claim.overrides) = (solicited, overrides);
                cache.learn(claim, now);
                models.advertise(host.into(), mac(last), solicited, overrides, now);
            }
            Step::Ask(host, last) => {
                cache.learn(NeighbourClaim::question(address(host), mac(last)), now);
                models.ask(host.into(), mac(last));
            }
            Step::Confirm(host) => {
                cache.confirm(address(host), now);
                if let Some(it) = &mut models.hosts[usize::from(host)]
                    && it.mac.is_some()
                    && it.state != Installed
                {
                    it.confirm(now);
                }
            }
            Step::Install(host, last) => {
                assert!(cache.install(address(host), mac(last), now));
                let it = models.hosts[usize::from(host)].get_or_insert_with(Model::absent);
                it.set_mac(mac(last), Installed, &mut models.effects[usize::from(host)]);
            }
            Step::Fail(host) => {
                cache.fail(address(host));
                if let Some(it) = &mut models.hosts[usize::from(host)] {
                    it.lose(HoldDropCause::Unanswered, &mut models.effects[usize::from(host)]);
                }
            }
            Step::Remove(host) => {
                cache.remove(address(host));
                if let Some(mut it) = models.hosts[usize::from(host)].take() {
                    it.lose(HoldDropCause::Flushed, &mut models.effects[usize::from(host)]);
                }
            }
            Step::LinkDown => {
                cache.flush();
                for (host, effects) in models.hosts.iter_mut().zip(&mut models.effects) {
                    if let Some(mut it) = host.take_if(|it| it.state != Installed) {
                        it.lose(HoldDropCause::Flushed, effects);
                    }
                }
            }
            Step::Wait(time) => {
                // The caller handles each timer when it is due, as a loop with poll does.
                let end = now + time;
                while let Some(due) = cache.next_ns().filter(|due| *due <= end) {
                    now = now.max(due);
                    cache.tick(now);
                    (0..4).for_each(|host| models.wait(host, now));
                }
                now = end;
            }
        }
        effects(&mut cache, &mut seen);
        assert_eq!(seen, models.effects, "after {step:?}");
        for host in 0..4u8 {
            let model = &mut models.hosts[usize::from(host)];
            let view = cache.get(address(host), now);
            assert_eq!(view.is_some(), model.is_some(), "host {host} after {step:?}");
            if let (Some(view), Some(_)) = (view, &model) {
                models.agree(host.into(), view.state, now);
                let it = models.hosts[usize::from(host)].as_ref().unwrap();
                assert_eq!((view.state, view.mac), (it.state, it.mac), "{host} after {step:?}");
                assert_eq!(view.waiting, it.held.len());
            }
        }
        assert!(cache.is_balanced());
    }
}

proptest! {
    #[test]
    fn the_cache_does_what_the_plain_model_of_the_rfc_does(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        run(steps);
    }
}
