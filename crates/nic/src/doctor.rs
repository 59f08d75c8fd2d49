//! `slipring nic doctor`: whether a card can be taken, and what is in the way.

use serde_json::json;
use slipring_cli::{Exit, Failure, Session};

use crate::checks::{self, CardCheck, Verdict};
use crate::host::NicHost;
use crate::request::BindRequest;
use crate::sysfs::PciNic;

/// Examines a card and prints every check.
pub(crate) fn doctor(
    host: &dyn NicHost,
    nic: &PciNic,
    session: &mut Session<'_>,
) -> Result<Exit, Failure> {
    let checks = checks::examine(host, nic, &BindRequest::default());
    let refuses = checks.iter().any(|check| check.verdict.refuses(false));
    let fields = json!({
        "pci_address": nic.bdf,
        "bound": nic.is_bound(),
        "can_bind": !refuses,
        "checks": checks,
    });
    session.reporter.document(&fields, text(nic, &checks))?;
    Ok(if refuses { Exit::Machine } else { Exit::Done })
}

/// Formats the checks of a card, and what follows from them.
pub(crate) fn text(nic: &PciNic, checks: &[CardCheck]) -> String {
    let bdf = &nic.bdf;
    let name = nic.interfaces.first().unwrap_or(bdf);
    let width = checks.iter().map(|check| check.check.len()).max().unwrap_or(0);
    let mut text = if name == bdf { format!("{bdf}\n\n") } else { format!("{name}, {bdf}\n\n") };
    for CardCheck { check, verdict, finding, help } in checks {
        let state = match verdict {
            Verdict::Ok => "ok  ",
            Verdict::Warn => "warn",
            Verdict::NoCard | Verdict::Machine | Verdict::InUse | Verdict::NoWayBack => "FAIL",
        };
        text += &format!("{state}  {check:width$}  {finding}\n");
        if let Some(help) = help {
            text += &format!("      {:width$}  -> {help}\n", "");
        }
    }
    text + &match checks.iter().filter(|check| check.verdict.refuses(false)).count() {
        0 if nic.is_bound() => format!("\nIt is taken: open it as vfio:{bdf}"),
        0 => format!("\nIt can be taken: sudo slipring nic bind {name}"),
        count => format!("\n{count} thing(s) are in the way."),
    }
}
