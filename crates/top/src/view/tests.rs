use std::collections::BTreeMap;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::attach::TopProgram;
use crate::figures::{
    TopLink, TopLinkRate, TopLinkSettings, TopPort, TopQuantiles, TopSample, TopSpeed, TopTraffic,
};
use crate::model::KeyAction;
use crate::router::{TopFib, TopInterface, TopRouter, TopRules, TopWorker};

fn amount(packets: u64) -> TopTraffic {
    TopTraffic { packets, bytes: packets * 1000 }
}

fn spread(p50: u64, p99: u64) -> Option<TopQuantiles> {
    Some(TopQuantiles { p50, p99 })
}

fn link(name: &str, rate: TopLinkRate, rate_bps: f64) -> TopLink {
    TopLink {
        name: name.into(),
        from: "left".into(),
        to: "right".into(),
        asked: TopLinkSettings {
            rate,
            delay_ns: spread(20_000_000, 20_000_000),
            loss_share: Some(0.01),
        },
        input: amount(1000),
        output: amount(985),
        inside: amount(2),
        lost: BTreeMap::from([("loss".into(), 10), ("queue".into(), 3)]),
        late: 4,
        rate_bps,
        rate_pps: rate_bps / 8000.0,
        loss_share: Some(0.0125),
        delay_ns: spread(20_000_000, 21_500_000),
        total_delay_ns: spread(19_000_000, 22_000_000),
        error_ns: spread(120, 4_500),
        total_error_ns: spread(130, 4_600),
        queue_bytes: spread(0, 15_000),
    }
}

fn port(name: &str) -> TopPort {
    let speed = TopSpeed { bps: 9_870_000.0, pps: 1234.0 };
    let lost = BTreeMap::from([("rx_kernel".into(), 7)]);
    let (rx, tx) = (amount(1000), amount(985));
    TopPort { name: name.into(), rx, tx, lost, rx_rate: speed, tx_rate: speed }
}

fn frame() -> TopSample {
    TopSample {
        pid: 42,
        name: Some("lab".into()),
        command: "slipring emulate -i tap:a -i tap:b -B 10m -D 20ms".into(),
        elapsed_ns: 12_500_000_000,
        interval_ns: 1_000_000_000,
        links: vec![
            link("up", TopLinkRate::Bps(10_000_000), 9_870_000.0),
            TopLink { name: "down".into(), ..link("down", TopLinkRate::Unlimited, 0.0) },
        ],
        ports: vec![port("tap:a"), port("tap:b")],
        router: None,
    }
}

fn interface(name: &str, bps: f64) -> TopInterface {
    TopInterface {
        name: name.into(),
        engine: "xsk zero-copy".into(),
        state: "forwarding".into(),
        forwarded: amount(1000),
        forwarded_rate: TopSpeed { bps, pps: bps / 8000.0 },
        dropped: BTreeMap::from([("driver".into(), 3), ("ttl".into(), 2)]),
        dropped_pps: 5.0,
        passed: BTreeMap::from([("local".into(), 17)]),
        passed_pps: 17.0,
        punted: BTreeMap::from([("bgp".into(), 12), ("arp".into(), 5)]),
    }
}

/// Returns a sample of a router that publishes everything that a router can publish.
fn router() -> TopSample {
    let fib =
        TopFib { v4: 1000, v6: 200, neighbours: 4, generation: 8, resyncs: 1, ..TopFib::default() };
    let worker = |id: &str| TopWorker {
        id: id.into(),
        frames: 1000,
        frames_pps: 1234.0,
        busy_share: 0.25,
        held: 1,
        limited: BTreeMap::from([("icmp".into(), 9)]),
        failed: 0,
    };
    TopSample {
        command: "slipring route eth0 eth1 --rules edge.rules".into(),
        links: Vec::new(),
        ports: Vec::new(),
        router: Some(TopRouter {
            state: "forwarding".into(),
            fib,
            interfaces: vec![interface("eth0", 9_870_000.0), interface("eth1", 0.0)],
            workers: vec![worker("0"), worker("1")],
            rules: Some(TopRules { dropped: 6, delayed: 5, waiting: 4, made: 3, unsent: 2 }),
        }),
        ..frame()
    }
}

fn model() -> TopModel {
    let mut model = TopModel::default();
    for step in 0..40 {
        let mut frame = frame();
        frame.links[0].rate_bps = f64::from(step) * 250_000.0;
        model.update(frame);
    }
    model.update(frame());
    model
}

fn drawn(width: u16, height: u16, draw: impl FnOnce(&mut Screen<'_>)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(draw).unwrap();
    let buffer = terminal.backend().buffer();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

fn golden(name: &str, text: &str) {
    let path = format!("{}/src/view/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    slipring_test_support::golden::check(path, text);
}

fn press(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

#[test]
fn a_link_shows_what_was_asked_beside_what_was_measured() {
    golden("links", &drawn(130, 24, |screen| draw(screen, &model())));
}

#[test]
fn a_small_terminal_shows_what_fits() {
    golden("small", &drawn(60, 14, |screen| draw(screen, &model())));
    for (width, height) in [(1, 1), (0, 0), (10, 3), (200, 2), (3, 60)] {
        drawn(width, height, |screen| draw(screen, &model()));
    }
}

#[test]
fn a_program_without_links_shows_its_ports() {
    let mut model = TopModel::default();
    model.update(TopSample { links: Vec::new(), ..frame() });
    golden("ports", &drawn(100, 8, |screen| draw(screen, &model)));
}

#[test]
fn a_router_shows_its_interfaces_and_its_threads() {
    let mut model = TopModel::default();
    for _ in 0..3 {
        model.update(router());
    }
    golden("router", &drawn(130, 24, |screen| draw(screen, &model)));
    model.key(press(KeyCode::Down));
    assert!(drawn(100, 24, |screen| draw(screen, &model)).contains(" eth1: xsk zero-copy "));
    model.key(press(KeyCode::Char('?')));
    assert!(drawn(100, 24, |screen| draw(screen, &model)).contains("another interface"));
    for (width, height) in [(1, 1), (0, 0), (10, 3), (200, 2), (60, 9)] {
        drawn(width, height, |screen| draw(screen, &model));
    }
    golden("router-plain", &crate::plain::text(&router()));
}

#[test]
fn keys_are_explained_when_asked() {
    let mut model = model();
    assert_eq!(model.key(press(KeyCode::Char('?'))), KeyAction::Nothing);
    golden("help", &drawn(100, 20, |screen| draw(screen, &model)));
    assert_eq!(model.key(press(KeyCode::Esc)), KeyAction::Nothing, "closes the help only");
    assert!(!model.shows_help);
    assert_eq!(model.key(press(KeyCode::Esc)), KeyAction::Quit);
}

#[test]
fn a_paused_screen_stands_still() {
    let mut model = model();
    model.key(press(KeyCode::Char('p')));
    let before = model.sample.clone();
    model.update(TopSample { elapsed_ns: 99, ..frame() });
    assert_eq!(model.sample, before);
    assert!(drawn(80, 20, |screen| draw(screen, &model)).contains("[paused]"));
    model.key(press(KeyCode::Char('p')));
    model.update(TopSample { elapsed_ns: 99, ..frame() });
    assert_eq!(model.sample.elapsed_ns, 99);
}

#[test]
fn arrows_walk_the_links_and_stop_at_the_ends() {
    let mut model = TopModel::default();
    let links = (0..500).map(|k| link(&format!("link{k}"), TopLinkRate::Varies, 1.0)).collect();
    model.update(TopSample { links, ..frame() });
    let seen = |model: &TopModel| drawn(100, 24, |screen| draw(screen, model));
    for (code, selected) in [
        (KeyCode::Up, 0),
        (KeyCode::Down, 1),
        (KeyCode::PageDown, 11),
        (KeyCode::End, 499),
        (KeyCode::Down, 499),
        (KeyCode::PageUp, 489),
        (KeyCode::Home, 0),
    ] {
        model.key(press(code));
        assert_eq!(model.selected, selected);
        let screen = seen(&model);
        assert!(screen.contains(&format!("link{selected}: left to right")), "{screen}");
        assert!(screen.lines().skip(2).any(|line| line.starts_with(&format!("link{selected} "))));
    }
    model.update(frame());
    assert!(model.selected < 2, "the selection stays within what there is");
}

#[test]
fn what_another_program_says_cannot_move_the_cursor() {
    let mut model = TopModel::default();
    let mut hostile = frame();
    hostile.command = "\x1b[2Jgone\r\n".into();
    hostile.links[0].name = "a\x1b]0;x\x07".into();
    model.update(hostile.clone());
    for text in [drawn(100, 24, |screen| draw(screen, &model)), crate::plain::text(&hostile)] {
        assert!(text.contains("gone"));
        assert!(!text.contains(['\x1b', '\x07', '\r']), "{text:?}");
    }
}

#[test]
fn one_of_several_programs_is_chosen() {
    let running = |pid, name: Option<&str>| TopProgram {
        pid,
        name: name.map(str::to_owned),
        line: format!("slipring emulate -D {pid}ms"),
    };
    let mut choice =
        ProgramChooser { running: vec![running(7, None), running(8, Some("lab"))], selected: 0 };
    assert_eq!(choice.key(press(KeyCode::Down)), KeyAction::Nothing);
    assert_eq!((choice.selected, choice.key(press(KeyCode::Enter))), (1, KeyAction::Choose));
    golden("choice", &drawn(60, 6, |screen| choose(screen, &choice)));
}

#[test]
fn a_frame_is_told_in_plain_text() {
    golden("plain", &crate::plain::text(&frame()));
}
