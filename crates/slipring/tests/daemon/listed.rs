//! Tests of the lists of a daemon's ports that capturing programs print.

use rustix::process::Signal;
use slipring_test_support::Sandbox;
use slipring_test_support::sandbox::output;

use crate::support::SLIPRING;

fn slipring(site: &Sandbox, words: &str) -> String {
    output(site.ask(words))
}

#[test]
fn what_programs_have_bound_is_listed_by_its_monitor() {
    let Some(site) = Sandbox::with_cable(SLIPRING) else { return };
    let _daemon = site.daemon("");
    let names = ["e0", "vale0:a", "x{1"];
    let holders = names.map(|name| site.client(&format!("hold {name}")));
    holders.iter().for_each(|holder| holder.wait_for_text("bound"));
    let listed = slipring(&site, "extcap --extcap-interfaces");
    let monitors = listed.lines().filter(|line| line.contains("kernel:"));
    assert_eq!(
        monitors.collect::<Vec<_>>(),
        [
            "interface {value=slipring:kernel:e0/tr}{display=slipring: e0 (interface, monitored)}",
            "interface {value=slipring:kernel:vale0:a/tr}\
             {display=slipring: vale0:a (switch port, monitored)}",
            "interface {value=slipring:kernel:x%7B1/tr}\
             {display=slipring: x|1 (pipe, monitored)}",
        ]
    );
    let listed = slipring(&site, "dump -D");
    assert!(listed.contains(".kernel:x{1/tr [Up, Running] (pipe, monitored)"), "{listed}");
    for holder in holders {
        holder.stop(Signal::TERM);
    }
    // The device notices a moment later that the programs have ended.
    assert!((0..500).any(|_| !slipring(&site, "dump -D").contains("kernel:")));
}
