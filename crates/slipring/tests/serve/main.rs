//! Tests of `slipring serve` with running emulators and a router, and of its page in a real
//! browser, in the tests' own namespaces and run directories.
#![allow(clippy::unwrap_used)]

mod browser;
#[path = "../support/mod.rs"]
mod support;

use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;
use slipring_test_support::lab::RIGHT;
use slipring_test_support::{Lab, LabPort, Program, accepts, eventually, installed};

use browser::Browser;
use support::SLIPRING;

/// An emulator between the sides of a lab, and its gateway.
struct ServedEmulator {
    lab: Lab,
    run_dir: tempfile::TempDir,
    emulator: Option<Program>,
    gateway: Option<Program>,
    url: String,
}

impl ServedEmulator {
    /// Starts both programs; returns `None`, and prints why, if namespaces are not permitted.
    fn new(links: &str) -> Option<Self> {
        let (lab, run_dir) = (Lab::new(LabPort::Packet)?, tempfile::tempdir().unwrap());
        let mut site = Self { lab, run_dir, emulator: None, gateway: None, url: String::new() };
        let words = format!("emulate -T 0 --name lab {} {links}", site.lab.ports());
        site.emulator = Some(site.start(&words));
        let socket = site.run_dir.path().join("lab.sock");
        eventually("the control socket", || accepts(&socket).then_some(()));
        let (gateway, url) = site.serve("");
        (site.gateway, site.url) = (Some(gateway), url);
        Some(site)
    }

    /// Starts a gateway with additional arguments. Returns it with its address.
    fn serve(&self, words: &str) -> (Program, String) {
        let gateway = self.start(&format!("serve --listen 127.0.0.1:0 {words}"));
        let url = wait_for_url(&gateway);
        (gateway, url)
    }

    fn start(&self, words: &str) -> Program {
        let mut command = Command::new(SLIPRING);
        command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", self.run_dir.path());
        Program::launch(&self.lab.mid, command)
    }

    /// Runs `slipring emulate ctl WORDS`, and returns its answer.
    fn ctl(&self, words: &str) -> Value {
        let ended = self.start(&format!("emulate ctl {words} --json")).finish().well();
        let mut value: Value = serde_json::from_str(&ended.stdout).unwrap();
        match value.get_mut("answer") {
            Some(answer) => answer.take(),
            None => value,
        }
    }

    fn versions(&self) -> usize {
        self.ctl("history").as_array().unwrap().len()
    }

    /// Waits until a setting has this value.
    fn wait_for(&self, path: &str, value: &str) {
        eventually(&format!("{path} to be {value}"), || {
            (self.ctl("get").pointer(path)? == value).then_some(())
        });
    }

    /// Starts traffic in both directions. It ends when the returned program is dropped.
    fn traffic(&self) -> Program {
        Program::start(&self.lab.left, "ping", &format!("-n -i 0.01 -s 1000 -w 120 {RIGHT}"))
    }

    /// Opens the page in a browser, and waits until it shows both links. Returns `None`, and prints
    /// why, if a needed program is missing.
    fn page(&self, flags: &[&str]) -> Option<Browser<'_>> {
        let browser = Browser::start(&self.lab, flags)?;
        if !installed("npm") {
            return None;
        }
        browser.open(&self.url);
        browser.wait_for("document.querySelector('#state').textContent === 'live'");
        browser.wait_for("document.querySelectorAll('#links fieldset').length === 2");
        Some(browser)
    }
}

/// True if the canvas of each plot contains more than 20 pixels in the colour of the first link.
const DRAWN: &str = "[...document.querySelectorAll('.plot canvas')].every((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const colour = getComputedStyle(document.documentElement).getPropertyValue('--link-1').trim();
    const wanted = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    let found = 0;
    for (let at = 0; at < data.length; at += 4) {
      found += wanted.every((part, i) => Math.abs(data[at + i] - part) < 8) && data[at + 3] > 200;
    }
    return found > 20;
  })";

#[test]
fn a_click_on_a_preset_changes_the_links_and_the_plots_show_what_is_measured() {
    let Some(site) = ServedEmulator::new("-B 5m -D 5ms") else { return };
    let traffic = site.traffic();
    let Some(page) = site.page(&[]) else { return };
    page.click("[data-preset=lte]");
    site.wait_for("/link/up/delay/mean", "25ms");
    let settings = site.ctl("get");
    assert_eq!(settings["link"]["up"]["rate"]["bps"], "10Mbit", "{settings}");
    assert_eq!(settings["link"]["down"]["rate"]["bps"], "30Mbit", "{settings}");
    assert_eq!(site.versions(), 2, "both directions changed in one step");
    let value = "document.querySelector('[data-link=down] [data-value=rate_bps]').value";
    page.wait_for(&format!("{value} === '30 Mbit/s'"));
    page.wait_for("document.querySelector('#log').textContent.includes('version 2')");
    page.wait_for("Number(document.querySelector('[data-plot=delay]').dataset.points) > 20");
    page.wait_for(DRAWN);
    assert!(page.text("[data-plot=rate] .now").ends_with("of 10 Mbit/s"));
    page.picture("serve-page.png");

    // Changes the delay by keyboard, and undoes the change.
    page.keys("#knob-up-delay_ns", "\u{e014}");
    eventually("the third version", || (site.versions() == 3).then_some(()));
    let delay = site.ctl("get")["link"]["up"]["delay"]["mean"].to_string();
    assert_ne!(delay, "\"25ms\"");
    page.click("#undo");
    site.wait_for("/link/up/delay/mean", "25ms");

    drop(traffic);
    page.wait_for("document.querySelector('#warning').textContent.startsWith('No traffic passes')");
    page.wait_for("!document.querySelector('#warning').hidden");
    page.picture("serve-warning.png");
    let _traffic = site.traffic();
    page.wait_for("document.querySelector('#warning').hidden");
    assert_eq!(page.complaints(), Vec::<String>::new());
}

#[test]
fn a_router_is_shown_with_its_interfaces_threads_and_tables() {
    let Some(site) = ServedRouter::new() else { return };
    let Some(page) = Browser::start(&site.lab, &[]) else { return };
    if !installed("npm") {
        return;
    }
    page.open(&site.url);
    page.wait_for("document.querySelector('#state').textContent === 'live'");
    page.wait_for("document.querySelectorAll('#router-interfaces tbody tr').length === 2");
    page.wait_for("document.querySelectorAll('#router-workers tbody tr').length > 0");
    assert!(page.text("#router-state").starts_with("forwarding by packet"));
    assert!(page.text("#router-tables").contains("IPv4 and"));
    assert_eq!(page.run("return document.querySelector('#controls').offsetParent"), Value::Null);
    let cell = |column| {
        format!("document.querySelector('#router-interfaces tbody tr').cells[{column}].textContent")
    };
    page.wait_for(&format!("{} === 'la'", cell(0)));
    page.wait_for(&format!("{} === 'forwarding'", cell(2)));
    // There is no rate before the second answer, so waits for it.
    page.wait_for(&format!("{} !== '–'", cell(5)));
    // Broadcast frames are left to the kernel.
    let _traffic = Program::start(&site.lab.left, "ping", "-n -b -i 0.05 -w 120 10.9.0.255");
    page.wait_for(&format!("{} !== '0 pps'", cell(5)));
    page.wait_for(&format!("{}.includes('other-mac')", cell(8)));
    page.picture("serve-router.png");
    assert_eq!(page.complaints(), Vec::<String>::new());
    site.router.signal(Signal::INT);
    page.wait_for("document.querySelector('#state').textContent === 'ended'");
}

/// A router between the sides of a lab, and its gateway.
struct ServedRouter {
    url: String,
    router: Program,
    _gateway: Program,
    _run_dir: tempfile::TempDir,
    lab: Lab,
}

impl ServedRouter {
    /// Starts both programs; returns `None`, and prints why, if namespaces are not permitted.
    fn new() -> Option<Self> {
        let (lab, run_dir) = (Lab::new(LabPort::Packet)?, tempfile::tempdir().unwrap());
        for name in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            let path = format!("/proc/sys/net/{name}");
            lab.mid.run(move || std::fs::write(path, "1").unwrap());
        }
        let start = |words: &str| {
            let mut command = Command::new(SLIPRING);
            command.args(words.split_ascii_whitespace()).env("SLIPRING_RUN", run_dir.path());
            Program::launch(&lab.mid, command)
        };
        let router = start("route la ra --io packet --name edge -T 0");
        router.wait_for_text("forwarding");
        let gateway = start("serve --listen 127.0.0.1:0");
        let url = wait_for_url(&gateway);
        Some(Self { url, router, _gateway: gateway, _run_dir: run_dir, lab })
    }
}

/// Waits until a gateway prints where it listens, and returns the URL.
fn wait_for_url(gateway: &Program) -> String {
    gateway.wait_for("its address", |output| {
        let rest = output.stdout.split("serves ").nth(1)?;
        rest.contains('\n').then(|| rest.trim().to_owned())
    })
}

#[test]
fn changes_are_recorded_with_their_times_and_replayed() {
    let Some(site) = ServedEmulator::new("-B 5m -D 5ms") else { return };
    let Some(page) = site.page(&["--blink-settings=preferredColorScheme=0"]) else { return };
    page.click("#record");
    page.click("[data-preset='3g']");
    site.wait_for("/link/down/rate/bps", "2Mbit");
    page.click("#linked");
    // The typed value is set on all links.
    let field = "[data-link=up] [data-value=loss]";
    page.run(&format!("document.querySelector('{field}').select()"));
    page.keys(field, "7.5%\u{e007}");
    site.wait_for("/link/down/loss/p", "7.5%");
    page.wait_for("document.querySelector('#script').textContent.includes('7.5%')");
    page.click("#record");
    let script = page.text("#script");
    assert_eq!(script.matches("[[at]]\n").count(), 2, "{script}");
    assert!(script.contains("\"link.up.rate\" = \"500kbit\""), "{script}");
    let before = site.versions();
    page.click("#replay");
    eventually("the end of the script", || {
        let history = site.ctl("history");
        let history = history.as_array().unwrap();
        let all = history.iter().all(|version| version["begun"] == true);
        (history.len() == before + 2 && all).then_some(())
    });

    // An invalid value is refused with a message, and nothing changes.
    let before = site.ctl("get");
    let field = "[data-link=up] [data-value=rate_bps]";
    page.run(&format!("document.querySelector('{field}').select()"));
    page.keys(field, "much\u{e007}");
    page.wait_for("document.querySelector('#toast').textContent.includes('much')");
    assert_eq!(site.ctl("get"), before);
    page.picture("serve-dark.png");

    site.emulator.as_ref().unwrap().signal(Signal::INT);
    page.wait_for("document.querySelector('#state').textContent === 'ended'");
    // After a restart of the program, the page shows the new run.
    let again = site.start(&format!("emulate -T 0 --name lab {} -D 1ms", site.lab.ports()));
    let pid = format!("document.querySelector('#run').value === '{}'", again.pid());
    page.wait_for(&pid);
    page.wait_for("document.querySelector('#state').textContent === 'live'");
}

#[test]
fn a_token_is_given_once_and_does_not_stay_in_the_address() {
    let Some(site) = ServedEmulator::new("-D 5ms") else { return };
    let Some(page) = site.page(&[]) else { return };
    let (_gateway, url) = site.serve("--token 0123456789abcdef");
    page.open(&url);
    page.wait_for("document.body.textContent.includes('it has not the token')");
    page.open(&format!("{url}?token=0123456789abcdef"));
    page.wait_for("document.querySelector('#state')?.textContent === 'live'");
    assert_eq!(page.run("return location.search + document.cookie"), "");
    page.open(&url);
    page.wait_for("document.querySelector('#state')?.textContent === 'live'");
}

#[test]
fn it_ends_well_at_a_signal_also_while_a_client_watches() {
    for signal in [Signal::INT, Signal::TERM] {
        let Some(mut site) = ServedEmulator::new("-D 5ms") else { return };
        if !installed("curl") {
            return;
        }
        let watch = format!("-sN {}api/v1/lab/watch?period=20ms", site.url);
        let watch = Program::start(&site.lab.mid, "curl", &watch);
        watch.wait_for_text("data: {");
        let ended = site.gateway.take().unwrap().stop(signal).well();
        assert!(ended.stderr.is_empty(), "{ended:?}");
        watch.finish();
        assert_eq!(site.ctl("hello")["name"], "lab", "the emulator goes on");
    }
}

#[test]
fn other_machines_need_a_token() {
    let Some(lab) = Lab::new(LabPort::Packet) else { return };
    let serve =
        |words: &str| Program::start(&lab.mid, SLIPRING, &format!("serve {words}")).finish();
    for (words, why) in [
        ("--listen 0.0.0.0:0", "0.0.0.0:0 needs a token"),
        ("--listen [::]:0", "needs a token"),
        ("--listen 0.0.0.0:0 --token short", "the token cannot be used"),
        ("--listen 0.0.0.0:0 --token-file /nonexistent", "cannot open /nonexistent"),
        ("--listen nowhere", "--listen"),
        ("--listen 192.0.2.1:80 --token 0123456789abcdef", "cannot listen on 192.0.2.1:80"),
    ] {
        let ended = serve(words);
        assert_eq!(ended.code(), 2, "{words}: {ended:?}");
        assert!(ended.stderr.contains(why), "{words}: {ended:?}");
    }
}
