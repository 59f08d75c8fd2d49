//! Routes that the kernel would not accept again, such as one whose gateway was reached by an
//! address that is gone. The kernel keeps such a route only as long as its interface stays up, and
//! the interface of a card that is taken does not stay up.

use std::io;

use slipring_port::netlink::{NetlinkLink, SavedSetting};

use crate::checks::{CardCheck, Verdict};
use crate::host::{LinkChange, NicHost};
use crate::state::SavedMessage;

/// A part of an interface's settings that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unrestored {
    /// What it is: `the route default via 10.0.0.254`.
    pub(crate) what: String,
    /// Why it could not be restored.
    pub(crate) why: String,
}

impl std::fmt::Display for Unrestored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// Returns a refusal if the kernel would not accept a route of a link again: the route would be
/// lost, because neither undoing a bind nor a restore could add it. Nothing is changed.
pub(crate) fn check(
    host: &dyn NicHost,
    link: &NetlinkLink,
    routes: &[SavedSetting],
) -> Option<CardCheck> {
    let is_refused = |route: &&SavedSetting| match host.check_route(link.index, route) {
        // Without privileges, the kernel does not say.
        Err(error) => error.kind() != io::ErrorKind::PermissionDenied,
        Ok(()) => false,
    };
    let refused: Vec<_> = routes.iter().filter(is_refused).collect();
    if refused.is_empty() {
        return None;
    }
    let texts: Vec<_> = refused.iter().map(|route| route.text.as_str()).collect();
    let commands: Vec<_> = texts.iter().map(|text| removal(text, &link.name)).collect();
    Some(CardCheck {
        check: "routes",
        verdict: Verdict::Machine,
        finding: format!(
            "{} has routes that could not be restored, because the kernel would not accept them again: {}",
            link.name,
            texts.join(", ")
        ),
        help: Some(commands.join("\n")),
    })
}

/// Returns the command that removes a route.
fn removal(text: &str, name: &str) -> String {
    let family = if text.contains(':') { " -6" } else { "" };
    format!("ip{family} route del {text} dev {name}")
}

/// Adds saved routes to a link that is up, and returns those that the kernel refuses. A route may
/// come before the route by which its gateway is reached. So refused routes are tried again, until
/// no further one is accepted.
///
/// # Errors
/// If the state does not describe a route.
pub(crate) fn restore(
    host: &dyn NicHost,
    index: u32,
    routes: &[SavedMessage],
) -> io::Result<Vec<Unrestored>> {
    let mut left = routes.iter().map(SavedMessage::setting).collect::<io::Result<Vec<_>>>()?;
    loop {
        let mut refused = Vec::new();
        let mut why = Vec::new();
        let count = left.len();
        for route in left {
            if let Err(error) = host.change_link(index, &LinkChange::Route(&route)) {
                why.push(Unrestored {
                    what: format!("the route {}", route.text),
                    why: error.to_string(),
                });
                refused.push(route);
            }
        }
        if refused.is_empty() || refused.len() == count {
            return Ok(why);
        }
        left = refused;
    }
}
